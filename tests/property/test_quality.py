"""Filtering returns all pairs of any text, agrees with analysis, and leaves a clean corpus."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from seq2see.data import fables
from seq2see.data.quality.analysis_and_filtering import (
    accept_or_reject_pairs,
    analyze_corpus,
)
from seq2see.data.quality.rules import RULES, QualityConfig
from seq2see.data.quality.words_and_word_ids import (
    compute_match_key,
    extract_words,
    has_letter_or_digit,
)
from seq2see.data.readers import SentencePair

INDEPENDENT_RULES = {
    "empty",
    "broken_encoding",
    "too_long",
    "unmatched_markup",
    "identical",
    "duplicate",
}
"""Rules that depend only on a pair and those before it; the others are fitted to all pairs."""

texts = st.text(max_size=40) | st.sampled_from(["", "OK", "<b>x</b>", "fÃ¼r", "a b c d e f", "犬"])
corpora = st.lists(st.builds(SentencePair, texts, texts), max_size=30)


@pytest.fixture(autouse=True)
def _no_lingua(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.data.quality.languages.is_lingua_installed", lambda: False)


@given(corpora)
def test_filter_returns_each_pair_once_in_order(pairs: list[SentencePair]) -> None:
    results = list(accept_or_reject_pairs(pairs))
    assert [pair for pair, _ in results] == pairs


@given(corpora)
def test_analysis_counts_equal_filter_counts(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs)
    removed = Counter(v.rule for _, v in accept_or_reject_pairs(pairs) if v)
    counts = {
        f.name: f.count for f in report.findings if f.name in RULES and f.name != "number_mismatch"
    }
    assert counts == removed
    assert report.num_accepted == len(pairs) - removed.total()
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["num_pairs"] == len(pairs)


@given(corpora)
def test_filtering_twice_removes_nothing_more(pairs: list[SentencePair]) -> None:
    config = QualityConfig(clean_rules=tuple(INDEPENDENT_RULES))
    accepted = [pair for pair, v in accept_or_reject_pairs(pairs, config) if v is None]
    assert not any(v for _, v in accept_or_reject_pairs(accepted, config))
    assert not {finding.name for finding in analyze_corpus(accepted).findings} & INDEPENDENT_RULES


@given(st.text())
def test_words_and_keys_ignore_unicode_normalization(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert extract_words(composed) == extract_words(decomposed)
    assert compute_match_key(composed) == compute_match_key(decomposed)
    assert not has_letter_or_digit(text) or extract_words(text)


@given(st.text(), st.text())
def test_match_keys_are_idempotent(left: str, right: str) -> None:
    assert compute_match_key(compute_match_key(left)) == compute_match_key(left)
    assert compute_match_key(f"{left.upper()} - {right}!") == compute_match_key(
        f"{left.upper()}-{right}"
    )


@cache
def correct_pairs() -> tuple[SentencePair, ...]:
    targets = {
        fable.source: fable.target for fable in fables.load_fables_split("train", short=True)
    }
    long = sorted(pair for pair in targets.items() if len(extract_words(pair[0])) > 6)
    return tuple(SentencePair(*pair) for pair in long[:: len(long) // 600])


@settings(max_examples=15)  # each example reads a corpus four times
@given(st.data())
def test_filtered_corpus_has_hardly_any_faults(data: st.DataObject) -> None:
    """Models fitted to the filtered corpus may reject a few more pairs, but not many."""
    pairs = list(correct_pairs())
    indices = st.lists(st.integers(0, len(pairs) - 1), max_size=40, unique=True)
    for index in data.draw(indices, "emptied"):
        pairs[index] = SentencePair(pairs[index].source, " ")
    for index in data.draw(indices, "swapped"):
        pairs[index] = SentencePair(pairs[index].target, pairs[index].source)
    for index in data.draw(indices, "stretched"):
        pairs[index] = SentencePair(pairs[index].source, pairs[index].target * 8)
    wrong = data.draw(indices, "shuffled")
    targets = [pairs[index].target for index in wrong]
    for index, target in zip(wrong, targets[1:] + targets[:1], strict=True):
        pairs[index] = SentencePair(pairs[index].source, target)
    start, count, lines = data.draw(
        st.tuples(st.integers(0, 400), st.integers(0, 200), st.integers(1, 5))
    )
    region = [pair.target for pair in pairs[start : start + count]]
    for i, target in enumerate(region[lines:] + region[:lines]):
        pairs[start + i] = SentencePair(pairs[start + i].source, target)
    results = accept_or_reject_pairs(pairs, languages=("en", "fr"))
    accepted = [pair for pair, violation in results if violation is None]
    report = analyze_corpus(accepted, languages=("en", "fr"))
    assert not report.faults, [finding.text for finding in report.findings]
    assert report.num_accepted >= 0.98 * len(accepted)
    assert len(accepted) > len(pairs) - 160 - count - 2 * lines - 20


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_words_equal_words_beside_other_letters(text: str) -> None:
    assert [*extract_words(text), "é"] == extract_words(f"{text} é")
