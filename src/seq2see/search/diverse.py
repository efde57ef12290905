"""Diverse beam search (Vijayakumar et al. 2016): groups that avoid each other's choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from seq2see.search.beam import Beam, Candidates, of_parents
from seq2see.search.choice import BestChoice

# B rows, G rows of one group, K beams, C candidates, V vocabulary, S sources


@dataclass(frozen=True, slots=True)
class DiverseChoice:
    """One group after the other. Each is a row of its own, and a beam search of its own."""

    width: int
    groups: int
    diversity: float
    sources: int

    def choose(self, beam: Beam, own_BKV: Tensor, values_BKV: Tensor) -> Candidates:
        """Let each group choose, with what earlier groups of the sentence chose made dearer."""
        chosen_SV = values_BKV.new_zeros(self.sources, values_BKV.size(2))
        rows, parts = [], []
        for group in range(self.groups):
            rows_G = (beam.members_B == group).nonzero().flatten()
            part = self.group(beam.keep(rows_G), own_BKV[rows_G], values_BKV[rows_G], chosen_SV)
            count(chosen_SV, beam.sources_B[rows_G], part, self.width)
            rows.append(rows_G)
            parts.append(part)
        return in_order(parts, torch.cat(rows))

    def group(
        self, beam: Beam, own_GKV: Tensor, values_GKV: Tensor, chosen_SV: Tensor
    ) -> Candidates:
        """Choose for one group. What diversity costs decides the order, and is then forgotten."""
        dearer_GKV = values_GKV - self.diversity * chosen_SV[beam.sources_B][:, None]
        part = BestChoice(self.width).choose(beam, own_GKV, dearer_GKV)
        rows_G1 = torch.arange(len(beam), device=own_GKV.device)[:, None]
        steps_GC = values_GKV[rows_G1, part.parents_BC, part.tokens_BC]
        sums_GC = of_parents(beam.values_BK, part.parents_BC) + steps_GC
        return Candidates(part.parents_BC, part.tokens_BC, part.own_BC, part.log_probs_BC, sums_GC)


def count(chosen_SV: Tensor, sources_G: Tensor, part: Candidates, width: int) -> None:
    """Add what a group's best candidates chose to its sentence's counts."""
    alive_GC = part.values_BC[:, :width] > -torch.inf
    tokens_GC = part.tokens_BC[:, :width]
    sources_GC = sources_G[:, None].expand_as(tokens_GC)
    chosen_SV.index_put_((sources_GC, tokens_GC), alive_GC.to(chosen_SV.dtype), accumulate=True)


def in_order(parts: Sequence[Candidates], rows: Tensor) -> Candidates:
    """Put the candidates of all groups where their rows stand in the beam."""
    order = rows.argsort()
    names = [field.name for field in fields(Candidates)]
    return Candidates(*(torch.cat([getattr(p, name) for p in parts])[order] for name in names))
