"""From what was written down to a trace: the beam's forest, and the path of the translation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seq2see.explain.tape import StepTape, Tape
from seq2see.explain.tensors import array
from seq2see.explain.trace import (
    Beam,
    BeamNode,
    Candidate,
    LayerOutput,
    LayerRows,
    Lens,
    Step,
)
from seq2see.model import Transformer
from seq2see.search import Fate, Hypothesis

# H heads, T steps, S source tokens or keys, R rows of the beam, D features of a head, M of the
# model, V vocabulary

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
