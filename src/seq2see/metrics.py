"""BLEU, chrF, TER and exact match, each with a signature of its computation. No torch.

The scores are computed by sacrebleu, which is imported only here. Resampling is implemented here:
sacrebleu takes the seed from the environment, needs memory for all samples at once, and has no
confidence interval of a difference. Intervals are equal to those of sacrebleu, and so
are p-values unless a sample has exactly the same difference.

Papers on multi30k report tokenized, lower-cased BLEU: `tokenize="none", lowercase=True` on
tokenized text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric, Score, Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2see.errors import InputError
from seq2see.registries import METRICS, MetricName, Tokenization
from seq2see.text.languages import is_written_without_spaces, primary_language


class _Signature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self._abbr["case"] = "c"
        self.info["case"] = "lc" if args["lowercase"] else "mixed"


class ExactMatch(Metric):
    """Share of lines that equal one of their references, ignoring surrounding white space."""

    _SIGNATURE_TYPE = _Signature

    def __init__(self, options: MetricOptions) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lowercase = bool(options.get("lowercase"))

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip().lower() if self.lowercase else sent.strip()

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"refs": set(refs)}

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: Mapping[str, Any]
    ) -> list[int]:
        return [int(hypothesis in ref_kwargs["refs"]), 1]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        equal, lines = stats
        return Score(METRICS["exact"].label, 100.0 * equal / lines)

    def _aggregate_and_compute(self, stats: Sequence[Sequence[int]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))


class CharacterTokenTER(TER):
    """TER on characters, for languages whose words Tercom cannot find."""

    def __init__(self, case_sensitive: bool = False) -> None:
        super().__init__(case_sensitive=case_sensitive)
        self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(super()._preprocess_segment(sent))


Lines = Sequence[str]


References = Sequence[str] | Sequence[Sequence[str]]
"""One reference per hypothesis, or several lists of references."""


Float64Array = NDArray[np.float64]


_TOKENIZATIONS: Mapping[str, Tokenization] = {
    **dict.fromkeys(("zh", "cmn", "yue"), "zh"),
    "ja": "ja-mecab",
    "ko": "ko-mecab",
}
"""Languages with their own tokenizer; the default of the others is 13a or char."""


DEFAULT_SEED = 12345
"""The seed of sacrebleu."""


class MetricOptions(TypedDict, total=False):
    """Options of a metric. They are part of its signature."""

    language: str | None
    """Language of the hypotheses. It matters for languages that are written without spaces."""
    tokenize: Tokenization | None
    """Tokenizer of BLEU. By default that of the language, which is 13a for most."""
    lowercase: bool | None
    """Ignore case. By default only TER ignores case."""


@dataclass(frozen=True, slots=True)
class MetricScore:
    """A score with the signature of its computation."""

    metric: MetricName
    value: float
    signature: str
    details: Mapping[str, Any] | None = field(default=None, compare=False)
    """Components of the score, for BLEU only: precisions, brevity penalty and length ratio."""
    interval: tuple[float, float] | None = None
    """95 % confidence interval over resampled test sets, if it was requested."""

    @property
    def name(self) -> str:
        """Name of the metric, for display."""
        return METRICS[self.metric].label

    @property
    def higher_is_better(self) -> bool:
        """Whether higher scores are better; False for metrics that count errors."""
        return METRICS[self.metric].higher_is_better

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


class MetricStatistics:
    """A metric with its statistics of each line of one or more systems.

    Args:
        metric: Name of the metric.
        systems: Hypotheses of each system.
        references: References of the hypotheses.
        options: Options of the metric.

    Raises:
        InputError: If the numbers of lines differ or an option is invalid.
    """

    def __init__(
        self,
        metric: MetricName,
        systems: Sequence[Lines],
        references: References,
        options: MetricOptions,
    ) -> None:
        reference_lists = _check_lines(systems, references)
        self.metric = metric
        self.sacrebleu_metric = _build_sacrebleu_metric(metric, options)
        # Both methods are private, but sacrebleu's own significance tests use them.
        self._compute: Callable[[Any], Any] = self.sacrebleu_metric._compute_score_from_stats
        extract = self.sacrebleu_metric._extract_corpus_statistics
        self.line_statistics: list[Float64Array] = [
            np.array(extract(lines, reference_lists), float) for lines in systems
        ]

    def compute_value(self, stats: Float64Array) -> float:
        """Return the score for summed statistics."""
        return float(self._compute(stats).score)

    def compute_sentence_values(self, system: int) -> Float64Array:
        """Return the score of each sentence of a system. BLEU is not meaningful for sentences."""
        return np.array([self.compute_value(row) for row in self.line_statistics[system]])

    def compute_score(
        self, system: int = 0, samples: int = 0, seed: int = DEFAULT_SEED
    ) -> MetricScore:
        """Return the score of a system; see `compute_metric_score`."""
        result = self._compute(self.line_statistics[system].sum(axis=0))
        value, details = float(result.score), None
        if isinstance(result, BLEUScore):
            details = {
                "precisions": result.precisions,
                "brevity_penalty": result.bp,
                "length_ratio": result.sys_len / max(1, result.ref_len),
            }
        if not samples:
            return MetricScore(self.metric, value, self.format_signature(), details)
        interval = compute_interval_95(bootstrap_scores(self, samples, seed)[system])
        signature = self.format_signature(bs=samples, seed=seed)
        return MetricScore(self.metric, value, signature, details, interval)

    def format_signature(self, **settings: int) -> str:
        """Return the signature of sacrebleu, with the given settings added."""
        signature = self.sacrebleu_metric.get_signature()
        for key, value in settings.items():
            signature.update(key, value)
        return signature.format()


def _check_lines(systems: Sequence[Lines], references: References) -> list[list[str]]:
    """Return the lists of references if each has one line per hypothesis."""
    is_single = not references or isinstance(references[0], str)
    reference_lists: list[Any] = [references] if is_single else list(references)
    lists = [*systems, *reference_lists]
    for lines in lists:
        is_list = isinstance(lines, Sequence) and not isinstance(lines, str)
        if not is_list or not all(isinstance(line, str) for line in lines):
            raise InputError("hypotheses and references must be lists of texts, but are not")
    if len(set(map(len, lists))) > 1:
        num_hypotheses, num_references = (
            ", ".join(str(len(lines)) for lines in group) for group in (systems, reference_lists)
        )
        raise InputError(
            "there must be as many references as hypotheses, but there are "
            f"{num_hypotheses} hypotheses and {num_references} references"
        )
    if not lists[0]:
        raise InputError("there must be at least one sentence to score, but there is none")
    return reference_lists


def _build_sacrebleu_metric(metric: MetricName, options: MetricOptions) -> Metric:
    """Return the metric of sacrebleu for the given options."""
    if metric not in METRICS:
        raise InputError(f"`metric` must be one of {', '.join(METRICS)}, but is {metric} instead")
    return _BUILDERS[metric](options)


def build_bleu(options: MetricOptions) -> BLEU:
    """Return a BLEU metric; raise InputError if its tokenizer needs an optional package."""
    tokenization = _choose_tokenization(options)
    try:
        return BLEU(
            lowercase=bool(options.get("lowercase")),
            force=True,  # no warning about tokenized text: the signature has the tokenizer
            tokenize=tokenization,
        )
    except RuntimeError:
        extra = {"ja-mecab": "japanese", "ko-mecab": "korean"}[tokenization]
        raise InputError(
            f"tokenization {tokenization} needs an optional package: "
            f"pip install 'seq2see[{extra}]', or choose another one, such as char"
        ) from None


def build_chrf(options: MetricOptions) -> CHRF:
    """Return a chrF metric."""
    return CHRF(lowercase=bool(options.get("lowercase")))


def build_ter(options: MetricOptions) -> TER:
    """Return a TER metric that splits text without spaces into words or characters."""
    language, case_sensitive = options.get("language"), options.get("lowercase") is False
    if not is_written_without_spaces(language):
        return TER(case_sensitive=case_sensitive)
    if primary_language(language) not in _TOKENIZATIONS:
        return CharacterTokenTER(case_sensitive)
    return TER(case_sensitive=case_sensitive, normalized=True, asian_support=True)


_BUILDERS: Mapping[MetricName, Callable[[MetricOptions], Metric]] = {
    "bleu": build_bleu,
    "chrf": build_chrf,
    "ter": build_ter,
    "exact": ExactMatch,
}


def check_metrics_and_options(
    names: Sequence[MetricName], **options: Unpack[MetricOptions]
) -> None:
    """Check that the metrics can be computed with these options.

    Raises:
        InputError: If a name or an option is invalid, or a package is not installed.
    """
    for name in names:
        _build_sacrebleu_metric(name, options)


def find_fallback_tokenization(language: str | None) -> Tokenization | None:
    """Return a tokenization to use if that of the language is not installed, or None if it is."""
    try:
        check_metrics_and_options(["bleu"], language=language)
    except InputError:
        return "char"
    return None


def _choose_tokenization(options: MetricOptions) -> Tokenization:
    tokenization = options.get("tokenize")
    if tokenization is None:
        language = options.get("language")
        return _TOKENIZATIONS.get(
            primary_language(language), "char" if is_written_without_spaces(language) else "13a"
        )
    if tokenization not in get_args(Tokenization):
        known = ", ".join(get_args(Tokenization))
        raise InputError(f"`tokenize` must be one of {known}, but is {tokenization} instead")
    return tokenization


def bootstrap_scores(statistics: MetricStatistics, samples: int, seed: int) -> Float64Array:
    """Return the score of each system on each resampled test set, [systems, samples].

    The first samples do not depend on the number of samples.
    """
    if samples < 1:
        raise InputError(f"`samples` must be at least 1, but is {samples} instead")
    rng, lines = np.random.default_rng(seed), len(statistics.line_statistics[0])
    draws = (rng.integers(lines, size=lines) for _ in range(samples))
    values = [
        [statistics.compute_value(stats[draw].sum(axis=0)) for stats in statistics.line_statistics]
        for draw in draws
    ]
    return np.array(values).T


def randomization_differences(
    statistics: MetricStatistics, samples: int, seed: int
) -> Float64Array:
    """Return the absolute differences of two systems whose outputs are swapped at random."""
    first, second = statistics.line_statistics
    rng = np.random.default_rng(seed)
    swaps = rng.integers(2, size=(samples, len(first)), dtype=bool)
    total, difference = (first + second).sum(axis=0), first - second
    mixed = [second.sum(axis=0) + difference[swap].sum(axis=0) for swap in swaps]
    return np.array(
        [
            abs(statistics.compute_value(part) - statistics.compute_value(total - part))
            for part in mixed
        ]
    )


def compute_interval_95(values: Float64Array) -> tuple[float, float]:
    """Return the bounds of the middle 95 % of the values."""
    ordered, cut = np.sort(values), len(values) // 40
    return float(ordered[cut]), float(ordered[-cut - 1])


def compute_metric_score(
    hypotheses: Lines,
    references: References,
    metric: MetricName = "bleu",
    samples: int = 0,
    seed: int = DEFAULT_SEED,
    **options: Unpack[MetricOptions],
) -> MetricScore:
    """Return the score of a test set.

    With `samples`, the score has a 95 % confidence interval from this number of resampled test
    sets.

    Raises:
        InputError: If the numbers of lines differ or an option is invalid.
    """
    statistics = MetricStatistics(metric, [hypotheses], references, options)
    return statistics.compute_score(0, samples, seed)


SignificanceTest = Literal["bootstrap", "randomization"]

_ROUNDING_ERROR = 1e-9
"""Maximum difference of two sums of the same numbers in another order."""


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """Comparison of two systems on the same sentences."""

    first: MetricScore
    second: MetricScore
    difference: float
    """Score of the second system minus the first."""
    interval: tuple[float, float]
    """95 % confidence interval of the difference over resampled test sets."""
    p_values: Mapping[SignificanceTest, float]
    """Probability of a difference at least as large if the systems are equally good."""
    signatures: Mapping[SignificanceTest, str]

    @property
    def better(self) -> Literal["first", "second"] | None:
        """The system with the better score, whether or not the difference is significant."""
        gain = self.difference if self.first.higher_is_better else -self.difference
        return None if gain == 0 else "second" if gain > 0 else "first"


def compare_statistics(
    statistics: MetricStatistics, samples: int | None = None, seed: int = DEFAULT_SEED
) -> MetricComparison:
    """Compare two systems by a metric with two significance tests.

    `bootstrap` draws sentences with replacement, by default 1,000 times. `randomization` swaps the
    outputs of the systems at random, by default 10,000 times.

    Raises:
        InputError: If the number of samples is below 1.
    """
    num_bootstrap, num_swaps = (1000, 10_000) if samples is None else (samples, samples)
    first, second = map(statistics.compute_score, (0, 1))
    difference = second.value - first.value
    resampled_first, resampled_second = bootstrap_scores(statistics, num_bootstrap, seed)
    differences = resampled_second - resampled_first
    null_differences: dict[SignificanceTest, Float64Array] = {
        "bootstrap": np.abs(differences) - np.abs(differences).mean(),
        "randomization": randomization_differences(statistics, num_swaps, seed),
    }
    return MetricComparison(
        first,
        second,
        difference,
        compute_interval_95(differences),
        {test: _compute_p_value(null, difference) for test, null in null_differences.items()},
        {
            "bootstrap": statistics.format_signature(seed=seed, bs=num_bootstrap),
            "randomization": statistics.format_signature(seed=seed, bs=num_bootstrap, ar=num_swaps),
        },
    )


def _compute_p_value(null_differences: Float64Array, difference: float) -> float:
    """Return the share of samples with at least the same difference; it is never 0.

    sacrebleu counts only larger differences. With that definition a system differs significantly
    from itself, and two sentences are enough for a significant difference.
    """
    is_as_large = null_differences >= abs(difference) - _ROUNDING_ERROR
    return (int(is_as_large.sum()) + 1) / (len(null_differences) + 1)
