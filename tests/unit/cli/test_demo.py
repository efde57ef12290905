"""What the demo measures: "it" cannot be told where its predicate is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.bundle import Bundle, Origin
from seq2see.cli.demo import _control, _learnt_short, align, refuse_others
from seq2see.data import fables
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, Tokenizers
from seq2see.translator import Translator

CASES = fables.novel_pairs(short=True)[:20]


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    sides = [fable.source for fable in CASES], [fable.target for fable in CASES]
    return Tokenizers.train(*sides, TokenizerConfig(vocab_size=340))


def config(tokenizers: Tokenizers) -> ModelConfig:
    small = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return ModelConfig(vocab_size=tokenizers.source.vocab_size, **small)


def test_any_model_gets_half_of_the_controls_right(tokenizers: Tokenizers) -> None:
    """Cases come as twins: what is right for one is wrong for the other."""
    model = Transformer.from_config(config(tokenizers)).eval()
    found = _control(Translator(TorchEngine(model), tokenizers), CASES)
    assert (found.cases, found.right) == (20, 10)


@pytest.mark.parametrize(("name", "short"), [("fables-short", True), ("fables", False)])
def test_a_model_knows_what_it_learnt_from(tokenizers: Tokenizers, name: str, short: bool) -> None:
    model = Transformer.from_config(config(tokenizers))
    origin = Origin(recipe={"data": {"train": [{"files": [f"builtin:{name}"]}]}})
    bundle = Bundle(config(tokenizers), tokenizers, ("en", "fr"), model.state_dict(), origin=origin)
    assert _learnt_short(bundle) is short


def save(tokenizers: Tokenizers, folder: Path, languages: tuple[str, str], name: str) -> None:
    recipe = {"data": {"train": [{"files": [name]}]}, "train": {"epochs": 8.0, "seed": 1}}
    origin = Origin(recipe=recipe, notes={"stop": "exact"})
    model = Transformer.from_config(config(tokenizers)).state_dict()
    Bundle(config(tokenizers), tokenizers, languages, model, origin=origin).save(folder)


@pytest.fixture
def trained(tokenizers: Tokenizers, tmp_path: Path) -> Path:
    save(tokenizers, tmp_path, ("en", "fr"), "builtin:fables-short")
    return tmp_path


def test_another_translator_than_the_one_that_is_there_is_refused(trained: Path) -> None:
    for same in ({"epochs": None, "seed": None}, {"epochs": 8.0, "seed": 1}):
        refuse_others(trained, same)
    with pytest.raises(InputError, match="has a translator with epochs = 8.0, not 14.0: name an"):
        refuse_others(trained, {"epochs": 14.0, "seed": 1})
    with pytest.raises(InputError, match="has a translator with seed = 1, not 2: name another"):
        refuse_others(trained, {"epochs": None, "seed": 2})


@pytest.mark.parametrize(
    ("languages", "name"), [(("en", "fr"), "train.en"), (("fr", "en"), "builtin:fables")]
)
def test_a_translator_of_something_else_is_left_alone(
    tokenizers: Tokenizers, tmp_path: Path, languages: tuple[str, str], name: str
) -> None:
    save(tokenizers, tmp_path, languages, name)
    with pytest.raises(InputError, match="has a translator that has not learnt from fables: name"):
        refuse_others(tmp_path, {"epochs": None, "seed": None})


def test_the_run_of_the_full_recipe_is_shown(tokenizers: Tokenizers, tmp_path: Path) -> None:
    save(tokenizers, tmp_path, ("en", "fr"), "builtin:fables/train")
    refuse_others(tmp_path, {"epochs": None, "seed": None})


def test_the_head_that_aligns_is_found_once(trained: Path) -> None:
    """Also where the demo was killed between training and finding it."""
    align(trained)
    notes = Bundle.load(trained).origin.notes
    assert set(notes) == {"stop", "alignment"}
    stamp = (trained / "config.json").stat().st_mtime_ns
    align(trained)
    assert (trained / "config.json").stat().st_mtime_ns == stamp
