"""Records the search of one sentence, and builds the parts of its trace from the record."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from seq2see.explain.intervention_types import Intervention, collect_head_changes
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

TokenDisplay = Callable[[int], tuple[str, str]]
"""Returns the piece of a token id, and its text for display."""

_PER_KEY = {"weights", "mask", "scores"}
"""Tensors whose last axis are keys; the last axis of the others are features."""


@dataclass(frozen=True, slots=True)
class StepInternals:
    """What the model computed in one decoding step of one hypothesis."""

    attention: dict[AttentionModuleId, AttentionTensors]
    """Of one query: weights [H, S], vectors [H, D]. Keys and values of self-attention are those of
    the newest token: the others are in their own steps."""
    layer_outputs: dict[int, Tensor]
    """By layer, [M]."""
    top: tuple[list[int], list[float]]
    """Ids and log-probabilities of the most likely tokens."""
    entropy: float


@dataclass(frozen=True, slots=True)
class RecordedNode:
    """A node of the beam tree, with the step that predicted its token."""

    node: BeamNode
    parent: RecordedNode | None
    internals: StepInternals
    token_rank: int
    """Number of tokens that the model considers more likely."""


class TraceRecorder:
    """Records attention, layer outputs and the search; it is both a `Recorder` and an observer.

    A recorded node refers to its parent, so that the internals of hypotheses that were pruned are
    freed: those of live hypotheses and of the best finished one of each search remain.

    Args:
        display: Returns the piece of a token id, and its text for display.
        length_penalty: Exponent α of the score.
        detailed_layers: Layers whose scores, queries, keys and values are recorded too.
        top_k: Number of most likely tokens to record per step.
        check_cancelled: Called at each step; it may raise to cancel.
    """

    def __init__(
        self,
        display: TokenDisplay,
        length_penalty: float,
        detailed_layers: Collection[str],
        top_k: int,
        check_cancelled: Callable[[], None],
    ) -> None:
        self.nodes: list[BeamNode] = []
        """All hypotheses of the search, parents before children."""
        self.encoder_attention: dict[AttentionModuleId, AttentionTensors] = {}
        self.encoder_outputs: dict[int, Tensor] = {}
        self.source_keys_values: dict[AttentionModuleId, AttentionTensors] = {}
        """Keys and values of cross-attention, equal in all steps and hypotheses, [H, S, D]."""
        self._display = display
        self._length_penalty = length_penalty
        self._detailed_layers = detailed_layers
        self._top_k = top_k
        self._check_cancelled = check_cancelled
        self._attention: dict[AttentionModuleId, AttentionTensors] = {}
        self._layer_outputs: dict[int, Tensor] = {}
        self._live: dict[tuple[int, int], RecordedNode] = {}
        """By index of the search and of the beam."""
        self._best_finished: dict[int, RecordedNode] = {}
        """By index of the search."""

    def attention_listener(self, site: AttentionModuleId) -> AttentionListener:
        """Return a listener for an attention module."""
        return lambda record: self._record_attention(site, record)

    def layer_listener(self, stack: StackName, layer: int) -> LayerListener:
        """Return a listener for the output of a layer."""
        if stack == "encoder":
            return lambda x_BSM: self.encoder_outputs.update({layer: x_BSM[0]})
        return lambda x_R1M: self._layer_outputs.update({layer: x_R1M[:, -1]})

    def _record_attention(self, site: AttentionModuleId, record: AttentionIntermediates) -> None:
        tensors = {"weights": record.weights_BHTS}
        if record.masked_BHTS is not None:
            tensors["mask"] = record.masked_BHTS.expand_as(record.weights_BHTS)
        if f"{site.stack}.{site.layer}" in self._detailed_layers:
            tensors |= {"scores": record.scores_BHTS, "queries": record.queries_BHTD}
            keys_values = {"keys": record.keys_BHSD, "values": record.values_BHSD}
            if site.kind == "self":
                tensors |= keys_values
            elif site not in self.source_keys_values:
                first = {name: tensor[0].clone() for name, tensor in keys_values.items()}
                self.source_keys_values[site] = first
        if site.stack == "encoder":
            self.encoder_attention[site] = {name: tensor[0] for name, tensor in tensors.items()}
        else:
            self._attention[site] = {name: tensor[:, :, -1] for name, tensor in tensors.items()}

    def step(self, record: StepRecord) -> None:
        """Record the candidates of a step and the distributions that they were chosen from."""
        self._check_cancelled()
        internals = list(self._take_internals(record.log_probs_BKV.flatten(0, 1)))
        beam_size = record.log_probs_BKV.size(1)
        parents, self._live = self._live, {}
        for row, search_index, rank, candidate in _iter_candidates(record):
            parent = parents.get((search_index, candidate["parents"]))
            piece, text = self._display(candidate["tokens"])
            log_prob, score = candidate["log_probs"], candidate["scores"]
            node = BeamNode(
                id=len(self.nodes),
                parent=parent.node.id if parent else None,
                step=record.beam.length,
                search_index=search_index,
                token_id=candidate["tokens"],
                piece=piece,
                text=text,
                token_log_prob=candidate["token_log_probs"],
                log_prob=log_prob,
                penalty=log_prob / (record.beam.length + 1) ** self._length_penalty - score,
                score=score,
                rank=rank,
                status=cast("NodeStatus", CandidateStatus(candidate["statuses"]).name.lower()),
            )
            self.nodes.append(node)
            of_parent = internals[row * beam_size + candidate["parents"]]
            recorded = RecordedNode(node, parent, of_parent, candidate["token_ranks"])
            if candidate["next_beams"] >= 0:
                self._live[search_index, candidate["next_beams"]] = recorded
            best = self._best_finished.get(search_index)
            if node.status == "finished" and (best is None or score > best.node.score):
                self._best_finished[search_index] = recorded

    def _take_internals(self, log_probs_RV: Tensor) -> Iterator[StepInternals]:
        """Yield the internals of each hypothesis; copies, which do not keep the batch alive."""
        best = log_probs_RV.topk(min(self._top_k, log_probs_RV.size(1)), dim=1)
        entropy_R = -(log_probs_RV.exp() * log_probs_RV).nan_to_num(0).sum(1)
        attention, outputs = self._attention, self._layer_outputs
        self._attention, self._layer_outputs = {}, {}
        columns = (entropy_R.tolist(), best.indices.tolist(), best.values.tolist())
        for row, (entropy, ids, log_probs) in enumerate(zip(*columns, strict=True)):
            yield StepInternals(
                {
                    site: {name: tensor[row].clone() for name, tensor in tensors.items()}
                    for site, tensors in attention.items()
                },
                {layer: states_RM[row].clone() for layer, states_RM in outputs.items()},
                (ids, log_probs),
                entropy,
            )

    def find_path(self, hypothesis: Hypothesis) -> list[RecordedNode]:
        """Return the nodes of the best hypothesis, from its first token to its last."""
        for end in sorted(self._best_finished.values(), key=lambda each: -each.node.score):
            path, parent = [end], end.parent
            while parent:
                path.append(parent)
                parent = parent.parent
            if tuple(each.node.token_id for each in reversed(path)) == hypothesis.tokens:
                return path[::-1]
        raise AssertionError("the best finished hypothesis of each search is recorded")


def _iter_candidates(record: StepRecord) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """Yield the row, the search index, the rank and the values of each candidate."""
    candidates = record.candidates
    tensors = {
        "parents": candidates.parents_BC,
        "tokens": candidates.tokens_BC,
        "token_log_probs": candidates.model_log_probs_BC,
        "log_probs": candidates.log_probs_BC,
        "scores": record.scores_BC,
        "statuses": record.statuses_BC,
        "next_beams": record.next_beam_BC,
        "token_ranks": _rank_tokens(record),
    }
    columns = {name: values_BC.tolist() for name, values_BC in tensors.items()}
    for row, search_index in enumerate(record.beam.search_index_B.tolist()):
        for rank in range(candidates.tokens_BC.size(1)):
            candidate = {name: values[row][rank] for name, values in columns.items()}
            if candidate["statuses"] != CandidateStatus.NONE:
                yield row, search_index, rank, candidate


def _rank_tokens(record: StepRecord) -> Tensor:
    """Return the number of tokens that the model considers more likely than each candidate."""
    parents_BC, tokens_BC = record.candidates.parents_BC, record.candidates.tokens_BC
    rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
    log_probs_BCV = record.log_probs_BKV[rows_B1, parents_BC]
    return (log_probs_BCV > log_probs_BCV.gather(2, tokens_BC[:, :, None])).sum(2)


def build_token_candidates(
    ids: Sequence[int], log_probs: Sequence[float], display: TokenDisplay
) -> tuple[TokenCandidate, ...]:
    """Return candidates for the next token."""
    pieces_and_texts = map(display, ids)
    return tuple(
        TokenCandidate(id=i, piece=piece, text=text, log_prob=p, probability=math.exp(p))
        for i, p, (piece, text) in zip(ids, log_probs, pieces_and_texts, strict=True)
    )


def build_decoding_steps(
    path: Sequence[RecordedNode], start_piece: str, display: TokenDisplay
) -> Iterator[DecodingStep]:
    """Yield one decoding step for each token of the path."""
    input_pieces = [start_piece, *(each.node.piece for each in path)]
    for input_piece, recorded in zip(input_pieces, path, strict=False):
        yield DecodingStep(
            input_piece=input_piece,
            log_prob=recorded.node.token_log_prob,
            probability=math.exp(recorded.node.token_log_prob),
            rank=recorded.token_rank,
            entropy=recorded.internals.entropy,
            top_candidates=build_token_candidates(*recorded.internals.top, display),
        )


def _stack_layer_outputs(path: Sequence[RecordedNode]) -> dict[int, Tensor]:
    """Return the outputs of each decoder layer along a path, [T, M]."""
    return {
        layer: torch.stack([each.internals.layer_outputs[layer] for each in path])
        for layer in sorted(path[0].internals.layer_outputs)
    }


def build_layer_outputs(
    recorder: TraceRecorder, path: Sequence[RecordedNode]
) -> Iterator[LayerOutputNorms]:
    """Yield the norms of the output of each layer, of the decoder along a path."""
    for stack, outputs in (
        ("encoder", recorder.encoder_outputs),
        ("decoder", _stack_layer_outputs(path)),
    ):
        for layer, states_TM in sorted(outputs.items()):
            yield LayerOutputNorms(stack=stack, layer=layer, norms=to_numpy(states_TM.norm(dim=-1)))


def compute_logit_lenses(
    model: Transformer,
    path: Sequence[RecordedNode],
    display: TokenDisplay,
    top_k: int = 3,
) -> Iterator[LayerLogitLens]:
    """Yield the output distribution computed from each decoder layer along a path.

    Args:
        model: The model that was recorded.
        path: Path of the translation.
        display: Returns piece and display text of a token.
        top_k: Number of most likely tokens per step.
    """
    target_T = torch.tensor([each.node.token_id for each in path])
    for layer, states_TM in _stack_layer_outputs(path).items():
        log_probs_TV = model.output.log_probabilities(model.decoder.norm(states_TM)).cpu()
        best = log_probs_TV.topk(min(top_k, log_probs_TV.size(1)), dim=1)
        ids_and_log_probs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        yield LayerLogitLens(
            layer=layer,
            probability=to_numpy(log_probs_TV.gather(1, target_T[:, None])[:, 0].exp()),
            top_candidates=tuple(
                build_token_candidates(ids, log_probs, display)
                for ids, log_probs in ids_and_log_probs
            ),
        )


def build_attention_maps(
    recorder: TraceRecorder,
    path: Sequence[RecordedNode],
    modules: Iterable[MultiHeadAttention],
    interventions: Sequence[Intervention],
) -> Iterator[AttentionModuleTrace]:
    """Yield the map of each recorded module of the original model, of the decoder along a path."""
    for module in modules:
        site, attention = module.site, module.attention
        query_axis: TokenAxis = "source"
        key_axis: TokenAxis = "source"
        if site in recorder.encoder_attention:
            tensors = recorder.encoder_attention[site]
            if isinstance(attention, LinformerAttention):
                key_axis = "projection"
        elif site in path[0].internals.attention:
            tensors = _stack_attention([each.internals.attention[site] for each in path])
            tensors |= recorder.source_keys_values.get(site, {})
            query_axis = "target" if site.kind == "cross" else "decoder_input"
            key_axis = "source" if site.kind == "cross" else "decoder_input"
        else:  # the layer is ablated
            continue
        changes = collect_head_changes(module, interventions)
        scale = attention.scale if isinstance(attention, DotProductAttention) else None
        weights_HTS = tensors["weights"]
        mask_HTS = tensors.get("mask", torch.zeros_like(weights_HTS, dtype=torch.bool))
        yield AttentionModuleTrace(
            stack=site.stack,
            layer=site.layer,
            kind=site.kind,
            query_axis=query_axis,
            key_axis=key_axis,
            mask=_simplify_mask(mask_HTS, is_causal=site[::2] == ("decoder", "self")),
            head_summaries=tuple(summarize_heads(weights_HTS, query_axis == key_axis)),
            ablated_heads=tuple(sorted(changes.ablated)),
            scale=None if changes.score_scales else scale,
            **{name: to_numpy(tensor) for name, tensor in tensors.items() if name != "mask"},
        )


def _stack_attention(steps: Sequence[AttentionTensors]) -> AttentionTensors:
    """Return tensors with an axis of T steps, [H, T, S] or [H, T, D].

    Keys that do not exist yet are padded with zeros.
    """
    num_keys = steps[-1]["weights"].size(-1)
    stacked = {}
    for name in steps[0]:
        rows = [each[name] for each in steps]
        if name in _PER_KEY:
            rows = [torch.nn.functional.pad(x, (0, num_keys - x.size(-1))) for x in rows]
        stacked[name] = torch.stack(rows, dim=1)
    return stacked


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
