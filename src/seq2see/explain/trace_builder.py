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

from seq2see.explain.explained_model import Rows, StepTape, Tape
from seq2see.explain.trace import (
    AttentionMap,
    Beam,
    BeamNode,
    Candidate,
    HeadSummary,
    LayerOutput,
    LayerRows,
    Lens,
    Step,
    array,
)
from seq2see.model import AttentionRecord, Site, Transformer
from seq2see.search import Fate, Hypothesis

# H heads, T steps, S source tokens or keys, R rows of the beam, D features of a head, M of the
# model, V vocabulary
# H heads, T queries, S keys, D features of a head, R rows of a step

Shown = Callable[[int], tuple[str, str]]
"""From an id to its piece and how to write it."""


@dataclass(frozen=True, slots=True)
class Path:
    """The way of one hypothesis: its nodes, and its row in each step."""

    nodes: tuple[int, ...]
    rows: tuple[int, ...]


def candidate(number: int, log_prob: float, shown: Shown) -> Candidate:
    """Return a token that might come next."""
    piece, text = shown(number)
    return Candidate(
        id=number, piece=piece, text=text, log_prob=log_prob, probability=math.exp(log_prob)
    )


def forest(tape: Tape, alpha: float, shown: Shown) -> list[BeamNode]:
    """Return every hypothesis that there was, parents first."""
    nodes: list[BeamNode] = []
    living: dict[tuple[int, int], int] = {}
    first_row = 0
    for number, step in enumerate(tape.steps):
        before, living = living, {}
        for member, row, found in _candidates(step):
            parent = before.get((member, found["parents"]))
            rank, log_prob, score = found["rank"], found["log_probs"], found["scores"]
            piece, text = shown(found["tokens"])
            nodes.append(
                BeamNode(
                    id=len(nodes),
                    parent=parent,
                    step=number,
                    member=member,
                    token=found["tokens"],
                    piece=piece,
                    text=text,
                    token_log_prob=found["own"],
                    log_prob=log_prob,
                    penalty=log_prob / (number + 1) ** alpha - score,
                    score=score,
                    rank=rank,
                    fate=Fate(found["fates"]).name.lower(),
                    row=first_row + row * step.beams + found["parents"],
                )
            )
            if found["beams"] >= 0:
                living[member, found["beams"]] = nodes[-1].id
        first_row += _height(step)
    return nodes


def _candidates(step: StepTape) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield the member, the row and the numbers of each candidate that was one."""
    assert step.members_B is not None
    columns = {name: values.tolist() for name, values in step.candidates.items()}
    for row, member in enumerate(step.members_B.tolist()):
        for rank in range(len(columns["tokens"][row])):
            found = {name: values[row][rank] for name, values in columns.items()}
            if found["fates"] != Fate.NONE:
                yield member, row, {**found, "rank": rank}


def _height(step: StepTape) -> int:
    assert step.members_B is not None
    return len(step.members_B) * step.beams


def path_of(tape: Tape, nodes: Sequence[BeamNode], winner: Hypothesis) -> Path:
    """Return the way of a hypothesis that has ended."""
    ends = [n for n in nodes if n.fate == "finished" and n.step + 1 == len(winner.tokens)]
    for end in sorted(ends, key=lambda node: -node.score):
        way = _way(nodes, end)
        if tuple(node.token for node in way) == winner.tokens:
            starts = np.cumsum([0, *map(_height, tape.steps)])
            rows = tuple(int(node.row - starts[node.step]) for node in way)
            return Path(tuple(node.id for node in way), rows)
    raise AssertionError("a hypothesis that has ended is in the forest")


def _way(nodes: Sequence[BeamNode], end: BeamNode) -> list[BeamNode]:
    way = [end]
    while way[-1].parent is not None:
        way.append(nodes[way[-1].parent])
    return way[::-1]


def beam(tape: Tape, nodes: Sequence[BeamNode], path: Path) -> Beam:
    """Return the search, with each hypothesis' own attention."""
    sites = sorted(site for site in tape.steps[0].attention if site.kind == "cross")
    whole = {site: torch.cat([s.attention[site].weights_RHS for s in tape.steps]) for site in sites}
    means = [weights_RHS.mean(1) for weights_RHS in whole.values()]
    none = torch.zeros(sum(map(_height, tape.steps)), 0)
    layers = [
        LayerRows(layer=site.layer, weights=array(weights_RHS))
        for site, weights_RHS in whole.items()
        if (site.stack, site.layer) in tape.whole
    ]
    return Beam(
        nodes=tuple(nodes),
        path=path.nodes,
        attention=array(torch.stack(means).mean(0) if means else none),
        layers=tuple(layers),
    )


def steps(
    tape: Tape, nodes: Sequence[BeamNode], path: Path, start: str, shown: Shown
) -> Iterator[Step]:
    """Yield how each token of the path was chosen."""
    given = start
    for tape_step, row, number in zip(tape.steps, path.rows, path.nodes, strict=False):
        node = nodes[number]
        assert tape_step.top_RN is not None
        assert tape_step.entropy_R is not None
        log_probs, tokens = (column[row].tolist() for column in tape_step.top_RN)
        yield Step(
            input=given,
            log_prob=node.token_log_prob,
            probability=math.exp(node.token_log_prob),
            rank=int(tape_step.candidates["ranks"].view(-1)[_place(tape_step, row, node)]),
            entropy=float(tape_step.entropy_R[row]),
            top=tuple(candidate(t, p, shown) for t, p in zip(tokens, log_probs, strict=True)),
        )
        given = node.piece


def _place(step: StepTape, row: int, node: BeamNode) -> int:
    """Return where a node stands among all candidates of its step."""
    return row // step.beams * step.candidates["tokens"].size(1) + node.rank


def layer_outputs(tape: Tape, path: Path) -> Iterator[LayerOutput]:
    """Yield what each layer gave to the next."""
    for layer, states in sorted(tape.encoder_outputs.items()):
        yield _output("encoder", layer, states, ("encoder", layer) in tape.whole)
    for layer in sorted(tape.steps[0].outputs):
        whole = ("decoder", layer) in tape.whole
        yield _output("decoder", layer, decoder_states(tape, path, layer), whole)


def decoder_states(tape: Tape, path: Path, layer: int) -> Tensor:
    """Return a layer's outputs along a path, [T, M]."""
    pairs = zip(tape.steps, path.rows, strict=False)
    return torch.stack([step.outputs[layer][row] for step, row in pairs])


def _output(stack: Any, layer: int, states: Tensor, whole: bool) -> LayerOutput:
    norms = array(states.norm(dim=-1))
    kept = array(states) if whole else None
    return LayerOutput(stack=stack, layer=layer, norms=norms, states=kept)


def lenses(
    model: Transformer, tape: Tape, path: Path, tokens: Sequence[int], shown: Shown, top: int = 3
) -> Iterator[Lens]:
    """Yield what each decoder layer would have said, had it been the last."""
    emitted_T = torch.tensor(tokens)
    for layer in sorted(tape.steps[0].outputs):
        states_TM = decoder_states(tape, path, layer)
        log_probs_TV = model.output.log_probabilities(model.decoder.norm(states_TM)).cpu()
        best = log_probs_TV.topk(min(top, log_probs_TV.size(1)), dim=1)
        yield Lens(
            layer=layer,
            probability=array(log_probs_TV.gather(1, emitted_T[:, None])[:, 0].exp()),
            top=tuple(
                tuple(candidate(t, p, shown) for t, p in zip(ids, log_probs, strict=True))
                for ids, log_probs in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ),
        )


@dataclass(frozen=True, slots=True)
class Common:
    """What a map knows from the model rather than from the tape."""

    scale: float | None
    off: tuple[int, ...]
    mixtures: bool


def encoder_map(site: Site, record: AttentionRecord, whole: bool, common: Common) -> AttentionMap:
    """Return an attention of the encoder."""
    weights_HTS = record.weights_BHTS[0]
    hidden = record.hidden_BHTS
    mask = None if hidden is None else hidden.expand_as(record.weights_BHTS)[0]
    more = {}
    if whole:
        more = {
            "scores": array(record.scores_BHTS[0]),
            "queries": array(record.queries_BHTD[0]),
            "keys": array(record.keys_BHSD[0]),
            "values": array(record.values_BHSD[0]),
        }
    mixed = weights_HTS.size(1) != weights_HTS.size(2) or common.mixtures
    axes = ("source", "mixture" if mixed else "source")
    return _map(site, axes, weights_HTS, mask, common, more)


def decoder_map(site: Site, tape: Tape, path: Path, common: Common) -> AttentionMap:
    """Return an attention of the decoder along a path, the shorter rows filled up with zeros."""
    rows = tape.rows(site, path.rows)
    keys = rows[-1].weights_RHS.size(-1)
    weights_HTS = _stacked([r.weights_RHS for r in rows], keys)
    mask_HTS = _mask(rows, keys, causal=site.kind == "self")
    more = {}
    if rows[0].scores_RHS is not None:
        more = {
            "scores": array(_stacked([r.scores_RHS for r in rows], keys)),
            "queries": array(_stacked([r.queries_RHD for r in rows])),
            **_keys_values(site, tape, rows),
        }
    axes = ("input", "input") if site.kind == "self" else ("output", "source")
    return _map(site, axes, weights_HTS, mask_HTS, common, more)


def _keys_values(site: Site, tape: Tape, rows: Sequence[Rows]) -> dict[str, NDArray[Any]]:
    if site.kind == "cross":
        keys, values = tape.memory[site]
        return {"keys": array(keys), "values": array(values)}
    return {
        "keys": array(_stacked([r.keys_RHD for r in rows])),
        "values": array(_stacked([r.values_RHD for r in rows])),
    }


def _stacked(rows: Sequence[Tensor | None], width: int | None = None) -> Tensor:
    """Return [H, T, width] from T times [H, up to width]."""
    given = [row for row in rows if row is not None]
    if width is None:
        return torch.stack(given, dim=1)
    padded = [torch.nn.functional.pad(row, (0, width - row.size(-1))) for row in given]
    return torch.stack(padded, dim=1)


def _mask(rows: Sequence[Rows], keys: int, causal: bool) -> Tensor | None:
    """Return what was hidden from each query; later tokens are, though nobody had to hide them."""
    hidden = [
        torch.zeros_like(row.weights_RHS, dtype=torch.bool)
        if row.hidden_RHS is None
        else row.hidden_RHS
        for row in rows
    ]
    mask_HTS = _stacked(hidden, keys)
    if causal:
        mask_HTS = mask_HTS | torch.ones_like(mask_HTS).triu(1)
    return mask_HTS if mask_HTS.any() else None


def _map(
    site: Site,
    axes: tuple[Any, Any],
    weights_HTS: Tensor,
    mask_HTS: Tensor | None,
    common: Common,
    more: dict[str, NDArray[Any]],
) -> AttentionMap:
    if mask_HTS is not None and not mask_HTS.any():
        mask_HTS = None
    alike = mask_HTS is not None and bool((mask_HTS == mask_HTS[:1]).all())
    mask = None if mask_HTS is None else array(mask_HTS[0] if alike else mask_HTS, np.uint8)
    return AttentionMap(
        stack=site.stack,
        layer=site.layer,
        kind=site.kind,
        rows=axes[0],
        columns=axes[1],
        weights=array(weights_HTS),
        mask=mask,
        heads=tuple(summaries(weights_HTS, near=axes[0] == axes[1])),
        off=common.off,
        scale=common.scale,
        **more,
    )


def summaries(weights_HTS: Tensor, near: bool) -> Iterator[HeadSummary]:
    """Yield each head in three numbers; `near`: queries and keys are the same tokens."""
    entropy_H = torch.special.entr(weights_HTS).sum(-1).mean(-1).tolist()
    peak_H = weights_HTS.amax(-1).mean(-1).tolist()
    _, queries, keys = weights_HTS.shape
    places_S = torch.arange(keys, device=weights_HTS.device)
    apart_TS = (places_S - torch.arange(queries, device=places_S.device)[:, None]).abs()
    distance_H = (weights_HTS * apart_TS).sum(-1).mean(-1).tolist()
    for entropy, peak, distance in zip(entropy_H, peak_H, distance_H, strict=True):
        yield HeadSummary(entropy=entropy, peak=peak, distance=distance if near else None)
