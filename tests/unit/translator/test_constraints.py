"""Large glossaries and many forbidden words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest

from seq2see.bundle import StartAndEndTokenIds
from seq2see.engines.base import BatchResult, Engine
from seq2see.search import Hypothesis, SentenceSearchInput
from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.translator import TranslationOptions, Translator
from seq2see.translator.constraints import LexicalConstraints

LINES = [
    f"{who} {does} {where}."
    for who in ("The king", "An old animal", "Our teacher", "The quiet fox")
    for does in ("sleeps", "didn't cross the street", "reads a letter")
    for where in ("here", "near the old bridge", "in the garden")
]


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    return TokenizerPair.train(LINES * 9, LINES * 9, TokenizerConfig(vocab_size=320))


@dataclass
class Echo:
    """An engine that returns the source as translation."""

    special_tokens: StartAndEndTokenIds

    def search(self, inputs: Sequence[SentenceSearchInput], *_: Any) -> Iterator[BatchResult]:
        found = [[Hypothesis(tuple(each.source_ids), True, 0.0, 0.0, ())] for each in inputs]
        yield BatchResult(range(len(found)), found)


@pytest.mark.parametrize("how", ["translate", "stream"])
def test_constraints_are_built_once_per_call(
    how: str, tokenizers: TokenizerPair, monkeypatch
) -> None:
    made: list[LexicalConstraints] = []

    class Counted(LexicalConstraints):
        def __init__(self, *arguments: Any) -> None:
            made.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr("seq2see.translator.translator.LexicalConstraints", Counted)
    translator = Translator(cast("Engine", Echo(StartAndEndTokenIds())), tokenizers, ("en", "fr"))
    found = list(getattr(translator, how)(LINES, glossary={"the": "roi"}, forbidden=["animal"]))
    assert len(found) == len(LINES)
    assert len(made) == 1
    assert {wish for each in found for wish in each.unmet_constraints} == {"roi", "animal"}


@pytest.mark.parametrize("language", ["fr", "zh"])
def test_many_constraints_equal_single_constraints(
    language: str, tokenizers: TokenizerPair
) -> None:
    words = sorted({word.strip(".") for line in LINES for word in line.split()})
    glossary = {word: f"{word} là" for word in words}
    options = TranslationOptions(glossary=glossary, forbidden=tuple(glossary) * 2)
    many = LexicalConstraints(options, tokenizers.target, language)
    alone = [
        LexicalConstraints(TranslationOptions(glossary={word: term}), tokenizers.target, language)
        for word, term in glossary.items()
    ]
    source = SentenceSearchInput([5] * 9)
    for sentence in LINES[::7]:
        terms = [
            term for one in alone for term in one.constrain_input(source, sentence, "").required
        ]
        assert list(many.constrain_input(source, sentence, "").required) == terms
        lacking = [wish for one in alone for wish in one.find_unmet(sentence, "")]
        assert list(many.find_unmet(sentence, "")) == lacking
        assert lacking
    assert many.find_unmet("", f"{words[-1]} {words[3]}") == (words[3], words[-1])
