"""Builds the parts of a trace from the recorded steps: beam tree, attention maps, logit lens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.explain.explained_model_and_recorder import (
    ModuleStepAttention,
    RecordedStep,
    TraceRecorder,
)
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    BeamLayerAttention,
    BeamNode,
    BeamTree,
    DecodingStep,
    HeadSummary,
    LayerLogitLens,
    LayerOutput,
    NodeStatus,
    TokenCandidate,
    to_numpy,
)
from seq2see.model import AttentionIntermediates, AttentionModuleId, Transformer
from seq2see.search import CandidateStatus, Hypothesis

# H heads, T steps or queries, S source tokens or keys, R rows of a step: one per hypothesis,
# D features per head, M features of the model, V vocabulary

TokenDisplay = Callable[[int], tuple[str, str]]
"""Returns the piece of a token id, and its text for display."""

_STATUS_NAMES: dict[CandidateStatus, NodeStatus] = {
    CandidateStatus.ALIVE: "alive",
    CandidateStatus.FINISHED: "finished",
    CandidateStatus.PRUNED: "pruned",
    CandidateStatus.STOPPED: "stopped",
}


@dataclass(frozen=True, slots=True)
class BeamPath:
    """The nodes of one hypothesis, and its row in each step."""

    node_ids: tuple[int, ...]
    rows: tuple[int, ...]


def build_token_candidate(token_id: int, log_prob: float, display: TokenDisplay) -> TokenCandidate:
    """Return a candidate for the next token."""
    piece, text = display(token_id)
    return TokenCandidate(
        id=token_id, piece=piece, text=text, log_prob=log_prob, probability=math.exp(log_prob)
    )


def build_beam_nodes(
    recorder: TraceRecorder, length_penalty: float, display: TokenDisplay
) -> list[BeamNode]:
    """Return all hypotheses of the search, parents before children."""
    nodes: list[BeamNode] = []
    node_of_beam: dict[tuple[int, int], int] = {}
    first_row = 0
    for step_index, step in enumerate(recorder.steps):
        parents, node_of_beam = node_of_beam, {}
        for search_index, row, candidate in _iter_candidates(step):
            log_prob, score = candidate["log_probs"], candidate["scores"]
            piece, text = display(candidate["tokens"])
            nodes.append(
                BeamNode(
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
                    rank=candidate["rank"],
                    status=_STATUS_NAMES[CandidateStatus(candidate["statuses"])],
                    attention_row=first_row + row * step.beam_size + candidate["parents"],
                )
            )
            if candidate["next_beams"] >= 0:
                node_of_beam[search_index, candidate["next_beams"]] = nodes[-1].id
        first_row += _count_rows(step)
    return nodes


def _iter_candidates(step: RecordedStep) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the search index, the row and the values of each candidate."""
    assert step.search_index_B is not None
    columns = {name: values.tolist() for name, values in step.candidates.items()}
    for row, search_index in enumerate(step.search_index_B.tolist()):
        for rank in range(len(columns["tokens"][row])):
            candidate = {name: values[row][rank] for name, values in columns.items()}
            if candidate["statuses"] != CandidateStatus.NONE:
                yield search_index, row, {**candidate, "rank": rank}


def _count_rows(step: RecordedStep) -> int:
    assert step.search_index_B is not None
    return len(step.search_index_B) * step.beam_size


def find_beam_path(
    recorder: TraceRecorder, nodes: Sequence[BeamNode], hypothesis: Hypothesis
) -> BeamPath:
    """Return the path of a finished hypothesis."""
    ends = [n for n in nodes if n.status == "finished" and n.step + 1 == len(hypothesis.tokens)]
    for end in sorted(ends, key=lambda node: -node.score):
        path = _collect_ancestors(nodes, end)
        if tuple(node.token_id for node in path) == hypothesis.tokens:
            first_rows = np.cumsum([0, *map(_count_rows, recorder.steps)])
            rows = tuple(int(node.attention_row - first_rows[node.step]) for node in path)
            return BeamPath(tuple(node.id for node in path), rows)
    raise AssertionError("every finished hypothesis is a node")


def _collect_ancestors(nodes: Sequence[BeamNode], end: BeamNode) -> list[BeamNode]:
    """Return the nodes from the first token to `end`."""
    path = [end]
    while path[-1].parent is not None:
        path.append(nodes[path[-1].parent])
    return path[::-1]


def build_beam_tree(recorder: TraceRecorder, nodes: Sequence[BeamNode], path: BeamPath) -> BeamTree:
    """Return the search with the cross-attention of each hypothesis."""
    sites = sorted(site for site in recorder.steps[0].attention if site.kind == "cross")
    weights_RHS = {
        site: torch.cat([s.attention[site].weights_RHS for s in recorder.steps]) for site in sites
    }
    means_RS = [weights.mean(1) for weights in weights_RHS.values()]
    empty_R0 = torch.zeros(sum(map(_count_rows, recorder.steps)), 0)
    layers = [
        BeamLayerAttention(layer=site.layer, weights=to_numpy(weights))
        for site, weights in weights_RHS.items()
        if (site.stack, site.layer) in recorder.detailed_layers
    ]
    return BeamTree(
        nodes=tuple(nodes),
        best_path=path.node_ids,
        mean_attention=to_numpy(torch.stack(means_RS).mean(0) if means_RS else empty_R0),
        layer_attention=tuple(layers),
    )


def build_decoding_steps(
    recorder: TraceRecorder,
    nodes: Sequence[BeamNode],
    path: BeamPath,
    start_piece: str,
    display: TokenDisplay,
) -> Iterator[DecodingStep]:
    """Yield one decoding step for each token of the path."""
    input_piece = start_piece
    for step, row, node_id in zip(recorder.steps, path.rows, path.node_ids, strict=False):
        node = nodes[node_id]
        assert step.top_RN is not None
        assert step.entropy_R is not None
        log_probs, tokens = (column[row].tolist() for column in step.top_RN)
        yield DecodingStep(
            input_piece=input_piece,
            log_prob=node.token_log_prob,
            probability=math.exp(node.token_log_prob),
            rank=int(step.candidates["ranks"].view(-1)[_candidate_index(step, row, node)]),
            entropy=float(step.entropy_R[row]),
            top_candidates=tuple(
                build_token_candidate(t, p, display) for t, p in zip(tokens, log_probs, strict=True)
            ),
        )
        input_piece = node.piece


def _candidate_index(step: RecordedStep, row: int, node: BeamNode) -> int:
    """Return the index of a node among all candidates of its step."""
    return row // step.beam_size * step.candidates["tokens"].size(1) + node.rank


def build_layer_outputs(recorder: TraceRecorder, path: BeamPath) -> Iterator[LayerOutput]:
    """Yield the output of each layer, of the decoder along the path."""
    for layer, states in sorted(recorder.encoder_outputs.items()):
        is_detailed = ("encoder", layer) in recorder.detailed_layers
        yield _build_layer_output("encoder", layer, states, is_detailed)
    for layer in sorted(recorder.steps[0].layer_outputs):
        states = stack_outputs_of_layer_along_path(recorder, path, layer)
        is_detailed = ("decoder", layer) in recorder.detailed_layers
        yield _build_layer_output("decoder", layer, states, is_detailed)


def stack_outputs_of_layer_along_path(
    recorder: TraceRecorder, path: BeamPath, layer: int
) -> Tensor:
    """Return the outputs of a decoder layer along a path, [T, M]."""
    pairs = zip(recorder.steps, path.rows, strict=False)
    return torch.stack([step.layer_outputs[layer][row] for step, row in pairs])


def _build_layer_output(stack: Any, layer: int, states: Tensor, is_detailed: bool) -> LayerOutput:
    return LayerOutput(
        stack=stack,
        layer=layer,
        norms=to_numpy(states.norm(dim=-1)),
        states=to_numpy(states) if is_detailed else None,
    )


def compute_logit_lenses(
    model: Transformer,
    recorder: TraceRecorder,
    path: BeamPath,
    tokens: Sequence[int],
    display: TokenDisplay,
    top_k: int = 3,
) -> Iterator[LayerLogitLens]:
    """Yield the output distribution computed from each decoder layer along a path.

    Args:
        model: The model that was recorded.
        recorder: Recording of the search.
        path: Path of the translation.
        tokens: Token ids of the translation.
        display: Returns piece and display text of a token.
        top_k: Number of most likely tokens per step.
    """
    target_T = torch.tensor(tokens)
    for layer in sorted(recorder.steps[0].layer_outputs):
        states_TM = stack_outputs_of_layer_along_path(recorder, path, layer)
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


@dataclass(frozen=True, slots=True)
class AttentionScaleAndAblatedHeads:
    """Properties of an attention module that are not recorded."""

    scale: float | None
    ablated_heads: tuple[int, ...]
    projects_keys: bool
    """Whether keys are projected to fewer positions, as in Linformer."""


def build_encoder_layer_attention_map(
    site: AttentionModuleId,
    record: AttentionIntermediates,
    is_detailed: bool,
    info: AttentionScaleAndAblatedHeads,
) -> AttentionModuleTrace:
    """Return the attention map of an encoder layer, with scores and vectors if detailed."""
    weights_HTS = record.weights_BHTS[0]
    masked = record.masked_BHTS
    mask_HTS = None if masked is None else masked.expand_as(record.weights_BHTS)[0]
    details = {}
    if is_detailed:
        details = {
            "scores": to_numpy(record.scores_BHTS[0]),
            "queries": to_numpy(record.queries_BHTD[0]),
            "keys": to_numpy(record.keys_BHSD[0]),
            "values": to_numpy(record.values_BHSD[0]),
        }
    is_projected = weights_HTS.size(1) != weights_HTS.size(2) or info.projects_keys
    axes = ("source", "projection" if is_projected else "source")
    return _build_map(site, axes, weights_HTS, mask_HTS, info, details)


def build_decoder_layer_attention_map(
    site: AttentionModuleId,
    recorder: TraceRecorder,
    path: BeamPath,
    info: AttentionScaleAndAblatedHeads,
) -> AttentionModuleTrace:
    """Return the attention map of a decoder layer along a path, padded with zeros."""
    steps = recorder.select_attention(site, path.rows)
    num_keys = steps[-1].weights_RHS.size(-1)
    weights_HTS = _stack_steps([step.weights_RHS for step in steps], num_keys)
    mask_HTS = _build_mask(steps, num_keys, is_causal=site.kind == "self")
    details = {}
    if steps[0].scores_RHS is not None:
        details = {
            "scores": to_numpy(_stack_steps([step.scores_RHS for step in steps], num_keys)),
            "queries": to_numpy(_stack_steps([step.queries_RHD for step in steps])),
            **_stack_keys_values(site, recorder, steps),
        }
    axes = ("decoder_input", "decoder_input") if site.kind == "self" else ("target", "source")
    return _build_map(site, axes, weights_HTS, mask_HTS, info, details)


def _stack_keys_values(
    site: AttentionModuleId, recorder: TraceRecorder, steps: Sequence[ModuleStepAttention]
) -> dict[str, NDArray[Any]]:
    if site.kind == "cross":
        keys, values = recorder.source_keys_values[site]
        return {"keys": to_numpy(keys), "values": to_numpy(values)}
    return {
        "keys": to_numpy(_stack_steps([step.keys_RHD for step in steps])),
        "values": to_numpy(_stack_steps([step.values_RHD for step in steps])),
    }


def _stack_steps(rows: Sequence[Tensor | None], width: int | None = None) -> Tensor:
    """Stack T tensors [H, at most width] to [H, T, width], padded with zeros."""
    tensors = [row for row in rows if row is not None]
    if width is None:
        return torch.stack(tensors, dim=1)
    padded = [torch.nn.functional.pad(row, (0, width - row.size(-1))) for row in tensors]
    return torch.stack(padded, dim=1)


def _build_mask(
    steps: Sequence[ModuleStepAttention], num_keys: int, is_causal: bool
) -> Tensor | None:
    """Return the masked keys of each query, or None if there are none.

    With `is_causal`, keys of later steps are masked; they do not exist during decoding.
    """
    masked = [
        torch.zeros_like(step.weights_RHS, dtype=torch.bool)
        if step.masked_RHS is None
        else step.masked_RHS
        for step in steps
    ]
    mask_HTS = _stack_steps(masked, num_keys)
    if is_causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    return mask_HTS if mask_HTS.any() else None


def _build_map(
    site: AttentionModuleId,
    axes: tuple[Any, Any],
    weights_HTS: Tensor,
    mask_HTS: Tensor | None,
    info: AttentionScaleAndAblatedHeads,
    details: dict[str, NDArray[Any]],
) -> AttentionModuleTrace:
    if mask_HTS is not None and not mask_HTS.any():
        mask_HTS = None
    is_shared = mask_HTS is not None and bool((mask_HTS == mask_HTS[:1]).all())
    mask = None if mask_HTS is None else to_numpy(mask_HTS[0] if is_shared else mask_HTS, np.uint8)
    return AttentionModuleTrace(
        stack=site.stack,
        layer=site.layer,
        kind=site.kind,
        query_axis=axes[0],
        key_axis=axes[1],
        weights=to_numpy(weights_HTS),
        mask=mask,
        head_summaries=tuple(summarize_heads(weights_HTS, same_tokens=axes[0] == axes[1])),
        ablated_heads=info.ablated_heads,
        scale=info.scale,
        **details,
    )


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
