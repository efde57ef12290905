"""Tables: CSV, TSV and XLSX, with or without a header.

The first row is a header if `columns` are names, or if two of its cells are names of columns as
`column_names` recognizes them: two languages, or a source and a target. Without a header, the
source and the target are the first two columns that have other cells than numbers.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any

from seq2see.data.formats.column_names import are_column_names, choose_columns, parse_column_name
from seq2see.data.formats.opened_corpus import CorpusRequest, LanguagePair, OpenedCorpus
from seq2see.data.formats.optional_packages import import_package
from seq2see.data.readers import STANDARD_INPUT, SentencePair, read_lines
from seq2see.data.text_encodings import UTF_8, detect_encoding
from seq2see.errors import ConfigError, InputError, Problem

_SAMPLE_ROWS = 1000
"""Number of rows by which separator, quoting and columns are detected."""
_MAX_CELL_CHARACTERS = 10_000_000
_MIN_REGULAR = 0.5
"""Minimum share of rows with the usual number of cells, for a separator that is detected."""
_SEPARATORS = ",;\t|"
_SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}

Row = Sequence[str]
NumberedRow = tuple[int, Row]
"""A row with its line or row number, from 1."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Which columns are read, and whether the first row is a header."""

    columns: tuple[int, int]
    """Indices of the source and the target column."""
    header: Row | None = None
    num_columns: int | None = None
    """Number of cells that each row must have; None if additional cells are ignored."""

    @property
    def languages(self) -> LanguagePair:
        """The languages that the header names."""
        if self.header is None:
            return None, None
        source, target = (parse_column_name(self.header[i]).language for i in self.columns)
        return source, target

    @property
    def note(self) -> str:
        """What was detected, or an empty string."""
        if self.header is not None:
            source, target = (self.header[i].strip() or f"column {i + 1}" for i in self.columns)
            return f"the first row is a header; source is `{source}`, target is `{target}`"
        if self.columns != (0, 1):
            return f"columns {self.columns[0] + 1} and {self.columns[1] + 1} are read"
        return ""


def detect_layout(rows: Sequence[Row], request: CorpusRequest) -> TableLayout:
    """Return the layout of a table by its first rows.

    Raises ConfigError if the columns are ambiguous or do not exist.
    """
    first = rows[0] if rows else []
    columns = request.columns
    if columns and not all(isinstance(column, int) for column in columns):
        source, target = (_find_named_column(column, first, request) for column in columns)
        return TableLayout((source, target), first)
    if columns:
        source, target = (int(column) - 1 for column in columns)
        cells = [first[i] if i < len(first) else "" for i in (source, target)]
        return TableLayout((source, target), first if are_column_names(*cells) else None)
    if header := _detect_header(first, request):
        return TableLayout(header, first)
    return TableLayout(_find_text_columns(rows))


def _find_named_column(column: int | str, header: Row, request: CorpusRequest) -> int:
    """Return the index of a column with this name, or number."""
    if isinstance(column, int):
        return column - 1
    names = [name.strip() for name in header]
    matches = [i for i, name in enumerate(names) if name == column] or [
        i for i, name in enumerate(names) if name.casefold() == column.casefold()
    ]
    if len(matches) != 1:
        known = ", ".join(names)
        raise ConfigError(
            Problem("columns", f"must name columns of {request.name} ({known}), but has {column}")
        )
    return matches[0]


def _detect_header(first: Row, request: CorpusRequest) -> tuple[int, int] | None:
    """Return the indices of source and target if the first row is a header, otherwise None."""
    known = [i for i, name in enumerate(first) if parse_column_name(name).is_known]
    names = [first[i] for i in known]
    chosen = choose_columns(names, request.languages)
    if chosen:
        source, target = (known[i] for i in chosen)
        is_header = are_column_names(first[source], first[target])
        return (source, target) if is_header else None
    languages = [name for name in names if parse_column_name(name).language]
    if len({parse_column_name(name).language for name in languages}) > 1:
        if request.is_bilingual or len(languages) > 2:
            request.raise_columns_unknown("columns", [name.strip() for name in first])
        return None
    return None


def _find_text_columns(rows: Sequence[Row]) -> tuple[int, int]:
    """Return the first two columns that have a cell that is not a number, otherwise 0 and 1."""
    num_columns = max(map(len, rows), default=0)
    if num_columns <= 2:
        return 0, 1
    has_text = [
        any(i < len(row) and row[i].strip() and not _is_number(row[i]) for row in rows)
        for i in range(num_columns)
    ]
    text_columns = [i for i, is_text in enumerate(has_text) if is_text]
    return (text_columns[0], text_columns[1]) if len(text_columns) > 1 else (0, 1)


def _is_number(cell: str) -> bool:
    with suppress(ValueError):
        float(cell)
        return True
    return False


def select_columns(
    rows: Iterable[NumberedRow], layout: TableLayout, path: str, unit: str = "line"
) -> Iterator[SentencePair]:
    """Yield the cells of two columns; raise InputError if a row has too few or too many cells."""
    source, target = layout.columns
    min_cells, max_cells = max(layout.columns) + 1, layout.num_columns
    iterator = iter(rows)
    if layout.header is not None:
        next(iterator, None)
    for number, row in iterator:
        if len(row) < min_cells:
            raise InputError(
                f"{path}, {unit} {number} must have at least {min_cells} columns, but has "
                f"{len(row)} instead"
            )
        if max_cells is not None and len(row) > max_cells:
            raise InputError(
                f"{path}, {unit} {number} must have {max_cells} columns, but has {len(row)} "
                "instead: cells that contain the separator must be quoted"
            )
        yield SentencePair(row[source], row[target])


# --- TSV and CSV ---


def read_tsv(
    path: str, columns: tuple[int, int] = (1, 2), encoding: str = "utf-8"
) -> Iterator[SentencePair]:
    """Yield two columns, counted from 1, of a table without header. Quotes are part of the text.

    Raises InputError if a line has too few columns.
    """
    layout = TableLayout((columns[0] - 1, columns[1] - 1))
    return select_columns(_split_lines(path, encoding), layout, path)


def _split_lines(path: str, encoding: str) -> Iterator[NumberedRow]:
    return ((n, line.split("\t")) for n, line in enumerate(read_lines(path, 0, None, encoding), 1))


def open_tsv(request: CorpusRequest) -> OpenedCorpus:
    """Open a table with tabs between the columns.

    Cells are quoted as in CSV if all of them are, or if one has doubled quotes or a line break in
    its quotes; otherwise quotes are part of the text. Standard input has no header and no quoting.
    """
    path = request.path
    if path == STANDARD_INPUT:
        columns = request.columns or (1, 2)
        return OpenedCorpus(lambda _: read_tsv(path, (int(columns[0]), int(columns[1]))))
    encoding = detect_encoding(path)
    lines = list(islice(read_lines(path, encoding=encoding.name), _SAMPLE_ROWS))
    if _is_quoted(lines):
        read_rows = partial(_read_quoted_rows, path, encoding.name, "\t", 0)
        return _open_rows(read_rows, request, [encoding.note, "cells are quoted"], is_strict=False)
    read_rows = partial(_split_lines, path, encoding.name)
    return _open_rows(read_rows, request, [encoding.note], is_strict=False)


def open_csv(request: CorpusRequest) -> OpenedCorpus:
    """Open a table with commas, semicolons, tabs or bars between the columns, as is detected."""
    path = request.path
    encoding = UTF_8 if path == STANDARD_INPUT else detect_encoding(path)
    lines = list(islice(read_lines(path, encoding=encoding.name), _SAMPLE_ROWS))
    num_skipped = 0
    if lines and lines[0][:4].lower() == "sep=" and len(lines[0]) == 5:  # written for Excel
        separator, num_skipped = lines[0][4], 1
    else:
        separator = _detect_separator(lines, path)
    notes = [encoding.note]
    if separator != ",":
        name = _SEPARATOR_NAMES.get(separator, repr(separator))
        notes.append(f"the columns are separated by {name}")
    read_rows = partial(_read_quoted_rows, path, encoding.name, separator, num_skipped)
    return _open_rows(read_rows, request, notes, is_strict=True)


def _open_rows(
    read_rows: Callable[[], Iterator[NumberedRow]],
    request: CorpusRequest,
    notes: Sequence[str],
    *,
    is_strict: bool,
) -> OpenedCorpus:
    """Open rows of text; with `is_strict`, all rows must have the same number of cells."""
    rows = [row for _, row in islice(read_rows(), _SAMPLE_ROWS)]
    layout = detect_layout(rows, request)
    if is_strict:
        usual = Counter(map(len, rows)).most_common(1)
        num_columns = len(layout.header) if layout.header else usual[0][0] if usual else None
        layout = TableLayout(layout.columns, layout.header, num_columns)
    layout_note = "" if request.columns and not layout.header else layout.note
    detected = [note for note in (*notes, layout_note) if note]
    return OpenedCorpus(
        lambda _: select_columns(read_rows(), layout, request.path),
        layout.languages,
        (f"{request.name}: {'; '.join(detected)}",) if detected else (),
    )


def _read_quoted_rows(
    path: str, encoding: str, separator: str, num_skipped: int
) -> Iterator[NumberedRow]:
    """Yield the rows of a table with quoted cells, which may contain line breaks.

    Empty lines are skipped. Raises InputError with the line for text after a closing quote, and
    for a quote that is not closed.
    """
    lines = (f"{line}\n" for line in read_lines(path, num_skipped, None, encoding))
    csv.field_size_limit(_MAX_CELL_CHARACTERS)
    reader = csv.reader(lines, delimiter=separator, strict=True)
    start = num_skipped + 1
    try:
        for row in reader:
            if row:
                yield start, row
            start = num_skipped + reader.line_num + 1
    except csv.Error as error:
        end = num_skipped + reader.line_num
        lines_text = f"line {start}" if end <= start else f"lines {start} to {end}"
        raise InputError(f"{path}, {lines_text} must be CSV, but: {error}") from None


def _parse_sample(lines: Sequence[str], separator: str) -> list[Row] | None:
    """Return the rows of a sample; None if it is not valid. The last row may be incomplete."""
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=separator, strict=True)
    rows: list[Row] = []
    try:
        rows.extend(row for row in reader if row)
    except csv.Error as error:
        if "unexpected end of data" not in str(error) or not rows:
            return None
    return rows


def _detect_separator(lines: Sequence[str], path: str) -> str:
    """Return the separator for which most rows have the same number of cells, at least two."""
    shares: dict[str, float] = {}
    for separator in _SEPARATORS:
        rows = _parse_sample(lines, separator)
        if rows:
            num_cells, count = Counter(map(len, rows)).most_common(1)[0]
            shares[separator] = count / len(rows) if num_cells > 1 else 0.0
    best = max(shares, key=lambda separator: shares[separator], default=",")
    if lines and shares.get(best, 0.0) < _MIN_REGULAR and (shares or "," in lines[0]):
        if not shares:
            return ","  # the error is reported with its line
        raise InputError(
            f"{path} must be a table with at least two columns, but its rows have different "
            "numbers of commas, semicolons, tabs and bars"
        )
    return best


def _is_quoted(lines: Sequence[str]) -> bool:
    """Return whether the cells of a TSV file are quoted as in CSV."""
    if not any(cell.startswith('"') for line in lines for cell in line.split("\t")):
        return False
    rows = _parse_sample(lines, "\t")
    if not rows or len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        return False
    cells = list(chain.from_iterable(line.split("\t") for line in lines))
    text_cells = [cell for cell in cells if cell and not _is_number(cell)]
    are_all_quoted = all(cell.startswith('"') for cell in text_cells)
    has_line_breaks = any("\n" in cell for row in rows for cell in row)
    has_doubled = any('""' in cell[1:-1] and cell.startswith('"') for cell in cells)
    return are_all_quoted or has_line_breaks or has_doubled


# --- XLSX ---


def open_xlsx(request: CorpusRequest) -> OpenedCorpus:
    """Open the first sheet with text, and all other sheets with the same header."""
    samples = {
        name: [row for _, row in islice(rows, _SAMPLE_ROWS)] for name, rows in _read_sheets(request)
    }
    samples = {name: rows for name, rows in samples.items() if rows}
    if not samples:
        raise InputError(f"{request.path} must have rows with text, but has none")
    first = next(iter(samples))
    layout = detect_layout(samples[first], request)
    names = [name for name, rows in samples.items() if name == first or rows[0] == layout.header]
    others = [name for name in samples if name not in names]
    notes = [
        layout.note,
        f"sheets read: {', '.join(names)}" if len(samples) > 1 else "",
        f"sheets without this header are not read: {', '.join(others)}" if others else "",
    ]

    def read() -> Iterator[SentencePair]:
        for name, rows in _read_sheets(request):
            if name in names:
                padded = (_pad(row, layout) for row in rows)
                yield from select_columns(padded, layout, request.path, f"sheet {name}, row")

    detected = "; ".join(filter(None, notes))
    return OpenedCorpus(
        lambda _: read(), layout.languages, (f"{request.name}: {detected}",) if detected else ()
    )


def _pad(row: NumberedRow, layout: TableLayout) -> NumberedRow:
    """Return a row with empty cells at the end, which the file may leave out."""
    number, cells = row
    return number, [*cells, *[""] * (max(layout.columns) + 1 - len(cells))]


def _read_sheets(request: CorpusRequest) -> Iterator[tuple[str, Iterator[NumberedRow]]]:
    """Yield the name of each sheet with an iterator over its rows that are not empty."""
    openpyxl = import_package("openpyxl", request.path)
    try:
        book = openpyxl.load_workbook(request.path, read_only=True, data_only=True)
        for sheet in book.worksheets:
            yield sheet.title, _read_sheet_rows(sheet)
        book.close()
    except (InputError, OSError):
        raise
    except Exception as error:  # openpyxl raises errors of zipfile, XML parsers and its own
        message = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{request.path} must be an XLSX file, but: {message}") from None


def _read_sheet_rows(sheet: Any) -> Iterator[NumberedRow]:
    for number, values in enumerate(sheet.iter_rows(values_only=True), 1):
        if any(value is not None for value in values):
            yield number, ["" if value is None else str(value) for value in values]
