"""Records the search of one sentence, and builds the parts of its trace from the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2see.explain.intervention_types import (
    Intervention,
    find_ablated_heads_of_module,
    has_score_scaling_intervention,
)
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    BeamNode,
    DecodingStep,
    HeadSummary,
    LayerLogitLens,
    LayerOutputNorms,
    NodeStatus,
    TokenAxis,
    TokenCandidate,
    to_numpy,
)
from seq2see.model import (
    AttentionIntermediates,
    AttentionListener,
    AttentionModuleId,
    DotProductAttention,
    LayerListener,
    LinformerAttention,
    MultiHeadAttention,
    StackName,
    Transformer,
)
from seq2see.search import CandidateStatus, Hypothesis, StepRecord

# B searches, K beams, R = B·K hypotheses, H heads, T steps or queries, S source tokens or keys,
# D features per head, M features of the model, C candidates, V vocabulary, N most likely tokens

AttentionTensors = dict[str, Tensor]
"""Tensors of an attention module by their names in `AttentionModuleTrace`: `weights` and `mask`,
and with details `scores`, `queries`, `keys` and `values`."""

_PER_KEY = {"weights", "mask", "scores"}
"""Tensors whose last axis are keys; the last axis of the others are features."""


@dataclass(frozen=True, slots=True)
class RecordedStepInternals:
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
        self.steps: list[RecordedStepInternals] = []
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
        step = RecordedStepInternals(
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


TokenDisplay = Callable[[int], tuple[str, str]]
"""Returns the piece of a token id, and its text for display."""

_STATUS_NAMES: dict[CandidateStatus, NodeStatus] = {
    CandidateStatus.ALIVE: "alive",
    CandidateStatus.FINISHED: "finished",
    CandidateStatus.PRUNED: "pruned",
    CandidateStatus.STOPPED: "stopped",
}


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """A node of the beam tree, and the row of its parent among the hypotheses of its step."""

    node: BeamNode
    row: int


def build_token_candidate(token_id: int, log_prob: float, display: TokenDisplay) -> TokenCandidate:
    """Return a candidate for the next token."""
    piece, text = display(token_id)
    return TokenCandidate(
        id=token_id, piece=piece, text=text, log_prob=log_prob, probability=math.exp(log_prob)
    )


def build_beam_nodes(
    recorder: TraceRecorder, length_penalty: float, display: TokenDisplay
) -> list[RecordedNode]:
    """Return all hypotheses of the search, parents before children."""
    nodes: list[RecordedNode] = []
    node_of_beam: dict[tuple[int, int], int] = {}
    for step_index, step in enumerate(recorder.steps):
        parents, node_of_beam = node_of_beam, {}
        for search_index, row, rank, candidate in _iter_candidates(step):
            log_prob, score = candidate["log_probs"], candidate["scores"]
            piece, text = display(candidate["tokens"])
            node = BeamNode(
                id=len(nodes),
                parent=parents.get((search_index, candidate["parents"])),
                step=step_index,
                search_index=search_index,
                token_id=candidate["tokens"],
                piece=piece,
                text=text,
                token_log_prob=candidate["token_log_probs"],
                log_prob=log_prob,
                penalty=log_prob / (step_index + 1) ** length_penalty - score,
                score=score,
                rank=rank,
                status=_STATUS_NAMES[CandidateStatus(candidate["statuses"])],
            )
            nodes.append(RecordedNode(node, row * step.beam_size + candidate["parents"]))
            if candidate["next_beams"] >= 0:
                node_of_beam[search_index, candidate["next_beams"]] = node.id
    return nodes


def _iter_candidates(step: RecordedStepInternals) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Yield the search index, the row, the rank and the values of each candidate."""
    columns = {name: values.tolist() for name, values in step.candidates.items()}
    for row, search_index in enumerate(step.search_index_B.tolist()):
        for rank in range(len(columns["tokens"][row])):
            candidate = {name: values[row][rank] for name, values in columns.items()}
            if candidate["statuses"] != CandidateStatus.NONE:
                yield search_index, row, rank, candidate


def find_beam_path(nodes: Sequence[RecordedNode], hypothesis: Hypothesis) -> list[RecordedNode]:
    """Return the nodes of a finished hypothesis, from its first token to its last."""
    ends = [
        each
        for each in nodes
        if each.node.status == "finished" and each.node.step + 1 == len(hypothesis.tokens)
    ]
    for end in sorted(ends, key=lambda each: -each.node.score):
        path = [end]
        while path[0].node.parent is not None:
            path.insert(0, nodes[path[0].node.parent])
        if tuple(each.node.token_id for each in path) == hypothesis.tokens:
            return path
    raise AssertionError("every finished hypothesis is a node")


def build_decoding_steps(
    recorder: TraceRecorder,
    path: Sequence[RecordedNode],
    start_piece: str,
    display: TokenDisplay,
) -> Iterator[DecodingStep]:
    """Yield one decoding step for each token of the path."""
    input_piece = start_piece
    for step, (node, row) in zip(
        recorder.steps, ((each.node, each.row) for each in path), strict=False
    ):
        log_probs, tokens = (column[row].tolist() for column in step.top_RN)
        yield DecodingStep(
            input_piece=input_piece,
            log_prob=node.token_log_prob,
            probability=math.exp(node.token_log_prob),
            rank=int(step.candidates["ranks"][row // step.beam_size, node.rank]),
            entropy=float(step.entropy_R[row]),
            top_candidates=tuple(
                build_token_candidate(t, p, display) for t, p in zip(tokens, log_probs, strict=True)
            ),
        )
        input_piece = node.piece


def build_layer_outputs(
    recorder: TraceRecorder, path_rows: Sequence[int]
) -> Iterator[LayerOutputNorms]:
    """Yield the norms of the output of each layer, of the decoder along a path."""
    for layer, states_SM in sorted(recorder.encoder_outputs.items()):
        yield LayerOutputNorms(stack="encoder", layer=layer, norms=to_numpy(states_SM.norm(dim=-1)))
    for layer in sorted(recorder.steps[0].layer_outputs):
        states_TM = recorder.stack_layer_outputs(layer, path_rows)
        yield LayerOutputNorms(stack="decoder", layer=layer, norms=to_numpy(states_TM.norm(dim=-1)))


def compute_logit_lenses(
    model: Transformer,
    recorder: TraceRecorder,
    path: Sequence[RecordedNode],
    display: TokenDisplay,
    top_k: int = 3,
) -> Iterator[LayerLogitLens]:
    """Yield the output distribution computed from each decoder layer along a path.

    Args:
        model: The model that was recorded.
        recorder: Recording of the search.
        path: Path of the translation.
        display: Returns piece and display text of a token.
        top_k: Number of most likely tokens per step.
    """
    target_T = torch.tensor([each.node.token_id for each in path])
    for layer in sorted(recorder.steps[0].layer_outputs):
        states_TM = recorder.stack_layer_outputs(layer, [each.row for each in path])
        log_probs_TV = model.output.log_probabilities(model.decoder.norm(states_TM)).cpu()
        best = log_probs_TV.topk(min(top_k, log_probs_TV.size(1)), dim=1)
        yield LayerLogitLens(
            layer=layer,
            probability=to_numpy(log_probs_TV.gather(1, target_T[:, None])[:, 0].exp()),
            top_candidates=tuple(
                tuple(
                    build_token_candidate(t, p, display)
                    for t, p in zip(ids, log_probs, strict=True)
                )
                for ids, log_probs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ),
        )


def build_attention_maps(
    recorder: TraceRecorder,
    path_rows: Sequence[int],
    modules: Iterable[MultiHeadAttention],
    interventions: Sequence[Intervention],
) -> Iterator[AttentionModuleTrace]:
    """Yield the map of each recorded module of the original model, of the decoder along a path."""
    for module in modules:
        site = module.site
        if site in recorder.encoder_attention:
            tensors = recorder.encoder_attention[site]
            is_projected = isinstance(module.attention, LinformerAttention)
            axes: tuple[TokenAxis, TokenAxis] = (
                "source",
                "projection" if is_projected else "source",
            )
        elif site in recorder.steps[0].attention:
            tensors = recorder.stack_attention(site, path_rows)
            is_cross = site.kind == "cross"
            axes = ("target", "source") if is_cross else ("decoder_input", "decoder_input")
        else:  # the layer is ablated
            continue
        is_scaled = has_score_scaling_intervention(site, interventions)
        scale = (
            module.attention.scale if isinstance(module.attention, DotProductAttention) else None
        )
        yield AttentionModuleTrace(
            stack=site.stack,
            layer=site.layer,
            kind=site.kind,
            query_axis=axes[0],
            key_axis=axes[1],
            mask=_simplify_mask(tensors["mask"], is_causal=site[::2] == ("decoder", "self")),
            head_summaries=tuple(summarize_heads(tensors["weights"], axes[0] == axes[1])),
            ablated_heads=find_ablated_heads_of_module(site, interventions, module.heads),
            scale=None if is_scaled else scale,
            **{name: to_numpy(tensor) for name, tensor in tensors.items() if name != "mask"},
        )


def _simplify_mask(mask_HTS: Tensor, is_causal: bool) -> Any:
    """Return the masked keys of each query, or None if there are none.

    The mask has an axis of heads only if it differs between them. With `is_causal`, keys of later
    steps are masked; they do not exist during decoding.
    """
    if is_causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    if not mask_HTS.any():
        return None
    is_shared = bool((mask_HTS == mask_HTS[:1]).all())
    return to_numpy(mask_HTS[0] if is_shared else mask_HTS, np.uint8)


def summarize_heads(weights_HTS: Tensor, same_tokens: bool) -> Iterator[HeadSummary]:
    """Yield statistics of each head.

    Args:
        weights_HTS: Attention weights.
        same_tokens: Whether queries and keys are the same tokens, so that they have a distance.
    """
    entropy_H = torch.special.entr(weights_HTS).sum(-1).mean(-1).tolist()
    max_weight_H = weights_HTS.amax(-1).mean(-1).tolist()
    _, num_queries, num_keys = weights_HTS.shape
    keys_S = torch.arange(num_keys, device=weights_HTS.device)
    distance_TS = (keys_S - torch.arange(num_queries, device=keys_S.device)[:, None]).abs()
    distance_H = (weights_HTS * distance_TS).sum(-1).mean(-1).tolist()
    for entropy, max_weight, distance in zip(entropy_H, max_weight_H, distance_H, strict=True):
        yield HeadSummary(
            entropy=entropy, max_weight=max_weight, distance=distance if same_tokens else None
        )
