"""A corpus as token ids, encoded once and memory-mapped afterwards.

An encoded corpus is a directory named by the fingerprint of everything it was made from: text,
tokenizers and options. It is written to a temporary directory and renamed when complete. Damage is
detected by checksums, and the corpus is encoded again. The directory may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seq2see.atomic_files import (
    MANIFEST_FILE,
    PARTIAL_SUFFIX,
    atomic_directory,
    read_verified_manifest,
    write_manifest,
)
from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.data.readers import PairBlock
from seq2see.errors import ConfigError, InputError, Problem, reading, writing
from seq2see.text import PackedIds, TokenizerPair
from seq2see.text.packed_ids import IntArray

FORMAT_VERSION = 2

EncodedPairsCallback = Callable[[int], None]
"""Called with the number of pairs that were read since the last call."""


class RaggedMemmap:
    """Rows of numbers of different lengths, memory-mapped from two files."""

    def __init__(self, path: Path, dtype: DTypeLike) -> None:
        """Map the files that `_append_rows` has written."""
        values_path, ends_path = _column_paths(path)
        self._values = _map_file(values_path, dtype)
        self._ends: IntArray = _map_file(ends_path, np.int64)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        start, end = self._ends[row], self._ends[row + 1]
        return self._values[start:end]

    def lengths(self, rows: IntArray) -> IntArray:
        """Return the lengths of the given rows."""
        return self._ends[rows + 1] - self._ends[rows]

    def take(self, rows: IntArray) -> PackedIds:
        """Return the given rows."""
        return PackedIds.from_slices(self._values, self._ends[rows], self.lengths(rows))


def _column_paths(path: Path) -> tuple[Path, Path]:
    """Return the file with the values, and the file with the end index of each row, 0 first."""
    return path.with_suffix(".values"), path.with_suffix(".ends")


def _map_file(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file into memory; an empty file cannot be mapped and gives an empty array."""
    try:
        size = path.stat().st_size
        return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


def _append_rows(path: Path, rows: PackedIds) -> None:
    """Append rows to the files of a `RaggedMemmap`; create them if they do not exist."""
    values_path, ends_path = _column_paths(path)
    with values_path.open("ab") as values, ends_path.open("ab") as ends:
        num_values = values.tell() // rows.ids.itemsize
        new_ends = num_values + np.cumsum(rows.lengths, dtype=np.int64)
        values.write(rows.ids.tobytes())
        ends.write((new_ends if ends.tell() else np.append(0, new_ends)).tobytes())


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """Tokenizers and options for encoding pairs."""

    tokenizers: TokenizerPair
    max_length: int
    """Maximum number of tokens per sentence. Longer pairs are skipped and counted."""
    tag: str = ""
    """User-defined symbol of the source tokenizer that is put before each source."""
    store_text: bool = False
    """Store the text beside the ids, for subword sampling."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokenizers and options."""
        options = (self.tokenizers.fingerprint, self.max_length, self.tag, self.store_text)
        return hashlib.sha256(repr(options).encode()).hexdigest()

    @property
    def prefix_ids(self) -> list[int]:
        """The ids put before each source; raises ConfigError if the tag is not a symbol."""
        if not self.tag:
            return []
        symbols = self.tokenizers.source.user_defined_symbols
        if self.tag not in symbols:
            allowed = ", ".join(symbols) or "none"
            raise ConfigError(
                Problem(
                    "tag",
                    f"must be a user-defined symbol of the tokenizer ({allowed}), "
                    f"but is {self.tag} instead",
                )
            )
        return [self.tokenizers.source.pieces.index(self.tag)]


@dataclass(slots=True)
class SkippedPairs:
    """Numbers of pairs that are not in the encoded corpus, by reason."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    """Number of the first pair that is too long, from 1."""
    missing_language: int = 0
    """Units of a translation memory that lack one of the languages."""

    def add_missing_language(self, number: int) -> None:
        """Count a unit that lacks one of the languages."""
        del number
        self.missing_language += 1

    def add_chunk(self, chunk: _EncodedChunk, num_read: int) -> None:
        """Count the empty and too long pairs of a chunk after `num_read` other pairs."""
        is_too_long = ~chunk.is_usable & ~chunk.is_empty
        if self.first_too_long is None and is_too_long.any():
            self.first_too_long = num_read + int(is_too_long.argmax()) + 1
        self.empty += int(chunk.is_empty.sum())
        self.too_long += int(is_too_long.sum())

    def __str__(self) -> str:
        """Return the counts and reasons as text; empty if no pair was skipped."""
        counts = {
            f"longer than batches.max_length (first: pair {self.first_too_long})": self.too_long,
            "with an empty side": self.empty,
            "without one of the languages": self.missing_language,
        }
        reasons = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        total = sum(counts.values())
        pairs = f"{total:,} pair{'s' * (total != 1)}"
        return f"{pairs} skipped: {'; '.join(reasons)}" if reasons else ""


class EncodedCorpus:
    """The token ids of every pair, without BOS and EOS, memory-mapped."""

    def __init__(self, directory: Path, options: EncodingOptions) -> None:
        """Open a corpus that `encode_corpus` has written, without a check of its files.

        Raises InputError if there is none.
        """
        file = directory / MANIFEST_FILE
        with reading(file):
            self.skipped = SkippedPairs(**json.loads(file.read_bytes())["content"])
        self.directory = directory
        self.options = options
        dtype = _ids_dtype(options.tokenizers)
        self.source = RaggedMemmap(directory / "source", dtype)
        self.target = RaggedMemmap(directory / "target", dtype)
        texts = ("source-text", "target-text") if options.store_text else ()
        self._texts = [RaggedMemmap(directory / name, np.uint8) for name in texts]

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, lines: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of source and target tokens of the given lines, EOS included."""
        return self.source.lengths(lines) + 1, self.target.lengths(lines) + 1

    def take(self, lines: IntArray) -> tuple[PackedIds, PackedIds]:
        """Return source and target ids of the given lines."""
        return self.source.take(lines), self.target.take(lines)

    def resample_subwords(
        self, line: int, rate: float, seed: int, pass_index: int, first_line: int = 0
    ) -> tuple[list[int], list[int]]:
        """Return source and target ids of a line, segmented at random (subword regularization).

        `first_line` is the number of lines of earlier corpora, whose random numbers are others.
        The corpus must have been encoded with `store_text`. A side that would become longer than
        `max_length` keeps its usual segmentation.
        """
        assert self._texts
        tokenizers, sampling = self.options.tokenizers, (rate, seed, pass_index)
        source, target = (rows[line].tobytes().decode() for rows in self._texts)
        number = 2 * (first_line + line)
        source_ids = tokenizers.source.sample(source, *sampling, number)
        source_ids = self.options.prefix_ids + source_ids
        target_ids = tokenizers.target.sample(target, *sampling, number + 1)
        max_length = self.options.max_length
        return (
            source_ids if len(source_ids) <= max_length else self.source[line].tolist(),
            target_ids if len(target_ids) <= max_length else self.target[line].tolist(),
        )


def encode_corpus(
    corpus: Corpus,
    options: EncodingOptions,
    cache_directory: Path,
    threads: int = 1,
    on_encoded: EncodedPairsCallback = lambda _: None,
) -> EncodedCorpus:
    """Return the encoded corpus from the cache directory; encode it first if it is not there.

    `on_encoded` is called with the number of pairs of each block. Raises InputError if the cache
    cannot be written, or the corpus changes while it is read.
    """
    key = hashlib.sha256(f"{FORMAT_VERSION} {corpus.fingerprint} {options.fingerprint}".encode())
    directory = cache_directory / key.hexdigest()[:32]
    if read_verified_manifest(directory) is None:
        _remove_stale(cache_directory)
        with writing(directory), atomic_directory(directory, replace=True) as temporary:
            skipped = _write_columns(corpus, options, temporary, threads, on_encoded)
            if corpus.was_changed:
                raise InputError(f"{corpus.name} was changed while it was read: start again")
            write_manifest(temporary, asdict(skipped))
    return EncodedCorpus(directory, options)


def has_pairs_within_limits(blocks: Iterable[PairBlock], options: EncodingOptions) -> bool:
    """Return whether an encoded corpus would have one of these pairs; nothing is written."""
    return any(_encode_block(block, options).is_usable.any() for block in blocks)


def _remove_stale(cache_directory: Path) -> None:
    """Remove temporary directories of killed runs that are older than a day."""
    for path in cache_directory.glob(f"*{PARTIAL_SUFFIX}"):
        if time.time() - path.stat().st_mtime > 86_400:
            shutil.rmtree(path, ignore_errors=True)


def _write_columns(
    corpus: Corpus,
    options: EncodingOptions,
    directory: Path,
    threads: int,
    on_encoded: EncodedPairsCallback,
) -> SkippedPairs:
    skipped, num_read = SkippedPairs(), 0
    names = ["source", "target"] + ["source-text", "target-text"] * options.store_text
    empty: PairBlock = []  # creates the files, even if the corpus is empty
    for block in chain([empty], corpus.read_fingerprinted_blocks(skipped.add_missing_language)):
        chunk = _encode_block(block, options, threads)
        for name, rows in zip(names, chunk.columns, strict=True):
            _append_rows(directory / name, rows)
        skipped.add_chunk(chunk, num_read)
        num_read += len(chunk.is_usable)
        on_encoded(len(chunk.is_usable))
    return skipped


@dataclass(frozen=True, slots=True)
class _EncodedChunk:
    """The usable pairs of a block, encoded."""

    columns: list[PackedIds]
    is_usable: NDArray[np.bool_]
    is_empty: NDArray[np.bool_]


def _encode_block(block: PairBlock, options: EncodingOptions, threads: int = 1) -> _EncodedChunk:
    texts = [pair.source for pair in block], [pair.target for pair in block]
    source = options.tokenizers.source.encode_packed(texts[0], threads)
    target = options.tokenizers.target.encode_packed(texts[1], threads)
    is_empty = (source.lengths == 0) | (target.lengths == 0)
    source = source.prepend(options.prefix_ids)
    is_usable = ~is_empty & (np.maximum(source.lengths, target.lengths) <= options.max_length)
    dtype = _ids_dtype(options.tokenizers)
    selected = (side.select(is_usable) for side in (source, target))
    columns = [PackedIds(side.ids.astype(dtype), side.lengths) for side in selected]
    if options.store_text:
        columns += [_pack_text(compress(side, is_usable)) for side in texts]
    return _EncodedChunk(columns, is_usable, is_empty)


def _pack_text(lines: Iterable[str]) -> PackedIds:
    """Return the UTF-8 bytes of lines."""
    raw = [line.encode() for line in lines]
    lengths = np.fromiter(map(len, raw), np.int64, len(raw))
    return PackedIds(np.frombuffer(b"".join(raw), np.uint8), lengths)


def _ids_dtype(tokenizers: TokenizerPair) -> Any:
    max_vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return np.uint16 if max_vocab_size <= 2**16 else np.uint32
