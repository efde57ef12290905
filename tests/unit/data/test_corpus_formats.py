"""Files that other programs wrote are read to the right pairs; a header is never a pair."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given, strategies as st

from seq2see.cli.inputs import build_corpus_configs
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.formats.column_names import are_column_names, choose_columns
from seq2see.data.formats.opened_corpus import OpenedCorpus
from seq2see.data.formats.sniffing import find_corpus_format
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError
from seq2see.registries import CORPUS_FORMATS

FILES = Path(__file__).parent / "corpus_files"
"""Written by pandas, datasets, polib and translate-toolkit."""
PAIRS = [
    SentencePair("A dog runs.", "Ein Hund läuft."),
    SentencePair('He said "hello", then left; twice.', 'Er sagte "Hallo", dann ging er; zweimal.'),
    SentencePair("Two\nlines.", "Zwei\nZeilen."),
    SentencePair("No tab\there.", "Kein Tab\thier."),
    SentencePair("100", "100"),
]


def open_file(path: Path, *others: Path, **settings) -> OpenedCorpus:
    languages = settings.pop("languages", None)
    (config,) = build_corpus_configs([str(path), *map(str, others)])
    return Corpus(config.replace(**settings), languages).open()


def read(path: Path, *others: Path, **settings) -> list[SentencePair]:
    return list(open_file(path, *others, **settings).read(lambda _: None))


def replace_spaces(pairs: Sequence[SentencePair]) -> list[SentencePair]:
    return [SentencePair(*(" ".join(text.split()) for text in pair)) for pair in pairs]


@pytest.mark.parametrize(
    "name",
    [
        *("pandas_index.csv", "pandas_semicolon_cp1252.csv", "pandas.tsv", "pandas_utf16.tsv"),
        *("pandas.xlsx", "named.xlsx", "pandas_columns.json", "pandas_records.json"),
        *("pandas.jsonl", "nested.jsonl", "pandas.parquet", "nested.parquet", "opus_books"),
        *("toolkit.tmx", "toolkit.xlf", "toolkit2.xlf"),
    ],
)
@pytest.mark.parametrize("languages", [None, ("en", "de"), ("de", "en")])
def test_files_of_other_programs_are_read(name: str, languages: tuple[str, str] | None) -> None:
    expected = [SentencePair(*pair[::-1]) for pair in PAIRS] if languages == ("de", "en") else PAIRS
    if name.startswith("toolkit"):  # a line break in a segment is white space
        expected = [pair if "\n" not in pair[0] else replace_spaces([pair])[0] for pair in expected]
    opened = open_file(FILES / name, languages=languages)
    assert opened.languages == (languages or ("en", "de"))
    assert list(opened.read(lambda _: None)) == expected


def test_po_file_of_polib_is_read() -> None:
    skipped: list[int] = []
    opened = open_file(FILES / "polib.po")
    assert list(opened.read(skipped.append)) == [
        *PAIRS,
        SentencePair("%d file", "%d Datei"),
        SentencePair("%d files", "%d Dateien"),
    ]
    assert opened.languages == ("en", "de")
    assert skipped == [6, 7]  # without a translation, and fuzzy


def test_detected_properties_are_reported() -> None:
    (note,) = open_file(FILES / "pandas_semicolon_cp1252.csv").notes
    assert note == (
        "pandas_semicolon_cp1252.csv: read as Windows-1252; the columns are separated by "
        "semicolons; the first row is a header; source is `en`, target is `de`"
    )
    (note,) = open_file(FILES / "pandas_utf16.tsv").notes
    assert "read as UTF-16; cells are quoted; the first row is a header" in note
    note, keys = open_file(FILES / "opus_books").notes
    assert "the split train is read, not" in note
    assert keys.endswith("source is `translation.en`, target is `translation.de`")


@pytest.mark.parametrize("separator", ",;\t|")
@pytest.mark.parametrize("header", [None, ["Source", "Target"], ["English", "text_de"]])
def test_csv_separator_and_header_are_detected(
    tmp_path: Path, separator: str, header: list[str] | None
) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerows([*([header] if header else []), *PAIRS])
    assert read(path) == PAIRS


cells = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]))


@given(st.lists(st.tuples(cells, cells), min_size=1))
def test_csv_of_any_text_is_read_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([("en", "de"), *rows])
    assert read(path) == [SentencePair(*row) for row in rows]


def test_names_and_numbers_select_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,en,de,fr\n1,a,b,c\n2,d,e,f\n", "utf-8")
    assert read(path, languages=("fr", "en")) == [SentencePair("c", "a"), SentencePair("f", "d")]
    assert read(path, columns=("de", "fr")) == [SentencePair("b", "c"), SentencePair("e", "f")]
    assert read(path, columns=(4, 2)) == [SentencePair("c", "a"), SentencePair("f", "d")]
    with pytest.raises(ConfigError, match="which has the columns id, en, de, fr"):
        read(path)
    with pytest.raises(ConfigError, match=r"must name columns of a.csv \(id, en, de, fr\), but"):
        read(path, columns=("en", "ja"))


def test_number_columns_without_header_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("17\tHello.\t23\tHallo.\n18\tBye.\t24\tTschüs.\n", "utf-8")
    opened = open_file(path)
    assert next(opened.read(lambda _: None)) == SentencePair("Hello.", "Hallo.")
    assert opened.notes == ("a.tsv: columns 2 and 4 are read",)


def test_quotes_in_plain_tsv_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('"Yes," she said.\t"Ja", sagte sie.\n"No."\tNein.\n', "utf-8")
    assert read(path) == [SentencePair('"Yes," she said.', '"Ja", sagte sie.'), ('"No."', "Nein.")]


def test_sheets_with_the_same_header_are_read(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    first = book.active
    first.append(["id", "en", "de"])
    first.append([1, "one", "eins"])
    second = book.create_sheet("second")
    second.append(["id", "en", "de"])
    second.append([2, "two", None])
    book.create_sheet("empty")
    book.create_sheet("notes").append(["who", "when"])
    book.save(tmp_path / "a.xlsx")
    opened = open_file(tmp_path / "a.xlsx")
    assert list(opened.read(lambda _: None)) == [("one", "eins"), ("two", "")]
    assert "without this header are not read: notes" in opened.notes[0]


def test_ambiguous_keys_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": "x", "b": {"c": "y", "d": "z"}, "n": 3}\n', "utf-8")
    with pytest.raises(ConfigError, match=r"which has the keys a, b.c, b.d: for example b.c,b.d"):
        read(path)
    assert read(path, columns=("b.d", "a")) == [SentencePair("z", "x")]


def test_json_list_is_read_in_pieces(tmp_path: Path) -> None:
    pairs = [SentencePair(f"source {i}" * 20, "]},{ \\ " + str(i)) for i in range(5000)]
    path = tmp_path / "a.json"
    records = [{"en": s, "de": t} for s, t in pairs]
    for indent in (None, 2):
        path.write_text(json.dumps(records, indent=indent), "utf-8")
        assert read(path) == pairs
    path.write_text(json.dumps({"version": 1, "data": records}), "utf-8")
    assert read(path) == pairs


def test_tmx_languages_follow_the_header(tmp_path: Path) -> None:
    text = (FILES / "toolkit.tmx").read_text("utf-8")
    path = tmp_path / "a.tmx"
    path.write_text(text.replace('srclang="en-US"', 'srclang="de"'), "utf-8")
    opened = open_file(path)
    assert opened.languages == ("de", "en")
    assert next(opened.read(lambda _: None)) == PAIRS[0][::-1]
    third = '<tuv xml:lang="fr"><seg>x</seg></tuv></tu>'
    path.write_text(text.replace("</tu>", third, 1), "utf-8")
    with pytest.raises(ConfigError, match="a.tmx, which has the languages en-us, de-de, fr"):
        open_file(path)


SRT = {
    "en": "1\n00:00:01,000 --> 00:00:02,000\n<i>Hello.</i>\n\n"
    "2\n00:00:03,000 --> 00:00:04,000\nHow are\nyou?\n\n"
    "3\n00:00:05,000 --> 00:00:06,000\nOnly here.\n\n"
    "4\n00:00:08,000 --> 00:00:12,000\nOne. Two.\n",
    "de": "1\n00:00:01,100 --> 00:00:02,200\nHallo.\n\n"
    "2\n00:00:03,000 --> 00:00:04,500\n{\\an8}Wie geht's?\n\n"
    "3\n00:00:08,000 --> 00:00:09,900\nEins.\n\n4\n00:00:10,000 --> 00:00:12,000\nZwei.\n",
}


def test_subtitles_are_paired_by_time(tmp_path: Path) -> None:
    for language, text in SRT.items():
        (tmp_path / f"film.{language}.srt").write_text(text, "utf-8")
    skipped: list[int] = []
    opened = open_file(tmp_path / "film.en.srt", tmp_path / "film.de.srt")
    assert list(opened.read(skipped.append)) == [
        ("Hello.", "Hallo."),
        ("How are you?", "Wie geht's?"),
        ("One. Two.", "Eins. Zwei."),
    ]
    assert skipped == [3]


ENCODED = {
    "cp1252": "Das Mädchen läuft über die Brücke.\nC’est l’été à côté.\n",
    "gb18030": "女孩在草地上吃苹果。\n一个男人跑过桥。\n",
    "utf-16": "Das Mädchen läuft.\n女孩在草地上吃苹果。\n",
    "utf-16-le": "Das Mädchen läuft.\nUnd weiter.\n",
    "utf-32": "Das Mädchen läuft.\n",
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_encodings_are_recognized(tmp_path: Path, encoding: str) -> None:
    lines = ENCODED[encoding].splitlines()
    (tmp_path / "a.en").write_bytes(ENCODED[encoding].encode(encoding))
    (tmp_path / "a.de").write_text("x\n" * len(lines), "utf-8")
    opened = open_file(tmp_path / "a.en", tmp_path / "a.de")
    assert [pair.source for pair in opened.read(lambda _: None)] == lines
    assert len(opened.notes) == 1
    assert opened.notes[0].startswith("a.en: read as ")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "Dziewczynka je jabłko na łące.\nOn śpiewa.\n"),
        ("cp1251", "Девочка ест яблоко на лугу.\nМужчина бежит через мост.\n"),
        ("shift_jis", "女の子は草原でりんごを食べています。\n男の人が橋を渡っています。\n"),
        ("euc_kr", "소녀가 초원에서 사과를 먹고 있습니다.\n남자가 다리를 건너 달립니다.\n"),
    ],
)
def test_other_encodings_are_rejected_with_a_command(
    tmp_path: Path, encoding: str, text: str
) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_bytes(text.encode(encoding))
    label = encoding.upper().replace("_", "-")
    with pytest.raises(InputError, match=rf"probably {label}: convert it with `iconv -f {label} "):
        open_file(tmp_path / "a.en", tmp_path / "a.de")


DAMAGED: dict[str, tuple[bytes, str]] = {
    "open.csv": (b'en,de\na,b\n"c,d\n', "line 3 must be CSV, but: unexpected end of data"),
    "after.csv": (b'en,de\na,b\n"c" x,d\n', "line 3 must be CSV, but: ',' expected after '\"'"),
    "wide.csv": (b"en,de\na,b\nc,d,e\n", "line 3 must have 2 columns, but has 3 instead: cells"),
    "narrow.csv": (b"en,de\na,b\nc\n", "line 3 must have at least 2 columns, but has 1 instead"),
    "one.csv": (b"just text\nand more, of it\n", "must be a table with at least two columns"),
    "zip.csv": (b"PK\x03\x04\0\0", "must be text, but is a ZIP archive or an office document"),
    "cut.json": (b'[{"en": "a", "de": "b"},\n{"en": "a"', "line 2 must be JSON, but: "),
    "two.json": (b'{"en": "a", "de": "b"}\n{"en": "a", "de": "b"}', "name it .jsonl if it has"),
    "comma.json": (b'[{"en": "a", "de": "b"}\n{"en": "x"}]', "line 2 must be JSON, but: a comma"),
    "text.xlsx": (b"text", "must be an XLSX file, but: File is not a zip file"),
    "text.parquet": (b"text", "text.parquet cannot be read: "),
    "cut.tmx": ((FILES / "toolkit.tmx").read_bytes()[:800], "must be TMX, but: "),
    "cut.xlf": ((FILES / "toolkit.xlf").read_bytes()[:600], "must be XLIFF, but: "),
    "other.xlf": (b"<html/>", "must have translated units, but has none"),
    "syntax.po": (b'msgid "a"\nmsgstr "b\n', "line 2 must be a line of a PO file"),
    "none.po": (b'msgid "a"\nmsgstr ""\n', "must have messages with translations, but has 1"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_file_is_rejected_in_one_line(tmp_path: Path, name: str) -> None:
    content, message = DAMAGED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        read(tmp_path / name)
    assert message in str(error.value)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("deu.txt", b"Go.\tGeh.\nHi.\tHallo.\n", "tsv"),
        ("lines.txt", b"Go.\nHi.\n", None),
        ("lines.en", b"a\tb\na\tb\n", None),
        ("memory.xml", (FILES / "toolkit.tmx").read_bytes(), "tmx"),
        ("units.sdlxliff", (FILES / "toolkit.xlf").read_bytes(), "xliff"),
        ("messages", (FILES / "polib.po").read_bytes(), "po"),
        ("records", b'[{"en": "a"}]', "json"),
        ("records", b'{"en": "a"}\n', "jsonl"),
        ("film", SRT["en"].encode(), "subtitles"),
        ("table", (FILES / "pandas.xlsx").read_bytes(), "xlsx"),
        ("table", (FILES / "pandas.parquet").read_bytes(), "parquet"),
    ],
)
def test_unnamed_formats_are_recognized(
    tmp_path: Path, name: str, content: bytes, expected: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert find_corpus_format(str(tmp_path / name)) == expected


@pytest.mark.parametrize(
    ("source", "target", "is_header"),
    [
        *[("en", "de", True), ("English", "German", True), ("text_en", "text_pt_BR", True)],
        *[("source", "target", True), ("src", "translation", True), ("Quelle", "Ziel", True)],
        *[("原文", "译文", True), ("sourceText", "targetText", True), ("SOURCE", "TARGET", True)],
        *[("It", "Es", False), ("source", "Quelle", False), ("English", "Englisch", False)],
        *[("target", "Ziel", False), ("a dog", "ein Hund", False), ("", "", False)],
        *[("source 1", "target 1", False), ("The source", "the target", False)],
    ],
)
def test_header_is_recognized(source: str, target: str, is_header: bool) -> None:
    assert are_column_names(source, target) is is_header


def test_columns_are_chosen_by_language_then_by_side() -> None:
    assert choose_columns(["id", "de", "en"], ("en", "de")) == (2, 1)
    assert choose_columns(["id", "de", "en"]) == (1, 2)
    assert choose_columns(["en-GB", "en-US"], ("en-US", "en-GB")) == (1, 0)
    assert choose_columns(["score", "target", "source"]) == (2, 1)
    assert choose_columns(["source_de", "target_en"], ("en", "de")) == (1, 0)
    assert choose_columns(["en", "de", "fr"]) is None
    assert choose_columns(["source_fr", "target_de"], ("en", "de")) is None


@pytest.mark.parametrize("corpus_format", CORPUS_FORMATS.values(), ids=CORPUS_FORMATS)
def test_every_format_has_a_function(corpus_format) -> None:
    from importlib import import_module  # noqa: PLC0415

    module, function = corpus_format.function.split(".")
    opener: Callable = getattr(import_module(f"seq2see.data.formats.{module}"), function)
    assert opener.__doc__


def test_docs_list_every_format_and_extension() -> None:
    text = (Path(__file__).parents[3] / "docs" / "data.md").read_text("utf-8")
    for corpus_format in CORPUS_FORMATS.values():
        (row,) = [
            line for line in text.splitlines() if line.startswith(f"| `{corpus_format.name}`")
        ]
        assert all(f"`{extension}`" in row for extension in corpus_format.extensions)
        assert ("numbers from 1" in row) == (corpus_format.columns == "columns")


def test_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"without openpyxl: install it with `pip install 'seq2"):
        read(FILES / "pandas.xlsx")


def test_config_names_the_formats() -> None:
    assert CorpusConfig(files=["a.csv"], columns=("en", "de")).resolved_format == "csv"
    with pytest.raises(ConfigError, match="`columns` must not be set for the format po"):
        CorpusConfig(files=["a.po"], columns=("en", "de"))
