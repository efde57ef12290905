"""Models of other systems: read, translated with, and compared with their own system."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MarianMTModel, MarianTokenizer

import seq2see
from seq2see import interop, metrics
from seq2see.cli.import_ import import_
from seq2see.data import fables
from seq2see.errors import InputError
from seq2see.text import Tokenizer, TokenizerConfig
from seq2see.text.sentencepiece_file import replace_vocabulary

FABLES = fables.load_fables("valid")[:400]
LINES = [f.source for f in fables.load_fables("test") if f.source.isascii()][:12]


def plain(kind: str, lines: list[str], size: int) -> Tokenizer:
    """Return a tokenizer as from elsewhere."""
    return Tokenizer.train(lines, TokenizerConfig(vocab_size=size, model_type=kind))


@pytest.fixture(scope="module")
def sides() -> tuple[Tokenizer, Tokenizer]:
    source, target = [f.source for f in FABLES], [f.target for f in FABLES]
    return plain("bpe", source, 400), plain("bpe", target, 420)


@pytest.fixture(scope="module")
def opus(sides, marian, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in the form of OPUS-MT: two SentencePiece files, and a vocabulary of its own."""
    home = tmp_path_factory.mktemp("opus") / "opus-mt-en-fr"
    home.mkdir()
    text = [p for side in sides for p in side.pieces if p not in {"<pad>", "<s>", "</s>", "<unk>"}]
    names = ["</s>", "<unk>", *sorted(dict.fromkeys(text), reverse=True), ">>fra<<", "<pad>"]
    ids = {name: i for i, name in enumerate(names)}
    sides[0].save(home / "source.spm")
    sides[1].save(home / "target.spm")
    (home / "vocab.json").write_text(json.dumps(ids), "utf-8")
    talkative(marian, len(ids), ids["<pad>"]).save_pretrained(home)
    return home


def talkative(marian: Callable[..., MarianMTModel], size: int, pad: int) -> MarianMTModel:
    """Make a model that says something else to each line, and ends some of them."""
    torch.manual_seed(3)
    manner = {"activation_function": "swish", "scale_embedding": True, "init_std": 0.3}
    model = marian(size, pad, max_position_embeddings=128, **manner)
    torch.nn.init.normal_(model.final_logits_bias)
    model.final_logits_bias[0, 0] = 2.0
    return model


@pytest.mark.parametrize("beam", [1, 4])
def test_texts_are_those_of_transformers(opus: Path, tmp_path: Path, beam: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends another package
        theirs = MarianTokenizer.from_pretrained(opus)
    model = MarianMTModel.from_pretrained(opus).eval()
    bundle = interop.import_marian(opus)
    assert bundle.languages == ("en", "fr")
    bundle.save(tmp_path)
    lengths = {"max_ratio": 0.0, "max_extra": 12}
    translator = seq2see.load(tmp_path, engine="torch")
    found = translator.translate(LINES, beam_size=beam, stop_rule="exact", length=lengths)
    for line, ours in zip(LINES, found, strict=True):
        given = theirs(line, return_tensors="pt")
        ids = bundle.tokenizers.source.encode(line)
        assert [*ids, bundle.special_tokens.source_eos_id] == given["input_ids"][0].tolist()
        tokens = model.generate(
            **given,
            max_new_tokens=12,
            num_beams=beam,
            bad_words_ids=[[model.config.pad_token_id]],
            early_stopping="never" if beam > 1 else False,
        )[0]
        assert ours.text == bundle.tokenizers.target.decode(tokens[1:].tolist())


def test_an_output_bias_of_zeros_is_none(opus: Path, tmp_path: Path) -> None:
    assert "output.bias_V" in interop.import_marian(opus).weights
    model = MarianMTModel.from_pretrained(opus)
    torch.nn.init.zeros_(model.final_logits_bias)
    home = tmp_path / opus.name
    shutil.copytree(opus, home)
    model.save_pretrained(home)
    bundle = interop.import_marian(home)
    assert not bundle.config.embeddings.output_bias
    assert "output.bias_V" not in bundle.weights


def test_a_file_with_other_ids_cuts_as_before(sides) -> None:
    source, _ = sides
    shuffled = sorted(source.pieces)
    other = Tokenizer(
        replace_vocabulary(source.serialized_model, {piece: i for i, piece in enumerate(shuffled)})
    )
    for line in LINES:
        pieces = [source.pieces[i] for i in source.encode(line)]
        assert [other.pieces[i] for i in other.encode(line)] == pieces
        assert other.decode(other.encode(line)) == line
    assert other.pieces == tuple(shuffled)
    assert other.special_ids.eos == shuffled.index("</s>")


def test_tags_stand_for_themselves_and_foreign_pieces_for_nothing(opus: Path) -> None:
    source = interop.import_marian(opus).tokenizers.source
    ids = json.loads((opus / "vocab.json").read_text("utf-8"))
    assert source.pieces == tuple(sorted(ids, key=ids.__getitem__))
    assert ids[">>fra<<"] in source.encode(">>fra<< The cat.")


def test_a_pickle_is_read_without_running_it(opus: Path, tmp_path: Path) -> None:
    home = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, home)
    weights = interop.marian._weights(home)
    (home / "model.safetensors").unlink()
    torch.save(weights, home / "pytorch_model.bin")
    for name, weight in interop.import_marian(home).weights.items():
        assert torch.equal(weight, interop.import_marian(opus).weights[name])
    torch.save({"x": Harmful()}, home / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin` holds more than weights"):
        interop.import_marian(home)


class Harmful:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model_type": "bart"}, "must hold a MarianMT model"),
        ({"decoder_ffn_dim": 64}, "`decoder_ffn_dim` must be that of the encoder, 48"),
        ({"activation_function": "tanh"}, "`activation_function` must be one of relu"),
        ({"d_model": None}, "`d_model` must be given"),
        ({"encoder_layers": 3}, "model.encoder.layers.2.self_attn.q_proj.weight"),
    ],
)
def test_what_cannot_be_read(change, problem: str, opus: Path, tmp_path: Path) -> None:
    home = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, home)
    config = json.loads((home / "config.json").read_text("utf-8"))
    (home / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
    with pytest.raises(InputError, match=problem):
        interop.import_marian(home)


def test_languages_must_be_known(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "somewhere")
    with pytest.raises(InputError, match="does not tell its languages"):
        interop.import_marian(tmp_path / "somewhere")
    assert interop.import_marian(tmp_path / "somewhere", ("en", "fr")).languages == ("en", "fr")


SHARED = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
MODEL = SHARED.parent / "models/multi30k-en-de-marian"
TEST = SHARED / "multi30k/test_2016_flickr.en.gz"


@pytest.mark.slow
@pytest.mark.skipif(not (MODEL.exists() and TEST.exists()), reason="needs multi30k and its model")
@pytest.mark.parametrize(("beam", "least", "most"), [(1, 34.02, 34.04), (5, 35.12, 35.20)])
def test_bleu_is_what_its_card_says(beam: int, least: float, most: float, tmp_path: Path) -> None:
    interop.import_marian(MODEL, ("en", "de")).save(tmp_path)
    files = [TEST.with_name(f"test_2016_flickr.{side}.gz") for side in ("en", "de")]
    lines, references = (gzip.decompress(f.read_bytes()).decode().splitlines() for f in files)
    texts = [t.text for t in seq2see.load(tmp_path).translate(lines, beam_size=beam)]
    assert least <= metrics.score(texts, references, "bleu").value <= most


def test_an_import_writes_over_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="mine already exists: remove it, or choose another"):
        import_(tmp_path / "theirs", tmp_path / "mine")
