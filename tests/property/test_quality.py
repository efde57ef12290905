"""Whatever the text, cleaning loses no pair, agrees with examining, and leaves a healthy corpus."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings, strategies as st

from seq2see.data import fables
from seq2see.data.quality.analysis import AcceptedPair, RejectedPair, analyze_corpus, filter_corpus
from seq2see.data.quality.config import RULES, QualityConfig
from seq2see.data.quality.words import compute_match_key, extract_words, has_word
from seq2see.data.readers import SentencePair

SURE = {"empty", "broken_encoding", "too_long", "unmatched_markup", "identical", "duplicate"}
"""Rules that judge a pair by itself, or by those before it; the others learn from all."""

texts = st.text(max_size=40) | st.sampled_from(["", "OK", "<b>x</b>", "fÃ¼r", "a b c d e f", "犬"])
corpora = st.lists(st.builds(SentencePair, texts, texts), max_size=30)


@pytest.fixture(autouse=True)
def _no_lingua(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seq2see.data.quality.languages.is_lingua_installed", lambda: False)


@given(corpora)
def test_any_text_comes_out_once_and_in_order(pairs: list[SentencePair]) -> None:
    verdicts = list(filter_corpus(pairs))
    assert [(v.line, v.pair) for v in verdicts] == list(enumerate(pairs, start=1))


@given(corpora)
def test_examining_counts_what_cleaning_removes(pairs: list[SentencePair]) -> None:
    report = analyze_corpus(pairs)
    removed = Counter(v.rule for v in filter_corpus(pairs) if isinstance(v, RejectedPair))
    counted = {
        f.name: f.count for f in report.findings if f.name in RULES and f.name != "number_mismatch"
    }
    assert counted == removed
    assert report.num_accepted == len(pairs) - removed.total()
    assert json.loads(json.dumps(report.to_json(), allow_nan=False))["num_pairs"] == len(pairs)


@given(corpora)
def test_what_is_clean_stays_clean(pairs: list[SentencePair]) -> None:
    config = QualityConfig(clean_rules=tuple(SURE))
    kept = [v.pair for v in filter_corpus(pairs, config) if isinstance(v, AcceptedPair)]
    assert not any(isinstance(v, RejectedPair) for v in filter_corpus(kept, config))
    assert not {finding.name for finding in analyze_corpus(kept).findings} & SURE


@given(st.text())
def test_normal_forms_make_no_difference(text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert extract_words(composed) == extract_words(decomposed)
    assert compute_match_key(composed) == compute_match_key(decomposed)
    assert not has_word(text) or extract_words(text)


@given(st.text(), st.text())
def test_folding_twice_changes_nothing(left: str, right: str) -> None:
    assert compute_match_key(compute_match_key(left)) == compute_match_key(left)
    assert compute_match_key(f"{left.upper()} - {right}!") == compute_match_key(
        f"{left.upper()}-{right}"
    )


@cache
def good() -> tuple[SentencePair, ...]:
    found = {fable.source: fable.target for fable in fables.load_fables("train", short=True)}
    long = sorted(pair for pair in found.items() if len(extract_words(pair[0])) > 6)
    return tuple(SentencePair(*pair) for pair in long[:: len(long) // 600])


@settings(max_examples=15)  # each reads a corpus four times
@given(st.data())
def test_a_cleaned_corpus_is_healthy(data: st.DataObject) -> None:
    pairs = list(good())
    places = st.lists(st.integers(0, len(pairs) - 1), max_size=40, unique=True)
    for place in data.draw(places, "emptied"):
        pairs[place] = SentencePair(pairs[place].source, " ")
    for place in data.draw(places, "swapped"):
        pairs[place] = SentencePair(pairs[place].target, pairs[place].source)
    for place in data.draw(places, "stretched"):
        pairs[place] = SentencePair(pairs[place].source, pairs[place].target * 8)
    wrong = data.draw(places, "shuffled")
    targets = [pairs[place].target for place in wrong]
    for place, target in zip(wrong, targets[1:] + targets[:1], strict=True):
        pairs[place] = SentencePair(pairs[place].source, target)
    start, count, lines = data.draw(
        st.tuples(st.integers(0, 400), st.integers(0, 200), st.integers(1, 5))
    )
    region = [pair.target for pair in pairs[start : start + count]]
    for i, target in enumerate(region[lines:] + region[:lines]):
        pairs[start + i] = SentencePair(pairs[start + i].source, target)
    kept = [
        v.pair for v in filter_corpus(pairs, languages=("en", "fr")) if isinstance(v, AcceptedPair)
    ]
    report = analyze_corpus(kept, languages=("en", "fr"))
    assert report.is_clean, [finding.text for finding in report.findings]
    assert len(kept) > len(pairs) - 160 - count - 2 * lines - 20


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_plain_text_has_the_words_it_has_beside_other_letters(text: str) -> None:
    assert [*extract_words(text), "é"] == extract_words(f"{text} é")
