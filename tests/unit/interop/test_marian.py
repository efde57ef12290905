"""Imported MarianMT models, compared with `transformers`."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import warnings
import zipfile
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

FABLES = fables.load_fables_split("valid")[:400]
LINES = [f.source for f in fables.load_fables_split("test") if f.source.isascii()][:12]


def train_tokenizer(kind: str, lines: list[str], size: int) -> Tokenizer:
    """Return a tokenizer of this kind."""
    return Tokenizer.train(lines, TokenizerConfig(vocab_size=size, model_type=kind))


@pytest.fixture(scope="module")
def tokenizers() -> tuple[Tokenizer, Tokenizer]:
    source, target = [f.source for f in FABLES], [f.target for f in FABLES]
    return train_tokenizer("bpe", source, 400), train_tokenizer("bpe", target, 420)


@pytest.fixture(scope="module")
def opus(tokenizers, marian, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory like those of OPUS-MT, with two SentencePiece files and a vocabulary."""
    directory = tmp_path_factory.mktemp("opus") / "opus-mt-en-fr"
    directory.mkdir()
    text = [
        p for side in tokenizers for p in side.pieces if p not in {"<pad>", "<s>", "</s>", "<unk>"}
    ]
    names = ["</s>", "<unk>", *sorted(dict.fromkeys(text), reverse=True), ">>fra<<", "<pad>"]
    ids = {name: i for i, name in enumerate(names)}
    tokenizers[0].save(directory / "source.spm")
    tokenizers[1].save(directory / "target.spm")
    (directory / "vocab.json").write_text(json.dumps(ids), "utf-8")
    build_marian_model(marian, len(ids), ids["<pad>"]).save_pretrained(directory)
    return directory


def build_marian_model(marian: Callable[..., MarianMTModel], size: int, pad: int) -> MarianMTModel:
    """Return a random model with different outputs for each line, some of which end."""
    torch.manual_seed(3)
    settings = {"activation_function": "swish", "scale_embedding": True, "init_std": 0.3}
    model = marian(size, pad, max_position_embeddings=128, **settings)
    torch.nn.init.normal_(model.final_logits_bias)
    model.final_logits_bias[0, 0] = 2.0
    return model


@pytest.mark.parametrize("beam_size", [1, 4])
def test_translations_equal_those_of_transformers(
    opus: Path, tmp_path: Path, beam_size: int
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it recommends to install another package
        marian_tokenizer = MarianTokenizer.from_pretrained(opus)
    model = MarianMTModel.from_pretrained(opus).eval()
    bundle = interop.import_model(opus)
    assert bundle.languages == ("en", "fr")
    bundle.save(tmp_path)
    length = {"max_ratio": 0.0, "max_extra": 12}
    translator = seq2see.load(tmp_path, engine="torch")
    translations = translator.translate(
        LINES, beam_size=beam_size, stop_rule="exact", length=length
    )
    for line, translation in zip(LINES, translations, strict=True):
        inputs = marian_tokenizer(line, return_tensors="pt")
        ids = bundle.tokenizers.source.encode(line)
        assert [*ids, bundle.special_tokens.source_eos_id] == inputs["input_ids"][0].tolist()
        tokens = model.generate(
            **inputs,
            max_new_tokens=12,
            num_beams=beam_size,
            bad_words_ids=[[model.config.pad_token_id]],
            early_stopping="never" if beam_size > 1 else False,
        )[0]
        assert translation.text == bundle.tokenizers.target.decode(tokens[1:].tolist())


def test_zero_output_bias_is_not_imported(opus: Path, tmp_path: Path) -> None:
    bundle = interop.import_model(opus)
    assert "output.bias_V" in bundle.weights
    assert bundle.training_text is None
    model = MarianMTModel.from_pretrained(opus)
    torch.nn.init.zeros_(model.final_logits_bias)
    directory = tmp_path / opus.name
    shutil.copytree(opus, directory)
    model.save_pretrained(directory)
    bundle = interop.import_model(directory)
    assert not bundle.config.embeddings.output_bias
    assert "output.bias_V" not in bundle.weights


def test_replaced_vocabulary_keeps_segmentation(tokenizers) -> None:
    source, _ = tokenizers
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


def test_language_tags_are_encoded_as_one_piece(opus: Path) -> None:
    source = interop.import_model(opus).tokenizers.source
    ids = json.loads((opus / "vocab.json").read_text("utf-8"))
    assert source.pieces == tuple(sorted(ids, key=ids.__getitem__))
    assert ids[">>fra<<"] in source.encode(">>fra<< The cat.")


def test_pickled_weights_are_read_without_running_code(opus: Path, tmp_path: Path) -> None:
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    weights = interop.marian._read_weights(directory)
    (directory / "model.safetensors").unlink()
    torch.save(weights, directory / "pytorch_model.bin")
    for name, weight in interop.import_model(directory).weights.items():
        assert torch.equal(weight, interop.import_model(opus).weights[name])
    torch.save({"x": MaliciousObject()}, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"pytorch_model.bin` must contain only weights"):
        interop.import_model(directory)


class MaliciousObject:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, ("false",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model_type": "bart"}, "must contain a model of type marian"),
        ({"decoder_ffn_dim": 64}, "`decoder_ffn_dim` must be that of the encoder, 48"),
        ({"activation_function": "tanh"}, "`activation_function` must be one of relu"),
        ({"d_model": None}, "`d_model` must be given"),
        ({"encoder_layers": 3}, "model.encoder.layers.2.self_attn.q_proj.weight"),
        ({"activation_function": []}, "`activation_function` must be one of relu"),
        ({"model_type": ["\x1b[2J"]}, r"model_type \['\\x1b\[2J'\]"),
        ({"d_model": 0}, "config.json`: `d_model` must be at least 1"),
        ({"encoder_attention_heads": 0, "decoder_attention_heads": 0}, "`heads` must be at least"),
        ({"encoder_layers": 0}, "config.json`: `encoder_layers` must be at least 1"),
        ({"eos_token_id": "</s>"}, "`eos_token_id` must be an integer, but is '</s>'"),
        ({"scale_embedding": [1]}, "`scale_embedding` must be true or false"),
        ({"dropout": float("nan")}, "`dropout` must be a finite number"),
        ({"vocab_size": 2**40}, "config.json`: `vocab_size` must be at most"),
    ],
)
def test_unsupported_model_is_rejected(change, problem: str, opus: Path, tmp_path: Path) -> None:
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    config = json.loads((directory / "config.json").read_text("utf-8"))
    (directory / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
    with pytest.raises(InputError, match=problem):
        interop.import_model(directory)


ZERO = torch.zeros(1)
HOSTILE_WEIGHTS: dict[str, tuple[Callable[[torch.Tensor], object], str]] = {
    "list": (lambda weight: weight.tolist(), "is a list instead of a tensor"),
    "stride 0": (lambda _: ZERO.expand(1 << 20, 1 << 20), "has 4,398,046,511,104 bytes, which are"),
    "meta": (lambda weight: weight.to("meta"), r"stored floats \(strided, float32, meta\)"),
    "sparse": (lambda weight: weight.to_sparse(), r"stored floats \(sparse_coo, float32, cpu\)"),
    "quantized": (
        lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
        r"stored floats \(strided, qint8, cpu\)",
    ),
    "integers": (lambda weight: weight.long(), r"stored floats \(strided, int64, cpu\)"),
    "scalar": (lambda _: torch.tensor(1.0), "model.shared.weight has shapes that do not fit"),
    "other shape": (lambda weight: weight[:, :3], "the weights must fit the config, but"),
}


@pytest.mark.filterwarnings("ignore:.*quantiz:DeprecationWarning", "ignore:.*quantiz:UserWarning")
@pytest.mark.parametrize("kind", HOSTILE_WEIGHTS)
def test_weights_that_are_no_plain_tensors_are_rejected(
    kind: str, opus: Path, tmp_path: Path
) -> None:
    change, problem = HOSTILE_WEIGHTS[kind]
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    weights = interop.marian._read_weights(directory)
    (directory / "model.safetensors").unlink()
    weights["model.shared.weight"] = change(weights["model.shared.weight"])
    torch.save(weights, directory / "pytorch_model.bin")
    with pytest.raises(InputError, match=problem) as caught:
        interop.import_model(directory)
    assert str(caught.value).isprintable()


def test_compressed_weights_are_rejected(opus: Path, tmp_path: Path) -> None:
    """They may be a thousand times as large in memory."""
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    (directory / "model.safetensors").unlink()
    with zipfile.ZipFile(directory / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(1000))
    with pytest.raises(InputError, match="cannot be read: it is compressed"):
        interop.import_model(directory)


@pytest.mark.parametrize(
    "name",
    ["config.json", "model.safetensors", "source.spm", "vocab.json", "tokenizer_config.json"],
)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_pipes_and_devices_are_rejected(name: str, kind: str, opus: Path, tmp_path: Path) -> None:
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    (directory / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(directory / name)
    else:
        (directory / name).symlink_to("/dev/zero")
    with pytest.raises(InputError, match=f"{name}` cannot be read: it is a pipe or a device"):
        interop.import_model(directory)


def test_piece_with_invalid_unicode_is_rejected(opus: Path, tmp_path: Path) -> None:
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    content = (directory / "source.spm").read_bytes()
    (directory / "source.spm").write_bytes(content.replace("▁the".encode(), b"\xff\xfe\x81the"))
    assert content != (directory / "source.spm").read_bytes()
    with pytest.raises(InputError, match=r"source.spm`: this must be a SentencePiece model"):
        interop.import_model(directory)


def test_id_that_is_no_integer_is_rejected(opus: Path, tmp_path: Path) -> None:
    directory = tmp_path / "opus-mt-en-fr"
    shutil.copytree(opus, directory)
    (directory / "vocab.json").write_text('{"a": [0]}')
    with pytest.raises(InputError, match="vocab.json`: the id of 'a' must be an integer"):
        interop.import_model(directory)


def test_unknown_languages_must_be_given(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "somewhere")
    with pytest.raises(InputError, match="does not name its languages"):
        interop.import_model(tmp_path / "somewhere")
    assert interop.import_model(tmp_path / "somewhere", ("en", "fr")).languages == (
        "en",
        "fr",
    )


SHARED = Path(os.environ.get("SEQ2SEE_DATA", "../shared/data"))
MODEL = SHARED.parent / "models/multi30k-en-de-marian"
TEST = SHARED / "multi30k/test_2016_flickr.en.gz"


@pytest.mark.slow
@pytest.mark.skipif(not (MODEL.exists() and TEST.exists()), reason="needs multi30k and its model")
@pytest.mark.parametrize(
    ("beam_size", "min_bleu", "max_bleu"), [(1, 34.02, 34.04), (5, 35.12, 35.20)]
)
def test_bleu_equals_that_of_the_model_card(
    beam_size: int, min_bleu: float, max_bleu: float, tmp_path: Path
) -> None:
    interop.import_model(MODEL, ("en", "de")).save(tmp_path)
    files = [TEST.with_name(f"test_2016_flickr.{side}.gz") for side in ("en", "de")]
    lines, references = (gzip.decompress(f.read_bytes()).decode().splitlines() for f in files)
    texts = [t.text for t in seq2see.load(tmp_path).translate(lines, beam_size=beam_size)]
    assert min_bleu <= metrics.compute_metric_score(texts, references, "bleu").value <= max_bleu


def test_import_does_not_overwrite_directory(tmp_path: Path) -> None:
    (tmp_path / "existing").mkdir()
    with pytest.raises(InputError, match="existing already exists: remove it, or choose another"):
        import_(tmp_path / "marian", tmp_path / "existing")
