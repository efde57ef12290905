"""Whatever is in a document, four times as much of it takes about four times as long."""

from __future__ import annotations

import gc
import io
import re
import zipfile
from collections.abc import Callable
from time import process_time
from typing import Any

import pytest

from seq2see.documents import docx, po, subtitles, translate_html, translate_text, xliff
from seq2see.documents.document_translator import DocumentTranslator
from seq2see.documents.markup import IndexRange
from seq2see.documents.markup_transfer import TokenAllocation
from seq2see.documents.placeholders import find_placeholders
from seq2see.errors import InputError
from seq2see.text import split_sentences
from seq2see.translator import AlignmentLink, Translation

WORD = re.compile(r"\w+|[^\w\s]")
WORDPROCESSING = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
NOISE = 0.03
"""Seconds that a slow moment of the machine may take; what is quadratic takes more."""


class Fake:
    """Says what it was told, but some characters, which it loses."""

    languages = ("en", "fr")

    def __init__(self, loses: str = "") -> None:
        self.loses = loses

    def translate(
        self, lines: list[str], options: Any = None, **settings: Any
    ) -> list[Translation]:
        return [self.one(line) for line in lines]

    def one(self, line: str) -> Translation:
        words: list[str] = []
        links: list[AlignmentLink] = []
        length = 0
        for match in WORD.finditer(line):
            if match[0] not in self.loses:
                links.append(AlignmentLink(*match.span(), length, length + len(match[0]), 1.0))
                words.append(match[0])
                length += len(match[0]) + 1
        return Translation(" ".join(words), -1.0, -1.0, alignment=tuple(links))


SAME, LOSES = Fake(), Fake("{}%$")


def seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # a collection looks at all that was ever made, torch included
    try:
        start = process_time()
        work()
        return process_time() - start
    finally:
        gc.enable()


def assert_linear(work: Callable[[int], object], size: int) -> None:
    once, four_times = (seconds(lambda n=n: work(n)) for n in (size, 4 * size))
    assert four_times < 8 * max(once, NOISE)


def numbered(pattern: str, count: int) -> str:
    return "".join(pattern.replace("#", str(number)) for number in range(count))


@pytest.mark.parametrize(
    ("unit", "size"),
    [
        ("a <", 4000),
        ("w &", 4000),
        ("w <!--", 4000),
        ('w <a b="', 4000),
        ("<b>w ", 600),
        ("<b>w</b> v ", 600),
        ("<b>%</b> v ", 600),
        ("w <img> ", 600),
        ("w <code>x#</code> v ", 400),
        ("w <code>{x#}</code> v ", 400),
        ("The <b>dog</b> runs # miles. ", 200),
    ],
)
def test_pages(unit: str, size: int) -> None:
    assert_linear(lambda n: translate_html(LOSES, numbered(unit, n)), size)


def test_tags_that_nest_and_tags_with_many_attributes() -> None:
    assert_linear(lambda n: translate_html(SAME, f"{'<b>w ' * n}{'</b>' * n}"), 300)
    assert_linear(lambda n: translate_html(SAME, f"{'<sup>1' * n}w{'</sup>' * n}"), 300)
    assert_linear(lambda n: translate_html(SAME, f"<a {numbered('b#=1 ', n)}>w</a>"), 2000)


@pytest.mark.parametrize(
    "unit", ["{a#} ", "w {a#} ", "w {a} ", "{a}", "%", "{a,plural,", "%(", "a@", "“", "'"]
)
def test_sentences_with_many_placeholders(unit: str) -> None:
    assert_linear(lambda n: translate_text(LOSES, f"Some words {numbered(unit, n)}"), 500)


def test_zeros_that_are_signs_or_digits() -> None:
    assert_linear(lambda n: find_placeholders(f"%{'0' * n} %(a){'0' * n}"), 5000)
    assert find_placeholders("%05d %(a)05d %-08.3f %00d") == ((0, 4), (5, 12), (13, 20), (21, 25))


def test_a_long_link_among_many_marks() -> None:
    def page(count: int) -> str:
        return f"http://x.org/{'y' * 14 * count} {'<b>w</b> v ' * count}"

    assert_linear(lambda n: translate_html(SAME, page(n)), 300)


def test_quotes_without_an_end_are_split_in_windows() -> None:
    assert_linear(lambda n: split_sentences("w “" + "“" * n, "en"), 40_000)
    text = f"{'word ' * 4000}ends. Another one."
    assert [span.text[-5:] for span in split_sentences(text, "en")] == ["ends.", " one."]


def run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def word_document(paragraph: str) -> bytes:
    packed = io.BytesIO()
    body = f"<w:body><w:p>{paragraph}</w:p></w:body>"
    with zipfile.ZipFile(packed, "w") as archive:
        xml = f'<w:document xmlns:w="{WORDPROCESSING}">{body}</w:document>'
        archive.writestr("word/document.xml", xml)
    return packed.getvalue()


def xliff_file(source: str) -> bytes:
    unit = f'<trans-unit id="1"><source>{source}</source></trans-unit>'
    return f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'.encode()


CUE = "1\n00:00:01,0 --> 00:00:02,0\n"
FIELD = '<w:r><w:t>w</w:t><w:fldChar w:fldCharType="begin"/></w:r>'


@pytest.mark.parametrize(
    ("translate", "content", "size"),
    [
        (po.translate, lambda n: b'msgid "a"\n' * n + b'msgstr ""\n', 2000),
        (po.translate, lambda n: b'msgid ""\n' + b'"a dog "\n' * n + b'msgstr ""\n', 1000),
        (po.translate, lambda n: b'msgid "w' + b"<b " * n + b'"\nmsgstr ""\n', 1000),
        (subtitles.translate, lambda n: f"{CUE}{'A dog runs' * 2 + chr(10)}".encode() * n, 300),
        (
            subtitles.translate,
            lambda n: f"{CUE}{'A dog runs' + chr(10)}".encode() + b"w x\n" * n,
            800,
        ),
        (subtitles.translate, lambda n: CUE.encode() + (b"dog " * 20 + b"\n") * n, 60),
        (xliff.translate, lambda n: xliff_file('<g id="1">w</g> v ' * n), 500),
        (xliff.translate, lambda n: xliff_file('<mrk mtype="protected">w</mrk> v ' * n), 300),
        (docx.translate, lambda n: word_document(FIELD * n), 400),
        (docx.translate, lambda n: word_document(run("w ") * n), 800),
        (docx.translate, lambda n: word_document((run("w ") + run("v ", "<w:b/>")) * n), 300),
    ],
)
def test_files(translate: Callable[..., bytes], content: Callable[[int], bytes], size: int) -> None:
    assert_linear(lambda n: translate(content(n), "x", DocumentTranslator(SAME)), size)


def test_a_format_that_would_be_copied_beyond_all_measure_is_refused() -> None:
    huge = run("words", f'<w:rFonts w:ascii="{"x" * 30_000}"/>')
    with pytest.raises(InputError, match="format of a run must have at most 20,000 bytes"):
        docx.translate(word_document(huge), "x", DocumentTranslator(SAME))


def test_numbers_without_an_end() -> None:
    assert translate_html(SAME, f"a &#{'1' * 5000}; dog") == "a \ufffd dog"
    header = f'msgid ""\nmsgstr ""\n"Plural-Forms: nplurals={"9" * 5000};\\n"\n'
    assert b"nplurals=9" in po.translate(header.encode(), "x", DocumentTranslator(SAME))


def test_a_room_gives_the_nearest_atom_that_is_free() -> None:
    room = TokenAllocation(IndexRange(2, 8))
    assert room.is_unused
    assert [room.find_nearest_free(atom) for atom in (0, 4, 8)] == [2, 4, 7]
    for stretch in (IndexRange(3, 4), IndexRange(5, 6), IndexRange(4, 5)):
        room.allocate(stretch)
    assert [room.find_nearest_free(atom) for atom in (3, 4, 5)] == [2, 2, 6]
    for stretch in (IndexRange(6, 8), IndexRange(2, 3)):
        room.allocate(stretch)
    assert room.find_nearest_free(4) is None
    assert TokenAllocation(IndexRange(3, 3)).find_nearest_free(3) is None
