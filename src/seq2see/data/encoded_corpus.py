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
from tempfile import mkdtemp
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seq2see.data.corpus import Corpus
from seq2see.data.readers import PairBlock
from seq2see.errors import ConfigError, InputError
from seq2see.text import PackedIds, TokenizerPair

_RowInts = NDArray[np.int64]


class RaggedMemmap:
    """Rows of numbers, mapped from disk."""

    def __init__(self, values: NDArray[Any], ends: _RowInts) -> None:
        self._values = values
        self._ends = ends

    @classmethod
    def open(cls, path: Path, dtype: DTypeLike) -> Self:
        """Map what a `RowsWriter` has written."""
        return cls(
            _mapped(path.with_suffix(".values"), dtype), _mapped(row_ends_path(path), np.int64)
        )

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        start, end = self._ends[row], self._ends[row + 1]
        return self._values[start:end]

    def lengths(self, rows: _RowInts) -> _RowInts:
        """Return how long these rows are."""
        return self._ends[rows + 1] - self._ends[rows]

    def take(self, rows: _RowInts) -> tuple[NDArray[Any], _RowInts]:
        """Return the numbers of these rows, one row behind the other, and the rows' lengths."""
        starts, lengths = self._ends[rows], self.lengths(rows)
        before = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return self._values[places], lengths


class RaggedMemmapWriter:
    """Writes rows, some at a time."""

    def __init__(self, path: Path) -> None:
        self._values = path.with_suffix(".values").open("wb")
        self._ends = row_ends_path(path).open("wb")
        self._written = 0
        self._ends.write(np.zeros(1, dtype=np.int64).tobytes())

    def append(self, values: NDArray[Any], lengths: _RowInts) -> None:
        """Add rows of these lengths, given one behind the other."""
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
    """Return the files of these rows: their values, and where each of them ends."""
    return path.with_suffix(".values"), row_ends_path(path)


def row_ends_path(path: Path) -> Path:
    """Return the file that says where each row ends, 0 first."""
    return path.with_suffix(".ends")


def _mapped(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file; an empty one cannot be."""
    try:
        size = path.stat().st_size
        return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None


FORMAT_VERSION = 1


METADATA_FILE = "metadata.json"


PARTIAL_SUFFIX = ".partial"


IntArray = NDArray[np.int64]


EncodedPairsCallback = Callable[[int], None]
"""Told how many pairs have been read since the last time."""


@dataclass(frozen=True, slots=True)
class EncodingOptions:
    """How pairs become ids."""

    tokenizers: TokenizerPair
    max_length: int
    """Pairs with more pieces on a side are left out, and counted."""
    tag: str = ""
    """A symbol of the source's tokenizer that goes before each source."""
    store_text: bool = False
    """Keep the text beside the ids, for subword sampling."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of it."""
        options = (self.tokenizers.fingerprint, self.max_length, self.tag, self.store_text)
        return hashlib.sha256(repr(options).encode()).hexdigest()

    @property
    def prefix_ids(self) -> list[int]:
        """The ids before each source."""
        if not self.tag:
            return []
        known = self.tokenizers.source.user_defined_symbols
        if self.tag not in known:
            have = ", ".join(known) or "none"
            problem = f"`tag` must be a symbol of the tokenizer ({have}), but is {self.tag} instead"
            raise ConfigError([problem])
        return [self.tokenizers.source.pieces.index(self.tag)]


@dataclass(frozen=True, slots=True)
class SkippedPairs:
    """Pairs that are not in the encoded corpus."""

    empty: int = 0
    too_long: int = 0
    first_too_long: int | None = None
    """The number of the first line that was too long, from 1."""
    missing_language: int = 0
    """Units of a translation memory that do not have both languages."""

    def __str__(self) -> str:
        """Say how many there are, and why; nothing if there are none."""
        first = f"longer than batches.max_length, the first is pair {self.first_too_long}"
        reasons = {
            first: self.too_long,
            "with an empty side": self.empty,
            "without one of the languages": self.missing_language,
        }
        told = [f"{count:,} {reason}" for reason, count in reasons.items() if count]
        return f"{sum(reasons.values()):,} pairs are left out: {'; '.join(told)}" if told else ""


class EncodedCorpus:
    """The ids of every pair, without BOS and EOS."""

    def __init__(self, directory: Path, skipped: SkippedPairs, options: EncodingOptions) -> None:
        self.skipped = skipped
        self.options = options
        ids = _ids_dtype(options.tokenizers)
        self.source = RaggedMemmap.open(directory / "source", ids)
        self.target = RaggedMemmap.open(directory / "target", ids)
        texts = ("source-text", "target-text") if options.store_text else ()
        self._texts = [RaggedMemmap.open(directory / name, np.uint8) for name in texts]

    def __len__(self) -> int:
        return len(self.source)

    def lengths(self, lines: IntArray) -> tuple[IntArray, IntArray]:
        """Return the tokens of these lines, source and target, each with its end."""
        return self.source.lengths(lines) + 1, self.target.lengths(lines) + 1

    def resample_subwords(
        self, line: int, rate: float, seed: int, pass_index: int
    ) -> tuple[list[int], list[int]]:
        """Return the ids of another cut of a line's text, which must have been kept.

        A side that would become longer than allowed is cut as usual.
        """
        assert self._texts
        tokenizers, draw = self.options.tokenizers, (rate, seed, pass_index)
        source, target = (rows[line].tobytes().decode() for rows in self._texts)
        source_ids = tokenizers.source.sample(source, *draw, 2 * line)
        source_ids = self.options.prefix_ids + source_ids
        target_ids = tokenizers.target.sample(target, *draw, 2 * line + 1)
        limit = self.options.max_length
        return (
            source_ids if len(source_ids) <= limit else self.source[line].tolist(),
            target_ids if len(target_ids) <= limit else self.target[line].tolist(),
        )


def encode_corpus(
    corpus: Corpus,
    options: EncodingOptions,
    cache_directory: Path,
    threads: int = 1,
    on_encoded: EncodedPairsCallback = lambda _: None,
) -> EncodedCorpus:
    """Return the encoded corpus, from the folder if it is there, or else made and put there."""
    key = hashlib.sha256(f"{FORMAT_VERSION} {corpus.fingerprint} {options.fingerprint}".encode())
    home = cache_directory / key.hexdigest()[:32]
    left_out = _verified(home, options)
    if left_out is None:
        try:
            left_out = _write(corpus, options, home, threads, on_encoded)
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{error.filename or home} cannot be written: {reason}") from None
    return EncodedCorpus(home, left_out, options)


def has_usable_pairs(corpus: Corpus, options: EncodingOptions) -> bool:
    """Tell if anything would be in the encoded corpus, without writing it."""
    return any(chunk.fits.any() for chunk in map(_Encoder(options, 1), corpus.read_blocks()))


def _names(encoding: EncodingOptions) -> list[str]:
    return ["source", "target"] + ["source-text", "target-text"] * encoding.store_text


def _verified(home: Path, encoding: EncodingOptions) -> SkippedPairs | None:
    """Return what the card says, if it is there and every file is as it was written."""
    files = [path for name in _names(encoding) for path in ragged_memmap_paths(home / name)]
    try:
        card = json.loads((home / METADATA_FILE).read_text("utf-8"))
        left_out = SkippedPairs(**card["skipped"])
        if card == _card(left_out, files):
            return left_out
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass  # missing or damaged
    return None


def _card(left_out: SkippedPairs, files: Sequence[Path]) -> dict[str, Any]:
    """Return what is known of an encoded corpus, itself with a checksum."""
    content = {"skipped": asdict(left_out), "files": {f.name: _checksum(f) for f in files}}
    return {**content, "checksum": zlib.crc32(json.dumps(content).encode())}


def _write(
    corpus: Corpus,
    encoding: EncodingOptions,
    home: Path,
    threads: int,
    progress: EncodedPairsCallback,
) -> SkippedPairs:
    """Write the folder aside and rename it, so that there is a whole one or none."""
    home.parent.mkdir(parents=True, exist_ok=True)
    _sweep(home.parent)
    aside = Path(mkdtemp(prefix=f"{home.name}.", suffix=PARTIAL_SUFFIX, dir=home.parent))
    try:
        whole = aside / "whole"
        whole.mkdir()
        left_out = _write_rows(corpus, encoding, whole, threads, progress)
        if corpus.compute_fingerprint() != corpus.fingerprint:
            raise InputError(f"{corpus.name} was changed while it was read: start again")
        files = [path for name in _names(encoding) for path in ragged_memmap_paths(whole / name)]
        (whole / METADATA_FILE).write_text(json.dumps(_card(left_out, files)), "utf-8")
        _replace(whole, home, aside, encoding)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return left_out


def _replace(whole: Path, home: Path, aside: Path, encoding: EncodingOptions) -> None:
    """Put the new folder into its place. If somebody else was faster, theirs is as good."""
    try:
        if home.exists() or home.is_symlink():
            home.rename(aside / "old")
        whole.rename(home)
    except OSError:
        if _verified(home, encoding) is None:
            raise


def _sweep(folder: Path) -> None:
    """Remove what was left by runs that were killed, a day ago or more."""
    for path in folder.glob(f"*{PARTIAL_SUFFIX}"):
        if time.time() - path.stat().st_mtime > 86_400:
            shutil.rmtree(path, ignore_errors=True)


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    return checksum


def _write_rows(
    corpus: Corpus,
    encoding: EncodingOptions,
    aside: Path,
    threads: int,
    progress: EncodedPairsCallback,
) -> SkippedPairs:
    encoder = _Encoder(encoding, threads)
    tally = _Tally()
    with ExitStack() as stack:
        writers = [
            stack.enter_context(RaggedMemmapWriter(aside / name)) for name in _names(encoding)
        ]
        for chunk in map(encoder, corpus.read_blocks(tally.skip)):
            for writer, column in zip(writers, chunk.columns, strict=True):
                writer.append(*column)
            tally.add(chunk)
            progress(len(chunk.fits))
    return tally.left_out


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Some pairs, encoded."""

    columns: list[PackedIds]
    fits: NDArray[np.bool_]
    empty: NDArray[np.bool_]


class _Encoder:
    """Encodes blocks of pairs."""

    def __init__(self, encoding: EncodingOptions, threads: int) -> None:
        self.encoding = encoding
        self.threads = threads
        self.prefix = encoding.prefix_ids
        self.dtype = _ids_dtype(encoding.tokenizers)

    def __call__(self, texts: PairBlock) -> _Chunk:
        tokenizers = self.encoding.tokenizers
        source = tokenizers.source.encode_packed(texts.sources, self.threads)
        target = tokenizers.target.encode_packed(texts.targets, self.threads)
        empty = (source.lengths == 0) | (target.lengths == 0)
        source = source.prepend(self.prefix)
        fits = ~empty & (np.maximum(source.lengths, target.lengths) <= self.encoding.max_length)
        columns = [source.select(fits), target.select(fits)]
        columns = [PackedIds(side.ids.astype(self.dtype), side.lengths) for side in columns]
        if self.encoding.store_text:
            columns += [_text(compress(side, fits)) for side in texts]
        return _Chunk(columns, fits, empty)


def _text(lines: Iterable[str]) -> PackedIds:
    """Return the bytes of lines."""
    raw = [line.encode() for line in lines]
    lengths = np.fromiter(map(len, raw), np.int64, len(raw))
    return PackedIds(np.frombuffer(b"".join(raw), np.uint8), lengths)


class _Tally:
    """Counts what is left out, over all chunks."""

    def __init__(self) -> None:
        self.left_out = SkippedPairs()
        self._read = 0

    def skip(self, number: int) -> None:
        del number
        self.left_out = replace(self.left_out, missing_language=self.left_out.missing_language + 1)

    def add(self, chunk: _Chunk) -> None:
        too_long = ~chunk.fits & ~chunk.empty
        before = self.left_out
        first = before.first_too_long
        if first is None and too_long.any():
            first = self._read + int(too_long.argmax()) + 1
        self._read += len(chunk.fits)
        self.left_out = SkippedPairs(
            before.empty + int(chunk.empty.sum()),
            before.too_long + int(too_long.sum()),
            first,
            before.missing_language,
        )


def _ids_dtype(tokenizers: TokenizerPair) -> Any:
    largest = max(tokenizers.source.vocab_size, tokenizers.target.vocab_size)
    return np.uint16 if largest <= 2**16 else np.uint32
