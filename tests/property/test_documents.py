"""Properties of translated documents that hold for every document and every translator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import unescape
from random import Random
from typing import Any

import lxml.html
import polib
from hypothesis import given, strategies as st

from seq2see.documents import (
    TextUnitTranslator,
    translate_html,
    translate_parsed_document,
)
from seq2see.documents.html_tokenizer import tokenize_html
from seq2see.documents.plain_text import parse_plain_text
from seq2see.documents.po import format_po_field, parse_po_entries
from seq2see.markup.tag_transfer import compute_target_tag_positions
from seq2see.markup.text_units import (
    ClosingTag,
    IndexRange,
    MarkupNode,
    OpeningTag,
    StandaloneTag,
    TextUnit,
)
from seq2see.markup.weighted_links import WeightedRangeLink
from seq2see.translator import (
    AlignmentLink,
    Block,
    SourceText,
    TextTranslator,
    Translation,
    TranslationOptions,
)
from seq2see.translator.placeholders import find_placeholders

WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


class CopyingTranslator:
    """Returns each line unchanged."""

    languages = ("en", "en")

    max_sentences_per_line = 1

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        return [
            Translation(each.text, 0.0, 0.0, alignment=self.links(each.text)) for each in blocks
        ]

    @staticmethod
    def links(line: str) -> tuple[AlignmentLink, ...]:
        return tuple(
            AlignmentLink(*match.span(), *match.span(), 1.0) for match in WORD.finditer(line)
        )


class RandomTranslator:
    """Drops, duplicates, changes and shuffles words and links them at random or not at all."""

    languages = ("en", "fr")

    def __init__(self, seed: int) -> None:
        self.seed = seed

    max_sentences_per_line = 1

    def translate_blocks(
        self, blocks: Sequence[Block], options: TranslationOptions
    ) -> list[Translation]:
        return [
            self.translate_line(each.text, Random(f"{self.seed} {each.text}"))  # noqa: S311
            for each in blocks
        ]

    def translate_line(self, line: str, random: Random) -> Translation:
        spans = [match.span() for match in WORD.finditer(line)]
        chosen_spans = [span for span in spans for _ in range(random.choice((0, 1, 1, 1, 2)))]
        random.shuffle(chosen_spans)
        text, links = random.choice(("", " ", "{x} ", "<b>", "% s", "")), []
        for start, end in chosen_spans:
            text += random.choice(("", " ", " "))
            word = random.choice((str, str.upper, str.title, lambda w: w[::-1]))(line[start:end])
            source = random.choice(spans)
            links.append(AlignmentLink(*source, len(text), len(text) + len(word), random.random()))
            text += word
        alignment = random.choice((links, links, []))
        return Translation(text, -1.0, -1.0, alignment=tuple(alignment))


TEXTS = st.sampled_from(
    [
        *"ab1.,!?  \n",
        "dog ",
        "The cat. ",
        "&amp;",
        "&lt;b&gt;",
        " < ",
        "é",
        "狗",
        "{x}",
        "%s",
        "\u00a0",
    ]
)
INLINE = st.sampled_from(["b", "i", "a href='x'", "span class=y", "em", "code", "SUP"])
BLOCK = st.sampled_from(["p", "div", "li", "td", "h1", "x-y", "pre", "svg", "p translate=no"])
VOID = st.sampled_from(["<br>", "<img alt='a dog'>", "<hr/>", "<!-- a b -->", "<input>", "<wbr>"])
SCRIPT = st.sampled_from(
    ["<script>a < b</script>", "<style>b{}</style>", "<script><!--<script></script>c--></script>"]
)


def element(tag: str, inside: str) -> str:
    return f"<{tag}>{inside}</{tag.split(maxsplit=1)[0]}>"


def join(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(parts, max_size=5).map("".join)


PHRASING = st.recursive(
    TEXTS | VOID | SCRIPT, lambda inside: st.builds(element, INLINE, join(inside)), max_leaves=8
)
PAGE = join(st.builds(element, BLOCK, join(PHRASING)) | PHRASING)
"""Well-formed HTML."""
TAG_SOUP = st.lists(
    TEXTS
    | VOID
    | SCRIPT
    | INLINE.map(lambda tag: f"<{tag}>")
    | INLINE.map(lambda tag: f"</{tag.split()[0]}>")
    | BLOCK.map(lambda tag: f"<{tag}>")
    | st.sampled_from(["<", "</", "<!", "<p title='", '"', "'", ">", "<script", "-->", "&", "</>"]),
    max_size=25,
).map("".join)
RANDOM_TRANSLATOR = st.integers(0, 1000).map(RandomTranslator)


def count_tags(html: str) -> Counter[str]:
    return Counter(token.raw for token in tokenize_html(html) if token.kind != "text")


@given(st.text() | TAG_SOUP)
def test_concatenated_tokens_equal_the_page(html: str) -> None:
    assert "".join(token.raw for token in tokenize_html(html)) == html


@given(PAGE | TAG_SOUP, RANDOM_TRANSLATOR)
def test_each_tag_occurs_once_in_translation(html: str, translator: RandomTranslator) -> None:
    """Translated attributes are renamed, so that they are not compared."""
    html = html.replace("alt=", "data-alt=").replace("title=", "data-title=")
    assert count_tags(translate_html(translator, html)) == count_tags(html)


@given(PAGE, RANDOM_TRANSLATOR)
def test_lxml_finds_same_elements_and_scripts(html: str, translator: RandomTranslator) -> None:
    html = html.replace("alt=", "data-alt=")
    pages = [f"<body>{html}</body>", f"<body>{translate_html(translator, html)}</body>"]
    before, after = ([(e.tag, *sorted(e.items())) for e in elements(page)] for page in pages)
    assert Counter(before) == Counter(after)
    scripts = [[e.text for e in elements(page) if e.tag in {"script", "style"}] for page in pages]
    assert Counter(scripts[0]) == Counter(scripts[1])


def elements(page: str) -> list[Any]:
    return [one for one in lxml.html.document_fromstring(page).iter() if isinstance(one.tag, str)]


@given(PAGE | TAG_SOUP)
def test_copying_translator_preserves_page(html: str) -> None:
    assert remove_spaces(translate_html(CopyingTranslator(), html)) == remove_spaces(html)


def remove_spaces(html: str) -> str:
    """Remove white space, which may move to the other side of a tag."""
    return re.sub(r"\s", "", unescape(html)).replace('"', "'")


def translate_text(translator: Any, text: str, options: TranslationOptions | None = None) -> str:
    """Translate the text of a plain text file."""
    unit_translator = TextUnitTranslator(translator, options)
    return translate_parsed_document(parse_plain_text(text), unit_translator).content


@given(st.text())
def test_copying_translator_preserves_text(text: str) -> None:
    assert collapse_spaces(translate_text(CopyingTranslator(), text)) == collapse_spaces(text)


def collapse_spaces(text: str) -> str:
    """Replace white space inside a line by one space."""
    return re.sub(r"(?<=[^\r\n])[ \t\f\v]+", " ", text)


@given(st.lists(TEXTS, max_size=20).map("".join), RANDOM_TRANSLATOR)
def test_number_of_lines_is_preserved(text: str, translator: RandomTranslator) -> None:
    assert translate_text(translator, text).count("\n") == text.count("\n")


PLACEHOLDERS = [
    "{name}",
    "{0}",
    "%s",
    "%(n)d",
    "%1$s",
    "${x}",
    "{{x}}",
    "http://a.b/c",
    "a@b.org",
    "%%",
]
LINES = st.lists(
    st.sampled_from(
        [*PLACEHOLDERS, "dog", "The", "100%", "7", "({x})", "'%d'", "$", ".", "狗", "%s%s"]
    ),
    max_size=9,
).flatmap(lambda words: st.sampled_from([" ".join(words), "".join(words)]))


@given(st.lists(LINES, min_size=1, max_size=4), RANDOM_TRANSLATOR, st.booleans())
def test_each_placeholder_occurs_as_often_as_in_source(
    lines: list[str], translator: RandomTranslator, keep_numbers: bool
) -> None:
    options = TranslationOptions(keep_numbers=keep_numbers)
    translations = TextTranslator(translator, options).translate(list(map(SourceText, lines)))
    for line, translation in zip(lines, translations, strict=True):
        assert count_placeholders(translation.text) == count_placeholders(line)
        if keep_numbers:
            assert not count_placeholders(line, numbers=True) - count_placeholders(
                translation.text, numbers=True
            )


def count_placeholders(text: str, *, numbers: bool = False) -> Counter[str]:
    return Counter(
        text[start:end] for start, end in find_placeholders(text, include_numbers=numbers)
    )


NODES = st.lists(
    st.sampled_from(["dog", " ", "A cat", ". "])
    | st.sampled_from("ab").map(OpeningTag)
    | st.sampled_from("ab").map(ClosingTag)
    | st.builds(StandaloneTag, st.none(), st.sampled_from(["", "", "protected"])),
    max_size=12,
)


@given(NODES, st.text("xy .", max_size=15), st.data())
def test_nodes_occur_once_and_stay_nested(
    nodes: Sequence[MarkupNode], target: str, data: st.DataObject
) -> None:
    nodes = [
        StandaloneTag(node.payload) if isinstance(node, StandaloneTag) else node for node in nodes
    ]
    unit = TextUnit.from_nodes(nodes)
    ranges = lambda size: st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(  # noqa: E731
        lambda ends: IndexRange(min(ends), max(ends) + (ends[0] == ends[1]))
    )
    links: list[WeightedRangeLink] = []
    if unit.text and target:
        all_links = st.builds(
            WeightedRangeLink,
            ranges(len(unit.text)),
            ranges(len(target)),
            st.floats(0, 1, allow_nan=False),
        )
        links = data.draw(st.lists(all_links, max_size=6))
        links = [
            link
            for link in links
            if link.source.end <= len(unit.text) and link.target.end <= len(target)
        ]
    output = list(unit.to_nodes(target, compute_target_tag_positions(unit, target, links)))
    text = "".join(node for node in output if isinstance(node, str))
    assert text.replace(" ", "") == target.replace(" ", "")
    input_tags = [node for node in nodes if not isinstance(node, str)]
    output_tags = [node for node in output if not isinstance(node, str)]
    assert Counter(map(id, input_tags)) == Counter(map(id, output_tags))
    for tag in unit.tags:
        if tag.close_tag:
            assert output.index(tag.node) < output.index(tag.close_tag)
            parent = tag.parent
            if parent >= 0:
                outer = unit.tags[parent]
                assert output.index(outer.node) < output.index(tag.node)
                assert output.index(tag.close_tag) < output.index(outer.close_tag)  # type: ignore[arg-type]


PO_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n\t"\\ '))


@given(PO_TEXT)
def test_po_strings_round_trip(text: str) -> None:
    lines = ['msgid "x"', *format_po_field("msgstr", text)]
    assert all("\n" not in line for line in lines)
    ((entry),) = parse_po_entries(lines, "x")
    assert entry.get_text("msgstr") == text
    if not re.search("[\x85\u2028\u2029]", text):  # polib treats these as line ends
        assert polib.pofile("\n".join(["", *lines, ""]))[0].msgstr == text
