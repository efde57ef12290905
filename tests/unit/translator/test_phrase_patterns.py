"""The phrase finder finds the same phrases as a search for each phrase."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from seq2see.translator import constraints
from seq2see.translator.constraints import (
    PhrasePattern,
    compile_smart_case_pattern,
    find_matching_phrases,
)

CASED = "".join(
    character
    for character in map(chr, range(0x110000))
    if character.lower() != character or character.upper() != character
)
letters = st.sampled_from("aAbİiıßẞsſéΣς3_-'.,猫がแमि\u0301  \n")
INSIDE = r"[^\W猫がแ]"
texts = st.text(letters, max_size=16)
phrases = st.text(letters, min_size=1, max_size=4).filter(str.strip)


def plain(phrase: str, any_case: bool = False) -> re.Pattern[str]:
    """Return a simple regular expression as reference."""
    parts = phrase.split()
    before = f"(?<!{INSIDE})" if re.match(INSIDE, parts[0]) else ""
    behind = f"(?!{INSIDE})" if re.match(INSIDE, parts[-1][-1]) else ""
    flags = re.IGNORECASE if any_case and phrase == phrase.lower() else 0
    return re.compile(before + r"\s+".join(map(re.escape, parts)) + behind, flags)


@given(phrases, texts)
def test_matches_equal_those_of_one_regular_expression(phrase: str, text: str) -> None:
    ours, theirs = PhrasePattern(phrase).find_all(text), plain(phrase).finditer(text)
    assert list(ours) == [match.span() for match in theirs]
    ours, theirs = (
        compile_smart_case_pattern(phrase).find_all(text),
        plain(phrase, True).finditer(text),
    )
    assert list(ours) == [match.span() for match in theirs]


@given(st.lists(phrases, max_size=6), texts, texts)
def test_finder_finds_every_phrase(some: list[str], left: str, right: str) -> None:
    text = left + "".join(some[:1]).upper() + right
    expected = [place for place, phrase in enumerate(some) if plain(phrase, True).search(text)]
    assert (
        find_matching_phrases([compile_smart_case_pattern(phrase) for phrase in some], text)
        == expected
    )


def test_case_is_folded_as_in_patterns() -> None:
    for letter in CASED:
        for other in re.findall(letter, CASED, re.IGNORECASE):
            assert constraints._fold_case(letter) == constraints._fold_case(other), (letter, other)


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("New York", "in NEW \n YORK!"),
        ("l'eau", "De l'eau."),
        ("istanbul", "İstanbul"),
        ("猫", "黒猫がいる"),
        ("แมว", "มีแมวนอน"),
        ("हिन्दी", "मैं हिन्दी बोलता हूँ"),
        ("(c)", "x(C)"),
    ],
)
def test_phrase_is_not_found_inside_a_word(phrase: str, text: str) -> None:
    finder = compile_smart_case_pattern(phrase.lower())
    assert finder.folded_first_word in constraints._fold_case(text)
    assert finder.find_first(text) is not None


def test_match_may_start_inside_a_rejected_match() -> None:
    assert list(PhrasePattern("a a").find_all("xa a a")) == [(3, 6)]


@pytest.mark.parametrize("script", ["Wort{}", "語{}", "ค{}ำ"])
def test_only_likely_phrases_are_compiled(script: str, monkeypatch) -> None:
    compiled: list[str] = []
    compile_pattern = re.compile

    def counted(pattern: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_pattern(pattern, flags)

    numbered = [script.format(f"{chr(ord('a') + number % 26)}{number}") for number in range(5000)]
    monkeypatch.setattr(constraints.re, "compile", counted)
    many = [PhrasePattern(phrase) for phrase in numbered]
    assert not compiled
    assert find_matching_phrases(many, f"Nichts davon, aber {numbered[7]}!") == [7]
    assert len(compiled) < 5000 / 20
