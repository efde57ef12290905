"""Write parallel corpora: new files, train, valid and test splits, and filtered corpora."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Literal, TextIO, get_args

import numpy as np
from numpy.typing import NDArray

from seq2see.data.batch_sampler import hash_uniform
from seq2see.data.quality.analysis import AcceptedPair, RejectedPair
from seq2see.data.quality.words import compute_match_key
from seq2see.data.readers import SentencePair, replace_line_breaks
from seq2see.errors import InputError


@contextmanager
def create_files(directory: Path, names: Sequence[str]) -> Iterator[list[TextIO]]:
    """Open files to be written. They get their names when all are whole, and vanish if not."""
    assert len(set(names)) == len(names)
    check_not_existing(directory / name for name in names)
    with _aside(directory) as aside:
        with ExitStack() as stack:
            yield [stack.enter_context(_created(aside / name)) for name in names]
        check_not_existing(directory / name for name in names)  # nobody else was faster
        for name in names:
            (aside / name).rename(directory / name)


@contextmanager
def create_directory(path: Path) -> Iterator[Path]:
    """Give a folder to be filled. It gets its name when all is done, and vanishes if not."""
    if path.exists():
        raise InputError(f"{path} exists already: remove it, or name another folder")
    with _aside(path.parent) as aside:
        filled = aside / path.name
        filled.mkdir()
        yield filled
        filled.rename(path)


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Give a folder of our own inside another, on the same disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(mkdtemp(prefix=".partial-", dir=folder))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from None
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _created(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


def check_not_existing(paths: Iterable[Path]) -> None:
    """Raise an error if one of these is there already: nothing is written over."""
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists already: remove it, or name another folder")


def write_pair(files: Sequence[TextIO], pair: SentencePair) -> None:
    """Write a line to each of two files. A line end inside a text would shift all that follow."""
    for file, text in zip(files, pair, strict=True):
        file.write(replace_line_breaks(text) + "\n")


SplitName = Literal["train", "valid", "test"]


SPLIT_NAMES: tuple[SplitName, ...] = get_args(SplitName)


class CorpusSplitter:
    """Decides for each pair where it belongs."""

    def __init__(self, pairs: Iterable[SentencePair], valid: int, test: int, seed: int = 1) -> None:
        keys = np.fromiter((_key(pair.source) for pair in pairs), np.int64)
        if valid + test >= len(keys):
            raise InputError(
                f"validation and test sets must leave something to learn from, but {valid} and "
                f"{test} of {len(keys)} pairs would leave nothing"
            )
        sources, counts = np.unique(keys, return_counts=True)
        order = np.argsort(hash_uniform(sources, seed), kind="stable")
        self._parts: dict[int, SplitName] = {}
        self._choose("valid", sources[order], counts[order], valid)
        self._choose("test", sources[order], counts[order], test)

    def __call__(self, pair: SentencePair) -> SplitName:
        """Return where a pair belongs."""
        return self._parts.get(_key(pair.source), "train")

    def _choose(
        self, part: SplitName, sources: NDArray[np.int64], counts: NDArray[np.int64], wanted: int
    ) -> None:
        """Take sources until their pairs are so many; one that has too many is passed over."""
        left = wanted
        for source, count in _python(sources, counts):
            if left == 0:
                return
            if count <= left and source not in self._parts:
                self._parts[source] = part
                left -= count


def write_splits(
    pairs: Iterable[SentencePair],
    directory: Path,
    extensions: Sequence[str],
    choose_split: Callable[[SentencePair], SplitName],
) -> dict[SplitName, int]:
    """Write `train.en`, `train.de` and so on, each pair where it belongs; return the counts."""
    names = [f"{part}.{ending}" for part in SPLIT_NAMES for ending in extensions]
    counts = dict.fromkeys(SPLIT_NAMES, 0)
    with create_files(directory, names) as files:
        pair_of_files = {part: files[2 * i : 2 * i + 2] for i, part in enumerate(SPLIT_NAMES)}
        for pair in pairs:
            part = choose_split(pair)
            write_pair(pair_of_files[part], pair)
            counts[part] += 1
    return counts


def _python(sources: NDArray[np.int64], counts: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    for start in range(0, len(sources), 4096):
        end = start + 4096
        yield from zip(sources[start:end].tolist(), counts[start:end].tolist(), strict=True)


def _key(source: str) -> int:
    text = compute_match_key(source) or source.strip()  # nothing but punctuation
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


REJECTED_FILE = "rejected.tsv"


def write_filtered_corpus(
    results: Iterable[AcceptedPair | RejectedPair], directory: Path, extensions: Sequence[str]
) -> Counter[str]:
    """Write `clean.en`, `clean.de`, and `rejected.tsv` with line, rule, reason, source and target.

    Return how many were `kept`, and how many left out by each rule.
    """
    counts = Counter[str]()
    names = [*(f"clean.{ending}" for ending in extensions), REJECTED_FILE]
    with create_files(directory, names) as (source, target, rejected):
        for verdict in results:
            if isinstance(verdict, RejectedPair):
                rejected.write(_row(verdict))
                counts[verdict.rule] += 1
            else:
                write_pair((source, target), verdict.pair)
                counts["kept"] += 1
        if counts and not counts["kept"]:
            raise InputError(
                f"none of the {counts.total():,} pairs would be left: `seq2see data check` says why"
            )
    return counts


def _row(rejection: RejectedPair) -> str:
    cells = str(rejection.line), rejection.rule, rejection.reason, *rejection.pair
    return "\t".join(replace_line_breaks(cell).replace("\t", " ") for cell in cells) + "\n"
