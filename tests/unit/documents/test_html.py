"""References and languages of HTML, through a translator that turns sentences around."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, cast

import pytest

from seq2see.documents import translate_html
from seq2see.translator import AlignmentLink, Translation, Translator

WORD = re.compile(r"\w+|[^\w\s]")


class Backwards:
    """The last word first, and loudly; a number becomes another, and a full stop stays."""

    languages = ("en", "de")

    def __init__(self) -> None:
        self.seen: list[str] = []

    def translate(self, lines: Sequence[str], *_: Any, **__: Any) -> list[Translation]:
        self.seen += lines
        return [self._one(line) for line in lines]

    def _one(self, line: str) -> Translation:
        *words, stop = WORD.finditer(line)
        text, links = "", []
        for match in [*reversed(words), stop]:
            word = "14" if match[0].isdigit() else match[0].upper()
            text += " " if text and match is not stop else ""
            links.append(AlignmentLink(*match.span(), len(text), len(text) + len(word), 1.0))
            text += word
        return Translation(text, -1.0, -1.0, alignment=tuple(links))


def translated(html: str) -> tuple[str, list[str]]:
    model = Backwards()
    return translate_html(cast("Translator", model), html), model.seen


WIKIPEDIA = (
    '<sup id="r" class="reference"><a href="/wiki/Dog#cite_note-1">'
    '<span class="cite-bracket">&#91;</span>1<span class="cite-bracket">&#93;</span></a></sup>'
)


@pytest.mark.parametrize(
    "note",
    [
        '<sup id="r"><a href="#1">[1]</a></sup>',
        '<sup><a href="#1">[1]</a><a href="#2">[2]</a></sup>',
        '<a href="#1">[1]</a>',
        '<a href="#1"><sup>1</sup></a>',
        '<a href="x.html#1">[<i>1</i>]</a>',
        "<sup>2</sup>",
        "<sup>*</sup>",
        WIKIPEDIA,
    ],
)
def test_references_to_notes_stay_whole_behind_their_word(note: str) -> None:
    html, seen = translated(f"<p>A man{note} sits here.</p>")
    assert html == f"<p>HERE SITS MAN{note} A.</p>"
    assert seen == ["A man sits here."]


def test_a_linked_number_is_a_word_of_its_sentence_and_stays() -> None:
    html, seen = translated('<p>It was <a href="x"><b>1984</b></a> then.</p>')
    assert '<a href="x"><b>1984</b></a>' in html
    assert seen[0] == "It was 1984 then."


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ('<a href="#1" title="A man.">[1]</a>', '<a href="#1" title="MAN A.">[1]</a>'),
        ('<a href="x" lang="en">2</a>', '<a href="x" lang="de">2</a>'),
        ('<sup lang=en><img alt="A man.">1</sup>', '<sup lang="de"><img alt="MAN A.">1</sup>'),
        ('<a href="#1"><i title="a.">1</i>2</a>', '<a href="#1"><i title="A.">1</i>2</a>'),
    ],
)
def test_what_people_read_at_a_number_is_translated(number: str, expected: str) -> None:
    assert f"MAN{expected} A." in translated(f"<p>A man{number} sits here.</p>")[0]
    assert translated(f"<td>{number}</td>")[0] == f"<td>{expected}</td>"


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("<p>The 1<sup>st</sup> man.</p>", ["The 1st man."]),
        ("<p>Drink H<sup>2</sup>O.</p>", ["Drink H2O."]),
        ('<p>A <a href="#1">man 1</a>.</p>', ["A man 1."]),
        ('<p>A man<a href="#1">!</a></p>', ["A man!"]),
        ("<p>A man<sup>1<p>sits here.", ["A man1", "sits here."]),
        ("<p>A man<sup>1<div></div></sup> sits.</p>", ["A man1", "sits."]),
    ],
)
def test_what_is_no_reference_is_shown_to_the_model(html: str, shown: list[str]) -> None:
    assert sorted(translated(html)[1]) == shown


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<p lang="en">A man.</p>', '<p lang="de">MAN A.</p>'),
        ("<p xml:lang='en-GB' lang=EN>A man.</p>", "<p xml:lang='de' lang=\"de\">MAN A.</p>"),
        ('<p>A <i lang="en_US">man</i>.</p>', '<p><i lang="de">MAN</i> A.</p>'),
        ('<p lang="fr">A man.</p>', '<p lang="fr">MAN A.</p>'),
        ('<p lang="">A man.</p>', '<p lang="">MAN A.</p>'),
        ('<p lang="en" translate="no">A man.</p>', '<p lang="en" translate="no">A man.</p>'),
        ('<p translate="no"><i lang="en">A</i></p>', '<p translate="no"><i lang="en">A</i></p>'),
    ],
)
def test_what_was_in_the_source_language_says_the_new_one(html: str, expected: str) -> None:
    assert translated(html)[0] == expected
