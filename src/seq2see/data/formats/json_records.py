"""JSON: a list of objects, columns, or one object per line (JSONL).

The key `a.b` is the key b inside a. Without configured keys, those are read that name the two
languages, or a source and a target, or that are the only two with text.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any

from seq2see.data.formats.column_names import choose_columns, parse_column_name
from seq2see.data.formats.opened_corpus import CorpusRequest, OpenedCorpus
from seq2see.data.readers import READ_BYTES, SentencePair, open_decompressed_binary, read_lines
from seq2see.data.text_encodings import detect_encoding
from seq2see.errors import InputError
from seq2see.text.normalization import check_surrogates

_SAMPLE_RECORDS = 100
_WHITE_SPACE = " \t\r\n"

NumberedRecord = tuple[str, Any]
"""A record with its location, such as "line 3" or "record 3"."""


def open_jsonl(request: CorpusRequest) -> OpenedCorpus:
    """Open a file with one JSON object per line."""
    encoding = detect_encoding(request.path)
    return open_records(
        partial(_read_json_lines, request.path, encoding.name), request, encoding.note
    )


def open_json(request: CorpusRequest) -> OpenedCorpus:
    """Open a JSON file: a list of objects, an object with such a list, or columns.

    Only a list at the top of the file is read in pieces; any other file is held in memory.
    """
    encoding = detect_encoding(request.path)
    return open_records(partial(_read_json, request.path, encoding.name), request, encoding.note)


def open_records(
    read: Callable[[], Iterator[NumberedRecord]], request: CorpusRequest, encoding_note: str = ""
) -> OpenedCorpus:
    """Open nested records: choose the keys by the first records.

    Raises ConfigError with all keys that have text if the choice is ambiguous.
    """
    keys = find_keys([record for _, record in islice(read(), _SAMPLE_RECORDS)], request)
    note = "" if request.columns else f"source is `{keys[0]}`, target is `{keys[1]}`"
    if not request.columns and keys == request.languages:
        note = ""
    detected = "; ".join(filter(None, (encoding_note, note)))
    source, target = (parse_column_name(key.rpartition(".")[2]).language for key in keys)
    return OpenedCorpus(
        lambda _: _select_keys(read(), keys, request.path),
        (source, target),
        (f"{request.name}: {detected}",) if detected else (),
    )


def find_keys(sample: list[Any], request: CorpusRequest) -> tuple[str, str]:
    """Return the keys of source and target."""
    if request.columns:
        return str(request.columns[0]), str(request.columns[1])
    names = list(dict.fromkeys(key for record in sample for key in _iterate_text_keys(record)))
    chosen = choose_columns(names, request.languages)
    if chosen is None and len(names) == 2 and not _name_other_languages(names, request):
        chosen = (0, 1)
    if chosen is None:
        if not sample:
            return "source", "target"
        request.raise_columns_unknown("keys", names)
    return names[chosen[0]], names[chosen[1]]


def _name_other_languages(names: list[str], request: CorpusRequest) -> bool:
    """Return whether a key names a language although languages are given."""
    return request.is_bilingual and any(parse_column_name(name).language for name in names)


def _iterate_text_keys(record: Any, prefix: str = "") -> Iterator[str]:
    """Yield the key of each text in a record; `a.b` is the key b inside a."""
    if isinstance(record, Mapping):
        for key, value in record.items():
            if isinstance(value, str):
                yield f"{prefix}{key}"
            else:
                yield from _iterate_text_keys(value, f"{prefix}{key}.")


def _select_keys(
    records: Iterator[NumberedRecord], keys: tuple[str, str], path: str
) -> Iterator[SentencePair]:
    source_key, target_key = (key.split(".") for key in keys)
    for location, record in records:
        try:
            source, target = _get(record, source_key), _get(record, target_key)
        except (KeyError, TypeError, IndexError):
            source = target = None
        if type(source) is str and type(target) is str and source.isascii() and target.isascii():
            yield SentencePair(source, target)
        else:
            texts = (_get_text(record, key, f"{path}, {location}") for key in keys)
            yield SentencePair(*texts)


def _get(record: Any, key: list[str]) -> Any:
    for part in key:
        record = record[part]
    return record


def _get_text(record: Any, key: str, location: str) -> str:
    value, is_missing = record, False
    for part in key.split("."):
        is_missing = is_missing or not isinstance(value, dict) or part not in value
        value = value.get(part) if isinstance(value, dict) else None
    if value is None and not is_missing:
        return ""
    if not isinstance(value, str):
        actual = "is missing" if is_missing else f"is {type(value).__name__} instead"
        raise InputError(f"{location}: `{key}` must be a string, but {actual}")
    check_surrogates(value, f" of `{key}` in {location}")
    return value


def read_jsonl(path: str, keys: tuple[str, str]) -> Iterator[SentencePair]:
    """Yield two keys of a file with one JSON object per line; `a.b` is the key b inside a.

    A null is an empty text. Raises InputError if a line is not JSON, or a value is not a string.
    """
    return _select_keys(_read_json_lines(path, "utf-8"), keys, path)


def _read_json_lines(path: str, encoding: str) -> Iterator[NumberedRecord]:
    for number, line in enumerate(read_lines(path, 0, None, encoding), 1):
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            if not line.strip():
                continue
            raise InputError(f"{path}, line {number} must be JSON, but: {error}") from None


def _read_json(path: str, encoding: str) -> Iterator[NumberedRecord]:
    """Yield the records of a JSON file."""
    stream = _JsonStream(_read_text(path, encoding), path)
    if stream.next_character() == "[":
        yield from ((f"record {n}", each) for n, each in enumerate(stream.read_list(), 1))
        return
    content = stream.read_value() if stream.next_character() else None
    if stream.next_character():
        raise InputError(
            f"{path} must have one JSON value, but has several: name it .jsonl if it has one per "
            "line"
        )
    yield from ((f"record {n}", each) for n, each in enumerate(_find_records(content, path), 1))


def _read_text(path: str, encoding: str) -> Iterator[str]:
    """Yield the text of a file in pieces, since it may have a single line."""
    decoder = getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
    with open_decompressed_binary(path) as file:
        try:
            for block in iter(lambda: file.read(READ_BYTES), b""):
                yield decoder.decode(block)
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise InputError(f"{path} must be {encoding.upper()}, but: {error.reason}") from None


class _JsonStream:
    """Parses JSON values one after the other, from a text that is read in pieces."""

    def __init__(self, pieces: Iterator[str], path: str) -> None:
        self._pieces = pieces
        self._path = path
        self._text = ""
        self._offset = 0
        self._num_lines = 1
        self._decoder = json.JSONDecoder()

    def next_character(self) -> str:
        """Return the next character that is not white space, or "" at the end."""
        while True:
            text = self._text
            while self._offset < len(text) and text[self._offset] in _WHITE_SPACE:
                self._offset += 1
            if self._offset < len(text):
                return text[self._offset]
            if not self._read_more():
                return ""

    def _read_more(self, min_characters: int = 1) -> bool:
        """Append the next pieces; return False at the end of the text."""
        parts, length = [self._text[self._offset :]], 0
        for piece in self._pieces:
            parts.append(piece)
            length += len(piece)
            self._num_lines += piece.count("\n")
            if length >= min_characters:
                break
        self._text, self._offset = "".join(parts), 0
        return length > 0

    def read_value(self) -> Any:
        """Return the next value.

        The text is doubled until the value is complete, so that the time is linear.
        """
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._offset)
                if end < len(self._text):  # a number could continue
                    self._offset = end
                    return value
                is_complete = not self._read_more()
                if is_complete:
                    value, self._offset = self._decoder.raw_decode(self._text, self._offset)
                    return value
            except RecursionError:
                raise self._error("it is nested too deeply") from None
            except json.JSONDecodeError as error:
                if not self._read_more(len(self._text)):
                    raise self._error(error.msg, error.pos) from None

    def read_list(self) -> Iterator[Any]:
        """Yield the elements of a list that starts at the next character."""
        self._offset += 1
        if self.next_character() == "]":
            self._offset += 1
        else:
            while True:
                self.next_character()
                yield self.read_value()
                separator = self.next_character()
                self._offset += 1
                if separator == "]":
                    break
                if separator != ",":
                    raise self._error("a comma or ] is missing", self._offset)
        if self.next_character():
            raise self._error("there is text after the list", self._offset)

    def _error(self, message: str, position: int = 0) -> InputError:
        line = self._num_lines - self._text.count("\n", position)
        return InputError(f"{self._path}, line {line} must be JSON, but: {message}")


def _find_records(content: Any, path: str) -> Iterator[Any]:
    """Yield the records of an object: those of its only list of objects, or of its columns.

    Columns are lists, or objects with the same keys, as pandas writes them.
    """
    if isinstance(content, dict):
        lists = [
            v for v in content.values() if isinstance(v, list) and v and isinstance(v[0], dict)
        ]
        if len(lists) == 1:
            yield from lists[0]
            return
        columns = {
            key: list(value.values()) if isinstance(value, dict) else value
            for key, value in content.items()
            if isinstance(value, dict | list)
        }
        lengths = {len(values) for values in columns.values()}
        if len(columns) > 1 and len(lengths) == 1:
            for values in zip(*columns.values(), strict=True):
                yield dict(zip(columns, values, strict=True))
            return
    raise InputError(f"{path} must be a JSON list of objects, but is none")
