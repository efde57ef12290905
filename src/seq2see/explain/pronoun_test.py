"""Pronoun test: which noun "it" refers to, measured on contrastive pairs of the fables corpus.

A French translation must choose *il* or *elle*, which depends on whether the animal was too tired
or the street too wide. Proportions have Wilson intervals, and the report states which of them are
no better than chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor

from seq2see import draw
from seq2see.data import fables
from seq2see.data.fables import ContrastivePair, FableSentencePair
from seq2see.data.fables.phrases import WORD_PATTERN
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.head_ablation import (
    HeadAblationResult,
    ablate_heads_on_contrastive_pair,
    compute_contrastive_log_prob_differences,
    score_first_different_tokens,
)
from seq2see.explain.html_tables import (
    build_head_table,
    render_html_heat_table,
    render_html_report,
    render_html_table,
)
from seq2see.explain.sentence_contrast import SentenceContrast, contrast_sentences, find_preference
from seq2see.explain.sentence_contrast_figure import render_contrast_image, save_contrast_figure
from seq2see.explain.trace_format import SavableResult, TraceBaseModel
from seq2see.explain.words import build_source_sentence
from seq2see.model import AttentionRecorder
from seq2see.text.tokenizer import find_offsets_in_original_text

# N sentences, L layers, H heads, T queries, S source tokens

DEFAULT_CASES = 300
"""Default number of pairs: 95 % intervals of about ±6 percentage points."""
Z_95 = 1.96
"""Standard score of a 95 % interval."""


class ProportionWithConfidenceInterval(TraceBaseModel):
    """A proportion with a confidence interval, 95 % by default."""

    count: int
    total: int
    low: float
    high: float

    @classmethod
    def from_counts(
        cls, count: int, total: int, z: float = Z_95
    ) -> ProportionWithConfidenceInterval:
        """Return the proportion with its Wilson interval of `z` standard deviations."""
        square = z**2
        center = (count + square / 2) / (total + square)
        variance = count * (total - count) / total + square / 4
        half_width = z / (total + square) * math.sqrt(variance)
        low, high = max(0.0, center - half_width), min(1.0, center + half_width)
        return cls(count=count, total=total, low=low, high=high)

    @property
    def value(self) -> float:
        """The proportion."""
        return self.count / self.total

    @property
    def is_above_chance(self) -> bool:
        """Whether the interval is above one half."""
        return self.low > 0.5

    def format_interval(self) -> str:
        """Return the proportion and its interval as text."""
        return f"{self.value:.1%} of {self.total} (95 %: {self.low:.1%} to {self.high:.1%})"

    def format_with_significance(self) -> str:
        """Return the proportion and its interval as text, with a note if it may be chance."""
        note = "" if self.is_above_chance else ", no better than chance"
        return f"{self.format_interval()}{note}"


def bonferroni_z(num_tests: int) -> float:
    """Return the standard score of a 95 % interval with Bonferroni correction for `num_tests`."""
    return NormalDist().inv_cdf(1 - 0.05 / (2 * num_tests))


class EncoderHeadResult(TraceBaseModel):
    """Base class of results for one encoder head."""

    layer: int
    head: int

    @property
    def label(self) -> str:
        """Layer and head as text."""
        return f"layer {self.layer}, head {self.head}"


class HeadAttentionFromPronoun(EncoderHeadResult):
    """Attention of one encoder head from "it"."""

    weights: tuple[float, ...]
    """One weight per source token."""


class PronounCaseResult(TraceBaseModel):
    """One sentence with "it", and a correct and a wrong translation."""

    source: str
    tokens: tuple[str, ...]
    correct_token: str
    """First token of the correct translation that differs, such as *il*."""
    wrong_token: str
    """The same of the wrong translation, such as *elle*."""
    correct_probability: float
    wrong_probability: float
    log_prob_difference: float
    """log p(correct) − log p(wrong); positive if the model prefers the correct pronoun."""
    pronoun_attention: tuple[HeadAttentionFromPronoun, ...]
    ablations: tuple[HeadAblationResult, ...]

    def format_summary(self) -> str:
        """Return the preference of the model and the head with the largest effect, as text."""
        largest = max(self.ablations, key=lambda ablation: abs(ablation.change))
        return (
            f"p({self.correct_token}) = {self.correct_probability:.3f}, "
            f"p({self.wrong_token}) = {self.wrong_probability:.3f}; log-probability difference "
            f"{self.log_prob_difference:+.2f} nats (correct − wrong). "
            f"Without {largest.attention_address}.{largest.head} it is "
            f"{largest.log_prob_difference:+.2f}, the largest change of {len(self.ablations)} "
            "heads."
        )


class HeadAntecedentPreference(EncoderHeadResult):
    """How often an encoder head attends from "it" more to the antecedent than to the other noun."""

    proportion: ProportionWithConfidenceInterval


class PronounReport(SavableResult):
    """Results of the pronoun test."""

    corpus: str
    examples: tuple[PronounCaseResult, ...]
    """The sentences with "too tired" and "too wide"."""
    contrast: SentenceContrast
    """What decides between the pronouns of these two sentences."""
    accuracy: ProportionWithConfidenceInterval
    """How often the model prefers the correct translation to the wrong one."""
    masked_accuracy: ProportionWithConfidenceInterval
    """The same with the deciding word masked. Sources are then equal in pairs: half is correct."""
    heads: tuple[HeadAntecedentPreference, ...]

    @property
    def best_head(self) -> HeadAntecedentPreference:
        """Head that attends to the antecedent most often."""
        return max(self.heads, key=lambda head: head.proportion.value)

    def summary_lines(self) -> Iterator[str]:
        """Yield the results as lines of text, including null results and the two examples."""
        yield from self.proportion_lines()
        yield from (f"{case.source} {case.format_summary()}" for case in self.examples)
        yield from self.contrast.summary_lines()

    def proportion_lines(self) -> Iterator[str]:
        """Yield accuracy, masked accuracy and the best head as lines of text."""
        accuracy = self.accuracy.format_with_significance()
        yield f"The model prefers the correct pronoun in {accuracy}."
        yield f"With the deciding word masked: {self.masked_accuracy.format_with_significance()}."
        best, num_heads = self.best_head, len(self.heads)
        name = f"encoder {best.label}"
        corrected = ProportionWithConfidenceInterval.from_counts(
            best.proportion.count, best.proportion.total, bonferroni_z(num_heads)
        )
        interval = best.proportion.format_interval()
        if corrected.is_above_chance:
            yield (
                f'Attention shows the antecedent: {name} attends from "it" more to the antecedent '
                f"than to the other noun in {interval}, the best of {num_heads} heads."
            )
        else:
            yield (
                "No head attends to the antecedent significantly more often than to the other "
                f"noun. Best of {num_heads} heads: {name} in {interval}, which is not significant "
                "after Bonferroni correction."
            )

    def save_figure(self, path: Path) -> None:
        """Draw what decides between the pronouns of the two examples."""
        save_contrast_figure(path, self.contrast)

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        rows = [[head.label, head.proportion.format_with_significance()] for head in self.heads]
        table = render_html_table(["encoder head", f"sentences of {self.corpus}"], rows)
        title = "How often “it” attends more to the antecedent than to the other noun"
        figure = "<h2>What decides between the pronouns</h2>" + _render_contrast(self.contrast)
        cards = [figure, *map(_render_case, self.examples), f"<h2>{title}</h2>{table}"]
        return render_html_report("Pronoun test", [*self.proportion_lines()], cards)


def run_pronoun_test(
    explained: ExplainedModel, use_short_corpus: bool = False, max_cases: int = DEFAULT_CASES
) -> PronounReport:
    """Run the pronoun test with a model from English to French.

    Args:
        explained: The model.
        use_short_corpus: Use `builtin:fables-short/test` instead of `builtin:fables/test`.
        max_cases: Maximum number of pairs.

    Raises:
        InputError: If the model translates between other languages.
    """
    if tuple(language[:2] for language in explained.languages) != ("en", "fr"):
        raise InputError(
            f"the model must translate from en to fr for the pronoun test, "
            f"but translates from {' to '.join(explained.languages)} instead"
        )
    all_cases = fables.select_pronoun_fables("test", use_short_corpus)
    examples, cases = all_cases[:2], all_cases[:max_cases]
    pronouns = [fable.pronoun for fable in cases if fable.pronoun]
    pairs = [p.contrastive_pair for p in pronouns if p.contrastive_pair]
    masked_pairs = [p.masked_pair for p in pronouns if p.masked_pair]
    return PronounReport(
        corpus="builtin:fables-short/test" if use_short_corpus else "builtin:fables/test",
        examples=[_build_case(explained, fable) for fable in examples],
        contrast=_contrast_pronouns(explained, examples),
        accuracy=_measure_accuracy(explained, pairs),
        masked_accuracy=_measure_accuracy(explained, masked_pairs),
        heads=_count_antecedent_preferences(explained, cases),
    )


def _contrast_pronouns(
    explained: ExplainedModel, fables: Sequence[FableSentencePair]
) -> SentenceContrast:
    """Measure what decides between the pronouns of a minimal pair."""
    first = fables[0].pronoun
    assert first
    assert first.contrastive_pair
    pair = first.contrastive_pair
    preference = find_preference(explained, pair.correct, pair.wrong)
    return contrast_sentences(explained, [fable.source for fable in fables], preference)


def _measure_accuracy(
    explained: ExplainedModel, pairs: Sequence[ContrastivePair]
) -> ProportionWithConfidenceInterval:
    differences = compute_contrastive_log_prob_differences(explained, pairs)
    num_correct = sum(difference > 0 for difference in differences)
    return ProportionWithConfidenceInterval.from_counts(num_correct, len(pairs))


def _build_case(explained: ExplainedModel, fable: FableSentencePair) -> PronounCaseResult:
    assert fable.pronoun
    assert fable.pronoun.contrastive_pair
    pair = fable.pronoun.contrastive_pair
    tokens = score_first_different_tokens(explained.with_interventions([]), pair)
    results = ablate_heads_on_contrastive_pair(explained, pair)
    ids = explained.encode_source(fable.source)
    sentence = build_source_sentence(explained, fable.source, ids)
    return PronounCaseResult(
        source=fable.source,
        tokens=[token.text for token in sentence.tokens],
        correct_token=explained.display_target_token(tokens.correct_id)[1],
        wrong_token=explained.display_target_token(tokens.wrong_id)[1],
        correct_probability=math.exp(tokens.correct_log_prob),
        wrong_probability=math.exp(tokens.wrong_log_prob),
        log_prob_difference=results.log_prob_difference,
        pronoun_attention=[
            HeadAttentionFromPronoun(layer=layer, head=head, weights=weights)
            for layer, head, weights in _iter_heads(_record_pronoun_attention(explained, fable))
        ],
        ablations=results.ablations,
    )


def _iter_heads(values_LH: Tensor) -> Iterator[tuple[int, int, Any]]:
    """Yield layer, head and value of each encoder head."""
    for layer, heads in enumerate(values_LH.tolist()):
        yield from ((layer, head, value) for head, value in enumerate(heads))


@torch.inference_mode()
def _record_pronoun_attention(explained: ExplainedModel, fable: FableSentencePair) -> Tensor:
    """Return the attention from "it" in each encoder layer, mean over its tokens, [L, H, S]."""
    assert fable.pronoun
    ids = explained.encode_source(fable.source)
    recorder = AttentionRecorder(lambda site: site.stack == "encoder")
    explained.model.encode(explained.build_source_BS(ids), recorder)
    tokens = _find_tokens(explained, fable.source, fable.pronoun.source_index)
    weights_LHTS = torch.cat([*recorder.weights_BHTS.values()])
    return weights_LHTS[:, :, tokens].mean(2)


def _find_tokens(explained: ExplainedModel, text: str, word: int) -> list[int]:
    """Return the indices of the tokens of a word, given its index in the fable."""
    ids = explained.encode_source(text)
    start, end = [match.span() for match in WORD_PATTERN.finditer(text)][word]
    num_before = int(explained.special_tokens.source_bos_id is not None)
    offsets = find_offsets_in_original_text(explained.tokenizers.source, ids, text)
    return [num_before + i for i, (a, b) in enumerate(offsets) if a < end and b > start]


def _prefers_antecedent(explained: ExplainedModel, fable: FableSentencePair) -> Tensor:
    """Return for each head whether the antecedent gets more attention than the other noun."""
    assert fable.pronoun
    weights_LHS = _record_pronoun_attention(explained, fable)
    antecedent_LH, distractor_LH = (
        weights_LHS[:, :, _find_tokens(explained, fable.source, word)].sum(2)
        for word in (fable.pronoun.antecedent_index, fable.pronoun.distractor_index)
    )
    return antecedent_LH > distractor_LH


def _count_antecedent_preferences(
    explained: ExplainedModel, cases: Sequence[FableSentencePair]
) -> Iterator[HeadAntecedentPreference]:
    """Yield for each head how often the antecedent gets more attention than the other noun."""
    prefers_NLH = torch.stack([_prefers_antecedent(explained, fable) for fable in cases])
    for layer, head, count in _iter_heads(prefers_NLH.sum(0)):
        proportion = ProportionWithConfidenceInterval.from_counts(count, len(cases))
        yield HeadAntecedentPreference(layer=layer, head=head, proportion=proportion)


def _render_contrast(contrast: SentenceContrast) -> str:
    """Return the figure as an element of an HTML page, with the same numbers as text."""
    image = render_contrast_image(contrast)
    lines = "".join(f"<p class='note'>{escape(line)}</p>" for line in contrast.summary_lines())
    return f"<div class='scroll' style='background: white'>{image}</div>{lines}"


def _render_case(case: PronounCaseResult) -> str:
    labels = [attention.label for attention in case.pronoun_attention]
    weights = [attention.weights for attention in case.pronoun_attention]
    ablations = build_head_table(
        (each.attention_address, each.head, each.change) for each in case.ablations
    )
    return (
        f"<h2>{escape(case.source)}</h2><p>{escape(case.format_summary())}</p>"
        "<p class='note'>Attention from “it” in each encoder head:</p>"
        f"{render_html_heat_table(draw.Heatmap('', labels, case.tokens, weights), 1)}"
        "<p class='note'>Change of the log-probability difference when each head is ablated, "
        f"in nats:</p>{render_html_heat_table(ablations)}"
    )
