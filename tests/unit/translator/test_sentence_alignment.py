"""Offsets of the sentences of a translation, in lines and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from seq2see.documents import translate_protected
from seq2see.serve.layout_preserving_translation import (
    find_translatable_spans,
    join_span_translations,
)
from seq2see.serve.queued_translator import QueuedRequestTranslator, RouteTranslator
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import (
    AlignmentLink,
    SentencePairOffsets,
    Translation,
    TranslationFlag,
    TranslationOptions,
    Translator,
)
from seq2see.translator.segmentation import LineSplitter

LINES = ["The cat sleeps. The old dog runs.", "A cat and a dog."] * 20


@pytest.fixture(scope="module")
def cutter() -> LineSplitter:
    pieces = TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=60, byte_fallback=False))
    return LineSplitter(pieces.source, ("en", "de"), 40, "always")


def shouted(text: str) -> Translation:
    """Translate a sentence; its first word is linked to the first source word."""
    other = Translation(text.lower(), -2.0, -2.0)
    end = text.index(" ")
    links = (AlignmentLink(0, end, 0, end, 1.0),)
    said = text.upper() + "!"
    unmet = ("Hund",) if "dog" in text else ()
    flags = (TranslationFlag.LONG,)
    return Translation(
        said, -1.0, -1.5, (other,), alignment=links, flags=flags, unmet_constraints=unmet
    )


def whole(cutter: LineSplitter, line: str) -> Translation:
    (found,) = cutter.split([line])
    parts = [shouted(segment.span.text) for segment in found.segments]
    return cutter.merge(found, parts, [[3, 3]] * len(parts))


def shown(source: str, translation: Translation) -> list[tuple[str, str]]:
    return [
        (
            source[each.source_start : each.source_end],
            translation.text[each.target_start : each.target_end],
        )
        for each in translation.sentences
    ]


def test_offsets_of_sentences_in_a_line(cutter: LineSplitter) -> None:
    line = "  The cat sleeps.  The old dog runs. "
    found = whole(cutter, line)
    first, second = "The cat sleeps.", "The old dog runs."
    assert shown(line, found) == [(first, "THE CAT SLEEPS.!"), (second, "THE OLD DOG RUNS.!")]
    assert [(each.log_prob, each.flags) for each in found.sentences] == [
        (-1.5, (TranslationFlag.LONG,))
    ] * 2
    assert [each.unmet_constraints for each in found.sentences] == [(), ("Hund",)]
    others = [(text, text.lower()) for text in (first, second)]
    assert shown(line, found.alternatives[0]) == others


def test_line_with_one_sentence_has_shifted_links(
    cutter: LineSplitter,
) -> None:
    line = "  The cat sleeps. "
    found = whole(cutter, line)
    assert shown(line, found) == [("The cat sleeps.", "THE CAT SLEEPS.!")]
    assert [line[link.source_start : link.source_end] for link in found.alignment] == ["The"]
    assert found.score == -1.0


def test_offsets_of_sentences_in_several_lines(cutter: LineSplitter) -> None:
    text = "- The cat sleeps. The old dog runs.\n\n  A cat and a dog.\n"
    lines = find_translatable_spans(text, "en")
    found = join_span_translations(text, lines, [whole(cutter, line.text) for line in lines])
    assert [source for source, _ in shown(text, found)] == [
        "The cat sleeps.",
        "The old dog runs.",
        "A cat and a dog.",
    ]
    assert all(target == source.upper() + "!" for source, target in shown(text, found))


class Model:
    """A model whose translations have one sentence."""

    languages = ("en", "de")

    def translate(self, lines: Sequence[str], *_: Any, **__: Any) -> list[Translation]:
        return [
            Translation(
                line.replace("{x}", ""),
                0.0,
                0.0,
                alignment=(AlignmentLink(0, 3, 0, 3, 1.0),),
                sentences=(place := (SentencePairOffsets(0, len(line), 0, len(line), 0.0),)),
                alternatives=(Translation(line, 0.0, 0.0, sentences=place),),
            )
            for line in lines
        ]


def test_offsets_are_unknown_after_pivot_or_placeholder() -> None:
    legs = [cast("QueuedRequestTranslator", Model()) for _ in range(2)]
    assert RouteTranslator(legs[:1]).translate("the cat", TranslationOptions()).sentences
    found = RouteTranslator(legs).translate("the cat", TranslationOptions())
    assert not any(each.sentences for each in (found, *found.alternatives))
    (kept,) = translate_protected(cast("Translator", Model()), ["the {x} cat"])
    assert "{x}" in kept.text
    assert not kept.sentences
