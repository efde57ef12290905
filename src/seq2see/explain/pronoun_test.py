"""Pronoun test: which noun "it" refers to, measured on contrastive pairs of the fables corpus.

French must choose *il* or *elle* and so depends on whether the animal was too tired or the street
too wide. Proportions have Wilson intervals; results no better than chance are reported as such.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see import draw
from seq2see.data import fables
from seq2see.data.fables import ContrastivePair, Fable
from seq2see.data.fables.phrases import WORD_PATTERN
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.head_ablation import (
    HeadAblation,
    ablate_each_head,
    compute_contrastive_scores,
    encode_targets,
    find_first_difference,
)
from seq2see.explain.output import render_heat_table, render_report, render_table
from seq2see.explain.trace import TraceBaseModel
from seq2see.explain.words import build_source_sentence
from seq2see.model import AttentionRecord, AttentionSite, StackName
from seq2see.text.tokenizer import find_source_offsets

# B sentences, H heads, T queries, S keys

Z_95 = 1.96
"""Standard deviations of a 95 % interval."""


class Proportion(TraceBaseModel):
    """How often something holds, with the 95 % interval that this is sure to."""

    count: int
    total: int
    low: float
    high: float

    @classmethod
    def from_counts(cls, count: int, total: int, z: float = Z_95) -> Proportion:
        """Return the share with Wilson's interval."""
        square = z**2
        middle = (count + square / 2) / (total + square)
        half = (
            z / (total + square) * math.sqrt(count * (total - count) / total + square / 4)
            if total
            else 0.5
        )
        return cls(
            count=count, total=total, low=max(0.0, middle - half), high=min(1.0, middle + half)
        )

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.total if self.total else math.nan

    @property
    def is_above_chance(self) -> bool:
        """Whether it is more than half, beyond doubt."""
        return self.low > 0.5

    def format_interval(self) -> str:
        """Return it in words."""
        return f"{self.value:.1%} of {self.total} (95 %: {self.low:.1%} to {self.high:.1%})"

    def format_with_significance(self) -> str:
        """Return it in words, and say if it may be chance."""
        return (
            self.format_interval()
            if self.is_above_chance
            else f"{self.format_interval()}, no better than chance"
        )


def bonferroni_z(num_tests: int) -> float:
    """Return how many deviations the best of so many must be away, by Bonferroni's correction."""
    wanted, low, high = 0.05 / (2 * num_tests), 0.0, 10.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        tail = math.erfc(middle / math.sqrt(2)) / 2
        low, high = (middle, high) if tail > wanted else (low, middle)
    return high


DEFAULT_CASES = 300
"""Pairs that are asked by default: enough for intervals of six points."""


class PronounAttention(TraceBaseModel):
    """One head of the encoder, at "it"."""

    layer: int
    head: int
    weights: tuple[float, ...]
    """To each source token."""


class PronounCase(TraceBaseModel):
    """One sentence with "it"."""

    source: str
    tokens: tuple[str, ...]
    correct_token: str
    wrong_token: str
    """The first piece in which right and wrong differ: *il* and *elle*."""
    correct_probability: float
    wrong_probability: float
    log_prob_difference: float
    """log p(right) − log p(wrong): above 0 the model is right."""
    pronoun_attention: tuple[PronounAttention, ...]
    ablations: tuple[HeadAblation, ...]

    def format_summary(self) -> str:
        """Return what the model prefers, and without which head that changes most."""
        most = max(self.ablations, key=lambda removal: abs(removal.change))
        return (
            f"p({self.correct_token}) = {self.correct_probability:.3f}, p({self.wrong_token}) = "
            f"{self.wrong_probability:.3f}: a preference of {self.log_prob_difference:+.2f} nats for what "
            f"is right. Without {most.attention_address}.{most.head} it is {most.log_prob_difference:+.2f}, the largest "
            f"change of {len(self.ablations)} heads."
        )


class AntecedentPreference(TraceBaseModel):
    """How often a head of the encoder looks from "it" more at what is meant than at the rival."""

    layer: int
    head: int
    proportion: Proportion


class PronounReport(TraceBaseModel):
    """What "it" means to a model."""

    corpus: str
    examples: tuple[PronounCase, ...]
    accuracy: Proportion
    """Of whole translations that differ in the pronoun and its agreement."""
    masked_accuracy: Proportion
    """The same with the deciding word hidden: half is right, whatever one prefers."""
    heads: tuple[AntecedentPreference, ...]

    @property
    def best_head(self) -> AntecedentPreference:
        """The head that follows the meaning most often."""
        return max(self.heads, key=lambda head: head.proportion.value)

    def summary_lines(self) -> Iterator[str]:
        """Yield what was found, null results too, and the two famous sentences."""
        yield from self.proportion_lines()
        yield from (f"{case.source} {case.format_summary()}" for case in self.examples)

    def proportion_lines(self) -> Iterator[str]:
        """Yield how often the model is right, and whether attention shows why."""
        yield f"The model prefers the right pronoun in {self.accuracy.format_with_significance()}."
        yield f"With the deciding word hidden: {self.masked_accuracy.format_with_significance()}."
        best, tried = self.best_head, len(self.heads)
        told = f'encoder layer {best.layer}, head {best.head}: "it" looks at what is meant in'
        fair = Proportion.from_counts(
            best.proportion.count, best.proportion.total, bonferroni_z(tried)
        )
        if fair.is_above_chance:
            yield f"Attention shows it: {told} {best.proportion.format_interval()}, the best of {tried} heads."
        else:
            yield (
                f"Attention does not show it: the best of {tried} heads, {told} "
                f"{best.proportion.format_interval()}, which the best of so many may reach by chance."
            )

    def save(self, path: Path) -> None:
        """Write .json, .html or a picture, as the name says."""
        ending = path.suffix.lower()
        if ending in draw.FIGURE_FORMATS:
            draw.draw_heatmaps(path, 'Where "it" looks, in each head of the encoder', _grids(self))
            return
        text = self.model_dump_json() if ending == ".json" else self.to_html()
        path.write_text(text, encoding="utf-8")

    def to_html(self) -> str:
        """Return a page of tables."""
        return render_report("What “it” means", self.proportion_lines(), "".join(_body(self)))


def run_pronoun_test(
    explained: ExplainedModel, use_short_corpus: bool = False, max_cases: int = DEFAULT_CASES
) -> PronounReport:
    """Ask a model from English to French what "it" means."""
    if tuple(language[:2] for language in explained.languages) != ("en", "fr"):
        raise InputError(
            f"the model must translate from en to fr to be asked about “it”, "
            f"but translates from {' to '.join(explained.languages)} instead"
        )
    decisive = fables.load_pronoun_cases("test", use_short_corpus)
    famous, asked = decisive[:2], decisive[:max_cases]
    pronouns = [fable.pronoun for fable in asked if fable.pronoun]
    return PronounReport(
        corpus="builtin:fables-short/test" if use_short_corpus else "builtin:fables/test",
        examples=tuple(_case(explained, fable) for fable in famous),
        accuracy=_preferred(
            explained, [p.contrastive_pair for p in pronouns if p.contrastive_pair]
        ),
        masked_accuracy=_preferred(explained, [p.masked_pair for p in pronouns if p.masked_pair]),
        heads=tuple(_following(explained, asked)),
    )


def _preferred(subject: ExplainedModel, pairs: Sequence[ContrastivePair]) -> Proportion:
    found = compute_contrastive_scores(subject, pairs)
    return Proportion.from_counts(sum(value > 0 for value in found), len(found))


def _case(subject: ExplainedModel, fable: Fable) -> PronounCase:
    assert fable.pronoun
    assert fable.pronoun.contrastive_pair
    contrast = fable.pronoun.contrastive_pair
    right, wrong = encode_targets(subject, [contrast.correct, contrast.wrong])
    place = find_first_difference(right, wrong)
    source = subject.encode_source(fable.source)
    engine = TorchEngine(subject.with_interventions([]).model, subject.special_tokens)
    ours, theirs = engine.score_targets([(source, right), (source, wrong)])
    without = ablate_each_head(subject, contrast)
    tokenizer = subject.tokenizers.source
    sentence = build_source_sentence(
        fable.source, source, subject.special_tokens, tokenizer, subject.languages[0]
    )
    return PronounCase(
        source=fable.source,
        tokens=tuple(token.text for token in sentence.tokens),
        correct_token=subject.display_target_token(right[place])[1],
        wrong_token=subject.display_target_token(wrong[place])[1],
        correct_probability=math.exp(ours.log_probs[place]),
        wrong_probability=math.exp(theirs.log_probs[place]),
        log_prob_difference=without.log_prob_difference,
        pronoun_attention=tuple(_looks(subject, fable)),
        ablations=without.ablations,
    )


class _EncoderEars:
    """Listens to every head of the encoder."""

    def __init__(self) -> None:
        self.weights_HTS: dict[int, Tensor] = {}

    def attention_listener(self, site: AttentionSite) -> Any:
        def take(record: AttentionRecord) -> None:
            self.weights_HTS[site.layer] = record.weights_BHTS[0]

        return take

    def layer_listener(self, stack: StackName, layer: int) -> None: ...


@torch.inference_mode()
def _from_it(subject: ExplainedModel, fable: Fable) -> dict[int, Tensor]:
    """Return where "it" looks in each layer of the encoder, [H, S], its pieces together."""
    assert fable.pronoun
    ids = subject.encode_source(fable.source)
    ears = _EncoderEars()
    subject.model.encode(subject.build_source_BS(ids), ears)
    places = _tokens_of(subject, fable.source, ids, fable.pronoun.source_index)
    return {layer: weights[:, places].mean(1) for layer, weights in ears.weights_HTS.items()}


def _looks(subject: ExplainedModel, fable: Fable) -> Iterator[PronounAttention]:
    for layer, weights_HS in sorted(_from_it(subject, fable).items()):
        for head, weights in enumerate(weights_HS.tolist()):
            yield PronounAttention(layer=layer, head=head, weights=tuple(weights))


def _tokens_of(subject: ExplainedModel, text: str, ids: Sequence[int], word: int) -> list[int]:
    """Return the tokens of a word that the fables count, as the model reads them."""
    start, end = [match.span() for match in WORD_PATTERN.finditer(text)][word]
    first = 0 if subject.special_tokens.source_bos_id is None else 1
    spans = find_source_offsets(subject.tokenizers.source, ids, text)
    return [first + place for place, (a, b) in enumerate(spans) if a < end and b > start]


def _following(subject: ExplainedModel, cases: Sequence[Fable]) -> Iterator[AntecedentPreference]:
    """Count for each head how often the noun that is meant gets more than its rival."""
    counts: dict[tuple[int, int], int] = {}
    for fable in cases:
        assert fable.pronoun
        ids = subject.encode_source(fable.source)
        meant, rival = (
            _tokens_of(subject, fable.source, ids, word)
            for word in (fable.pronoun.antecedent_index, fable.pronoun.distractor_index)
        )
        for layer, weights_HS in _from_it(subject, fable).items():
            more_H = weights_HS[:, meant].sum(1) > weights_HS[:, rival].sum(1)
            for head, more in enumerate(more_H.tolist()):
                counts[layer, head] = counts.get((layer, head), 0) + more
    for (layer, head), count in sorted(counts.items()):
        yield AntecedentPreference(
            layer=layer, head=head, proportion=Proportion.from_counts(count, len(cases))
        )


def _grids(report: PronounReport) -> list[draw.Heatmap]:
    return [
        draw.Heatmap(
            f"{case.source}  p({case.correct_token}) = {case.correct_probability:.2f}, "
            f"p({case.wrong_token}) = {case.wrong_probability:.2f}",
            [f"layer {look.layer}, head {look.head}" for look in case.pronoun_attention],
            case.tokens,
            [look.weights for look in case.pronoun_attention],
        )
        for case in report.examples
    ]


def _body(report: PronounReport) -> Iterator[str]:
    for case in report.examples:
        yield f"<section><h2>{case.source}</h2>"
        yield f"<p>{case.format_summary()}</p>"
        yield "<p class='note'>Where “it” looks, in each head of the encoder:</p>"
        names = [f"layer {look.layer}, head {look.head}" for look in case.pronoun_attention]
        weights = [look.weights for look in case.pronoun_attention]
        yield render_heat_table(
            draw.DivergingHeatmap("", names, case.tokens, weights), 1, unsigned=True
        )
        yield '<p class="note">How the preference changes without each head, in nats:</p>'
        yield _removal_table(case.ablations)
        yield "</section>"
    yield "<section><h2>How often “it” looks more at what is meant than at the other noun</h2>"
    rows = [
        [f"layer {h.layer}, head {h.head}", h.proportion.format_with_significance()]
        for h in report.heads
    ]
    yield render_table(["head of the encoder", f"in the cases of {report.corpus}"], rows)
    yield "</section>"


def _removal_table(removals: Sequence[HeadAblation]) -> str:
    names = list(dict.fromkeys(removal.attention_address for removal in removals))
    heads = sorted({removal.head for removal in removals})
    values = {(r.attention_address, r.head): r.change for r in removals}
    table = draw.DivergingHeatmap(
        "",
        names,
        [f"head {head}" for head in heads],
        [[values.get((name, head), math.nan) for head in heads] for name in names],
    )
    return render_heat_table(table, max([1e-9, *(abs(r.change) for r in removals)]))
