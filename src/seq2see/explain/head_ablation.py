"""Effect of ablating each attention head: on BLEU, and on a contrastive pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seq2see import draw
from seq2see.cancellation import check_cancelled
from seq2see.data.fables import ContrastivePair
from seq2see.engines.base import TargetScores
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.html_tables import build_head_table, render_html_heat_table, render_html_report
from seq2see.explain.interventions import Intervention, list_head_ablations
from seq2see.explain.trace_format import SavableResult, TraceBaseModel
from seq2see.metrics import MetricScore, compute_metric_score
from seq2see.progress_callbacks import ProgressCallback
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions

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


class ContrastiveTokens(NamedTuple):
    """The first tokens in which two translations differ."""

    correct_id: int
    wrong_id: int
    correct_log_prob: float
    wrong_log_prob: float

    @property
    def log_prob_difference(self) -> float:
        """log p(correct) − log p(wrong)."""
        return self.correct_log_prob - self.wrong_log_prob


def compute_contrastive_log_prob_differences(
    explained: ExplainedModel, pairs: Sequence[ContrastivePair]
) -> list[float]:
    """Return log p(correct) − log p(wrong) of the whole translations of each pair."""
    scores = _score_pairs(explained, pairs)
    return [sum(correct.log_probs) - sum(wrong.log_probs) for correct, wrong in scores]


def score_first_different_tokens(
    explained: ExplainedModel, pair: ContrastivePair
) -> ContrastiveTokens:
    """Score the first tokens in which the two translations of a pair differ.

    Raises:
        InputError: If the two translations are equal.
    """
    ((correct, wrong),) = _score_pairs(explained, [pair])
    targets = explained.encode_targets([pair.correct, pair.wrong])
    for step, (correct_id, wrong_id) in enumerate(zip(*targets, strict=False)):
        if correct_id != wrong_id:
            log_probs = (correct.log_probs[step], wrong.log_probs[step])
            return ContrastiveTokens(correct_id, wrong_id, *log_probs)
    raise InputError("the two translations must differ, but are equal")


def _score_pairs(
    explained: ExplainedModel, pairs: Sequence[ContrastivePair]
) -> Iterator[tuple[TargetScores, TargetScores]]:
    """Return the scores of the correct and of the wrong translation of each pair."""
    sources = [explained.encode_source(pair.source) for pair in pairs]
    targets = explained.encode_targets([*(p.correct for p in pairs), *(p.wrong for p in pairs)])
    scores = explained.engine.score_targets([*zip(sources * 2, targets, strict=True)])
    return zip(scores[: len(pairs)], scores[len(pairs) :], strict=True)


def ablate_heads_on_contrastive_pair(
    explained: ExplainedModel,
    pair: ContrastivePair,
    interventions: Sequence[Intervention] = (),
) -> AblationResults:
    """Measure the effect of each head on a contrastive pair by ablating it.

    Args:
        explained: The model.
        pair: Source with a correct and a wrong translation.
        interventions: Applied in addition to each ablation.
    """
    unablated = explained.with_interventions(interventions)
    baseline = score_first_different_tokens(unablated, pair).log_prob_difference
    results = []
    for fields, patched in _ablate_each_head(explained, interventions):
        check_cancelled()
        difference = score_first_different_tokens(patched, pair).log_prob_difference
        change = difference - baseline
        results.append(HeadAblationResult(**fields, log_prob_difference=difference, change=change))
    return AblationResults(log_prob_difference=baseline, ablations=results)


def _ablate_each_head(
    explained: ExplainedModel, interventions: Sequence[Intervention] = ()
) -> Iterator[tuple[dict[str, Any], ExplainedModel]]:
    """Yield the fields of `AblatedHead` of each head, and the model without the head."""
    for ablation in list_head_ablations(explained.model):
        assert ablation.heads is not None
        address = ablation.model_dump(exclude={"kind", "heads"})
        patched = explained.with_interventions([*interventions, ablation])
        yield {**address, "head": ablation.heads[0]}, patched


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

    def build_table(self) -> draw.Heatmap:
        """Return a table with one row per attention module and one column per head."""
        return build_head_table(
            (head.attention_address, head.head, head.bleu_change) for head in self.heads
        )

    def save_figure(self, path: Path) -> None:
        """Draw the table."""
        draw.save_diverging_heatmap(path, self.title, self.build_table())

    def to_html(self) -> str:
        """Return a self-contained HTML page."""
        notes = ["Blue: BLEU decreases when the head is ablated.", self.signature]
        return render_html_report(self.title, notes, [render_html_heat_table(self.build_table())])


def measure_head_importance(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig = GREEDY_SEARCH,
    on_progress: ProgressCallback | None = None,
) -> HeadImportanceReport:
    """Translate a test set with each head ablated in turn and compare BLEU with the baseline."""
    num_heads = len(list_head_ablations(explained.model))
    baseline = _compute_bleu(explained.with_interventions([]), sources, references, search)
    results = []
    for number, (fields, patched) in enumerate(_ablate_each_head(explained), 1):
        if on_progress:
            on_progress(number, num_heads)
        bleu = _compute_bleu(patched, sources, references, search).value
        results.append(HeadImportance(**fields, bleu=bleu, bleu_change=bleu - baseline.value))
    return HeadImportanceReport(
        num_sentences=len(sources),
        baseline_bleu=baseline.value,
        signature=baseline.signature,
        heads=results,
    )


def _compute_bleu(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig,
) -> MetricScore:
    """Return the BLEU score of a model."""
    options = TranslationOptions(search=search)
    translations = explained.translator.translate(sources, options)
    texts = [translation.text for translation in translations]
    return compute_metric_score(texts, list(references), "bleu", language=explained.languages[1])
