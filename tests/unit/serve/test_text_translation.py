"""Plain texts through the service: what a model sees of them, and what stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from seq2see.serve.text_translation import Manner, translate_texts
from seq2see.serve.unbatched import translate_incrementally
from seq2see.serve.work_queue import Call
from seq2see.translator import Link, Translation, TranslationOptions, Translator


class Shouting:
    """A translator that shouts, and keeps what it saw."""

    languages = ("en", "de")
    engine = None

    def __init__(self) -> None:
        self.seen: list[str] = []

    def translate(
        self, lines: str | Sequence[str], options: TranslationOptions, **settings: Any
    ) -> Translation | list[Translation]:
        if isinstance(lines, str):
            (found,) = cast("list[Translation]", self.translate([lines], options, **settings))
            return found
        self.seen += lines
        options = options.changed(settings)
        links = (Link(0, 1, 0, 1, 1.0),) if options.alignment else ()
        made = [Translation(line.upper(), -1.0, -1.0, alignment=links) for line in lines]
        return [replace(one, alternatives=(one,) * (options.search.n_best - 1)) for one in made]


def translated(text: str, manner: Manner | None = None) -> tuple[Translation, list[str]]:
    model = Shouting()
    manner = manner or Manner(TranslationOptions(split="always"))
    (found,) = translate_texts(cast("Translator", model), [text], manner)
    return found, model.seen


@pytest.mark.parametrize("text", ["123", "...", "???", "😀", "---", "|---|---|", "12:30\n$5.00"])
def test_what_has_no_letter_is_not_translated(text: str) -> None:
    found, seen = translated(text)
    assert found == Translation(text, 0.0, 0.0)
    assert not seen


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("A dog runs.\n---\n\nA cat.", ["A dog runs.", "A cat."]),
        ("A dog runs. A cat sits.", ["A dog runs. A cat sits."]),
        ("A dog runs! 14! A cat sits.", ["A dog runs!", "A cat sits."]),
        ("A dog runs.  ???", ["A dog runs."]),
    ],
)
def test_sentences_without_a_letter_stay_between_the_others(text: str, parts: list[str]) -> None:
    found, seen = translated(text)
    assert seen == parts
    assert found.text == text.upper()


def test_no_sentence_ends_inside_of_a_placeholder() -> None:
    found, _ = translated("It has {n, plural, one {A dog! 1! A cat} other {2}} now.")
    assert "{n, plural, one {A dog! 1! A cat} other {2}}" in found.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1. A dog runs.\n2. A cat.", "1. A DOG RUNS.\n2. A CAT."),
        ("  (a) a dog\n  b) a cat", "  (a) A DOG\n  b) A CAT"),
        ("# a dog\n\n> a cat\n‣ a fox", "# A DOG\n\n> A CAT\n‣ A FOX"),
        ("- \n\t- a dog", "- \n\t- A DOG"),
        ("\ufeff- a dog", "\ufeff- A DOG"),
        ("\ufeffa dog", "\ufeffA DOG"),
    ],
)
def test_no_bullet_or_number_of_a_list_is_translated(text: str, expected: str) -> None:
    found, seen = translated(text)
    assert found.text == expected
    assert all(part[0].isalpha() and part[1] != ")" for part in seen)


@pytest.mark.parametrize("text", ["7 dogs", "Hello {name}!", "a dog"])
@pytest.mark.parametrize("alignment", [False, True])
def test_alignments_are_there_for_who_asked(text: str, alignment: bool) -> None:
    options = TranslationOptions(alignment=alignment).changed({"beam_size": 2, "n_best": 2})
    found, _ = translated(text, Manner(options, numbers=True))
    assert len(found.alternatives) == 1
    assert all(bool(one.alignment) == alignment for one in (found, *found.alternatives))


def test_a_stream_keeps_the_same_things() -> None:
    model, told = Shouting(), list[str]()
    text = "1. A dog runs! 14! A cat sits.\n---\n"
    found = translate_incrementally(
        cast("Translator", model), text, TranslationOptions(), Call.within(9), told.append
    )
    assert model.seen == ["A dog runs!", "A cat sits."]
    assert told == ["1. A DOG RUNS!", "1. A DOG RUNS! 14! A CAT SITS."]
    assert found.text == text.upper()
