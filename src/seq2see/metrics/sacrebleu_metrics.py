"""Metrics computed with sacrebleu: options, statistics per line, and scores with signatures.

Exact match and TER on characters are implemented here as metrics of sacrebleu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any, TypedDict, Unpack, get_args

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
    details: BLEUScore | None = field(default=None, compare=False)
    """Components of the score, for BLEU only: precisions, brevity penalty and lengths."""
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
        self, stats: Float64Array, interval: tuple[float, float] | None = None, **settings: int
    ) -> MetricScore:
        """Return the score of the given statistics per line, with its signature.

        `settings` are added to the signature.
        """
        result = self._compute(stats.sum(axis=0))
        details = result if isinstance(result, BLEUScore) else None
        signature = self.format_signature(**settings)
        return MetricScore(self.metric, float(result.score), signature, details, interval)

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
    built: Metric = resolve_name(METRICS[metric].constructor)(options)
    return built


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
