"""A look at the text before training: is there any, and which side is which?"""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.data.quality import preflight
from seq2see.data.quality.preflight import SAMPLE_SIZE, check_corpora, sample_pairs
from seq2see.errors import InputError
from seq2see.text import language_detection

ENGLISH = [f"the animal number {n} has crossed the street and is tired now" for n in range(40)]
FRENCH = [f"l'animal numéro {n} a traversé la rue et il est fatigué maintenant" for n in range(40)]
RUSSIAN = [f"животное номер {n} перешло улицу и теперь устало" for n in range(40)]


@pytest.fixture
def no_detector(monkeypatch) -> None:
    monkeypatch.setattr(preflight, "is_lingua_installed", lambda: False)


def corpus(folder: Path, name: str, *sides: list[str], endings: tuple[str, str] = ("a", "b")):
    files = []
    for lines, ending in zip(sides, endings, strict=True):
        path = folder / f"{name}.{ending}"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        files.append(str(path))
    return Corpus(CorpusConfig(files=tuple(files)))


@pytest.mark.usefixtures("no_detector")
def test_sides_in_order_pass(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", ENGLISH, FRENCH, endings=("en", "fr"))
    check_corpora([train], [train], ("en", "fr"))
    check_corpora([train], [train], ("en-GB", "fr_CA"))


@pytest.mark.usefixtures("no_detector")
def test_names_tell_that_sides_were_swapped(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", FRENCH, ENGLISH, endings=("fr", "en"))
    with pytest.raises(InputError) as error:
        check_corpora([train], [], ("en", "fr"))
    assert str(error.value) == (
        "train.fr and train.en seems to have source and target swapped: the source is en by the "
        "recipe, but its file is named train.fr; swap its `files`, or `data.languages`"
    )


@pytest.mark.usefixtures("no_detector")
def test_scripts_tell_that_sides_were_swapped(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", RUSSIAN, ENGLISH)
    with pytest.raises(InputError, match="the source must be in en, but looks like ru"):
        check_corpora([train], [], ("en", "ru"))
    check_corpora([train], [], ("ru", "en"))


@pytest.mark.skipif(not language_detection.is_lingua_installed(), reason="needs seq2see[languages]")
def test_the_detector_tells_that_sides_were_swapped(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", FRENCH, ENGLISH)
    with pytest.raises(InputError, match="the source must be in en, but looks like fr"):
        check_corpora([train], [], ("en", "fr"))
    check_corpora([train], [], ("fr", "en"))


@pytest.mark.usefixtures("no_detector")
def test_words_tell_that_the_validation_set_was_swapped(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", ENGLISH, FRENCH)
    valid = corpus(tmp_path, "valid", FRENCH[:5], ENGLISH[:5])
    with pytest.raises(InputError, match="its source has the words of the training text's target"):
        check_corpora([train], [valid], ("en", "fr"))


@pytest.mark.usefixtures("no_detector")
@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_the_same_words_on_both_sides_say_nothing(name: str) -> None:
    train, valid = (
        Corpus(CorpusConfig(files=(f"builtin:{name}/{s}",))) for s in ("train", "valid")
    )
    check_corpora([train], [valid], ("xx", "yy"))


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_nothing_is_refused(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(InputError, match="empty.a and empty.b must have pairs of text, but is em"):
        sample_pairs(corpus(tmp_path, "empty", lines, lines))


def test_a_sample_has_full_pairs_from_everywhere(tmp_path: Path) -> None:
    lines = [str(n) if n % 2 else "" for n in range(4000)]
    drawn = [int(pair.source) for pair in sample_pairs(corpus(tmp_path, "long", lines, lines))]
    assert len(set(drawn)) == SAMPLE_SIZE
    assert min(drawn) < 200
    assert max(drawn) > 3800
