"""Records attention, layer outputs, predictions and the beam search of one sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2see.model import (
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    LayerListener,
    StackName,
)
from seq2see.search import StepRecord

# B searches, K beams, R = B·K hypotheses, H heads, S source tokens or keys, D features per head,
# M features of the model, C candidates, V vocabulary, N most likely tokens

AttentionTensors = dict[str, Tensor]
"""Tensors of an attention module by their names in `AttentionModuleTrace`: `weights` and `mask`,
and with details `scores`, `queries`, `keys` and `values`."""

_PER_KEY = {"weights", "mask", "scores"}
"""Tensors whose last axis are keys; the last axis of the others are features."""


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One decoding step of all hypotheses."""

    attention: dict[AttentionModuleId, AttentionTensors]
    """Of one query per hypothesis: weights [R, H, S], vectors [R, H, D]. Keys and values of
    self-attention are those of the newest token: the others are in their own steps."""
    layer_outputs: dict[int, Tensor]
    """By layer, [R, M]."""
    top_RN: tuple[Tensor, Tensor]
    """Log-probabilities and ids of the most likely tokens."""
    entropy_R: Tensor
    beam_size: int
    search_index_B: Tensor
    candidates: dict[str, Tensor]
    """Tensors [B, C]: parents, tokens, token_log_probs, log_probs, scores, statuses, next_beams,
    ranks."""

    @property
    def num_rows(self) -> int:
        """Number of hypotheses, R."""
        return len(self.search_index_B) * self.beam_size


class TraceRecorder:
    """Records attention, layer outputs and the search; it is both a `Recorder` and an observer.

    Hypotheses change their rows from step to step. Each step keeps its own rows; the rows of one
    hypothesis follow from its parents.

    Args:
        detailed_layers: Layers whose scores, queries, keys and values are recorded too.
        top_k: Number of most likely tokens to record per step.
        check_cancelled: Called at each step; it may raise to cancel.
    """

    def __init__(
        self,
        detailed_layers: Collection[tuple[StackName, int]],
        top_k: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        self.detailed_layers = detailed_layers
        self.top_k = top_k
        self.encoder_attention: dict[AttentionModuleId, AttentionTensors] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.source_keys_values: dict[AttentionModuleId, AttentionTensors] = {}
        """Keys and values of cross-attention, equal in all steps and hypotheses, [H, S, D]."""
        self.steps: list[RecordedStep] = []
        self._check_cancelled = check_cancelled
        self._attention: dict[AttentionModuleId, AttentionTensors] = {}
        self._layer_outputs: dict[int, Tensor] = {}

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener:
        """Return a listener for an attention module."""
        return lambda record: self._record_attention(site, record)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        """Return a listener for the output of a layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._layer_outputs.update({layer: x_R1M[:, -1].clone()})

    def _record_attention(self, site: AttentionModuleId, record: AttentionIntermediates) -> None:
        mask = record.masked_BHTS
        if mask is None:
            mask = torch.zeros((), dtype=torch.bool, device=record.weights_BHTS.device)
        tensors = {"weights": record.weights_BHTS, "mask": mask.expand_as(record.weights_BHTS)}
        if (site.stack, site.layer) in self.detailed_layers:
            tensors |= {"scores": record.scores_BHTS, "queries": record.queries_BHTD}
            keys_values = {"keys": record.keys_BHSD, "values": record.values_BHSD}
            if site.kind == "cross":
                first = {name: tensor[0] for name, tensor in keys_values.items()}
                self.source_keys_values.setdefault(site, first)
            else:
                tensors |= keys_values
        if site.stack == "encoder":
            self.encoder_attention[site] = {name: tensor[0] for name, tensor in tensors.items()}
        else:  # a view would keep the keys and values of all steps alive
            self._attention[site] = {n: tensor[:, :, -1].clone() for n, tensor in tensors.items()}

    def step(self, record: StepRecord) -> None:
        """Record the candidates of a step and the distributions that they were chosen from."""
        self._check_cancelled()
        candidates, log_probs_BKV = record.candidates, record.log_probs_BKV
        log_probs_RV = log_probs_BKV.flatten(0, 1)
        best = log_probs_RV.topk(min(self.top_k, log_probs_RV.size(1)), dim=1)
        step = RecordedStep(
            self._attention,
            self._layer_outputs,
            (best.values, best.indices),
            -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1),
            log_probs_BKV.size(1),
            record.beam.search_index_B,
            {
                "parents": candidates.parents_BC,
                "tokens": candidates.tokens_BC,
                "token_log_probs": candidates.model_log_probs_BC,
                "log_probs": candidates.log_probs_BC,
                "scores": record.scores_BC,
                "statuses": record.statuses_BC,
                "next_beams": record.next_beam_BC,
                "ranks": _rank_candidates(
                    log_probs_BKV, candidates.parents_BC, candidates.tokens_BC
                ),
            },
        )
        self.steps.append(step)
        self._attention, self._layer_outputs = {}, {}

    def stack_attention(
        self, site: AttentionModuleId, path_rows: Sequence[int]
    ) -> AttentionTensors:
        """Return the attention of one hypothesis, given its row in each step.

        The tensors have an axis of T steps, [H, T, S] or [H, T, D]. Keys that do not exist yet are
        padded with zeros.
        """
        attention = [step.attention[site] for step in self.steps[: len(path_rows)]]
        num_keys = attention[-1]["weights"].size(-1)
        stacked = {}
        for name in attention[0]:
            rows = [each[name][row] for each, row in zip(attention, path_rows, strict=True)]
            if name in _PER_KEY:
                rows = [torch.nn.functional.pad(x, (0, num_keys - x.size(-1))) for x in rows]
            stacked[name] = torch.stack(rows, dim=1)
        return stacked | self.source_keys_values.get(site, {})

    def stack_layer_outputs(self, layer: int, path_rows: Sequence[int]) -> Tensor:
        """Return the outputs of a decoder layer for one hypothesis, [T, M]."""
        pairs = zip(self.steps, path_rows, strict=False)
        return torch.stack([step.layer_outputs[layer][row] for step, row in pairs])


def _rank_candidates(log_probs_BKV: Tensor, parents_BC: Tensor, tokens_BC: Tensor) -> Tensor:
    """Return the number of tokens that the model considers more likely than each candidate."""
    rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
    log_probs_BCV = log_probs_BKV[rows_B1, parents_BC]
    candidate_BC1 = log_probs_BCV.gather(2, tokens_BC[:, :, None])
    return (log_probs_BCV > candidate_BC1).sum(2)
