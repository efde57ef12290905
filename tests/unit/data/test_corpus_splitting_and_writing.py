"""Splits by source sentence, complete files or none, and filtered corpora."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from seq2see.data.corpus_splitting_and_writing import (
    CorpusSplitter,
    write_accepted_and_rejected_pairs,
    write_splits,
)
from seq2see.data.quality.rules import RuleViolation
from seq2see.data.quality.words_and_word_ids import compute_match_key
from seq2see.data.readers import SentencePair, read_text_files
from seq2see.errors import InputError

PAIRS = [SentencePair(f"sentence {n % 70}{'!' * (n % 3)}", f"Satz {n}") for n in range(300)]


def pairs_in(source: Path, target: Path) -> list[SentencePair]:
    return list(read_text_files(str(source), str(target)))


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 2**40))
def test_each_source_is_in_one_split(valid: int, test: int, seed: int) -> None:
    splitter = CorpusSplitter(PAIRS, valid, test, seed)
    splits = defaultdict(set)
    counts = dict.fromkeys(("train", "valid", "test"), 0)
    for pair in PAIRS:
        splits[compute_match_key(pair.source)].add(splitter(pair))
        counts[splitter(pair)] += 1
    assert all(len(names) == 1 for names in splits.values())
    assert valid - 5 < counts["valid"] <= valid or counts["valid"] == valid == 0
    assert test - 5 < counts["test"] <= test or counts["test"] == test == 0


def test_split_depends_on_the_seed() -> None:
    def choose_splits(seed: int) -> list[str]:
        return [CorpusSplitter(PAIRS, 40, 40, seed)(pair) for pair in PAIRS]

    assert choose_splits(1) == choose_splits(1)
    assert choose_splits(1) != choose_splits(2)


def test_training_split_must_not_be_empty(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must have more than 300 pairs, because .*, but has 300"):
        CorpusSplitter(PAIRS, 150, 150)


def test_all_pairs_are_written_in_order(tmp_path: Path) -> None:
    splitter = CorpusSplitter(PAIRS, 30, 30)
    counts = write_splits(PAIRS, tmp_path, ("en", "de"), splitter)
    for split, count in counts.items():
        written = pairs_in(tmp_path / f"{split}.en", tmp_path / f"{split}.de")
        assert written == [pair for pair in PAIRS if splitter(pair) == split]
        assert len(written) == count


def test_line_breaks_inside_a_text_become_spaces(tmp_path: Path) -> None:
    pairs = [
        SentencePair("a\nb", "c\r\nd"),
        SentencePair("e\r", "f\u2028g"),
        SentencePair("h\ri", "j"),
    ]
    write_splits(pairs, tmp_path, ("x", "y"), lambda _: "train")
    written = pairs_in(tmp_path / "train.x", tmp_path / "train.y")
    assert written == [("a b", "c d"), ("e ", "f\u2028g"), ("h\ri", "j")]


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "valid.en").write_text("precious")
    with pytest.raises(InputError, match=r"valid.en already exists: remove it, or choose another"):
        write_splits(PAIRS, tmp_path, ("en", "de"), lambda _: "train")
    assert [path.name for path in tmp_path.iterdir()] == ["valid.en"]


def test_failure_leaves_no_files(tmp_path: Path) -> None:
    def broken() -> Iterator[SentencePair]:
        yield PAIRS[0]
        raise InputError("line 2 is broken")

    with pytest.raises(InputError, match="line 2"):
        write_splits(broken(), tmp_path, ("en", "de"), lambda _: "train")
    assert not list(tmp_path.iterdir())


def test_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_splits(PAIRS, tmp_path / "file", ("en", "de"), lambda _: "train")


def test_filtered_corpus_and_rejected_pairs_are_written(tmp_path: Path) -> None:
    results = [
        (SentencePair("a", "b"), None),
        (SentencePair("x\ty", "z\nz"), RuleViolation("empty", "the source has no words")),
        (SentencePair("c", "d"), None),
    ]
    counts = write_accepted_and_rejected_pairs(results, tmp_path, ("en", "de"))
    assert counts == {"accepted": 2, "empty": 1}
    assert pairs_in(tmp_path / "clean.en", tmp_path / "clean.de") == [
        ("a", "b"),
        ("c", "d"),
    ]
    assert (
        tmp_path / "rejected.tsv"
    ).read_text() == "2\tempty\tthe source has no words\tx y\tz z\n"
