"""Joining of translations: offsets, scores and the text between the parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seq2see.serve.request_translation import QueuedTranslator
from seq2see.serve.work_queue import RequestContext, WorkQueue
from seq2see.text import TextSpan, split_sentences
from seq2see.translator import (
    AlignmentLink,
    Block,
    SentencePairOffsets,
    SourceText,
    TextTranslator,
    Translation,
    TranslationFlag,
    TranslationOptions,
    join_translations,
)


def shouted(text: str) -> Translation:
    """Translate a sentence; its first word is linked to the first source word."""
    other = Translation(text.lower(), -2.0, -2.0)
    end = text.index(" ")
    links = (AlignmentLink(0, end, 0, end, 1.0),)
    said = text.upper() + "!"
    unmet = ("Hund",) if "dog" in text else ()
    flags = (TranslationFlag.LONG,)
    offsets = 0, len(text), 0, len(said)
    return Translation(
        said,
        -1.0,
        -1.5,
        (replace(other, sentences=(SentencePairOffsets(*offsets[:3], len(text), -2.0),)),),
        alignment=links,
        flags=flags,
        unmet_constraints=unmet,
        sentences=(SentencePairOffsets(*offsets, -1.5, flags, unmet),),
        num_tokens=3,
    )


class ShoutingTranslator:
    """Translates blocks with `shouted`."""

    languages = ("en", "de")
    max_sentences_per_line = 1

    def translate_blocks(self, blocks: Sequence[Block], _: TranslationOptions) -> list[Translation]:
        return [shouted(block.text) for block in blocks]


def whole(text: str) -> Translation:
    options = TranslationOptions(alignment=True)
    (found,) = TextTranslator(ShoutingTranslator(), options).translate([SourceText(text)])
    return found


def shown(source: str, translation: Translation) -> list[tuple[str, str]]:
    return [
        (
            source[each.source_start : each.source_end],
            translation.text[each.target_start : each.target_end],
        )
        for each in translation.sentences
    ]


def test_offsets_of_sentences_in_a_line() -> None:
    line = "  The cat sleeps.  The old dog runs. "
    found = whole(line)
    first, second = "The cat sleeps.", "The old dog runs."
    assert shown(line, found) == [(first, "THE CAT SLEEPS.!"), (second, "THE OLD DOG RUNS.!")]
    assert [(each.log_prob, each.flags) for each in found.sentences] == [
        (-1.5, (TranslationFlag.LONG,))
    ] * 2
    assert [each.unmet_constraints for each in found.sentences] == [(), ("Hund",)]
    others = [(text, text.lower()) for text in (first, second)]
    assert shown(line, found.alternatives[0]) == others


def test_line_with_one_sentence_has_shifted_links() -> None:
    line = "  The cat sleeps. "
    found = whole(line)
    assert shown(line, found) == [("The cat sleeps.", "THE CAT SLEEPS.!")]
    assert [line[link.source_start : link.source_end] for link in found.alignment] == ["The"]
    assert found.score == -1.0


def test_offsets_of_sentences_in_several_lines() -> None:
    text = "- The cat sleeps. The old dog runs.\n\n  A cat and a dog.\n"
    found = whole(text)
    assert [source for source, _ in shown(text, found)] == [
        "The cat sleeps.",
        "The old dog runs.",
        "A cat and a dog.",
    ]
    assert all(target == source.upper() + "!" for source, target in shown(text, found))


def join(text: str, language: str, parts: Sequence[str], separator: str = "") -> str:
    translations = [Translation(part, 0, 0) for part in parts]
    spans = split_sentences(text, language)
    return join_translations(text, spans, translations, separator=separator).text


def test_joined_translations_keep_white_space() -> None:
    joined = join("  One.  Two!\n\n\tThree? ", "en", ["Eins.", "Zwei!", "Drei?"])
    assert joined == "  Eins.  Zwei!\n\n\tDrei? "
    assert join(" \n", "en", []) == " \n"


def test_separator_between_adjacent_sentences() -> None:
    text, parts = "你好。再见。\n好。", ["Hello.", "Bye.", "Good."]
    assert join(text, "zh", parts, " ") == "Hello. Bye.\nGood."
    assert join(text, "zh", parts) == "Hello.Bye.\nGood."


def test_joined_text_has_alternatives_and_flags_of_parts() -> None:
    flags = (TranslationFlag.SHORT, TranslationFlag.LONG)
    alternative = Translation("B", -2, -2, num_tokens=1)
    first = Translation("A", -1, -1, (alternative,), (), (), flags[1:], num_tokens=1)
    second = Translation("C", -3, -9, flags=flags, unmet_constraints=("x",), num_tokens=3)
    joined = join_translations("a\nc", [TextSpan("a", 0), TextSpan("c", 2)], [first, second])
    assert (joined.text, joined.log_prob, joined.num_tokens) == ("A\nC", -10, 4)
    assert [other.text for other in joined.alternatives] == ["B\nC"]
    assert joined.flags == flags
    assert joined.unmet_constraints == ("x",)


def test_score_of_joined_text_is_the_mean_weighted_by_tokens() -> None:
    parts = [Translation("A", -1, -1, num_tokens=1), Translation("B", -3, -9, num_tokens=3)]
    joined = join_translations("a b", [TextSpan("a", 0), TextSpan("b", 2)], parts)
    assert joined.score == (1 * -1 + 3 * -3) / 4


def test_error_of_a_part_is_the_error_of_the_text() -> None:
    parts = [Translation("A", -1, -1), Translation("", 0, 0, error="too long")]
    joined = join_translations("a b", [TextSpan("a", 0), TextSpan("b", 2)], parts)
    assert (joined.text, joined.error) == ("", "too long")


class Model:
    """A model whose translations lack placeholders."""

    languages = ("en", "de")
    max_sentences_per_line = 1

    def translate_blocks(self, blocks: Sequence[Block], _: TranslationOptions) -> list[Translation]:
        return [
            Translation(
                block.text.replace("{x}", ""),
                0.0,
                0.0,
                alignment=(AlignmentLink(0, 3, 0, 3, 1.0),),
                sentences=(place := (SentencePairOffsets(0, 3, 0, 3, 0.0),)),
                alternatives=(Translation(block.text, 0.0, 0.0, sentences=place),),
            )
            for block in blocks
        ]


class UnqueuedTranslator(QueuedTranslator):
    """Calls the models directly."""

    def translate_with_model(self, translator: Any, *arguments: Any) -> list[Translation]:
        return translator.translate_blocks(*arguments)  # type: ignore[no-any-return]


def test_offsets_are_unknown_after_pivot_or_placeholder() -> None:
    models: list[Any] = [Model(), Model()]
    blocks, options = [Block("the cat")], TranslationOptions()
    queue = WorkQueue(1, 1), RequestContext.with_timeout(9)
    (direct,) = UnqueuedTranslator(models[:1], *queue).translate_blocks(blocks, options)
    assert direct.sentences
    (found,) = UnqueuedTranslator(models, *queue).translate_blocks(blocks, options)
    assert not any(each.sentences for each in (found, *found.alternatives))
    (kept,) = TextTranslator(Model()).translate([SourceText("the {x} cat")])
    assert "{x}" in kept.text
    assert not kept.sentences
