"""Read the lines of text files, plain or compressed (.gz, .xz, .zst).

A line ends at \\n or \\r\\n only: form feeds, U+2028 and similar characters are part of the text
and never shift the alignment. `-` is standard input. A file that cannot be read raises an error
with its name and the line number.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast, get_args

from seq2see.errors import InputError
from seq2see.registries import COMPRESSED_EXTENSIONS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


STANDARD_INPUT = "-"
_WIDE_ENCODINGS = ("utf-16", "utf-32")
BOM = b"\xef\xbb\xbf"
READ_BYTES = 1 << 18
"""Number of bytes per read."""
LINES_PER_BLOCK = 8192
"""Number of pairs per block."""

SkippedUnitCallback = Callable[[int], None]
"""Called with the number of each translation unit that lacks one of the languages."""
SplitName = Literal["train", "valid", "test"]
SPLIT_NAMES: tuple[SplitName, ...] = get_args(SplitName)


def is_compressed(name: str) -> bool:
    """Return whether the extension of a file is that of a compressed file."""
    return Path(name).suffix.lower() in COMPRESSED_EXTENSIONS


def file_extension(name: str) -> str:
    """Return the extension in lower case, without that of a compressed file, for example ".de"."""
    return Path(Path(name).stem if is_compressed(name) else name).suffix.lower()


class SentencePair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


PairBlock = list[SentencePair]
"""Consecutive pairs of a corpus."""


@contextmanager
def open_decompressed_binary(path: str) -> Iterator[IO[bytes]]:
    """Open a file for reading; decompress it if its extension is .gz, .xz or .zst.

    `-` is standard input, which is never decompressed. Raises InputError if the file cannot be
    read or is damaged.
    """
    try:
        with _open(path) as file:
            yield file
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError, EOFError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    except OSError as error:
        name = "standard input" if path == STANDARD_INPUT else path
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from None


def _open(path: str) -> AbstractContextManager[IO[bytes]]:
    match Path(path).suffix.lower():
        case _ if path == STANDARD_INPUT:
            return nullcontext(sys.stdin.buffer)
        case ".gz":
            return cast("IO[bytes]", gzip.open(path))
        case ".xz":
            return io.BufferedReader(_XzReader(Path(path).open("rb")))
        case ".zst":
            return cast("IO[bytes]", zstd.open(path))
        case _:
            return Path(path).open("rb")


class _XzReader(io.RawIOBase):
    """A decompressed .xz file.

    Python's own reader ignores trailing data that is not another stream; this one raises an error.
    """

    def __init__(self, compressed: IO[bytes]) -> None:
        self._compressed = compressed
        self._blocks = _decompress_xz(compressed)
        self._buffered = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        available = self._buffered or memoryview(next(self._blocks, b""))
        size = min(len(available), len(buffer))
        buffer[:size], self._buffered = available[:size], available[size:]
        return size

    def close(self) -> None:
        self._compressed.close()
        super().close()


def _decompress_xz(file: IO[bytes]) -> Iterator[bytes]:
    """Decompress all streams of an .xz file; zero bytes between and after them are skipped."""
    compressed = file.read(READ_BYTES)
    while True:
        stream = lzma.LZMADecompressor()
        while not stream.eof:
            if stream.needs_input and not compressed:
                raise EOFError("unexpected end of file")
            if block := stream.decompress(compressed, READ_BYTES):
                yield block
            compressed = file.read(READ_BYTES) if stream.needs_input else b""
        remaining = chain([stream.unused_data], iter(lambda: file.read(READ_BYTES), b""))
        compressed = next(filter(None, (block.lstrip(b"\0") for block in remaining)), b"")
        if not compressed:
            return


def read_lines(
    path: str, skip: int = 0, problems: dict[int, str] | None = None, encoding: str = "utf-8"
) -> Iterator[str]:
    """Yield the lines of a file without their line ends, after the first `skip` lines.

    A line that is not in the encoding raises InputError. If `problems` is given, the line is empty
    instead, and the reason is stored there under its number, from 1. Raises InputError if the file
    cannot be read or is damaged.
    """
    if encoding.startswith(_WIDE_ENCODINGS):
        yield from islice(_read_wide_lines(path, encoding), skip, None)
        return
    with open_decompressed_binary(path) as file:
        for number, raw in enumerate(islice(file, skip, None), skip + 1):
            line = raw.removeprefix(BOM) if number == 1 else raw
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                problem = (
                    f"must be {encoding.upper()}, but has the byte 0x{byte:02x} at column "
                    f"{error.start + 1}"
                )
                if problems is None:
                    raise InputError(f"{path}, line {number} {problem}") from None
                problems[number], text = problem, ""
            yield text


def _read_wide_lines(path: str, encoding: str) -> Iterator[str]:
    """Yield the lines of a file in UTF-16 or UTF-32, whose line ends have several bytes."""
    num_read = 0
    with open_decompressed_binary(path) as file:
        try:
            with io.TextIOWrapper(file, encoding, newline="\n") as text:
                for line in text:
                    num_read += 1
                    yield line.removesuffix("\n").removesuffix("\r")
        except UnicodeError as error:
            raise InputError(
                f"{path} must be {encoding.upper()}, but is damaged after line {num_read}: {error}"
            ) from None


def read_text_files(
    source_path: str, target_path: str, encodings: tuple[str, str] = ("utf-8", "utf-8")
) -> Iterator[SentencePair]:
    """Yield the pairs of two text files, line by line.

    Raises InputError if one file has fewer lines than the other.
    """
    lines = zip_longest(
        read_lines(source_path, encoding=encodings[0]),
        read_lines(target_path, encoding=encodings[1]),
    )
    for num_read, (source, target) in enumerate(lines):
        if source is None or target is None:
            shorter, longer = source_path, target_path
            if target is None:
                shorter, longer = longer, shorter
            raise InputError(
                f"{shorter} must have as many lines as {longer}, but ends after {num_read}"
            )
        yield SentencePair(source, target)


def group_pairs_into_blocks(pairs: Iterable[SentencePair]) -> Iterator[PairBlock]:
    """Group single pairs into blocks."""
    iterator = iter(pairs)
    while block := list(islice(iterator, LINES_PER_BLOCK)):
        yield block


_LINE_BREAKS = re.compile(r"(?<!\r)\r*\n|(?<!\r)\r+\Z")
"""Without the lookbehind, the time for a run of \\r would be quadratic."""


def replace_line_breaks(text: str) -> str:
    """Return the text with a space in place of each line break."""
    return _LINE_BREAKS.sub(" ", text) if "\n" in text or "\r" in text else text


def count_lines(path: str) -> int | None:
    """Return the number of lines of a file, or None if the input can be read only once."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    with open_decompressed_binary(path) as file:
        return sum(1 for _ in file)
