"""Builds the parts of a trace from the recorded steps: beam tree, attention maps, logit lens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2see.explain.interventions import (
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
    LayerOutput,
    NodeStatus,
    TokenAxis,
    TokenCandidate,
    to_numpy,
)
from seq2see.explain.trace_recorder import RecordedStep, TraceRecorder
from seq2see.model import (
    DotProductAttention,
    LinformerAttention,
    MultiHeadAttention,
    Transformer,
)
from seq2see.search import CandidateStatus, Hypothesis

# H heads, T steps or queries, S source tokens or keys, M features of the model, V vocabulary

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


def _iter_candidates(step: RecordedStep) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
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


def build_layer_outputs(recorder: TraceRecorder, path_rows: Sequence[int]) -> Iterator[LayerOutput]:
    """Yield the norms of the output of each layer, of the decoder along a path."""
    for layer, states_SM in sorted(recorder.encoder_outputs.items()):
        yield LayerOutput(stack="encoder", layer=layer, norms=to_numpy(states_SM.norm(dim=-1)))
    for layer in sorted(recorder.steps[0].layer_outputs):
        states_TM = recorder.stack_layer_outputs(layer, path_rows)
        yield LayerOutput(stack="decoder", layer=layer, norms=to_numpy(states_TM.norm(dim=-1)))


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
