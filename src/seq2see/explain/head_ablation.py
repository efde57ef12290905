"""The effect of ablating each attention head, on BLEU and on a contrastive pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from seq2see import draw
from seq2see.data.fables import ContrastivePair
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import InputError
from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.interventions import AblateHeads, Intervention, list_head_ablations
from seq2see.explain.output import render_heat_table, render_report
from seq2see.explain.trace import TraceBaseModel
from seq2see.metrics import MetricScore, score
from seq2see.search import SearchConfig
from seq2see.translator import TranslationOptions, Translator


class HeadAblation(TraceBaseModel):
    """What is left of the preference without one head."""

    stack: str
    layer: int
    attention: str
    head: int
    log_prob_difference: float
    change: float

    @property
    def attention_address(self) -> str:
        """Where the head is."""
        return f"{self.stack}.{self.layer}.{self.attention}"


class AblationResults(TraceBaseModel):
    """A preference, and what is left of it without each head."""

    log_prob_difference: float
    """log p(right) − log p(wrong) of the first piece in which they differ."""
    ablations: tuple[HeadAblation, ...]


def compute_contrastive_scores(
    explained: ExplainedModel, pairs: Sequence[ContrastivePair], full_sequence: bool = True
) -> list[float]:
    """Return log p(right) − log p(wrong) of each pair: as a whole, or where they first differ."""
    engine = TorchEngine(explained.model, explained.special_tokens)
    rights = encode_targets(explained, [pair.correct for pair in pairs])
    wrongs = encode_targets(explained, [pair.wrong for pair in pairs])
    sources = [explained.encode_source(pair.source) for pair in pairs]
    given = [*zip(sources, rights, strict=True), *zip(sources, wrongs, strict=True)]
    found = engine.score_targets(given)
    result = []
    for number, (right, wrong) in enumerate(zip(rights, wrongs, strict=True)):
        ours, theirs = found[number].log_probs, found[number + len(pairs)].log_probs
        place = find_first_difference(right, wrong)
        result.append(sum(ours) - sum(theirs) if full_sequence else ours[place] - theirs[place])
    return result


def ablate_each_head(
    explained: ExplainedModel,
    pair: ContrastivePair,
    interventions: Sequence[Intervention] = (),
    check_cancelled: Callable[[], None] = lambda: None,
) -> AblationResults:
    """Switch each head off in turn, on top of these interventions.

    `between` is called before each head: whoever no longer wants the answer may raise there.
    """
    heads = list_head_ablations(explained.model)
    (before,) = compute_contrastive_scores(
        explained.with_interventions(interventions), [pair], full_sequence=False
    )
    found = []
    for off in heads:
        assert off.heads is not None
        check_cancelled()
        (now,) = compute_contrastive_scores(
            explained.with_interventions([*interventions, off]), [pair], full_sequence=False
        )
        found.append(
            HeadAblation(
                stack=off.stack,
                layer=off.layer,
                attention=off.attention,
                head=off.heads[0],
                log_prob_difference=now,
                change=now - before,
            )
        )
    return AblationResults(log_prob_difference=before, ablations=tuple(found))


def encode_targets(explained: ExplainedModel, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of translations, each with its end."""
    ids = explained.tokenizers.target.encode_batch(list(texts))
    return [[*sentence, explained.special_tokens.target_eos_id] for sentence in ids]


def find_first_difference(right: Sequence[int], wrong: Sequence[int]) -> int:
    """Return the place of the first piece that is not the same."""
    pairs = zip(right, wrong, strict=False)
    found = next((place for place, (a, b) in enumerate(pairs) if a != b), None)
    if found is None:
        raise InputError("the two translations must differ, but are the same")
    return found


GREEDY_SEARCH = SearchConfig(beam_size=1)


class HeadImportance(TraceBaseModel):
    """The test set without one head."""

    stack: str
    layer: int
    attention: str
    head: int
    bleu: float
    bleu_change: float
    """Against the baseline: below 0 the head was of use."""

    @property
    def attention_name(self) -> str:
        """The attention that it is a head of, without its layer."""
        return f"{self.stack}, {self.attention}-attention"


class HeadImportanceReport(TraceBaseModel):
    """A test set without each head of a model."""

    num_sentences: int
    baseline_bleu: float
    signature: str
    """How BLEU was counted."""
    heads: tuple[HeadImportance, ...]

    @property
    def title(self) -> str:
        """What the numbers are."""
        return (
            f"Change in BLEU without each head (baseline {self.baseline_bleu:.1f}, "
            f"{self.num_sentences:,} sentences)"
        )

    def build_tables(self) -> list[draw.DivergingHeatmap]:
        """Return a grid for each kind of attention: layers by heads."""
        return [
            self._table(site) for site in dict.fromkeys(head.attention_name for head in self.heads)
        ]

    def _table(self, site: str) -> draw.DivergingHeatmap:
        own = [head for head in self.heads if head.attention_name == site]
        layers = sorted({head.layer for head in own}, reverse=True)
        heads = sorted({head.head for head in own})
        values = {(head.layer, head.head): head.bleu_change for head in own}
        return draw.DivergingHeatmap(
            site,
            [f"layer {layer}" for layer in layers],
            [f"head {head}" for head in heads],
            [[values.get((layer, head), math.nan) for head in heads] for layer in layers],
        )

    def save(self, path: Path) -> None:
        """Write .json, .html or a picture, as the name says."""
        if path.suffix.lower() in draw.FIGURE_FORMATS:
            draw.draw_diverging_heatmaps(path, self.title, self.build_tables())
        elif path.suffix.lower() == ".json":
            path.write_text(self.model_dump_json(), encoding="utf-8")
        else:
            path.write_text(self.to_html(), encoding="utf-8")

    def to_html(self) -> str:
        """Return a page with a table for each kind of attention."""
        tables = self.build_tables()
        most = max([1e-9, *(abs(head.bleu_change) for head in self.heads)])
        body = "".join(f"<h2>{t.title}</h2>{render_heat_table(t, most)}" for t in tables)
        notes = ["Blue: BLEU falls without the head.", self.signature]
        return render_report(self.title, notes, body)


def measure_head_importance(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig = GREEDY_SEARCH,
    on_progress: Callable[[int, int], None] | None = None,
) -> HeadImportanceReport:
    """Translate a test set without each head in turn."""
    heads = list_head_ablations(explained.model)
    baseline = compute_bleu(explained, sources, references, search, [])
    found = []
    for number, off in enumerate(heads, 1):
        if on_progress:
            on_progress(number, len(heads))
        now = compute_bleu(explained, sources, references, search, [off]).value
        found.append(_head_score(off, now, baseline.value))
    return HeadImportanceReport(
        num_sentences=len(sources),
        baseline_bleu=baseline.value,
        signature=baseline.signature,
        heads=tuple(found),
    )


def compute_bleu(
    explained: ExplainedModel,
    sources: Sequence[str],
    references: Sequence[str],
    search: SearchConfig,
    interventions: Sequence[Intervention],
) -> MetricScore:
    """Return the BLEU of a model with interventions; without any, of its plain form."""
    engine = TorchEngine(
        explained.with_interventions(interventions).model,
        explained.special_tokens,
        explained.alignment,
        explained.stop_rule,
    )
    translator = Translator(engine, explained.tokenizers, explained.languages, explained.max_length)
    options = TranslationOptions(search=search)
    texts = [found.text for found in translator.translate(list(sources), options)]
    return score(texts, list(references), "bleu", language=explained.languages[1])


def _head_score(off: AblateHeads, now: float, baseline: float) -> HeadImportance:
    assert off.heads is not None
    return HeadImportance(
        stack=off.stack,
        layer=off.layer,
        attention=off.attention,
        head=off.heads[0],
        bleu=now,
        bleu_change=now - baseline,
    )
