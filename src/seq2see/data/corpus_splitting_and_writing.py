"""Write parallel corpora: new files, train, valid and test splits, and filtered corpora."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

import numpy as np

from seq2see.atomic_files import atomic_directory, atomic_write
from seq2see.data.quality.rules import RuleViolation
from seq2see.data.quality.words_and_word_ids import compute_match_key
from seq2see.data.readers import SPLIT_NAMES, SentencePair, SplitName, replace_line_breaks
from seq2see.errors import InputError, writing
from seq2see.keyed_random import hash_text, hash_uniform
from seq2see.text.packed_ids import IntArray


@contextmanager
def open_new_files_atomically(directory: Path, names: Sequence[str]) -> Iterator[Sequence[TextIO]]:
    """Open new text files for writing; all of them are created, or none.

    They are written under temporary names and renamed when all are complete. Raises InputError if
    one of them exists or the directory cannot be written.
    """
    paths = [directory / name for name in names]
    check_not_existing(paths)
    with writing(directory), ExitStack() as stack:
        directory.mkdir(parents=True, exist_ok=True)
        partial_paths = [stack.enter_context(atomic_write(path)) for path in paths]
        files = [
            stack.enter_context(path.open("w", encoding="utf-8", newline="\n"))
            for path in partial_paths
        ]
        yield files
        for file in files:  # before the first one is renamed
            file.flush()


@contextmanager
def create_directory_atomically(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary directory that is renamed to `path` when the block has succeeded.

    Raises InputError if `path` exists and is not to be replaced, or its parent cannot be written.
    """
    if not replace:
        check_not_existing([path])
    with writing(path.parent), atomic_directory(path, replace=replace) as directory:
        yield directory


def check_not_existing(paths: Iterable[Path]) -> None:
    """Raise InputError if one of the paths exists: nothing is overwritten."""
    for path in paths:
        if path.exists():
            raise InputError(f"{path} already exists: remove it, or choose another directory")


def write_pair(files: Sequence[TextIO], pair: SentencePair) -> None:
    """Write one line to each of two files, or the source to one file.

    Line breaks inside a text become spaces.
    """
    for file, text in zip(files, pair, strict=False):
        file.write(replace_line_breaks(text) + "\n")


class CorpusSplitter:
    """Assigns each pair to the train, valid or test split, by source sentence.

    Pairs with the same source, apart from case and punctuation, stay in one split, because a model
    would otherwise be tested on sentences it was trained on. The split is a function of the seed
    and the source sentence.
    """

    def __init__(
        self, pairs: Iterable[SentencePair], valid_size: int, test_size: int, seed: int = 1
    ) -> None:
        keys = np.fromiter((_source_key(pair.source) for pair in pairs), np.int64)
        if valid_size + test_size >= len(keys):
            raise InputError(
                f"the corpus must have more than {valid_size + test_size:,} pairs, because the "
                f"validation set takes {valid_size:,} and the test set {test_size:,}, but has "
                f"{len(keys):,}"
            )
        sources, counts = np.unique(keys, return_counts=True)
        order = np.argsort(hash_uniform(sources, seed), kind="stable")
        self._splits: dict[int, SplitName] = {}
        self._assign("valid", sources[order], counts[order], valid_size)
        self._assign("test", sources[order], counts[order], test_size)

    def __call__(self, pair: SentencePair) -> SplitName:
        """Return the split of a pair."""
        return self._splits.get(_source_key(pair.source), "train")

    def _assign(
        self, split: SplitName, sources: IntArray, counts: IntArray, num_pairs: int
    ) -> None:
        """Assign sources until they have `num_pairs` pairs; skip those with too many pairs."""
        remaining = num_pairs
        for source, count in zip(map(int, sources), map(int, counts), strict=True):
            if remaining == 0:
                return
            if count <= remaining and source not in self._splits:
                self._splits[source] = split
                remaining -= count


def write_splits(
    pairs: Iterable[SentencePair],
    directory: Path,
    extensions: Sequence[str],
    choose_split: Callable[[SentencePair], SplitName],
) -> dict[SplitName, int]:
    """Write `train.en`, `train.de` and so on; return the number of pairs of each split.

    `extensions` are those of source and target, for example `("en", "de")`.
    """
    names = [f"{split}.{extension}" for split in SPLIT_NAMES for extension in extensions]
    counts = dict.fromkeys(SPLIT_NAMES, 0)
    with open_new_files_atomically(directory, names) as files:
        files_by_split = {split: files[2 * i : 2 * i + 2] for i, split in enumerate(SPLIT_NAMES)}
        for pair in pairs:
            split = choose_split(pair)
            write_pair(files_by_split[split], pair)
            counts[split] += 1
    return counts


def _source_key(source: str) -> int:
    return hash_text(compute_match_key(source) or source.strip())  # only punctuation


REJECTED_FILE = "rejected.tsv"


def write_accepted_and_rejected_pairs(
    results: Iterable[tuple[SentencePair, RuleViolation | None]],
    directory: Path,
    extensions: Sequence[str],
) -> Counter[str]:
    """Write `clean.en`, `clean.de`, and `rejected.tsv` with line, rule, reason, source and target.

    With one extension, only the sources are written. Returns the number of pairs that were
    `accepted`, and that each rule rejected. Raises InputError if all pairs would be rejected.
    """
    counts = Counter[str]()
    names = [*(f"clean.{extension}" for extension in extensions), REJECTED_FILE]
    with open_new_files_atomically(directory, names) as (*sides, rejected):
        for line, (pair, violation) in enumerate(results, 1):
            if violation:
                cells = str(line), violation.rule, violation.reason, *pair[: len(sides)]
                plain = (replace_line_breaks(cell).replace("\t", " ") for cell in cells)
                rejected.write("\t".join(plain) + "\n")
                counts[violation.rule] += 1
            else:
                write_pair(sides, pair)
                counts["accepted"] += 1
        if counts and not counts["accepted"]:
            raise InputError(
                f"all {counts.total():,} pairs would be removed: run `seq2see data check` for the "
                "reasons"
            )
    return counts
