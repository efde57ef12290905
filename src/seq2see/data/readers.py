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
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from lxml import etree

from seq2see.errors import InputError
from seq2see.text.normalization import check_surrogates

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


STANDARD_INPUT = "-"


BOM = b"\xef\xbb\xbf"


READ_BYTES = 1 << 18
"""Read about so many bytes at once."""


LINES_PER_BLOCK = 8192
"""Of two files, read so many lines at once."""


class SentencePair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class PairBlock(NamedTuple):
    """Some pairs as two lists: an object for each pair would take longer than reading it."""

    sources: list[str]
    targets: list[str]

    def iter_pairs(self) -> Iterator[SentencePair]:
        """Yield them one by one."""
        return map(SentencePair, self.sources, self.targets)


@contextmanager
def open_decompressed(path: str) -> Iterator[IO[bytes]]:
    """Open a file, unpacking it by its ending; `-` is standard input, which is never packed."""
    try:
        with _open(path) as file:
            yield file
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstd.ZstdError, EOFError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _open(path: str) -> AbstractContextManager[IO[bytes]]:
    match Path(path).suffix:
        case _ if path == STANDARD_INPUT:
            return nullcontext(sys.stdin.buffer)
        case ".gz":
            return cast("IO[bytes]", gzip.open(path))
        case ".xz":
            return io.BufferedReader(_Xz(Path(path).open("rb")))
        case ".zst":
            return cast("IO[bytes]", zstd.open(path))
        case _:
            return Path(path).open("rb")


class _Xz(io.RawIOBase):
    """An .xz file, unpacked. Python's own stops without a word at what is no further stream."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._blocks = _unpacked(packed)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        rest = self._rest or memoryview(next(self._blocks, b""))
        size = min(len(rest), len(buffer))
        buffer[:size], self._rest = rest[:size], rest[size:]
        return size

    def close(self) -> None:
        self._packed.close()
        super().close()


def _unpacked(file: IO[bytes]) -> Iterator[bytes]:
    """Unpack all streams of an .xz file; between and behind them may be zeros."""
    packed = file.read(READ_BYTES)
    while True:
        stream = lzma.LZMADecompressor()
        while not stream.eof:
            if stream.needs_input and not packed:
                raise EOFError("it ends too early")
            if block := stream.decompress(packed, READ_BYTES):
                yield block
            packed = file.read(READ_BYTES) if stream.needs_input else b""
        rest = chain([stream.unused_data], iter(lambda: file.read(READ_BYTES), b""))
        packed = next(filter(None, (block.lstrip(b"\0") for block in rest)), b"")
        if not packed:
            return


def read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a file without their ends."""
    for _, lines in _numbered_lines(path):
        yield from lines


def _numbered_lines(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield some lines at a time behind the number of the first."""
    with open_decompressed(path) as file:
        number = 1
        for block in _whole_lines(file):
            lines = _decode(block.removeprefix(BOM) if number == 1 else block, path, number)
            yield number, lines
            number += len(lines)


def _whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield blocks that end where a line ends; only the last may lack its \\n."""
    parts: list[bytes] = []
    while block := file.read(READ_BYTES):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*parts, block[:end]])
            parts.clear()
        parts.append(block[end:])
    if rest := b"".join(parts):
        yield rest


def _decode(block: bytes, path: str, number: int) -> list[str]:
    """Decode lines, the first of which has this number, all at once."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        raw_lines = enumerate(block.split(b"\n"), number)
        return [_decode_line(raw, path, n) for n, raw in raw_lines]  # finds the line and raises
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


def _decode_line(raw: bytes, path: str, number: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        byte = raw[error.start]
        raise InputError(
            f"{path}, line {number} must be UTF-8, but has the byte 0x{byte:02x} "
            f"at column {error.start + 1}"
        ) from None


def read_text_files(source_path: str, target_path: str) -> Iterator[PairBlock]:
    """Read two files, line by line side by side, many lines at a time."""
    left, right = read_lines(source_path), read_lines(target_path)
    read = 0
    while any(
        block := PairBlock(
            list(islice(left, LINES_PER_BLOCK)), list(islice(right, LINES_PER_BLOCK))
        )
    ):
        fewest, most = sorted(map(len, block))
        read += fewest
        if fewest < most:
            is_left = len(block.sources) == fewest
            shorter, longer = (source_path, target_path) if is_left else (target_path, source_path)
            raise InputError(
                f"{shorter} must have as many lines as {longer}, but ends after {read}"
            )
        yield block


def read_tsv(path: str, columns: tuple[int, int] = (1, 2)) -> Iterator[PairBlock]:
    """Read two columns, counted from 1, of a file of columns between tabs. Quotes are text."""
    for number, lines in _numbered_lines(path):
        widths = {line.count("\t") + 1 for line in lines}
        if min(widths) < max(columns):
            raise _lacks_columns(path, number, lines, max(columns))
        if len(widths) == 1:
            cells = "\t".join(lines).split("\t")
            yield PairBlock(*(cells[column - 1 :: min(widths)] for column in columns))
        else:
            rows = [line.split("\t") for line in lines]
            yield PairBlock(*([row[column - 1] for row in rows] for column in columns))


def _lacks_columns(path: str, first: int, lines: list[str], wanted: int) -> InputError:
    """Return the error of the first line that has too few columns."""
    widths = ((number, line.count("\t") + 1) for number, line in enumerate(lines, first))
    number, width = next((number, width) for number, width in widths if width < wanted)
    return InputError(
        f"{path}, line {number} must have at least {wanted} columns, but has {width} instead"
    )


def group_into_blocks(pairs: Iterable[SentencePair]) -> Iterator[PairBlock]:
    """Put pairs together that come one by one."""
    rest = iter(pairs)
    while some := list(islice(rest, LINES_PER_BLOCK)):
        sources, targets = zip(*some, strict=True)
        yield PairBlock(list(sources), list(targets))


def read_jsonl(path: str, keys: tuple[str, str]) -> Iterator[SentencePair]:
    """Read two keys of a file with one JSON object a line; `a.b` is the key b inside a."""
    for number, line in enumerate(read_lines(path), 1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number} must be JSON, but: {error}") from None
        source, target = (_value(record, key, f"{path}, line {number}") for key in keys)
        yield SentencePair(source, target)


def _value(record: Any, key: str, where: str) -> str:
    value = record
    for step in key.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if not isinstance(value, str):
        found = "is missing" if value is None else f"is {type(value).__name__} instead"
        raise InputError(f"{where}: `{key}` must be a text, but {found}")
    check_surrogates(value, f" of `{key}` in {where}")
    return value


# Elements of a segment that hold the codes of some editor, not words.
INLINE_CODES = {"bpt", "ept", "ph", "it", "ut"}


XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(
    path: str, languages: tuple[str, str], on_skipped: Callable[[int], None] = lambda _: None
) -> Iterator[SentencePair]:
    """Read the units of a translation memory that have both languages, one at a time.

    `en` takes en-GB and en_GB too. White space around a line break becomes one space. A unit
    without one of the languages goes to `skipped`, by its number.
    """
    found, pairs = set[str](), 0
    for number, texts in enumerate(_units(path), 1):
        source, target = (_find(texts, _code(language)) for language in languages)
        if source is None or target is None:
            found.update(texts)
            on_skipped(number)
        else:
            pairs += 1
            yield SentencePair(source, target)
    if not pairs:
        others = f"{', '.join(sorted(found - {''}))} instead" if found else "none"
        raise InputError(
            f"{path} must have units in both {' and '.join(languages)}, but has {others}"
        )


def _units(path: str) -> Iterator[dict[str, str]]:
    """Yield the texts of each unit by their languages."""
    with open_decompressed(path) as file:
        units = etree.iterparse(
            file, tag="{*}tu", resolve_entities=False, no_network=True, load_dtd=False
        )
        try:
            for number, (_, unit) in enumerate(units, 1):
                _refuse_entities(unit, f"{path}, unit {number}")
                variants = reversed(list(unit.iter("{*}tuv")))
                yield {_language(variant): _segment(variant) for variant in variants}
                _forget(unit)
        except etree.XMLSyntaxError as error:
            raise InputError(f"{path} must be TMX, but: {error.msg}") from None


def _refuse_entities(unit: etree._Element, where: str) -> None:
    """Raise an error at text that stands elsewhere: it is not read, so it would be missing."""
    for entity in unit.iter(etree.Entity):
        raise InputError(
            f"{where} must have its text written out, but has the entity `{entity.text}` instead"
        )


def _language(variant: etree._Element) -> str:
    return _code(variant.get(XML_LANG) or variant.get("lang") or "")


def _code(language: str) -> str:
    return language.lower().replace("_", "-")


def _find(texts: Mapping[str, str], wanted: str) -> str | None:
    """Return the text of a language, or else of one of its regions."""
    exact = texts.get(wanted)
    regions = (text for code, text in texts.items() if code.startswith(wanted + "-"))
    return exact if exact is not None else next(regions, None)


def _segment(variant: etree._Element) -> str:
    segment = variant.find("{*}seg")
    return "" if segment is None else _flatten(segment)


def _flatten(element: etree._Element) -> str:
    """Return the words of a segment without the codes between them."""
    parts = [element.text or ""]
    for child in element:
        is_code = not isinstance(child.tag, str) or etree.QName(child).localname in INLINE_CODES
        parts += ["" if is_code else _flatten(child), child.tail or ""]
    text = "".join(parts)
    if "\n" not in text and "\r" not in text:
        return text
    return " ".join(part.strip(" \t") for part in text.replace("\r", "\n").split("\n")).strip()


def _forget(unit: etree._Element) -> None:
    """Let a unit go, and those before it, so that memory does not grow with the file."""
    unit.clear()
    parent = unit.getparent()
    while parent is not None and unit.getprevious() is not None:
        del parent[0]


_LINE_ENDS = re.compile(r"\r*\n|\r+\Z")


def replace_line_breaks(text: str) -> str:
    """Return the text with spaces for line ends."""
    return _LINE_ENDS.sub(" ", text) if "\n" in text or "\r" in text else text


class TolerantLineReader:
    """The lines of a file or of standard input, without their ends.

    A line ends at \\n (or \\r\\n) and nowhere else. One that is not UTF-8 is given as an empty
    line,
    and `problems` says why, by its number.
    """

    def __init__(self, path: str, skip: int = 0) -> None:
        self.path = path
        self.problems: dict[int, str] = {}
        """By the number of the line, from 1 on; whoever has told of one takes it out."""
        self._skip = skip

    def __iter__(self) -> Iterator[str]:
        with open_decompressed(self.path) as file:
            for number, raw in enumerate(file, 1):
                if number > self._skip:
                    yield self._text(raw.removeprefix(BOM) if number == 1 else raw, number)

    def _text(self, raw: bytes, number: int) -> str:
        try:
            return raw.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            column = error.start + 1
            self.problems[number] = f"must be UTF-8, but has the byte 0x{byte:02x} at {column}"
            return ""


def count_lines(path: str) -> int | None:
    """Return how many lines a file has; None for what can be read only once."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    newlines, last = 0, b"\n"
    with open_decompressed(path) as file:
        while block := file.read(READ_BYTES):
            newlines, last = newlines + block.count(b"\n"), block[-1:]
    return newlines + (last != b"\n")
