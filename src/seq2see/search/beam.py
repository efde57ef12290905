"""The hypotheses that are alive, and those that might be next: tensors, and how they follow."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

# B rows, K beams, C candidates, T tokens with the start symbol, E emitted tokens (T - 1),
# V vocabulary, S source tokens


@dataclass(frozen=True, slots=True)
class Beam:
    """The live hypotheses of every row, each row's in the order of its last choice.

    A row is a search of its own: a sentence, or one of the samples or groups of a sentence.
    """

    sources_B: Tensor
    """Which source each row translates."""
    members_B: Tensor
    """Which of its samples or groups the row is."""
    limits_B: Tensor
    """How long each row's hypotheses may become."""
    source_lengths_B: Tensor
    """How long each row's source is."""
    ended_B: Tensor
    """Whether a hypothesis of the row has ended already."""
    tokens_BKT: Tensor
    """The start symbol, and what was emitted."""
    log_probs_BK: Tensor
    """The sum of the model's own log-probabilities of what was emitted."""
    values_BK: Tensor
    """What pruning goes by: the same sum as the processors left it. −∞: no hypothesis."""
    token_log_probs_BKE: Tensor
    """The terms of `log_probs_BK`."""
    attention_BKES: Tensor | None = None
    """Attention of the steps so far, the present one included once it is there."""

    @classmethod
    def start(cls, limits_S: Tensor, lengths_S: Tensor, members: int, bos: int) -> Beam:
        """Return one hypothesis a row, with nothing in it, and for each source its rows."""
        device = limits_S.device
        rows_B = torch.arange(len(limits_S) * members, device=device)
        nothing_BK = torch.zeros(len(rows_B), 1, device=device)
        return cls(
            sources_B=rows_B // members,
            members_B=rows_B % members,
            limits_B=limits_S[rows_B // members],
            source_lengths_B=lengths_S[rows_B // members],
            ended_B=torch.zeros_like(rows_B, dtype=torch.bool),
            tokens_BKT=torch.full((len(rows_B), 1, 1), bos, device=device),
            log_probs_BK=nothing_BK,
            values_BK=nothing_BK,
            token_log_probs_BKE=nothing_BK.new_zeros(len(rows_B), 1, 0),
        )

    def __len__(self) -> int:
        return len(self.sources_B)

    @property
    def length(self) -> int:
        """How many tokens each hypothesis has emitted."""
        return self.tokens_BKT.size(2) - 1

    @property
    def emitted_BKE(self) -> Tensor:
        """What the hypotheses say, without the start symbol."""
        return self.tokens_BKT[:, :, 1:]

    @property
    def last_B(self) -> Tensor:
        """For which rows the next token is the last that fits."""
        return self.limits_B <= self.length + 1

    def attend(self, attention_BKS: Tensor | None) -> Beam:
        """Return these with the attention of the present step behind that of the others."""
        if attention_BKS is None:
            return self
        now_BKES = attention_BKS[:, :, None]
        before = self.attention_BKES
        whole = now_BKES if before is None else torch.cat((before, now_BKES), dim=2)
        return replace(self, attention_BKES=whole)

    def keep(self, rows_B: Tensor) -> Beam:
        """Return these rows alone."""
        attention = self.attention_BKES
        return Beam(
            sources_B=self.sources_B[rows_B],
            members_B=self.members_B[rows_B],
            limits_B=self.limits_B[rows_B],
            source_lengths_B=self.source_lengths_B[rows_B],
            ended_B=self.ended_B[rows_B],
            tokens_BKT=self.tokens_BKT[rows_B],
            log_probs_BK=self.log_probs_BK[rows_B],
            values_BK=self.values_BK[rows_B],
            token_log_probs_BKE=self.token_log_probs_BKE[rows_B],
            attention_BKES=None if attention is None else attention[rows_B],
        )

    def follow(self, chosen: Candidates, values_BK: Tensor, ended_B: Tensor) -> Beam:
        """Return the hypotheses that the chosen candidates are, with these values."""
        parents_BK = chosen.parents_BC
        history = self.attention_BKES
        return Beam(
            sources_B=self.sources_B,
            members_B=self.members_B,
            limits_B=self.limits_B,
            source_lengths_B=self.source_lengths_B,
            ended_B=ended_B,
            tokens_BKT=_append(self.tokens_BKT, parents_BK, chosen.tokens_BC),
            log_probs_BK=chosen.log_probs_BC,
            values_BK=values_BK,
            token_log_probs_BKE=_append(self.token_log_probs_BKE, parents_BK, chosen.own_BC),
            attention_BKES=None if history is None else of_parents(history, parents_BK),
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations by one token, each row's in the order in which they are wanted."""

    parents_BC: Tensor
    """The beam that each goes on from."""
    tokens_BC: Tensor
    own_BC: Tensor
    """The model's log-probability of that token."""
    log_probs_BC: Tensor
    """The sum up to that token."""
    values_BC: Tensor
    """What they are ranked by, up to that token. −∞: no candidate."""

    @classmethod
    def of(
        cls, beam: Beam, own_BKV: Tensor, parents_BC: Tensor, tokens_BC: Tensor, values_BC: Tensor
    ) -> Candidates:
        """Return them with what the model itself thinks of each."""
        rows_B1 = torch.arange(len(beam), device=parents_BC.device)[:, None]
        own_BC = own_BKV[rows_B1, parents_BC, tokens_BC]
        log_probs_BC = beam.log_probs_BK.gather(1, parents_BC) + own_BC
        return cls(parents_BC, tokens_BC, own_BC, log_probs_BC, values_BC)

    def take(self, places_BC: Tensor) -> Candidates:
        """Return those at these places, in that order."""
        return Candidates(
            self.parents_BC.gather(1, places_BC),
            self.tokens_BC.gather(1, places_BC),
            self.own_BC.gather(1, places_BC),
            self.log_probs_BC.gather(1, places_BC),
            self.values_BC.gather(1, places_BC),
        )


def of_parents(history: Tensor, parents_BC: Tensor) -> Tensor:
    """Return what each parent has, [B, C, …] from [B, K, …]."""
    if history.size(1) == parents_BC.size(1) == 1:
        return history  # greedy: an only child
    rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
    return history[rows_B1, parents_BC]


def _append(history_BKT: Tensor, parents_BC: Tensor, new_BC: Tensor) -> Tensor:
    return torch.cat((of_parents(history_BKT, parents_BC), new_BC[:, :, None]), dim=2)
