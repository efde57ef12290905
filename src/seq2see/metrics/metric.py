"""Metrics computed with sacrebleu: options, statistics per line, and scores with signatures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Metric, Score, Signature
from sacrebleu.metrics.bleu import BLEU, BLEUScore
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from seq2see.errors import InputError
from seq2see.text.languages import is_written_without_spaces, primary_language

EXACT_MATCH_NAME = "exact match"


class _Signature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self._abbr["case"] = "c"
        self.info["case"] = "lc" if args["lowercase"] else "mixed"


class ExactMatch(Metric):
    """The share of lines that equal one of their references, but for white space around them."""

    _SIGNATURE_TYPE = _Signature

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lowercase = lowercase

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
        return Score(EXACT_MATCH_NAME, 100.0 * equal / lines)

    def _aggregate_and_compute(self, stats: Sequence[Sequence[int]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))


class CharacterTER(TER):
    """Every character is a word; the signature says so."""

    def __init__(self, case_sensitive: bool = False) -> None:
        super().__init__(case_sensitive=case_sensitive)
        self.tokenizer_signature = "char"

    def _preprocess_segment(self, sent: str) -> str:
        return " ".join(super()._preprocess_segment(sent))


MetricName = Literal["bleu", "chrf", "ter", "exact"]


Tokenization = Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"]
"""sacrebleu has more, but those fetch their models from the network."""


Lines = Sequence[str]


References = Sequence[str] | Sequence[Sequence[str]]
"""A line for each hypothesis, or several lists of them."""


Float64Array = NDArray[np.float64]


_NAMES: Mapping[MetricName, str] = {
    "bleu": "BLEU",
    "chrf": "chrF2",
    "ter": "TER",
    "exact": "exact match",
}


_TOKENIZATIONS: Mapping[str, Tokenization] = {
    "zh": "zh",
    "cmn": "zh",
    "yue": "zh",
    "ja": "ja-mecab",
    "ko": "ko-mecab",
}
"""Of the languages that have one of their own."""


class MetricOptions(TypedDict, total=False):
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
class MetricScore:
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


class MetricStatistics:
    """A metric of sacrebleu, and what it has counted in each line of each system."""

    def __init__(
        self,
        metric: MetricName,
        systems: Sequence[Lines],
        references: References,
        options: MetricOptions,
        **own: Any,
    ) -> None:
        several = _checked(systems, references)
        self.metric = metric
        self.sacrebleu_metric = _theirs(metric, options, own)
        # Both are private, but they are what sacrebleu's own tests of significance are made of.
        self._compute: Callable[[Any], Any] = self.sacrebleu_metric._compute_score_from_stats
        count = self.sacrebleu_metric._extract_corpus_statistics
        self.line_statistics: list[Float64Array] = [
            np.array(count(lines, several), float) for lines in systems
        ]

    def compute_value(self, stats: Float64Array) -> float:
        """Return the score of summed statistics."""
        return float(self._compute(stats).score)

    def compute_sentence_values(self, system: int) -> Float64Array:
        """Return the score of each sentence of a system; `sentence_scores` is made for BLEU."""
        return np.array([self.compute_value(row) for row in self.line_statistics[system]])

    def compute_score(
        self, stats: Float64Array, interval: tuple[float, float] | None = None, **how: int
    ) -> MetricScore:
        """Return the score of these lines, signed."""
        result = self._compute(stats.sum(axis=0))
        details = _details(result) if isinstance(result, BLEUScore) else None
        return MetricScore(
            self.metric, float(result.score), self.format_signature(**how), details, interval
        )

    def format_signature(self, **how: int) -> str:
        """Return sacrebleu's signature, with what we did beside."""
        signature = self.sacrebleu_metric.get_signature()
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


def _theirs(metric: MetricName, options: MetricOptions, own: Mapping[str, Any]) -> Metric:
    """Return the metric of sacrebleu that these options mean."""
    case = options.get("lowercase")
    if metric == "bleu":
        return _bleu(_tokenization(options), bool(case), **own)
    if metric == "chrf":
        return CHRF(lowercase=bool(case))
    if metric == "ter":
        return _ter(options.get("language"), case_sensitive=case is False)
    if metric == "exact":
        return ExactMatch(lowercase=bool(case))
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
        extra = {"ja-mecab": "japanese", "ko-mecab": "korean"}[tokenization]
        raise InputError(
            f"tokenization {tokenization} needs a package more: pip install 'seq2see[{extra}]', "
            "or choose another, such as char"
        ) from None


def _ter(language: str | None, case_sensitive: bool) -> TER:
    """Return what does not take a sentence without spaces for one word."""
    if not is_written_without_spaces(language):
        return TER(case_sensitive=case_sensitive)
    if primary_language(language) not in _TOKENIZATIONS:
        return CharacterTER(case_sensitive)
    return TER(case_sensitive=case_sensitive, normalized=True, asian_support=True)


def check_metrics(names: Sequence[MetricName], **options: Unpack[MetricOptions]) -> None:
    """Raise now what scoring with these options would raise later."""
    for name in names:
        _theirs(name, options, {})


def find_fallback_tokenization(language: str | None) -> Tokenization | None:
    """Return how to find words where the language's own way is not installed; None: it is."""
    try:
        check_metrics(["bleu"], language=language)
    except InputError:
        return "char"
    return None


def _tokenization(options: MetricOptions) -> Tokenization:
    chosen = options.get("tokenize")
    if chosen is None:
        language = options.get("language")
        return _TOKENIZATIONS.get(
            primary_language(language), "char" if is_written_without_spaces(language) else "13a"
        )
    if chosen not in get_args(Tokenization):
        known = ", ".join(get_args(Tokenization))
        raise InputError(f"`tokenize` must be one of {known}, but is {chosen} instead")
    return chosen


def _details(result: BLEUScore) -> BleuDetails:
    precisions = tuple(map(float, result.precisions))
    return BleuDetails(precisions, float(result.bp), result.sys_len, result.ref_len)
