"""What is written down while a sentence is translated: the model's recorder and the search's
observer in one.

Hypotheses change places from step to step. Nothing is moved here: each step keeps its own rows, and
the way of a hypothesis through them follows from its parents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from seq2see.model import AttentionListener, AttentionRecord, LayerListener, Site, Stack
from seq2see.search import Decoder, Prediction, StepRecord

# B rows of the search, K beams, R = B·K, H heads, S keys, D features of a head, M of the model,
# C candidates, V vocabulary, N likeliest tokens


@dataclass(frozen=True, slots=True)
class Rows:
    """One attention in one step: a query for each hypothesis."""

    weights_RHS: Tensor
    hidden_RHS: Tensor | None
    scores_RHS: Tensor | None = None
    queries_RHD: Tensor | None = None
    keys_RHD: Tensor | None = None
    """Of the newest token alone: those of the others are in their own steps."""
    values_RHD: Tensor | None = None


@dataclass(slots=True)
class StepTape:
    """One step of all hypotheses."""

    attention: dict[Site, Rows] = field(default_factory=dict)
    outputs: dict[int, Tensor] = field(default_factory=dict)
    """Of each layer, [R, M]."""
    top_RN: tuple[Tensor, Tensor] | None = None
    """Log-probabilities and tokens of the likeliest."""
    entropy_R: Tensor | None = None
    beams: int = 1
    members_B: Tensor | None = None
    candidates: dict[str, Tensor] = field(default_factory=dict)
    """By row and candidate: parents, tokens, own, log_probs, scores, fates, beams, ranks."""


class Tape:
    """Listens to all attentions, and keeps all of the steps of those layers that are asked for."""

    def __init__(self, whole: Collection[tuple[Stack, int]], top: int) -> None:
        self.whole = whole
        self.top = top
        self.encoder: dict[Site, AttentionRecord] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.memory: dict[Site, tuple[Tensor, Tensor]] = {}
        """Keys and values of the source, the same for every step and hypothesis, [H, S, D]."""
        self.steps: list[StepTape] = []
        self._now = StepTape()
        self._log_probs_BKV: Tensor | None = None

    def attention_listener(self, site: Site) -> AttentionListener:
        """Listen everywhere."""
        if site.stack == "encoder":
            return lambda record: self.encoder.update({site: record})
        return lambda record: self._hear(site, record)

    def layer_listener(self, stack: Stack, layer: int) -> LayerListener:
        """Take the outputs of every layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._now.outputs.update({layer: x_R1M[:, -1].clone()})

    def predicted(self, log_probs_BKV: Tensor) -> None:
        """Take what the model expects, before the search forbids anything."""
        log_probs_RV = log_probs_BKV.flatten(0, 1)
        best = log_probs_RV.topk(min(self.top, log_probs_RV.size(1)), dim=1)
        self._now.top_RN = best.values, best.indices
        self._now.entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        self._log_probs_BKV = log_probs_BKV.clone()

    def step(self, record: StepRecord) -> None:
        """Close a step with what became of its candidates."""
        now, found = self._now, record.candidates
        now.beams = record.beam.tokens_BKT.size(1)
        now.members_B = record.beam.members_B
        now.candidates = {
            "parents": found.parents_BC,
            "tokens": found.tokens_BC,
            "own": found.own_BC,
            "log_probs": found.log_probs_BC,
            "scores": record.scores_BC,
            "fates": record.fates_BC,
            "beams": record.beams_BC,
            "ranks": self._ranks(found.parents_BC, found.tokens_BC),
        }
        self.steps.append(now)
        self._now = StepTape()

    def rows(self, site: Site, path: Sequence[int]) -> list[Rows]:
        """Return the attention along a path: for each step the row of the hypothesis."""
        taken = []
        for step, row in zip(self.steps, path, strict=False):
            rows = step.attention[site]
            parts = (getattr(rows, name) for name in Rows.__slots__)
            taken.append(Rows(*(None if x is None else x[row] for x in parts)))  # type: ignore[arg-type]
        return taken

    def _hear(self, site: Site, record: AttentionRecord) -> None:
        hidden = record.hidden_BHTS
        weights_RHS = record.weights_BHTS[:, :, -1]
        if hidden is not None:
            hidden = hidden.expand_as(record.weights_BHTS)[:, :, -1]
        if (site.stack, site.layer) not in self.whole:
            self._now.attention[site] = Rows(weights_RHS, hidden)
            return
        if site.kind == "cross":
            self.memory.setdefault(site, (record.keys_BHSD[0], record.values_BHSD[0]))
        self._now.attention[site] = Rows(
            weights_RHS,
            hidden,
            record.scores_BHTS[:, :, -1],
            record.queries_BHTD[:, :, -1],
            record.keys_BHSD[:, :, -1].clone(),  # a view would keep the whole past alive
            record.values_BHSD[:, :, -1].clone(),
        )

    def _ranks(self, parents_BC: Tensor, tokens_BC: Tensor) -> Tensor:
        """Return how many tokens the model likes better than each candidate."""
        assert self._log_probs_BKV is not None
        rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
        theirs_BCV = self._log_probs_BKV[rows_B1, parents_BC]
        own_BC1 = theirs_BCV.gather(2, tokens_BC[:, :, None])
        return (theirs_BCV > own_BC1).sum(2)


@dataclass(frozen=True, slots=True)
class TapedDecoder:
    """A decoder whose predictions are written down."""

    inner: Decoder
    tape: Tape

    def step(self, tokens_BK: Tensor) -> Prediction:
        """Look one token ahead."""
        prediction = self.inner.step(tokens_BK)
        self.tape.predicted(prediction.log_probs_BKV)
        return prediction

    def reorder(self, rows_B: Tensor, parents_BK: Tensor) -> None:
        """Follow the search."""
        self.inner.reorder(rows_B, parents_BK)
