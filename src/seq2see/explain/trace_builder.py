"""Builds the parts of a trace from a recording: beam tree, steps, attention maps, logit lens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seq2see.explain.explained_model import RecordedStep, StepAttention, TraceRecorder
from seq2see.explain.trace import (
    AttentionMap,
    BeamLayerAttention,
    BeamNode,
    BeamTree,
    DecodingStep,
    HeadSummary,
    LayerOutput,
    LogitLens,
    TokenCandidate,
    to_numpy,
)
from seq2see.model import AttentionRecord, AttentionSite, Transformer
from seq2see.search import CandidateStatus, Hypothesis

# H heads, T steps, S source tokens or keys, R rows of the beam, D features of a head, M of the
# model, V vocabulary
# H heads, T queries, S keys, D features of a head, R rows of a step

TokenDisplay = Callable[[int], tuple[str, str]]
"""From an id to its piece and how to write it."""


@dataclass(frozen=True, slots=True)
class BeamPath:
    """The way of one hypothesis: its nodes, and its row in each step."""

    node_ids: tuple[int, ...]
    rows: tuple[int, ...]


def build_candidate(token_id: int, log_prob: float, display: TokenDisplay) -> TokenCandidate:
    """Return a token that might come next."""
    piece, text = display(token_id)
    return TokenCandidate(
        id=token_id, piece=piece, text=text, log_prob=log_prob, probability=math.exp(log_prob)
    )


def build_beam_nodes(
    recorder: TraceRecorder, length_penalty: float, display: TokenDisplay
) -> list[BeamNode]:
    """Return every hypothesis that there was, parents first."""
    nodes: list[BeamNode] = []
    living: dict[tuple[int, int], int] = {}
    first_row = 0
    for number, step in enumerate(recorder.steps):
        before, living = living, {}
        for member, row, found in _candidates(step):
            parent = before.get((member, found["parents"]))
            rank, log_prob, score = found["rank"], found["log_probs"], found["scores"]
            piece, text = display(found["tokens"])
            nodes.append(
                BeamNode(
                    id=len(nodes),
                    parent=parent,
                    step=number,
                    search_index=member,
                    token_id=found["tokens"],
                    piece=piece,
                    text=text,
                    token_log_prob=found["own"],
                    log_prob=log_prob,
                    penalty=log_prob / (number + 1) ** length_penalty - score,
                    score=score,
                    rank=rank,
                    status=CandidateStatus(found["fates"]).name.lower(),
                    attention_row=first_row + row * step.beam_size + found["parents"],
                )
            )
            if found["beams"] >= 0:
                living[member, found["beams"]] = nodes[-1].id
        first_row += _height(step)
    return nodes


def _candidates(step: RecordedStep) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the member, the row and the numbers of each candidate that was one."""
    assert step.search_index_B is not None
    columns = {name: values.tolist() for name, values in step.candidates.items()}
    for row, member in enumerate(step.search_index_B.tolist()):
        for rank in range(len(columns["tokens"][row])):
            found = {name: values[row][rank] for name, values in columns.items()}
            if found["fates"] != CandidateStatus.NONE:
                yield member, row, {**found, "rank": rank}


def _height(step: RecordedStep) -> int:
    assert step.search_index_B is not None
    return len(step.search_index_B) * step.beam_size


def find_beam_path(
    recorder: TraceRecorder, nodes: Sequence[BeamNode], hypothesis: Hypothesis
) -> BeamPath:
    """Return the way of a hypothesis that has ended."""
    ends = [n for n in nodes if n.status == "finished" and n.step + 1 == len(hypothesis.tokens)]
    for end in sorted(ends, key=lambda node: -node.score):
        way = _way(nodes, end)
        if tuple(node.token_id for node in way) == hypothesis.tokens:
            starts = np.cumsum([0, *map(_height, recorder.steps)])
            rows = tuple(int(node.attention_row - starts[node.step]) for node in way)
            return BeamPath(tuple(node.id for node in way), rows)
    raise AssertionError("a hypothesis that has ended is in the forest")


def _way(nodes: Sequence[BeamNode], end: BeamNode) -> list[BeamNode]:
    way = [end]
    while way[-1].parent is not None:
        way.append(nodes[way[-1].parent])
    return way[::-1]


def build_beam_tree(recorder: TraceRecorder, nodes: Sequence[BeamNode], path: BeamPath) -> BeamTree:
    """Return the search, with each hypothesis' own attention."""
    sites = sorted(site for site in recorder.steps[0].attention if site.kind == "cross")
    whole = {
        site: torch.cat([s.attention[site].weights_RHS for s in recorder.steps]) for site in sites
    }
    means = [weights_RHS.mean(1) for weights_RHS in whole.values()]
    none = torch.zeros(sum(map(_height, recorder.steps)), 0)
    layers = [
        BeamLayerAttention(layer=site.layer, weights=to_numpy(weights_RHS))
        for site, weights_RHS in whole.items()
        if (site.stack, site.layer) in recorder.detailed_layers
    ]
    return BeamTree(
        nodes=tuple(nodes),
        best_path=path.node_ids,
        mean_attention=to_numpy(torch.stack(means).mean(0) if means else none),
        layer_attention=tuple(layers),
    )


def build_decoding_steps(
    recorder: TraceRecorder,
    nodes: Sequence[BeamNode],
    path: BeamPath,
    start_piece: str,
    display: TokenDisplay,
) -> Iterator[DecodingStep]:
    """Yield how each token of the path was chosen."""
    given = start_piece
    for tape_step, row, number in zip(recorder.steps, path.rows, path.node_ids, strict=False):
        node = nodes[number]
        assert tape_step.top_RN is not None
        assert tape_step.entropy_R is not None
        log_probs, tokens = (column[row].tolist() for column in tape_step.top_RN)
        yield DecodingStep(
            input_piece=given,
            log_prob=node.token_log_prob,
            probability=math.exp(node.token_log_prob),
            rank=int(tape_step.candidates["ranks"].view(-1)[_place(tape_step, row, node)]),
            entropy=float(tape_step.entropy_R[row]),
            top_candidates=tuple(
                build_candidate(t, p, display) for t, p in zip(tokens, log_probs, strict=True)
            ),
        )
        given = node.piece


def _place(step: RecordedStep, row: int, node: BeamNode) -> int:
    """Return where a node stands among all candidates of its step."""
    return row // step.beam_size * step.candidates["tokens"].size(1) + node.rank


def build_layer_outputs(recorder: TraceRecorder, path: BeamPath) -> Iterator[LayerOutput]:
    """Yield what each layer gave to the next."""
    for layer, states in sorted(recorder.encoder_outputs.items()):
        yield _output("encoder", layer, states, ("encoder", layer) in recorder.detailed_layers)
    for layer in sorted(recorder.steps[0].layer_outputs):
        whole = ("decoder", layer) in recorder.detailed_layers
        yield _output("decoder", layer, stack_decoder_states(recorder, path, layer), whole)


def stack_decoder_states(recorder: TraceRecorder, path: BeamPath, layer: int) -> Tensor:
    """Return a layer's outputs along a path, [T, M]."""
    pairs = zip(recorder.steps, path.rows, strict=False)
    return torch.stack([step.layer_outputs[layer][row] for step, row in pairs])


def _output(stack: Any, layer: int, states: Tensor, whole: bool) -> LayerOutput:
    norms = to_numpy(states.norm(dim=-1))
    kept = to_numpy(states) if whole else None
    return LayerOutput(stack=stack, layer=layer, norms=norms, states=kept)


def compute_logit_lenses(
    model: Transformer,
    recorder: TraceRecorder,
    path: BeamPath,
    tokens: Sequence[int],
    display: TokenDisplay,
    top_k: int = 3,
) -> Iterator[LogitLens]:
    """Yield what each decoder layer would have said, had it been the last."""
    emitted_T = torch.tensor(tokens)
    for layer in sorted(recorder.steps[0].layer_outputs):
        states_TM = stack_decoder_states(recorder, path, layer)
        log_probs_TV = model.output.log_probabilities(model.decoder.norm(states_TM)).cpu()
        best = log_probs_TV.topk(min(top_k, log_probs_TV.size(1)), dim=1)
        yield LogitLens(
            layer=layer,
            probability=to_numpy(log_probs_TV.gather(1, emitted_T[:, None])[:, 0].exp()),
            top_candidates=tuple(
                tuple(build_candidate(t, p, display) for t, p in zip(ids, log_probs, strict=True))
                for ids, log_probs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ),
        )


@dataclass(frozen=True, slots=True)
class AttentionInfo:
    """What a map knows from the model rather than from the tape."""

    scale: float | None
    ablated_heads: tuple[int, ...]
    mixes_keys: bool


def build_encoder_map(
    site: AttentionSite, record: AttentionRecord, detailed: bool, info: AttentionInfo
) -> AttentionMap:
    """Return an attention of the encoder."""
    weights_HTS = record.weights_BHTS[0]
    hidden = record.masked_BHTS
    mask = None if hidden is None else hidden.expand_as(record.weights_BHTS)[0]
    more = {}
    if detailed:
        more = {
            "scores": to_numpy(record.scores_BHTS[0]),
            "queries": to_numpy(record.queries_BHTD[0]),
            "keys": to_numpy(record.keys_BHSD[0]),
            "values": to_numpy(record.values_BHSD[0]),
        }
    mixed = weights_HTS.size(1) != weights_HTS.size(2) or info.mixes_keys
    axes = ("source", "projection" if mixed else "source")
    return _map(site, axes, weights_HTS, mask, info, more)


def build_decoder_map(
    site: AttentionSite, recorder: TraceRecorder, path: BeamPath, info: AttentionInfo
) -> AttentionMap:
    """Return an attention of the decoder along a path, the shorter rows filled up with zeros."""
    rows = recorder.select_attention(site, path.rows)
    keys = rows[-1].weights_RHS.size(-1)
    weights_HTS = _stacked([r.weights_RHS for r in rows], keys)
    mask_HTS = _mask(rows, keys, causal=site.kind == "self")
    more = {}
    if rows[0].scores_RHS is not None:
        more = {
            "scores": to_numpy(_stacked([r.scores_RHS for r in rows], keys)),
            "queries": to_numpy(_stacked([r.queries_RHD for r in rows])),
            **_keys_values(site, recorder, rows),
        }
    axes = ("decoder_input", "decoder_input") if site.kind == "self" else ("target", "source")
    return _map(site, axes, weights_HTS, mask_HTS, info, more)


def _keys_values(
    site: AttentionSite, tape: TraceRecorder, rows: Sequence[StepAttention]
) -> dict[str, NDArray[Any]]:
    if site.kind == "cross":
        keys, values = tape.source_keys_values[site]
        return {"keys": to_numpy(keys), "values": to_numpy(values)}
    return {
        "keys": to_numpy(_stacked([r.keys_RHD for r in rows])),
        "values": to_numpy(_stacked([r.values_RHD for r in rows])),
    }


def _stacked(rows: Sequence[Tensor | None], width: int | None = None) -> Tensor:
    """Return [H, T, width] from T times [H, up to width]."""
    given = [row for row in rows if row is not None]
    if width is None:
        return torch.stack(given, dim=1)
    padded = [torch.nn.functional.pad(row, (0, width - row.size(-1))) for row in given]
    return torch.stack(padded, dim=1)


def _mask(rows: Sequence[StepAttention], keys: int, causal: bool) -> Tensor | None:
    """Return what was hidden from each query; later tokens are, though nobody had to hide them."""
    hidden = [
        torch.zeros_like(row.weights_RHS, dtype=torch.bool)
        if row.masked_RHS is None
        else row.masked_RHS
        for row in rows
    ]
    mask_HTS = _stacked(hidden, keys)
    if causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    return mask_HTS if mask_HTS.any() else None


def _map(
    site: AttentionSite,
    axes: tuple[Any, Any],
    weights_HTS: Tensor,
    mask_HTS: Tensor | None,
    common: AttentionInfo,
    more: dict[str, NDArray[Any]],
) -> AttentionMap:
    if mask_HTS is not None and not mask_HTS.any():
        mask_HTS = None
    alike = mask_HTS is not None and bool((mask_HTS == mask_HTS[:1]).all())
    mask = None if mask_HTS is None else to_numpy(mask_HTS[0] if alike else mask_HTS, np.uint8)
    return AttentionMap(
        stack=site.stack,
        layer=site.layer,
        kind=site.kind,
        query_axis=axes[0],
        key_axis=axes[1],
        weights=to_numpy(weights_HTS),
        mask=mask,
        head_summaries=tuple(summarize_heads(weights_HTS, same_tokens=axes[0] == axes[1])),
        ablated_heads=common.ablated_heads,
        scale=common.scale,
        **more,
    )


def summarize_heads(weights_HTS: Tensor, same_tokens: bool) -> Iterator[HeadSummary]:
    """Yield each head in three numbers; `near`: queries and keys are the same tokens."""
    entropy_H = torch.special.entr(weights_HTS).sum(-1).mean(-1).tolist()
    peak_H = weights_HTS.amax(-1).mean(-1).tolist()
    _, queries, keys = weights_HTS.shape
    places_S = torch.arange(keys, device=weights_HTS.device)
    apart_TS = (places_S - torch.arange(queries, device=places_S.device)[:, None]).abs()
    distance_H = (weights_HTS * apart_TS).sum(-1).mean(-1).tolist()
    for entropy, peak, distance in zip(entropy_H, peak_H, distance_H, strict=True):
        yield HeadSummary(
            entropy=entropy, max_weight=peak, distance=distance if same_tokens else None
        )
