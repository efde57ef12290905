"""Effect of ablating each attention head: on BLEU, and on a contrastive pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from seq2see import draw
from seq2see.data.fables import ContrastivePair
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.figures_and_html_tables import render_html_heat_table, render_html_report
from seq2see.explain.intervention_types import AblateHeads, Intervention, list_head_ablations
from seq2see.explain.trace_format import SavableResult, TraceBaseModel
from seq2see.metrics import MetricScore, compute_metric_score
from seq2see.progress_callbacks import ProgressCallback
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions, Translator

GREEDY_SEARCH = SearchConfig(beam_size=1)


class AblatedHead(TraceBaseModel):
    """Address of a head that is ablated."""

    stack: str
    layer: int
    attention: str
    head: int

    @property
    def attention_address(self) -> str:
        """Address of the attention module, such as `decoder.1.cross`."""
        return f"{self.stack}.{self.layer}.{self.attention}"

    @property
    def attention_name(self) -> str:
        """Kind of attention, such as `decoder, cross-attention`."""
        return f"{self.stack}, {self.attention}-attention"


class HeadAblationResult(AblatedHead):
    """Log-probability difference of a contrastive pair with one head ablated."""

    log_prob_difference: float
    change: float
    """Relative to the difference without ablation."""


class AblationResults(TraceBaseModel):
    """Log-probability difference of a contrastive pair, and its change without each head."""

    log_prob_difference: float
    """log p(correct) − log p(wrong) of the first token in which the translations differ."""
    ablations: tuple[HeadAblationResult, ...]


def compute_contrastive_log_prob_differences(
    explained: ExplainedModel, pairs: Sequence[ContrastivePair], full_sequence: bool = True
) -> list[float]:
    """Return log p(correct) − log p(wrong) of each pair.

    Args:
        explained: The model.
        pairs: Sources with a correct and a wrong translation.
        full_sequence: Compare whole translations instead of the first token that differs.

    Raises:
        InputError: If the two translations of a pair are equal.
    """
    sources = [explained.encode_source(pair.source) for pair in pairs]
    correct = explained.encode_targets([pair.correct for pair in pairs])
    wrong = explained.encode_targets([pair.wrong for pair in pairs])
    scores = explained.engine.score_targets(
        [*zip(sources, correct, strict=True), *zip(sources, wrong, strict=True)]
    )
    differences = []
    for index, (correct_ids, wrong_ids) in enumerate(zip(correct, wrong, strict=True)):
        correct_log_probs = scores[index].log_probs
        wrong_log_probs = scores[index + len(pairs)].log_probs
        step = find_first_difference(correct_ids, wrong_ids)
        if full_sequence:
            differences.append(sum(correct_log_probs) - sum(wrong_log_probs))
        else:
            differences.append(correct_log_probs[step] - wrong_log_probs[step])
    return differences


def ablate_heads_on_contrastive_pair(
    explained: ExplainedModel,
    pair: ContrastivePair,
    interventions: Sequence[Intervention] = (),
    check_cancelled: Callable[[], None] = lambda: None,
) -> AblationResults:
    """Measure the effect of each head on a contrastive pair by ablating it.

    Args:
        explained: The model.
        pair: Source with a correct and a wrong translation.
        interventions: Applied in addition to each ablation.
        check_cancelled: Called before each head; it may raise to cancel.
    """
    (baseline,) = compute_contrastive_log_prob_differences(
        explained.with_interventions(interventions), [pair], full_sequence=False
    )
    results = []
    for fields, ablation in _list_heads(explained):
        check_cancelled()
        (difference,) = compute_contrastive_log_prob_differences(
            explained.with_interventions([*interventions, ablation]), [pair], full_sequence=False
        )
        results.append(
            HeadAblationResult(
                **fields,
                log_prob_difference=difference,
                change=difference - baseline,
            )
        )
    return AblationResults(log_prob_difference=baseline, ablations=tuple(results))


def _list_heads(explained: ExplainedModel) -> Iterator[tuple[dict[str, Any], AblateHeads]]:
    """Yield the fields of `AblatedHead`, and the ablation, of each head of the model."""
    for ablation in list_head_ablations(explained.model):
        assert ablation.heads is not None
        yield (
            {**ablation.model_dump(exclude={"kind", "heads"}), "head": ablation.heads[0]},
            ablation,
        )


def find_first_difference(correct: Sequence[int], wrong: Sequence[int]) -> int:
    """Return the index of the first different token. Raise InputError if there is none."""
    for index, (a, b) in enumerate(zip(correct, wrong, strict=False)):
        if a != b:
            return index
    raise InputError("the two translations must differ, but are equal")


class HeadImportance(AblatedHead):
    """BLEU of a test set with one head ablated."""

    bleu: float
    bleu_change: float
    """Relative to the baseline; negative if the head improves BLEU."""


class HeadImportanceReport(SavableResult):
    """BLEU of a test set with each head of a model ablated in turn."""

    num_sentences: int
    baseline_bleu: float
    signature: str
    """SacreBLEU signature."""
    heads: tuple[HeadImportance, ...]

    @property
    def title(self) -> str:
        """Title of the report."""
        return (
            f"Change in BLEU without each head (baseline {self.baseline_bleu:.1f}, "
            f"{self.num_sentences:,} sentences)"
        )

    def build_tables(self) -> list[draw.Heatmap]:
        """Return one table for each kind of attention, with layers as rows and heads as columns."""
        names = dict.fromkeys(head.attention_name for head in self.heads)
        return [self._build_table(name) for name in names]

    def _build_table(self, attention_name: str) -> draw.Heatmap:
        results = [head for head in self.heads if head.attention_name == attention_name]
        layers = sorted({result.layer for result in results}, reverse=True)
        heads = sorted({result.head for result in results})
        values = {(result.layer, result.head): result.bleu_change for result in results}
        return draw.Heatmap(
            attention_name,
            [f"layer {layer}" for layer in layers],
            [f"head {head}" for head in heads],
            [[values.get((layer, head), math.nan) for head in heads] for layer in layers],
        )

    def save_figure(self, path: Path) -> None:
        """Draw the tables."""
        draw.save_diverging_heatmaps(path, self.title, self.build_tables())

    def to_html(self) -> str:
        """Return a self-contained HTML page with one table per kind of attention."""
        max_change = max([1e-9, *(abs(head.bleu_change) for head in self.heads)])
        cards = [
            f"<h2>{table.title}</h2>{render_html_heat_table(table, max_change)}"
            for table in self.build_tables()
        ]
        notes = ["Blue: BLEU decreases when the head is ablated.", self.signature]
        return render_html_report(self.title, notes, cards)


def measure_head_importance(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig = GREEDY_SEARCH,
    on_progress: ProgressCallback | None = None,
) -> HeadImportanceReport:
    """Translate a test set with each head ablated in turn and compare BLEU with the baseline."""
    heads = list(_list_heads(explained))
    baseline = compute_bleu_with_interventions(explained, sources, references, search, [])
    results = []
    for number, (fields, ablation) in enumerate(heads, 1):
        if on_progress:
            on_progress(number, len(heads))
        bleu = compute_bleu_with_interventions(
            explained, sources, references, search, [ablation]
        ).value
        results.append(
            HeadImportance(
                **fields,
                bleu=bleu,
                bleu_change=bleu - baseline.value,
            )
        )
    return HeadImportanceReport(
        num_sentences=len(sources),
        baseline_bleu=baseline.value,
        signature=baseline.signature,
        heads=tuple(results),
    )


def compute_bleu_with_interventions(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig,
    interventions: Sequence[Intervention],
) -> MetricScore:
    """Return the BLEU score of a model with interventions; without any, with plain attention."""
    engine = explained.with_interventions(interventions).engine
    translator = Translator(engine, explained.tokenizers, explained.languages, explained.max_tokens)
    translations = translator.translate(list(sources), TranslationOptions(search=search))
    texts = [translation.text for translation in translations]
    return compute_metric_score(texts, list(references), "bleu", language=explained.languages[1])
