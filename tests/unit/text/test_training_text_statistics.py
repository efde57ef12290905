"""Measurement of the training text: sentences per line, lengths, length ratios, scripts."""

from __future__ import annotations

import math

import pytest

from seq2see.text import TokenizerConfig, TokenizerPair
from seq2see.text.training_text_statistics import (
    DEFAULT_LENGTH_RATIO,
    MIN_BUCKET_PAIRS,
    LengthRatioBucket,
    TrainingTextStatistics,
    find_length_ratio,
    measure_training_text,
)

LANGUAGES = ("en", "de")
ONE = [("The dog sleeps now.", "Der Hund schläft jetzt."), ("A cat runs.", "Eine Katze läuft.")]
TWO = [("The dog sleeps. A cat runs.", "Der Hund schläft. Eine Katze läuft.")]
CORPUS = ONE * 95 + TWO * 10


@pytest.fixture(scope="module")
def tokenizers() -> TokenizerPair:
    sources, targets = zip(*ONE, strict=True)
    return TokenizerPair.train(sources, targets, TokenizerConfig(vocab_size=300))


def measure(pairs: list[tuple[str, str]], tokenizers: TokenizerPair) -> TrainingTextStatistics:
    found = measure_training_text(pairs, LANGUAGES, tokenizers)
    assert found
    return found


@pytest.mark.parametrize(("num_pairs", "expected"), [(4, 1), (6, 2)])
def test_sentences_per_line_need_five_percent_of_lines(
    tokenizers: TokenizerPair, num_pairs: int, expected: int
) -> None:
    pairs = ONE * 47 + TWO * num_pairs
    assert measure(pairs, tokenizers).max_sentences_per_line == expected


def test_shares_and_lengths_describe_both_sides(tokenizers: TokenizerPair) -> None:
    found = measure(CORPUS, tokenizers)
    assert found.num_pairs == len(CORPUS)
    assert found.source.sentence_shares == found.target.sentence_shares == (0.95, 0.05)
    assert found.source.scripts == {"LATIN": 1}
    lengths = [len(tokenizers.source.encode(source)) for source, _ in CORPUS]
    assert found.source.max_tokens == max(lengths)
    assert found.source.mean_tokens == pytest.approx(sum(lengths) / len(lengths), abs=0.01)


def test_ratios_are_measured_by_source_length(tokenizers: TokenizerPair) -> None:
    short, long = ("cat", "Katze"), ("cat " * 20, "Katze " * 20)
    found = measure([short, long] * MIN_BUCKET_PAIRS, tokenizers)
    lengths = [
        (len(tokenizers.source.encode(a)), len(tokenizers.target.encode(b)))
        for a, b in (short, long)
    ]
    assert len(found.length_ratios) == 2
    for (source, target), bucket in zip(lengths, found.length_ratios, strict=True):
        assert find_length_ratio(found, source) == bucket
        assert bucket.mean == pytest.approx(math.log((target + 1) / (source + 1)), abs=1e-4)
        assert bucket.compute_z_score(source, target) == pytest.approx(0, abs=0.01)
        assert bucket.compute_z_score(source, target // 2) < -3


def test_lengths_beyond_the_measured_ones_use_the_nearest_bucket(
    tokenizers: TokenizerPair,
) -> None:
    found = measure(CORPUS, tokenizers)
    assert find_length_ratio(found, 10_000) == found.length_ratios[-1]
    assert find_length_ratio(found, 0) == found.length_ratios[0]


def test_few_pairs_have_the_default_length_ratio(tokenizers: TokenizerPair) -> None:
    assert find_length_ratio(measure(ONE, tokenizers), 5) is DEFAULT_LENGTH_RATIO
    assert find_length_ratio(None, 5) is DEFAULT_LENGTH_RATIO


def test_statistics_survive_json(tokenizers: TokenizerPair) -> None:
    found = measure(CORPUS, tokenizers)
    assert TrainingTextStatistics.model_validate_json(found.model_dump_json()) == found
    assert isinstance(found.length_ratios[0], LengthRatioBucket)


def test_pairs_that_training_skips_are_not_measured(tokenizers: TokenizerPair) -> None:
    skipped = [("", "Katze"), ("cat", " "), ("cat " * 20, "Katze"), ("cat", "Katze " * 20)]
    found = measure_training_text([*ONE, *skipped], LANGUAGES, tokenizers, max_length=20)
    assert found == measure(ONE, tokenizers)
    assert measure_training_text(skipped, LANGUAGES, tokenizers, max_length=20) is None


def test_measuring_reports_progress(tokenizers: TokenizerPair) -> None:
    calls: list[tuple[int, int]] = []
    measure_training_text(ONE * 600, LANGUAGES, tokenizers, None, lambda *call: calls.append(call))
    assert calls == [(1000, 1200), (1200, 1200)]
