"""BLEU, chrF and TER, each with the signature that says how it was counted. No torch here.

The numbers are sacrebleu's, and this is its only importer. Only the resampling is our own: there it
takes its seed from the environment, needs memory for all samples at once, and gives no interval for
a difference. P-values and intervals are the same as there, but for a system and itself.

Papers on multi30k count tokenised, lower-cased BLEU: `tokenize="none", lowercase=True` on text that
is tokenised already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2see.errors import InputError

MetricName = Literal["bleu", "chrf", "ter"]
Tokenization = Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"]
"""sacrebleu has more, but those fetch their models from the network."""
Test = Literal["bootstrap", "randomisation"]

Lines = Sequence[str]
References = Sequence[str] | Sequence[Sequence[str]]
"""A line for each hypothesis, or several lists of them."""
Floats = NDArray[np.float64]

SEED = 12345
"""sacrebleu's own."""
_TRIALS: Mapping[Test, int] = {"bootstrap": 1000, "randomisation": 10_000}
_KEYS: Mapping[Test, str] = {"bootstrap": "bs", "randomisation": "ar"}
"""In the signature."""

_NAMES: Mapping[MetricName, str] = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
_TOKENIZATIONS: Mapping[str, Tokenization] = {
    "zh": "zh",
    "cmn": "zh",
    "yue": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
}


class Options(TypedDict, total=False):
    """What can be chosen, and stands in the signature."""

    language: str | None
    """The language of the hypotheses, for those that are written without spaces."""
    tokenize: Tokenization | None
    """How BLEU finds words, instead of the language's own way (13a for most)."""
    lowercase: bool | None
    """Ignore case. As usual for the metric unless given: only TER does."""


@dataclass(frozen=True, slots=True)
class BleuDetails:
    """What BLEU is made of."""

    precisions: tuple[float, ...]
    """Of n-grams from 1 to 4, in percent."""
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


@dataclass(frozen=True, slots=True)
class Score:
    """A number, and how it came about."""

    metric: MetricName
    value: float
    signature: str
    details: BleuDetails | None = None
    """For BLEU."""
    interval: tuple[float, float] | None = None
    """Of 95 % of the resampled test sets, if they were asked for."""

    @property
    def name(self) -> str:
        """As it is printed."""
        return _NAMES[self.metric]

    @property
    def higher_is_better(self) -> bool:
        """TER counts errors."""
        return self.metric != "ter"

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same sentences."""

    first: Score
    second: Score
    difference: float
    """Second minus first."""
    interval: tuple[float, float]
    """Of the difference on 95 % of the resampled test sets."""
    p_value: float
    """How likely a difference at least as large is if the systems are equally good."""
    test: Test
    signature: str

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system that is better, whether or not the difference means something."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def score(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "bleu",
    samples: int = 0,
    seed: int = SEED,
    **options: Unpack[Options],
) -> Score:
    """Score a test set. With `samples`, also resample it so often for an interval."""
    judge = _Judge(metric, [hypotheses], references, options)
    (stats,) = judge.stats
    if not samples:
        return judge.score(stats)
    (values,) = _bootstrapped(judge, samples, seed)
    return judge.score(stats, interval=_middle(values), bs=samples, seed=seed)


def scores(
    hypotheses: Lines,
    references: References,
    metrics: Iterable[MetricName] = get_args(MetricName),
    samples: int = 0,
    seed: int = SEED,
    **options: Unpack[Options],
) -> dict[MetricName, Score]:
    """Score a test set by several metrics."""
    return {m: score(hypotheses, references, m, samples, seed, **options) for m in metrics}


def sentence_scores(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "chrf",
    **options: Unpack[Options],
) -> list[Score]:
    """Score each sentence by itself. BLEU stops at the longest n-gram that a sentence has."""
    judge = _Judge(metric, [hypotheses], references, options, effective_order=True)
    (stats,) = judge.stats
    return [judge.score(row[None]) for row in stats]


def compare(
    first: Lines,
    second: Lines,
    references: References,
    metric: MetricName = "bleu",
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = SEED,
    **options: Unpack[Options],
) -> Comparison:
    """Tell whether two systems differ by more than the choice of sentences would explain.

    `bootstrap` draws sentences with replacement (1,000 times unless `samples` says otherwise),
    `randomisation` swaps the systems' outputs at random (10,000 times).
    """
    if test not in _TRIALS:
        raise InputError(f"`test` must be one of {', '.join(_TRIALS)}, but is {test} instead")
    judge = _Judge(metric, [first, second], references, options)
    ours, theirs = map(judge.score, judge.stats)
    difference = theirs.value - ours.value
    trials = {"bs": _TRIALS["bootstrap"]}
    trials |= {_KEYS[test]: _TRIALS[test] if samples is None else samples}
    resampled = _resampled_differences(judge, trials["bs"], seed)
    if test == "bootstrap":
        by_chance = _centred(resampled)
    else:
        by_chance = _swapped_differences(judge, trials["ar"], seed)
    return Comparison(
        ours,
        theirs,
        difference,
        _middle(resampled),
        _p_value(by_chance, difference),
        test,
        judge.signature(seed=seed, **trials),
    )


class _Judge:
    """A metric of sacrebleu, and what it has counted in each line of each system."""

    def __init__(
        self,
        metric: MetricName,
        systems: Sequence[Lines],
        references: References,
        options: Options,
        **own: Any,
    ) -> None:
        several = _checked(systems, references)
        self.metric = metric
        self.theirs = _theirs(metric, options, own)
        # Both are private, but they are what sacrebleu's own tests of significance are made of.
        self._compute: Callable[[Any], Any] = self.theirs._compute_score_from_stats
        count = self.theirs._extract_corpus_statistics
        self.stats: list[Floats] = [np.array(count(lines, several), float) for lines in systems]

    def value(self, stats: Floats) -> float:
        """Return the score of summed statistics."""
        return float(self._compute(stats).score)

    def score(
        self, stats: Floats, interval: tuple[float, float] | None = None, **how: int
    ) -> Score:
        """Return the score of these lines, signed."""
        result = self._compute(stats.sum(axis=0))
        details = _details(result) if isinstance(result, BLEUScore) else None
        return Score(self.metric, float(result.score), self.signature(**how), details, interval)

    def signature(self, **how: int) -> str:
        """Return sacrebleu's signature, with what we did beside."""
        signature = self.theirs.get_signature()
        for key, value in how.items():
            signature.update(key, value)
        return signature.format()


def _checked(systems: Sequence[Lines], references: References) -> list[list[str]]:
    """Return the lists of references, if each has a line for each hypothesis."""
    one = bool(references) and isinstance(references[0], str)
    several: list[Any] = [references] if one or not references else list(references)
    for lines in (*systems, *several):
        listed = isinstance(lines, Sequence) and not isinstance(lines, str)
        if not listed or not all(isinstance(line, str) for line in lines):
            raise InputError("hypotheses and references must be lists of texts, but are others")
    ours, theirs = ([len(lines) for lines in lists] for lists in (systems, several))
    if len({*ours, *theirs}) > 1:
        raise InputError(
            "hypotheses and references must be as many, "
            f"but are {_joined(ours)} and {_joined(theirs)} instead"
        )
    if not ours[0]:
        raise InputError("there must be at least one sentence to score, but there is none")
    return several


def _joined(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def _theirs(metric: MetricName, options: Options, own: Mapping[str, Any]) -> BLEU | CHRF | TER:
    """Return the metric of sacrebleu that these options mean."""
    case = options.get("lowercase")
    if metric == "bleu":
        return _bleu(_tokenization(options), bool(case), **own)
    if metric == "chrf":
        return CHRF(lowercase=bool(case))
    if metric == "ter":
        spaceless = _primary(options.get("language")) in {"zh", "cmn", "yue", "ja"}
        return TER(
            case_sensitive=case is False, normalized=spaceless, asian_support=spaceless
        )  # without, a Chinese sentence would be one word
    known = ", ".join(get_args(MetricName))
    raise InputError(f"`metric` must be one of {known}, but is {metric} instead")


def _bleu(tokenization: Tokenization, lowercase: bool, effective_order: bool = False) -> BLEU:
    try:
        return BLEU(
            lowercase=lowercase,
            force=True,  # no warning about tokenised text: the signature says what was done
            tokenize=tokenization,
            effective_order=effective_order,
        )
    except RuntimeError:
        extra = tokenization.removesuffix("-mecab")
        raise InputError(
            f"tokenization {tokenization} needs a package more: pip install 'sacrebleu[{extra}]', "
            'or choose another, such as tokenize="char"'
        ) from None


def _tokenization(options: Options) -> Tokenization:
    chosen = options.get("tokenize")
    if chosen is None:
        return _TOKENIZATIONS.get(_primary(options.get("language")), "13a")
    if chosen not in get_args(Tokenization):
        known = ", ".join(get_args(Tokenization))
        raise InputError(f"`tokenize` must be one of {known}, but is {chosen} instead")
    return chosen


def _primary(language: str | None) -> str:
    """Return the language of a code such as zh-Hans or zh_CN."""
    return (language or "").replace("_", "-").partition("-")[0].lower()


def _details(result: BLEUScore) -> BleuDetails:
    precisions = tuple(map(float, result.precisions))
    return BleuDetails(precisions, float(result.bp), result.sys_len, result.ref_len)


def _bootstrapped(judge: _Judge, samples: int, seed: int) -> Floats:
    """Return the score of each system on each resampled test set."""
    _check_samples(samples)
    rng, lines = np.random.default_rng(seed), len(judge.stats[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [[judge.value(stats[draw].sum(axis=0)) for stats in judge.stats] for draw in draws]
    return np.array(values).T


def _resampled_differences(judge: _Judge, samples: int, seed: int) -> Floats:
    """Return second minus first on each resampled test set."""
    first, second = _bootstrapped(judge, samples, seed)
    return np.array(second - first)


def _centred(differences: Floats) -> Floats:
    """Return how much larger than usual each difference is."""
    sizes = np.abs(differences)
    return np.array(sizes - sizes.mean())


def _swapped_differences(judge: _Judge, samples: int, seed: int) -> Floats:
    """Return how much two systems differ whose outputs were swapped at random."""
    _check_samples(samples)
    first, second = judge.stats
    rng = np.random.default_rng(seed)
    swaps = rng.integers(2, size=(samples, len(first)), dtype=bool)
    total, apart = (first + second).sum(axis=0), first - second
    mixed = [second.sum(axis=0) + apart[swap].sum(axis=0) for swap in swaps]
    return np.array([abs(judge.value(part) - judge.value(total - part)) for part in mixed])


def _check_samples(samples: int) -> None:
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")


def _p_value(by_chance: Floats, difference: float) -> float:
    """Return how often chance does more; never 0, which no number of samples can show."""
    if difference == 0:
        return 1.0  # sacrebleu would call a system significantly different from itself
    return (int((by_chance > abs(difference)).sum()) + 1) / (len(by_chance) + 1)


def _middle(values: Floats) -> tuple[float, float]:
    """Return where the middle 95 % begin and end."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])
