"""Note references and `lang` attributes of HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest

from seq2see.documents import translate_html
from seq2see.translator import AlignmentLink, Block, Translation, TranslationOptions, Translator

WORD = re.compile(r"\w+|[^\w\s]")


class ReversingTranslator:
    """Reverses the words in upper case; numbers become 14, and the full stop stays last."""

    languages = ("en", "de")

    def __init__(self) -> None:
        self.inputs: list[str] = []

    max_sentences_per_line = 1

    def translate_blocks(self, blocks: Sequence[Block], _: TranslationOptions) -> list[Translation]:
        lines = [block.text for block in blocks]
        self.inputs += lines
        return [self._translate_line(line) for line in lines]

    def _translate_line(self, line: str) -> Translation:
        *words, stop = WORD.finditer(line)
        text, links = "", []
        for match in [*reversed(words), stop]:
            word = "14" if match[0].isdigit() else match[0].upper()
            text += " " if text and match is not stop else ""
            links.append(AlignmentLink(*match.span(), len(text), len(text) + len(word), 1.0))
            text += word
        return Translation(text, -1.0, -1.0, alignment=tuple(links))


def translate(html: str) -> tuple[str, list[str]]:
    model = ReversingTranslator()
    return translate_html(cast("Translator", model), html), model.inputs


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
def test_note_references_follow_their_word_unchanged(note: str) -> None:
    html, inputs = translate(f"<p>A man{note} sits here.</p>")
    assert html == f"<p>HERE SITS MAN{note} A.</p>"
    assert inputs == ["A man sits here."]


def test_list_marker_inside_protected_text_is_not_copied_alone() -> None:
    html, inputs = translate("<p><code>1. ls</code> lists files.</p>")
    assert html == "<p><code>1. ls</code> FILES LISTS.</p>"
    assert inputs == ["1. ls lists files.", "lists files."]


def test_linked_number_is_part_of_its_sentence() -> None:
    html, inputs = translate('<p>It was <a href="x"><b>1984</b></a> then.</p>')
    assert '<a href="x"><b>1984</b></a>' in html
    assert inputs[0] == "It was 1984 then."


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        ('<a href="#1" title="A man.">[1]</a>', '<a href="#1" title="MAN A.">[1]</a>'),
        ('<a href="x" lang="en">2</a>', '<a href="x" lang="de">2</a>'),
        ('<sup lang=en><img alt="A man.">1</sup>', '<sup lang="de"><img alt="MAN A.">1</sup>'),
        ('<a href="#1"><i title="a.">1</i>2</a>', '<a href="#1"><i title="A.">1</i>2</a>'),
    ],
)
def test_attributes_of_linked_numbers_are_translate(number: str, expected: str) -> None:
    assert f"MAN{expected} A." in translate(f"<p>A man{number} sits here.</p>")[0]
    assert translate(f"<td>{number}</td>")[0] == f"<td>{expected}</td>"


@pytest.mark.parametrize(
    ("html", "inputs"),
    [
        ("<p>The 1<sup>st</sup> man.</p>", ["The 1st man."]),
        ("<p>Drink H<sup>2</sup>O.</p>", ["Drink H2O."]),
        ('<p>A <a href="#1">man 1</a>.</p>', ["A man 1."]),
        ('<p>A man<a href="#1">!</a></p>', ["A man!"]),
        ("<p>A man<sup>1<p>sits here.", ["A man1", "sits here."]),
        ("<p>A man<sup>1<div></div></sup> sits.</p>", ["A man1", "sits."]),
    ],
)
def test_other_superscripts_and_links_are_shown_to_model(html: str, inputs: list[str]) -> None:
    assert sorted(translate(html)[1]) == inputs


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
def test_lang_attributes_of_source_language_are_replaced(html: str, expected: str) -> None:
    assert translate(html)[0] == expected
