"""Read parallel text from text, TSV, JSONL and TMX files, plain or compressed (.gz, .xz, .zst).

A line ends at \\n or \\r\\n only: form feeds, U+2028 and similar characters are part of the text
and never shift the alignment. Files are UTF-8; `-` is standard input. A file that cannot be read
raises an error with its name and the line number.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, cast, get_args

from lxml import etree

from seq2see.errors import InputError
from seq2see.registries import COMPRESSED_EXTENSIONS
from seq2see.text.languages import normalize_tag
from seq2see.text.normalization import check_surrogates
from seq2see.text.tmx_elements import classify_inline_element, find_variant, get_variant_language

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


STANDARD_INPUT = "-"
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


def read_lines(path: str, skip: int = 0, problems: dict[int, str] | None = None) -> Iterator[str]:
    """Yield the lines of a file without their line ends, after the first `skip` lines.

    A line that is not UTF-8 raises InputError. If `problems` is given, the line is empty instead,
    and the reason is stored there under its number, from 1. Raises InputError if the file cannot
    be read or is damaged.
    """
    with open_decompressed_binary(path) as file:
        for number, raw in enumerate(islice(file, skip, None), skip + 1):
            line = raw.removeprefix(BOM) if number == 1 else raw
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError as error:
                byte = error.object[error.start]
                problem = (
                    f"must be UTF-8, but has the byte 0x{byte:02x} at column {error.start + 1}"
                )
                if problems is None:
                    raise InputError(f"{path}, line {number} {problem}") from None
                problems[number], text = problem, ""
            yield text


def read_text_files(source_path: str, target_path: str) -> Iterator[SentencePair]:
    """Yield the pairs of two text files, line by line.

    Raises InputError if one file has fewer lines than the other.
    """
    lines = zip_longest(read_lines(source_path), read_lines(target_path))
    for num_read, (source, target) in enumerate(lines):
        if source is None or target is None:
            shorter, longer = source_path, target_path
            if target is None:
                shorter, longer = longer, shorter
            raise InputError(
                f"{shorter} must have as many lines as {longer}, but ends after {num_read}"
            )
        yield SentencePair(source, target)


def read_tsv(path: str, columns: tuple[int, int] = (1, 2)) -> Iterator[SentencePair]:
    """Yield two columns, counted from 1, of a tab-separated file. Quotes are part of the text.

    Raises InputError if a line has too few columns.
    """
    source, target = (column - 1 for column in columns)
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split("\t")
        if len(cells) < max(columns):
            raise InputError(
                f"{path}, line {number} must have at least {max(columns)} columns, but has "
                f"{len(cells)} instead"
            )
        yield SentencePair(cells[source], cells[target])


def group_pairs_into_blocks(pairs: Iterable[SentencePair]) -> Iterator[PairBlock]:
    """Group single pairs into blocks."""
    iterator = iter(pairs)
    while block := list(islice(iterator, LINES_PER_BLOCK)):
        yield block


def read_jsonl(path: str, keys: tuple[str, str]) -> Iterator[SentencePair]:
    """Yield two keys of a file with one JSON object per line; `a.b` is the key b inside a.

    Raises InputError if a line is not JSON, or a value is not a string.
    """
    for number, line in enumerate(read_lines(path), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} must be JSON, but: {error}") from None
        source, target = (_get_text(record, key, f"{path}, line {number}") for key in keys)
        yield SentencePair(source, target)


def _get_text(record: Any, key: str, location: str) -> str:
    value = record
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, str):
        actual = "is missing" if value is None else f"is {type(value).__name__} instead"
        raise InputError(f"{location}: `{key}` must be a string, but {actual}")
    check_surrogates(value, f" of `{key}` in {location}")
    return value


def read_tmx(
    path: str, languages: tuple[str, str], on_skipped: SkippedUnitCallback = lambda _: None
) -> Iterator[SentencePair]:
    """Yield the units of a translation memory (TMX) that have both languages.

    `en` matches en-GB and en_GB too. White space around a line break becomes one space.
    `on_skipped` is called with the number of each unit that lacks one of the languages. Raises
    InputError if the file is not TMX or no unit has both languages.
    """
    other_languages, num_units, num_pairs = set[str](), 0, 0
    for num_units, unit in enumerate(_iterate_tmx_units(path), 1):
        source, target = (find_variant(unit, language) for language in languages)
        if source is None or target is None or source is target:
            variants = unit.iterchildren("{*}tuv")
            other_languages.update(normalize_tag(get_variant_language(one)) for one in variants)
            on_skipped(num_units)
        else:
            num_pairs += 1
            yield SentencePair(_get_segment(source), _get_segment(target))
    if not num_pairs:
        tags = ", ".join(sorted(other_languages - {""}))
        without_tags = "units without language tags instead" if num_units else "none"
        raise InputError(
            f"{path} must have units in both {' and '.join(languages)}, but has "
            f"{f'{tags} instead' if tags else without_tags}"
        )


def _iterate_tmx_units(path: str) -> Iterator[etree._Element]:
    """Yield each unit; it is freed afterwards, so that memory does not grow with the file."""
    with open_decompressed_binary(path) as file:
        units = etree.iterparse(
            file, tag="{*}tu", resolve_entities=False, no_network=True, load_dtd=False
        )
        try:
            for number, (_, unit) in enumerate(units, 1):
                for entity in unit.iter(etree.Entity):  # not resolved, so text would be lost
                    raise InputError(
                        f"{path}, unit {number} must not contain entities, but has the entity "
                        f"`{entity.text}`: replace it by its text"
                    )
                yield unit
                unit.clear()
                parent = unit.getparent()
                while parent is not None and unit.getprevious() is not None:
                    del parent[0]
        except etree.XMLSyntaxError as error:
            raise InputError(f"{path} must be TMX, but: {error.msg}") from None


def _get_segment(variant: etree._Element) -> str:
    """Return the text of a variant without formatting codes."""
    segment = variant.find("{*}seg")
    if segment is None:
        return ""
    text = "".join(_iterate_text(segment)) if len(segment) else segment.text or ""
    return _SPACE_AROUND_BREAK.sub(" ", text).strip() if _BREAK.search(text) else text


def _iterate_text(element: etree._Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if classify_inline_element(child) == "paired":
            yield from _iterate_text(child)
        yield child.tail or ""


_BREAK = re.compile(r"[\r\n]")
_SPACE_AROUND_BREAK = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
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
