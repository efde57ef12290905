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
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import compress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seq2see.atomic_files import PARTIAL_SUFFIX, atomic_directory
from seq2see.data.corpus_config_and_reading import Corpus
from seq2see.data.readers import PairBlock
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.text import PackedIds, TokenizerPair
from seq2see.text.packed_ids import IntArray

FORMAT_VERSION = 1
METADATA_FILE = "metadata.json"

EncodedPairsCallback = Callable[[int], None]
"""Called with the number of pairs that were read since the last call."""


class RaggedMemmap:
    """Rows of numbers of different lengths, memory-mapped from two files."""

    def __init__(self, values: NDArray[Any], ends: IntArray) -> None:
        self._values = values
        self._ends = ends

    @classmethod
    def open(cls, path: Path, dtype: DTypeLike) -> Self:
        """Map the files that a `RaggedMemmapWriter` has written."""
        values_path, ends_path = ragged_memmap_paths(path)
        return cls(_map_file(values_path, dtype), _map_file(ends_path, np.int64))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        start, end = self._ends[row], self._ends[row + 1]
        return self._values[start:end]

    def lengths(self, rows: IntArray) -> IntArray:
        """Return the lengths of the given rows."""
        return self._ends[rows + 1] - self._ends[rows]

    def take(self, rows: IntArray) -> tuple[NDArray[Any], IntArray]:
        """Return the concatenated numbers of the given rows, and the lengths of the rows."""
        starts, lengths = self._ends[rows], self.lengths(rows)
        before = np.cumsum(lengths) - lengths
        indices = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return self._values[indices], lengths


class RaggedMemmapWriter:
    """Writes rows of different lengths in the format of `RaggedMemmap`."""

    def __init__(self, path: Path) -> None:
        self._values = path.with_suffix(".values").open("wb")
        self._ends = row_ends_path(path).open("wb")
        self._written = 0
        self._ends.write(np.zeros(1, dtype=np.int64).tobytes())

    def append(self, values: NDArray[Any], lengths: IntArray) -> None:
        """Append rows, given as concatenated values and the length of each row."""
        self._values.write(values.tobytes())
        self._ends.write((self._written + np.cumsum(lengths, dtype=np.int64)).tobytes())
        self._written += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._values.close()
        self._ends.close()


def ragged_memmap_paths(path: Path) -> tuple[Path, Path]:
    """Return the file with the values, and the file with the end index of each row, 0 first."""
    return path.with_suffix(".values"), row_ends_path(path)


def row_ends_path(path: Path) -> Path:
    """Return the file with the end index of each row, 0 first."""
    return path.with_suffix(".ends")


def _map_file(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file into memory; an empty file cannot be mapped and gives an empty array."""
    try:
        size = path.stat().st_size
        return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


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


@dataclass(frozen=True, slots=True)
class SkippedPairs:
    """Numbers of pairs that are not in the encoded corpus, by reason."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    """Number of the first pair that is too long, from 1."""
    missing_language: int = 0
    """Units of a translation memory that lack one of the languages."""

    def __str__(self) -> str:
        """Return the counts and reasons as text; empty if no pair was skipped."""
        counts = {
            f"longer than batches.max_length (first: pair {self.first_too_long})": self.too_long,
            "with an empty side": self.empty,
            "without one of the languages": self.missing_language,
        }
        reasons = [f"{count:,} {reason}" for reason, count in counts.items() if count]
        total = sum(counts.values())
        noun = "pair" if total == 1 else "pairs"
        return f"{total:,} {noun} skipped: {'; '.join(reasons)}" if reasons else ""


class EncodedCorpus:
    """The token ids of every pair, without BOS and EOS, memory-mapped."""

    def __init__(self, directory: Path, skipped: SkippedPairs, options: EncodingOptions) -> None:
        self.skipped = skipped
        self.options = options
        dtype = _ids_dtype(options.tokenizers)
        self.source = RaggedMemmap.open(directory / "source", dtype)
        self.target = RaggedMemmap.open(directory / "target", dtype)
        texts = ("source-text", "target-text") if options.store_text else ()
        self._texts = [RaggedMemmap.open(directory / name, np.uint8) for name in texts]

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, lines: IntArray) -> tuple[IntArray, IntArray]:
        """Return the numbers of source and target tokens of the given lines, EOS included."""
        return self.source.lengths(lines) + 1, self.target.lengths(lines) + 1

    def resample_subwords(
        self, line: int, rate: float, seed: int, pass_index: int
    ) -> tuple[list[int], list[int]]:
        """Return source and target ids of a line, segmented at random (subword regularization).

        The corpus must have been encoded with `store_text`. A side that would become longer than
        `max_length` keeps its usual segmentation.
        """
        assert self._texts
        tokenizers, sampling = self.options.tokenizers, (rate, seed, pass_index)
        source, target = (rows[line].tobytes().decode() for rows in self._texts)
        source_ids = tokenizers.source.sample(source, *sampling, 2 * line)
        source_ids = self.options.prefix_ids + source_ids
        target_ids = tokenizers.target.sample(target, *sampling, 2 * line + 1)
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
    skipped = _read_verified(directory, options)
    if skipped is None:
        try:
            skipped = _write_corpus(corpus, options, directory, threads, on_encoded)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{error.filename or directory} cannot be written: {reason}") from None
    return EncodedCorpus(directory, skipped, options)


def has_pairs_within_limits(corpus: Corpus, options: EncodingOptions) -> bool:
    """Return whether the encoded corpus would have a pair; nothing is written."""
    return any(chunk.is_usable.any() for chunk in map(_Encoder(options, 1), corpus.read_blocks()))


def _column_names(options: EncodingOptions) -> list[str]:
    return ["source", "target"] + ["source-text", "target-text"] * options.store_text


def _column_files(directory: Path, options: EncodingOptions) -> list[Path]:
    names = _column_names(options)
    return [path for name in names for path in ragged_memmap_paths(directory / name)]


def _read_verified(directory: Path, options: EncodingOptions) -> SkippedPairs | None:
    """Return the skipped pairs of the metadata; None if a file is missing or damaged."""
    try:
        metadata = json.loads((directory / METADATA_FILE).read_text("utf-8"))
        skipped = SkippedPairs(**metadata["skipped"])
        if metadata == _build_metadata(skipped, _column_files(directory, options)):
            return skipped
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # missing or damaged
    return None


def _build_metadata(skipped: SkippedPairs, files: Sequence[Path]) -> dict[str, Any]:
    """Return the metadata of an encoded corpus, with checksums of the files and of itself."""
    content = {"skipped": asdict(skipped), "files": {f.name: _checksum(f) for f in files}}
    return {**content, "checksum": zlib.crc32(json.dumps(content).encode())}


def _write_corpus(
    corpus: Corpus,
    options: EncodingOptions,
    directory: Path,
    threads: int,
    on_encoded: EncodedPairsCallback,
) -> SkippedPairs:
    """Write to a temporary directory and rename it when complete."""
    _remove_stale(directory.parent)
    try:
        with atomic_directory(directory, replace=True) as temporary:
            skipped = _write_columns(corpus, options, temporary, threads, on_encoded)
            if corpus.compute_fingerprint() != corpus.fingerprint:
                raise InputError(f"{corpus.name} was changed while it was read: start again")
            metadata = _build_metadata(skipped, _column_files(temporary, options))
            (temporary / METADATA_FILE).write_text(json.dumps(metadata), "utf-8")
    except OSError:
        existing = _read_verified(directory, options)
        if existing is None:
            raise
        return existing  # another process has written it
    return skipped


def _remove_stale(cache_directory: Path) -> None:
    """Remove temporary directories of killed runs that are older than a day."""
    for path in cache_directory.glob(f"*{PARTIAL_SUFFIX}"):
        if time.time() - path.stat().st_mtime > 86_400:
            shutil.rmtree(path, ignore_errors=True)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _write_columns(
    corpus: Corpus,
    options: EncodingOptions,
    directory: Path,
    threads: int,
    on_encoded: EncodedPairsCallback,
) -> SkippedPairs:
    encoder = _Encoder(options, threads)
    counter = _SkippedCounter()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(RaggedMemmapWriter(directory / name))
            for name in _column_names(options)
        ]
        for chunk in map(encoder, corpus.read_blocks(counter.add_missing_language)):
            for writer, column in zip(writers, chunk.columns, strict=True):
                writer.append(*column)
            counter.add_chunk(chunk)
            on_encoded(len(chunk.is_usable))
    return counter.skipped


@dataclass(frozen=True, slots=True)
class _EncodedChunk:
    """The usable pairs of a block, encoded."""

    columns: list[PackedIds]
    is_usable: NDArray[np.bool_]
    is_empty: NDArray[np.bool_]


class _Encoder:
    """Encodes blocks of pairs."""

    def __init__(self, options: EncodingOptions, threads: int) -> None:
        self.options = options
        self.threads = threads
        self.prefix_ids = options.prefix_ids
        self.dtype = _ids_dtype(options.tokenizers)

    def __call__(self, block: PairBlock) -> _EncodedChunk:
        tokenizers, max_length = self.options.tokenizers, self.options.max_length
        source = tokenizers.source.encode_packed(block.sources, self.threads)
        target = tokenizers.target.encode_packed(block.targets, self.threads)
        is_empty = (source.lengths == 0) | (target.lengths == 0)
        source = source.prepend(self.prefix_ids)
        is_usable = ~is_empty & (np.maximum(source.lengths, target.lengths) <= max_length)
        columns = [source.select(is_usable), target.select(is_usable)]
        columns = [PackedIds(side.ids.astype(self.dtype), side.lengths) for side in columns]
        if self.options.store_text:
            columns += [_pack_text(compress(side, is_usable)) for side in block]
        return _EncodedChunk(columns, is_usable, is_empty)


def _pack_text(lines: Iterable[str]) -> PackedIds:
    """Return the UTF-8 bytes of lines."""
    raw = [line.encode() for line in lines]
    lengths = np.fromiter(map(len, raw), np.int64, len(raw))
    return PackedIds(np.frombuffer(b"".join(raw), np.uint8), lengths)


class _SkippedCounter:
    """Counts skipped pairs over all chunks."""

    def __init__(self) -> None:
        self.skipped = SkippedPairs()
        self._num_read = 0

    def add_missing_language(self, number: int) -> None:
        """Count a unit that lacks one of the languages."""
        del number
        missing = self.skipped.missing_language + 1
        self.skipped = replace(self.skipped, missing_language=missing)

    def add_chunk(self, chunk: _EncodedChunk) -> None:
        """Count the empty and too long pairs of a chunk."""
        too_long = ~chunk.is_usable & ~chunk.is_empty
        before = self.skipped
        first = before.first_too_long
        if first is None and too_long.any():
            first = self._num_read + int(too_long.argmax()) + 1
        self._num_read += len(chunk.is_usable)
        self.skipped = SkippedPairs(
            before.empty + int(chunk.is_empty.sum()),
            before.too_long + int(too_long.sum()),
            first,
            before.missing_language,
        )


def _ids_dtype(tokenizers: TokenizerPair) -> Any:
    max_vocab_size = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return np.uint16 if max_vocab_size <= 2**16 else np.uint32
