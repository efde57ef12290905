"""What a model has seen: statistics of its training text, which are stored with the model.

The translator uses them to decide how many sentences it translates at once, and to find
translations that are too short or too long.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, groupby
from statistics import fmean, pstdev
from typing import Annotated

import numpy as np
from pydantic import Field

from seq2see.config import Config
from seq2see.progress_callbacks import ProgressCallback
from seq2see.text.languages import find_script_of_letter
from seq2see.text.sentence_splitting import count_sentences
from seq2see.text.tokenizer import TokenizerPair

MAX_MEASURED_PAIRS = 50_000
"""Larger corpora are measured on a sample of this size."""
MIN_LINE_SHARE = 0.05
"""Share of the training lines that must have at least n sentences for n to count as seen."""
MIN_BUCKET_PAIRS = 30
"""Minimum number of pairs from which the length ratios of a bucket are estimated."""
MIN_DEVIATION = 0.05
"""Minimum of the standard deviation of a bucket."""
_MAX_COUNTED_SENTENCES = 10
_PROGRESS_INTERVAL = 1000
"""Number of pairs between two calls of `on_progress`."""
_MIN_SCRIPT_SHARE = 0.001

Share = Annotated[float, Field(ge=0, le=1)]


class LengthRatioBucket(Config):
    """Length ratios of the pairs whose source has a number of tokens in a range."""

    min_source_tokens: int = Field(ge=0)
    """Minimum number of source tokens. The maximum is below the minimum of the next bucket."""
    num_pairs: int = Field(ge=1)
    """Number of measured pairs."""
    mean: float
    """Mean of ln((target tokens + 1) / (source tokens + 1))."""
    deviation: float = Field(gt=0)
    """Standard deviation of this value."""

    def compute_z_score(self, source_tokens: int, target_tokens: int) -> float:
        """Return by how many standard deviations a length ratio differs from the mean."""
        return (compute_log_ratio(source_tokens, target_tokens) - self.mean) / self.deviation


class SideStatistics(Config):
    """Statistics of the source lines or of the target lines."""

    mean_tokens: float = Field(ge=0)
    """Mean number of tokens per line, without special tokens."""
    max_tokens: int = Field(ge=0)
    """Number of tokens of the longest line that was measured."""
    sentence_shares: Annotated[tuple[Share, ...], Field(strict=False, min_length=1)]
    """Shares of the lines with 1, 2, 3, … sentences; the last one includes lines with more."""
    scripts: dict[str, Share]
    """Shares of the letters by script, by the names of Unicode such as LATIN and CJK."""


class TrainingTextStatistics(Config):
    """Statistics of the training text of a model."""

    num_pairs: int = Field(ge=1)
    """Number of measured sentence pairs."""
    max_sentences_per_line: int = Field(ge=1)
    """Largest n such that at least 5 % of the source lines have n sentences or more."""
    source: SideStatistics
    target: SideStatistics
    length_ratios: Annotated[tuple[LengthRatioBucket, ...], Field(strict=False)]
    """Length ratios by source length, in ascending order. Empty if too few pairs were measured."""


DEFAULT_LENGTH_RATIO = LengthRatioBucket(min_source_tokens=0, num_pairs=1, mean=0, deviation=0.4)
"""Length ratio of a model without statistics, wide enough for any pair of languages."""


def find_length_ratio(
    statistics: TrainingTextStatistics | None, source_tokens: int
) -> LengthRatioBucket:
    """Return the length ratios of a source length, or the default if there are no statistics.

    A longer source than those measured is in the last bucket, and a shorter one in the first.
    """
    if not statistics or not statistics.length_ratios:
        return DEFAULT_LENGTH_RATIO
    first, *others = statistics.length_ratios
    matches = [one for one in others if one.min_source_tokens <= source_tokens]
    return matches[-1] if matches else first


def compute_log_ratio(source_tokens: int, target_tokens: int) -> float:
    """Return the logarithm of the length ratio; one token is added to both sides."""
    return math.log((target_tokens + 1) / (source_tokens + 1))


def measure_training_text(
    pairs: Sequence[tuple[str, str]],
    languages: tuple[str, str],
    tokenizers: TokenizerPair,
    max_length: int | None = None,
    on_progress: ProgressCallback = lambda *_: None,
) -> TrainingTextStatistics | None:
    """Measure the sentence pairs that a model is trained on, or a sample of many pairs.

    Args:
        pairs: Source and target line of each training pair.
        languages: Source and target language.
        tokenizers: The tokenizers of the model.
        max_length: Maximum number of tokens of a training sentence, if there is one.
        on_progress: Called with the number of pairs that were measured, and of all of them.

    Returns:
        The statistics, or None if training skips all pairs: those with an empty side, or with one
        of more than `max_length` tokens.
    """
    lines = [[pair[side] for pair in pairs] for side in (0, 1)]
    both = tokenizers.source, tokenizers.target
    lengths = [one.encode_packed(side).lengths for one, side in zip(both, lines, strict=True)]
    is_used = np.minimum(*lengths) > 0
    if max_length is not None:
        is_used &= np.maximum(*lengths) <= max_length
    used_pairs = list(compress(pairs, is_used))
    if not used_pairs:
        return None
    sentence_counts, characters = (Counter[int](), Counter[int]()), (Counter[str](), Counter[str]())
    for number, pair in enumerate(used_pairs, 1):
        for side, line in enumerate(pair):
            num_sentences = max(count_sentences(line, languages[side]), 1)
            sentence_counts[side][min(num_sentences, _MAX_COUNTED_SENTENCES)] += 1
            characters[side].update(line)
        if number % _PROGRESS_INTERVAL == 0 or number == len(used_pairs):
            on_progress(number, len(used_pairs))
    used_lengths = [side[is_used].tolist() for side in lengths]
    source, target = map(_build_statistics, used_lengths, sentence_counts, characters)
    return TrainingTextStatistics(
        num_pairs=len(used_pairs),
        max_sentences_per_line=_find_max_sentences(source.sentence_shares),
        source=source,
        target=target,
        length_ratios=tuple(_measure_length_ratios(*used_lengths)),
    )


def _build_statistics(
    lengths: Sequence[int], sentence_counts: Counter[int], characters: Counter[str]
) -> SideStatistics:
    max_sentences = max(sentence_counts)
    return SideStatistics(
        mean_tokens=round(fmean(lengths), 2),
        max_tokens=max(lengths),
        sentence_shares=tuple(
            round(sentence_counts[number] / len(lengths), 4)
            for number in range(1, max_sentences + 1)
        ),
        scripts=_measure_scripts(characters),
    )


def _find_max_sentences(shares: Sequence[float]) -> int:
    """Return the largest n such that enough lines have n sentences or more."""
    return max(n for n in range(1, len(shares) + 1) if sum(shares[n - 1 :]) >= MIN_LINE_SHARE)


def _measure_scripts(characters: Mapping[str, int]) -> dict[str, float]:
    scripts = Counter[str]()
    for character, count in characters.items():
        if script := find_script_of_letter(character):
            scripts[script] += count
    shares = ((script, count / scripts.total()) for script, count in scripts.most_common())
    return {script: round(share, 4) for script, share in shares if share >= _MIN_SCRIPT_SHARE}


def _measure_length_ratios(
    source_lengths: Sequence[int], target_lengths: Sequence[int]
) -> Iterable[LengthRatioBucket]:
    """Yield the buckets of source lengths from each power of 2 to the next."""
    rows = sorted(
        (max(source, 1).bit_length(), compute_log_ratio(source, target))
        for source, target in zip(source_lengths, target_lengths, strict=True)
    )
    for num_bits, group in groupby(rows, key=lambda row: row[0]):
        ratios = [ratio for _, ratio in group]
        if len(ratios) >= MIN_BUCKET_PAIRS:
            yield LengthRatioBucket(
                min_source_tokens=1 << num_bits - 1,
                num_pairs=len(ratios),
                mean=round(fmean(ratios), 4),
                deviation=max(round(pstdev(ratios), 4), MIN_DEVIATION),
            )
