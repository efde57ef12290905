"""What holds for every document and every translator, however it behaves."""

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

from seq2see.documents import translate_html, translate_protected, translate_text
from seq2see.documents.html_tokenizer import tokenize_html
from seq2see.documents.markup import (
    CloseTag,
    IndexRange,
    MarkupNode,
    OpenTag,
    StandaloneTag,
    TextUnit,
)
from seq2see.documents.markup_transfer import transfer_tags
from seq2see.documents.placeholders import find_placeholders
from seq2see.documents.po import format_po_field, parse_po_entries
from seq2see.documents.word_alignment import WeightedLink
from seq2see.translator import AlignmentLink, Translation

WORD = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")


class Same:
    """Says what it was told."""

    languages = ("en", "en")

    def translate(
        self, lines: list[str], options: Any = None, **settings: Any
    ) -> list[Translation]:
        return [Translation(line, 0.0, 0.0, alignment=self.links(line)) for line in lines]

    @staticmethod
    def links(line: str) -> tuple[AlignmentLink, ...]:
        return tuple(
            AlignmentLink(*match.span(), *match.span(), 1.0) for match in WORD.finditer(line)
        )


class Wild:
    """Drops, doubles, changes and shuffles words, and links them to anything or nothing."""

    languages = ("en", "fr")

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def translate(
        self, lines: list[str], options: Any = None, **settings: Any
    ) -> list[Translation]:
        return [self.one(line, Random(f"{self.seed} {line}")) for line in lines]  # noqa: S311

    def one(self, line: str, random: Random) -> Translation:
        spans = [match.span() for match in WORD.finditer(line)]
        kept = [span for span in spans for _ in range(random.choice((0, 1, 1, 1, 2)))]
        random.shuffle(kept)
        text, links = random.choice(("", " ", "{x} ", "<b>", "% s", "")), []
        for start, end in kept:
            text += random.choice(("", " ", " "))
            word = random.choice((str, str.upper, str.title, lambda w: w[::-1]))(line[start:end])
            origin = random.choice(spans)
            links.append(AlignmentLink(*origin, len(text), len(text) + len(word), random.random()))
            text += word
        chosen = random.choice((links, links, []))
        return Translation(text, -1.0, -1.0, alignment=tuple(chosen))


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


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(parts, max_size=5).map("".join)


PHRASING = st.recursive(
    TEXTS | VOID | SCRIPT, lambda inside: st.builds(element, INLINE, joined(inside)), max_leaves=8
)
PAGE = joined(st.builds(element, BLOCK, joined(PHRASING)) | PHRASING)
"""Well formed, as far as people write so."""
SOUP = st.lists(
    TEXTS
    | VOID
    | SCRIPT
    | INLINE.map(lambda tag: f"<{tag}>")
    | INLINE.map(lambda tag: f"</{tag.split()[0]}>")
    | BLOCK.map(lambda tag: f"<{tag}>")
    | st.sampled_from(["<", "</", "<!", "<p title='", '"', "'", ">", "<script", "-->", "&", "</>"]),
    max_size=25,
).map("".join)
WILD = st.integers(0, 1000).map(Wild)


def tags(html: str) -> Counter[str]:
    return Counter(token.raw for token in tokenize_html(html) if token.kind != "text")


@given(st.text() | SOUP)
def test_tokens_are_the_page_to_the_letter(html: str) -> None:
    assert "".join(token.raw for token in tokenize_html(html)) == html


@given(PAGE | SOUP, WILD)
def test_every_tag_comes_out_once(html: str, wild: Wild) -> None:
    """Attributes that people read are changed, so they are left out of the comparison."""
    html = html.replace("alt=", "data-alt=").replace("title=", "data-title=")
    assert tags(translate_html(wild, html)) == tags(html)


@given(PAGE, WILD)
def test_an_outsider_finds_the_same_elements_and_scripts(html: str, wild: Wild) -> None:
    html = html.replace("alt=", "data-alt=")
    pages = [f"<body>{html}</body>", f"<body>{translate_html(wild, html)}</body>"]
    before, now = ([(e.tag, *sorted(e.items())) for e in elements(page)] for page in pages)
    assert Counter(before) == Counter(now)
    scripts = [[e.text for e in elements(page) if e.tag in {"script", "style"}] for page in pages]
    assert Counter(scripts[0]) == Counter(scripts[1])


def elements(page: str) -> list[Any]:
    return [one for one in lxml.html.document_fromstring(page).iter() if isinstance(one.tag, str)]


@given(PAGE | SOUP)
def test_who_changes_nothing_gets_the_same_page(html: str) -> None:
    assert normalised(translate_html(Same(), html)) == normalised(html)


def normalised(html: str) -> str:
    """White space at tags may move to their other side."""
    return re.sub(r"\s", "", unescape(html)).replace('"', "'")


@given(st.text())
def test_text_that_is_not_changed_is_the_same(text: str) -> None:
    assert squeezed(translate_text(Same(), text)) == squeezed(text)


def squeezed(text: str) -> str:
    """Inside of sentences, white space is one space."""
    return re.sub(r"(?<=[^\r\n])[ \t\f\v]+", " ", text)


@given(st.lists(TEXTS, max_size=20).map("".join), WILD)
def test_lines_in_lines_out(text: str, wild: Wild) -> None:
    assert translate_text(wild, text).count("\n") == text.count("\n")


HOLDERS = ["{name}", "{0}", "%s", "%(n)d", "%1$s", "${x}", "{{x}}", "http://a.b/c", "a@b.org", "%%"]
LINES = st.lists(
    st.sampled_from([*HOLDERS, "dog", "The", "100%", "7", "({x})", "'%d'", "$", ".", "狗", "%s%s"]),
    max_size=9,
).flatmap(lambda words: st.sampled_from([" ".join(words), "".join(words)]))


@given(st.lists(LINES, min_size=1, max_size=4), WILD, st.booleans())
def test_each_placeholder_survives_as_often_as_it_was(
    lines: list[str], wild: Wild, numbers: bool
) -> None:
    found = translate_protected(wild, lines, keep_numbers=numbers)
    for line, translation in zip(lines, found, strict=True):
        assert holders(translation.text) == holders(line)
        if numbers:
            assert not holders(line, numbers=True) - holders(translation.text, numbers=True)


def holders(text: str, *, numbers: bool = False) -> Counter[str]:
    return Counter(
        text[start:end] for start, end in find_placeholders(text, include_numbers=numbers)
    )


EVENTS = st.lists(
    st.sampled_from(["dog", " ", "A cat", ". "])
    | st.sampled_from("ab").map(OpenTag)
    | st.sampled_from("ab").map(CloseTag)
    | st.builds(StandaloneTag, st.none(), st.sampled_from(["", "", "kept"])),
    max_size=12,
)


@given(EVENTS, st.text("xy .", max_size=15), st.data())
def test_events_come_out_once_and_nested_around_any_words(
    row: Sequence[MarkupNode], target: str, data: st.DataObject
) -> None:
    row = [
        StandaloneTag(event.payload) if isinstance(event, StandaloneTag) else event for event in row
    ]
    passage = TextUnit.from_nodes(row)
    extent = lambda size: st.tuples(st.integers(0, size - 1), st.integers(1, size)).map(  # noqa: E731
        lambda ends: IndexRange(min(ends), max(ends) + (ends[0] == ends[1]))
    )
    ties: list[WeightedLink] = []
    if passage.text and target:
        sides = st.builds(
            WeightedLink,
            extent(len(passage.text)),
            extent(len(target)),
            st.floats(0, 1, allow_nan=False),
        )
        ties = data.draw(st.lists(sides, max_size=6))
        ties = [
            t for t in ties if t.source.end <= len(passage.text) and t.target.end <= len(target)
        ]
    out = list(passage.to_nodes(target, transfer_tags(passage, target, ties)))
    assert "".join(e for e in out if isinstance(e, str)).replace(" ", "") == target.replace(" ", "")
    ours = [event for event in row if not isinstance(event, str)]
    assert Counter(map(id, ours)) == Counter(id(e) for e in out if not isinstance(e, str))
    for mark in passage.tags:
        if mark.close_tag:
            assert out.index(mark.node) < out.index(mark.close_tag)
            parent = mark.parent
            if parent >= 0:
                outer = passage.tags[parent]
                assert out.index(outer.node) < out.index(mark.node)
                assert out.index(mark.close_tag) < out.index(outer.close_tag)  # type: ignore[arg-type]


PO_TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n\t"\\ '))


@given(PO_TEXT)
def test_strings_of_po_files_are_written_and_read(text: str) -> None:
    lines = ['msgid "x"', *format_po_field("msgstr", text)]
    assert all("\n" not in line for line in lines)
    ((entry),) = parse_po_entries(lines, "x")
    assert entry.get_text("msgstr") == text
    if not re.search("[\x85\u2028\u2029]", text):  # polib takes these for ends of lines
        assert polib.pofile("\n".join(["", *lines, ""]))[0].msgstr == text
