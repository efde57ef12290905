"""The demo: checks of an existing model."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.bundle import Bundle, Provenance
from seq2see.cli.demo import (
    _was_trained_on_short_fables,
    check_reusable_demo_model,
    store_best_alignment_head,
)
from seq2see.data import fables
from seq2see.errors import InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair

FABLES = fables.load_unseen_pronoun_cases(short=True)[:20]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    sides = [fable.source for fable in FABLES], [fable.target for fable in FABLES]
    return TokenizerPair.train(*sides, TokenizerConfig(vocab_size=340))


def config(tokenizers: TokenizerPair) -> ModelConfig:
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    return ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)


@pytest.mark.parametrize(("name", "short"), [("fables-short", True), ("fables", False)])
def test_training_corpus_is_read_from_provenance(
    tokenizers: TokenizerPair, name: str, short: bool
) -> None:
    model = Transformer.from_config(config(tokenizers))
    origin = Provenance(recipe={"data": {"train": [{"files": [f"builtin:{name}"]}]}})
    bundle = Bundle(
        config(tokenizers), tokenizers, ("en", "fr"), model.state_dict(), provenance=origin
    )
    assert _was_trained_on_short_fables(bundle) is short


def save(tokenizers: TokenizerPair, directory: Path, languages: tuple[str, str], name: str) -> None:
    recipe = {"data": {"train": [{"files": [name]}]}, "train": {"max_epochs": 8.0, "seed": 1}}
    origin = Provenance(recipe=recipe, notes={"stop_rule": "exact"})
    model = Transformer.from_config(config(tokenizers)).state_dict()
    Bundle(config(tokenizers), tokenizers, languages, model, provenance=origin).save(directory)


@pytest.fixture
def trained(tokenizers: TokenizerPair, tmp_path: Path) -> Path:
    save(tokenizers, tmp_path, ("en", "fr"), "builtin:fables-short")
    return tmp_path


def test_existing_model_with_other_settings_is_rejected(trained: Path) -> None:
    for same in ({"max_epochs": None, "seed": None}, {"max_epochs": 8.0, "seed": 1}):
        check_reusable_demo_model(trained, same)
    with pytest.raises(InputError, match="has a model with max_epochs = 8.0, not 14.0: name an"):
        check_reusable_demo_model(trained, {"max_epochs": 14.0, "seed": 1})
    with pytest.raises(InputError, match="has a model with seed = 1, not 2: name another"):
        check_reusable_demo_model(trained, {"max_epochs": None, "seed": 2})


@pytest.mark.parametrize(
    ("languages", "name"), [(("en", "fr"), "train.en"), (("fr", "en"), "builtin:fables")]
)
def test_model_of_another_corpus_is_rejected(
    tokenizers: TokenizerPair, tmp_path: Path, languages: tuple[str, str], name: str
) -> None:
    save(tokenizers, tmp_path, languages, name)
    with pytest.raises(
        InputError, match="has a model that was not trained on builtin:fables: name"
    ):
        check_reusable_demo_model(tmp_path, {"max_epochs": None, "seed": None})


def test_model_of_the_full_corpus_is_accepted(tokenizers: TokenizerPair, tmp_path: Path) -> None:
    save(tokenizers, tmp_path, ("en", "fr"), "builtin:fables/train")
    check_reusable_demo_model(tmp_path, {"max_epochs": None, "seed": None})


def test_alignment_head_is_determined_once(trained: Path) -> None:
    """This includes a demo that was interrupted between training and the choice of the head."""
    store_best_alignment_head(trained)
    notes = Bundle.load(trained).provenance.notes
    assert set(notes) == {"stop_rule", "alignment"}
    stamp = (trained / "config.json").stat().st_mtime_ns
    store_best_alignment_head(trained)
    assert (trained / "config.json").stat().st_mtime_ns == stamp
