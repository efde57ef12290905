"""Corpora of all formats, built-in corpora, and fingerprints."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig, TrainingCorpusConfig
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError

PAIRS = [SentencePair("a dog", "ein Hund"), SentencePair("a cat", "eine Katze")]
TMX = "<tmx><body>{}</body></tmx>".format(
    "".join(
        f'<tu><tuv xml:lang="en"><seg>{s}</seg></tuv><tuv xml:lang="de"><seg>{t}</seg></tuv></tu>'
        for s, t in PAIRS
    )
)
FILES = {
    "a.en": "".join(f"{s}\n" for s, _ in PAIRS),
    "a.de": "".join(f"{t}\n" for _, t in PAIRS),
    "a.tsv": "".join(f"{s}\t{t}\n" for s, t in PAIRS),
    "A.TSV": "".join(f"{s}\t{t}\n" for s, t in PAIRS),
    "third.tsv": "".join(f"x\t{t}\t{s}\n" for s, t in PAIRS),
    "a.jsonl": "".join(json.dumps({"en": s, "de": t}) + "\n" for s, t in PAIRS),
    "a.tmx": TMX,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    for name in ("a.tsv.gz", "A.TSV.GZ"):
        (tmp_path / name).write_bytes(gzip.compress(FILES["a.tsv"].encode()))
    return tmp_path


@pytest.mark.parametrize(
    "settings",
    [
        {"files": ["a.en", "a.de"]},
        {"files": ["a.tsv"]},
        {"files": ["a.tsv.gz"]},
        {"files": ["third.tsv"], "columns": [3, 2]},
        {"files": ["a.jsonl"]},
        {"files": ["a.tmx"]},
        {"files": ["A.TSV"]},
        {"files": ["A.TSV.GZ"]},
        {"files": ["a.tmx"], "columns": ["EN", "de"]},
    ],
    ids=str,
)
def test_every_format_is_read(directory: Path, settings: dict) -> None:
    corpus = Corpus(CorpusConfig(**settings), ("en", "de"), directory)
    assert list(corpus) == list(corpus) == PAIRS


def test_format_can_be_set_explicitly(directory: Path) -> None:
    (directory / "table.txt").write_text(FILES["a.tsv"], "utf-8")
    corpus = Corpus(CorpusConfig(files=["table.txt"], format="tsv"), root=directory)
    assert list(corpus) == PAIRS


@pytest.mark.parametrize(
    ("name", "split"),
    [("fables-short", "train"), ("copy", "train"), ("reverse", "test"), ("sort", "valid")],
)
def test_builtin_corpora_have_splits(name: str, split: str) -> None:
    pairs = list(Corpus(CorpusConfig(files=[f"builtin:{name}/{split}"])))
    assert len(pairs) >= 1000
    if split == "train":
        assert list(Corpus(CorpusConfig(files=[f"builtin:{name}"]))) == pairs


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"files": ["a.en"]},
            "`files` must be two text files, or one .tsv, .tab, .csv, .xlsx, ",
        ),
        ({"files": ["a.tsv", "b.tsv"]}, "`files` must be one, but has a.tsv, b.tsv instead"),
        ({"files": ["builtin:fable"]}, "`files` must name a built-in corpus (fables, fables-short"),
        ({"files": ["builtin:copy/dev"]}, "must name the split train, valid or test, but has"),
        ({"files": ["a", "b"], "columns": [1, 2]}, "`columns` must not be set for the format text"),
        (
            {"files": ["a.tsv"], "columns": [0, 1]},
            "`columns` must be numbers from 1, or names, for tsv",
        ),
        ({"files": ["a.srt"]}, "`files` must be two subtitle files, but has a.srt instead"),
        ({"files": ["a.jsonl"], "columns": [1, 2]}, "`columns` must be names for jsonl"),
        ({"files": ["a", "b"], "weight": 0}, "`weight` must be above 0"),
    ],
    ids=str,
)
def test_invalid_settings_are_reported(settings: dict, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        TrainingCorpusConfig(**settings)
    assert problem in str(error.value)


def test_ambiguous_columns_are_reported(directory: Path) -> None:
    (directory / "b.jsonl").write_text('{"en": "x", "de": "y", "fr": "z"}', "utf-8")
    with pytest.raises(ConfigError, match="`columns` must be set for b.jsonl, which has the keys"):
        list(Corpus(CorpusConfig(files=["b.jsonl"]), root=directory))


def test_fingerprint_depends_on_content_and_columns(directory: Path) -> None:
    def fingerprint(**settings) -> str:
        return Corpus(TrainingCorpusConfig(**settings), ("en", "de"), directory).fingerprint

    before = fingerprint(files=["a.tsv"])
    assert before == fingerprint(files=["a.tsv"], weight=3)
    assert before != fingerprint(files=["a.tsv"], columns=[2, 1])
    assert fingerprint(files=["a.en", "a.de"]) != fingerprint(files=["a.de", "a.en"])
    (directory / "a.tsv").write_text(FILES["a.tsv"].replace("dog", "cow"), "utf-8")
    assert before != fingerprint(files=["a.tsv"])
    assert fingerprint(files=["builtin:copy"]) != fingerprint(files=["builtin:sort"])


def test_missing_file_is_named(directory: Path) -> None:
    with pytest.raises(InputError, match=r"b.tsv cannot be read: No such file"):
        _ = Corpus(CorpusConfig(files=["b.tsv"]), root=directory).fingerprint
