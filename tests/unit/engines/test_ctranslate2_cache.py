"""A cached CTranslate2 conversion is used only if no byte of it has changed."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import seq2see
from seq2see.atomic_files import MANIFEST_FILE, compute_sha256
from seq2see.bundle import Bundle
from seq2see.engines.ctranslate2_conversion import get_cached_conversion
from seq2see.model import ModelConfig, Transformer
from seq2see.text import TokenizerConfig, TokenizerPair

pytest.importorskip("ctranslate2")

TEXT = ["the cat sleeps", "a dog runs and the cat sleeps"]


def save_model(directory: Path, vocab_size: int) -> Path:
    """Save a random model and convert it; return the directory of the converted model."""
    tokenizers = TokenizerPair.train(TEXT * 9, TEXT * 9, TokenizerConfig(vocab_size=vocab_size))
    sizes = {"d_model": 16, "d_ff": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    config = ModelConfig(vocab_size=tokenizers.source.vocab_size, **sizes)
    weights = Transformer.from_config(config).state_dict()
    Bundle(config, tokenizers, ("en", "en"), weights).save(directory)
    conversion = get_cached_conversion(Bundle.load(directory), pytest.fail)
    conversion.int8_chrf["some CPU, 32 probes"] = 91.25
    conversion.write_manifest()
    return conversion.directory


@pytest.fixture(scope="module")
def conversions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the converted models of two model directories."""
    first, second = (save_model(tmp_path_factory.mktemp("model"), size) for size in (280, 279))
    return first, second


@pytest.fixture
def conversion(conversions: tuple[Path, Path], tmp_path: Path) -> Path:
    """Return the converted model of a copy of the first model directory."""
    original = conversions[0]
    shutil.copytree(original.parents[1], tmp_path / "model")
    return tmp_path / "model" / original.parent.name / original.name


def flip_byte(path: Path, conversion: Path, other: Path, choose: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[choose.randrange(len(data))] ^= choose.randrange(1, 256)
    path.write_bytes(data)


def truncate(path: Path, conversion: Path, other: Path, choose: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: choose.randrange(path.stat().st_size)])


def exchange(path: Path, conversion: Path, other: Path, choose: random.Random) -> None:
    """Replace the file by another one of this conversion, or by that of another model."""
    files = [*conversion.iterdir(), other / path.name, other / path.name]
    different = [each for each in files if each.read_bytes() != path.read_bytes()]
    shutil.copyfile(choose.choice(different), path)


def remove(path: Path, conversion: Path, other: Path, choose: random.Random) -> None:
    path.unlink()


def add(path: Path, conversion: Path, other: Path, choose: random.Random) -> None:
    shutil.copyfile(path, path.with_name("vmap.txt"))


ALTERATIONS = [flip_byte, flip_byte, truncate, exchange, remove, add]


@pytest.mark.parametrize("num_alterations", [30, pytest.param(150, marks=pytest.mark.slow)])
def test_each_altered_conversion_is_rebuilt_with_a_note(
    num_alterations: int, conversions: tuple[Path, Path], conversion: Path
) -> None:
    bundle, intact = Bundle.load(conversion.parents[1]), conversions[0]
    files = sorted(path.name for path in intact.iterdir())
    checksums = {name: compute_sha256(intact / name) for name in files if name != MANIFEST_FILE}
    for seed in range(num_alterations):
        choose = random.Random(seed)  # noqa: S311
        alter: Callable[..., None] = choose.choice(ALTERATIONS)
        name, messages = choose.choice(files), []
        alter(conversion / name, conversion, conversions[1], choose)
        assert get_cached_conversion(bundle, messages.append).directory == conversion
        assert messages == [
            f"`{conversion}` is damaged or outdated: the model is converted again"
        ], (seed, alter.__name__, name)
        found = {path.name: compute_sha256(path) for path in conversion.iterdir()}
        assert found.pop(MANIFEST_FILE)
        assert found == checksums
        assert get_cached_conversion(bundle, pytest.fail).directory == conversion
        shutil.copytree(intact, conversion, dirs_exist_ok=True)


@pytest.mark.parametrize("alter", [flip_byte, truncate, exchange, remove])
def test_translator_reports_a_rebuilt_conversion(
    alter: Callable[..., None], conversions: tuple[Path, Path], conversion: Path
) -> None:
    home = conversion.parents[1]
    expected = seq2see.load(home).translate(TEXT, beam_size=1)
    alter(conversion / "model.bin", conversion, conversions[1], random.Random(1))  # noqa: S311
    translator = seq2see.load(home)
    assert translator.engine.name.startswith("ctranslate2")
    (note,) = translator.engine_notes
    assert note.endswith("is damaged or outdated: the model is converted again")
    assert translator.translate(TEXT, beam_size=1) == expected
    assert seq2see.load(home).engine_notes == ()


def test_conversion_of_another_model_is_replaced(
    conversions: tuple[Path, Path], conversion: Path
) -> None:
    bundle, messages = Bundle.load(conversion.parents[1]), []
    shutil.rmtree(conversion)
    shutil.copytree(conversions[1], conversion)
    assert get_cached_conversion(bundle, messages.append).directory == conversion
    assert len(messages) == 1
    for name in ("model.bin", "shared_vocabulary.json"):
        assert (conversion / name).read_bytes() == (conversions[0] / name).read_bytes()


def test_interrupted_write_of_the_manifest_is_no_damage(conversion: Path) -> None:
    (conversion / f"{MANIFEST_FILE}.partial").write_bytes(b"{")
    get_cached_conversion(Bundle.load(conversion.parents[1]), pytest.fail)


def test_damaged_conversion_that_cannot_be_removed_is_not_used(
    conversion: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bundle, messages = Bundle.load(conversion.parents[1]), []
    shutil.rmtree(conversion)
    conversion.write_text("in the way")
    found = get_cached_conversion(bundle, messages.append).directory
    assert found == tmp_path / "cache/seq2see/ctranslate2" / conversion.name
    assert len(messages) == 1
    assert get_cached_conversion(bundle, pytest.fail).directory == found
