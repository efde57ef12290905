"""The time to translate a document grows linearly with its size."""

from __future__ import annotations

import gc
import io
import re
import zipfile
from collections.abc import Callable, Sequence
from time import process_time
from typing import Any

import pytest

from seq2see.documents import (
    TextUnitTranslator,
    parse_document,
    select_units,
    translate_html,
    translate_parsed_document,
)
from seq2see.documents.plain_text import parse_plain_text
from seq2see.errors import InputError
from seq2see.markup.tag_transfer import compute_target_tag_positions
from seq2see.markup.text_units import ClosingTag, IndexRange, InlineTag, OpeningTag, TextUnit
from seq2see.markup.weighted_links import WeightedRangeLink
from seq2see.text import split_sentences
from seq2see.translator import AlignmentLink, Block, Translation, TranslationOptions
from seq2see.translator.placeholders import find_placeholders

WORD = re.compile(r"\w+|[^\w\s]")
WORDPROCESSING = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
NOISE = 0.03
"""Seconds of timing noise that are tolerated; quadratic algorithms take longer."""


class CopyingTranslator:
    """Copies the words of a line except some characters, which it drops."""

    languages = ("en", "fr")

    def __init__(self, dropped: str = "") -> None:
        self.dropped = dropped

    max_sentences_per_line = 1

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        return [self.translate_line(block.text) for block in blocks]

    def translate_line(self, line: str) -> Translation:
        words: list[str] = []
        links: list[AlignmentLink] = []
        length = 0
        for match in WORD.finditer(line):
            if match[0] not in self.dropped:
                links.append(AlignmentLink(*match.span(), length, length + len(match[0]), 1.0))
                words.append(match[0])
                length += len(match[0]) + 1
        return Translation(" ".join(words), -1.0, -1.0, alignment=tuple(links))


COPY, LOSSY = CopyingTranslator(), CopyingTranslator("{}%$")


def measure_seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()  # a collection would visit all objects, including those of torch
    try:
        start = process_time()
        work()
        return process_time() - start
    finally:
        gc.enable()


def translate(name: str, content: bytes) -> bytes:
    """Translate the content of a file of a format."""
    document = parse_document(content, f"x.{name}")
    translator = TextUnitTranslator(COPY)  # type: ignore[arg-type]
    selected = select_units(document, translator.languages)
    return translate_parsed_document(selected, translator).content


def translate_text(translator: Any, text: str, options: TranslationOptions | None = None) -> str:
    """Translate the text of a plain text file."""
    unit_translator = TextUnitTranslator(translator, options)
    return translate_parsed_document(parse_plain_text(text), unit_translator).content


def assert_linear(work: Callable[[int], object], size: int) -> None:
    once, four_times = (measure_seconds(lambda n=n: work(n)) for n in (size, 4 * size))
    assert four_times < 8 * max(once, NOISE)


def repeat_numbered(pattern: str, count: int) -> str:
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
def test_html_takes_linear_time(unit: str, size: int) -> None:
    assert_linear(lambda n: translate_html(LOSSY, repeat_numbered(unit, n)), size)


def test_nested_tags_and_many_attributes_take_linear_time() -> None:
    assert_linear(lambda n: translate_html(COPY, f"{'<b>w ' * n}{'</b>' * n}"), 300)
    assert_linear(lambda n: translate_html(COPY, f"{'<sup>1' * n}w{'</sup>' * n}"), 300)
    assert_linear(lambda n: translate_html(COPY, f"<a {repeat_numbered('b#=1 ', n)}>w</a>"), 2000)


@pytest.mark.parametrize(
    "unit", ["{a#} ", "w {a#} ", "w {a} ", "{a}", "%", "{a,plural,", "%(", "a@", "“", "'"]
)
def test_many_placeholders_take_linear_time(unit: str) -> None:
    assert_linear(lambda n: translate_text(LOSSY, f"Some words {repeat_numbered(unit, n)}"), 500)


def test_format_specifiers_with_many_zeros_take_linear_time() -> None:
    assert_linear(lambda n: find_placeholders(f"%{'0' * n} %(a){'0' * n}"), 5000)
    assert find_placeholders("%05d %(a)05d %-08.3f %00d") == ((0, 4), (5, 12), (13, 20), (21, 25))


def test_long_word_among_many_tags_takes_linear_time() -> None:
    def page(count: int) -> str:
        return f"http://x.org/{'y' * 14 * count} {'<b>w</b> v ' * count}"

    assert_linear(lambda n: translate_html(COPY, page(n)), 300)


def test_sentences_with_unclosed_quotes_are_split_in_linear_time() -> None:
    assert_linear(lambda n: split_sentences("w “" + "“" * n, "en"), 40_000)
    text = f"{'word ' * 4000}ends. Another one."
    assert [span.text[-5:] for span in split_sentences(text, "en")] == ["ends.", " one."]


def build_run(text: str, properties: str = "") -> str:
    return f'<w:r><w:rPr>{properties}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def build_docx(paragraph: str) -> bytes:
    output = io.BytesIO()
    body = f"<w:body><w:p>{paragraph}</w:p></w:body>"
    with zipfile.ZipFile(output, "w") as archive:
        xml = f'<w:document xmlns:w="{WORDPROCESSING}">{body}</w:document>'
        archive.writestr("word/document.xml", xml)
    return output.getvalue()


def build_xliff(source: str) -> bytes:
    unit = f'<trans-unit id="1"><source>{source}</source></trans-unit>'
    return f'<xliff version="1.2"><file><body>{unit}</body></file></xliff>'.encode()


CUE = "1\n00:00:01,0 --> 00:00:02,0\n"
FIELD = '<w:r><w:t>w</w:t><w:fldChar w:fldCharType="begin"/></w:r>'


@pytest.mark.parametrize(
    ("name", "content", "size"),
    [
        (
            "po",
            lambda n: b'msgid "a"\n' * n + b'msgstr ""\n',
            2000,
        ),
        (
            "po",
            lambda n: b'msgid ""\n' + b'"a dog "\n' * n + b'msgstr ""\n',
            1000,
        ),
        (
            "po",
            lambda n: b'msgid "w' + b"<b " * n + b'"\nmsgstr ""\n',
            1000,
        ),
        (
            "srt",
            lambda n: f"{CUE}{'A dog runs' * 2 + chr(10)}".encode() * n,
            300,
        ),
        (
            "srt",
            lambda n: f"{CUE}{'A dog runs' + chr(10)}".encode() + b"w x\n" * n,
            800,
        ),
        (
            "srt",
            lambda n: CUE.encode() + (b"dog " * 20 + b"\n") * n,
            60,
        ),
        (
            "xliff",
            lambda n: build_xliff('<g id="1">w</g> v ' * n),
            500,
        ),
        (
            "xliff",
            lambda n: build_xliff('<mrk mtype="protected">w</mrk> v ' * n),
            300,
        ),
        ("docx", lambda n: build_docx(FIELD * n), 400),
        ("docx", lambda n: build_docx(build_run("w ") * n), 800),
        (
            "docx",
            lambda n: build_docx((build_run("w ") + build_run("v ", "<w:b/>")) * n),
            300,
        ),
    ],
)
def test_document_formats_take_linear_time(
    name: str, content: Callable[[int], bytes], size: int
) -> None:
    assert_linear(lambda n: translate(name, content(n)), size)


@pytest.mark.parametrize("name", ["rFonts", "lang"])
def test_size_of_copied_run_formats_is_limited(name: str) -> None:
    def document(num_breaks: int) -> bytes:
        properties = f'<w:rPr><w:{name} w:val="{"x" * 20_000}"/></w:rPr>'
        return build_docx(f"<w:r>{properties}<w:t>word</w:t>{'<w:br/>' * num_breaks}</w:r>")

    assert len(translate("docx", document(400))) > 20_000
    with pytest.raises(InputError, match=r"\Athe formats of the translation of x.docx .*bytes.*\Z"):
        translate("docx", document(500))


def test_very_long_numbers_are_accepted() -> None:
    assert translate_html(COPY, f"a &#{'1' * 5000}; dog") == "a \ufffd dog"
    header = f'msgid ""\nmsgstr ""\n"Plural-Forms: nplurals={"9" * 5000};\\n"\n'
    assert b"nplurals=9" in translate("po", header.encode())


def test_pair_without_aligned_tokens_takes_nearest_free_token() -> None:
    starts = (0, 2, 4)
    tags = tuple(InlineTag(n, n + 1, -1, OpeningTag(n), ClosingTag(n)) for n in starts)
    unit, links = TextUnit("a b c", tags), [WeightedRangeLink(IndexRange(0, 1), IndexRange(0, 1))]
    for target, expected in (
        ("A B C", [(0, 1), (2, 3), (4, 5)]),
        ("A B", [(0, 1), (2, 3), (3, 3)]),
        ("A", [(0, 1), (1, 1), (1, 1)]),
    ):
        positions = compute_target_tag_positions(unit, target, links)
        assert [position[:2] for position in positions] == expected
