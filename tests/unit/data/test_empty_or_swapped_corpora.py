"""Checks before training: empty corpora and swapped sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.quality import empty_or_swapped_corpora
from seq2see.data.quality.empty_or_swapped_corpora import (
    SAMPLE_SIZE,
    check_not_empty_or_swapped,
    sample_pairs,
)
from seq2see.errors import InputError
from seq2see.text import language_detection

ENGLISH = [f"the animal number {n} has crossed the street and is tired now" for n in range(40)]
FRENCH = [f"l'animal numéro {n} a traversé la rue et il est fatigué maintenant" for n in range(40)]
RUSSIAN = [f"животное номер {n} перешло улицу и теперь устало" for n in range(40)]


@pytest.fixture
def no_lingua(monkeypatch) -> None:
    monkeypatch.setattr(empty_or_swapped_corpora, "is_lingua_installed", lambda: False)


def corpus(directory: Path, name: str, *sides: list[str], extensions: tuple[str, str] = ("a", "b")):
    files = []
    for lines, extension in zip(sides, extensions, strict=True):
        path = directory / f"{name}.{extension}"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        files.append(str(path))
    return Corpus(CorpusConfig(files=tuple(files)))


def check(train: list[Corpus], evaluation: list[Corpus], languages: tuple[str, str]) -> None:
    samples = ([sample_pairs(corpus) for corpus in corpora] for corpora in (train, evaluation))
    check_not_empty_or_swapped(*samples, languages)


@pytest.mark.usefixtures("no_lingua")
def test_correct_sides_pass(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", ENGLISH, FRENCH, extensions=("en", "fr"))
    check([train], [train], ("en", "fr"))
    check([train], [train], ("en-GB", "fr_CA"))


@pytest.mark.usefixtures("no_lingua")
def test_swapped_sides_are_found_by_file_names(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", FRENCH, ENGLISH, extensions=("fr", "en"))
    with pytest.raises(InputError) as error:
        check([train], [], ("en", "fr"))
    assert str(error.value) == (
        "source and target of train.fr and train.en seem to be swapped: the source language is en, "
        "but the source file is train.fr; swap its `files`, or `data.languages`"
    )


@pytest.mark.usefixtures("no_lingua")
def test_swapped_sides_are_found_by_scripts(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", RUSSIAN, ENGLISH)
    with pytest.raises(InputError, match="the source must be in en, but seems to be ru"):
        check([train], [], ("en", "ru"))
    check([train], [], ("ru", "en"))


@pytest.mark.skipif(not language_detection.is_lingua_installed(), reason="needs seq2see[languages]")
def test_swapped_sides_are_found_by_lingua(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", FRENCH, ENGLISH)
    with pytest.raises(InputError, match="the source must be in en, but seems to be fr"):
        check([train], [], ("en", "fr"))
    check([train], [], ("fr", "en"))


@pytest.mark.usefixtures("no_lingua")
def test_swapped_validation_set_is_found_by_words(tmp_path: Path) -> None:
    train = corpus(tmp_path, "train", ENGLISH, FRENCH)
    valid = corpus(tmp_path, "valid", FRENCH[:5], ENGLISH[:5])
    with pytest.raises(InputError, match="its source has the words of the training target"):
        check([train], [valid], ("en", "fr"))


@pytest.mark.usefixtures("no_lingua")
@pytest.mark.parametrize("name", ["copy", "reverse", "sort"])
def test_equal_words_on_both_sides_are_no_evidence(name: str) -> None:
    train, valid = (
        Corpus(CorpusConfig(files=(f"builtin:{name}/{s}",))) for s in ("train", "valid")
    )
    check([train], [valid], ("xx", "yy"))


@pytest.mark.parametrize("lines", [[], ["", "  "]])
def test_empty_corpus_is_rejected(tmp_path: Path, lines: list[str]) -> None:
    with pytest.raises(InputError, match="empty.a and empty.b has no pair with text on both sides"):
        check([corpus(tmp_path, "empty", lines, lines)], [], ("en", "fr"))


def test_sample_is_uniform_over_non_empty_pairs(tmp_path: Path) -> None:
    lines = [str(n) if n % 2 else "" for n in range(4000)]
    sample = sample_pairs(corpus(tmp_path, "long", lines, lines))
    sampled = [int(pair.source) for pair in sample.pairs]
    assert len(set(sampled)) == SAMPLE_SIZE
    assert min(sampled) < 200
    assert max(sampled) > 3800
