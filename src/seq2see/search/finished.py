"""The hypotheses that have ended: what the search is for."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from seq2see.search.beam import Beam, Candidates
from seq2see.search.scoring import normalised

# B rows, C candidates, N hypotheses, E emitted tokens, S source tokens


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation, in tokens."""

    tokens: tuple[int, ...]
    """What was emitted: without the start symbol, and with the stop symbol if it was reached."""
    finished: bool
    """The stop symbol was reached; otherwise the translation was cut at its greatest length."""
    score: float
    """log_prob / length^α − penalty: what hypotheses are ranked by."""
    log_prob: float
    """The sum of the model's own log-probabilities of the tokens."""
    penalty: float
    """What coverage and repetition took off the score."""
    token_log_probs: tuple[float, ...]
    """One for each token."""
    attention_ES: Tensor | None = None
    """How much each token's step looked at each source token, where the decoder tells."""

    @property
    def content(self) -> tuple[int, ...]:
        """The tokens without the stop symbol."""
        return self.tokens[:-1] if self.finished else self.tokens

    @property
    def alignment(self) -> tuple[int, ...] | None:
        """The source token that each token's step looked at most."""
        return None if self.attention_ES is None else tuple(self.attention_ES.argmax(1).tolist())


class Ended(NamedTuple):
    """The hypotheses that have ended in a step, those of a row by their rank."""

    rows_N: Tensor
    ranks_N: Tensor
    """Which candidate of its row each was, the likeliest first."""
    hypotheses: Sequence[Hypothesis]


class Finished:
    """The best hypotheses of each row so far, best first, and how many there were in all."""

    def __init__(self, rows: int, keep: int, device: torch.device) -> None:
        self.best: list[list[Hypothesis]] = [[] for _ in range(rows)]
        self.keep = keep
        self.counts_R = torch.zeros(rows, dtype=torch.long, device=device)
        self.threshold_R = torch.full((rows,), -torch.inf, device=device)
        """The score of the last that is kept; −∞ while there is room for more."""
        self.best_ended_R = torch.zeros(rows, dtype=torch.bool, device=device)
        """Whether some hypothesis ended when it was the likeliest of its row."""

    def add(self, ended: Ended) -> None:
        """Take in what has ended in a step; of equals the earlier stays in front."""
        rows_N, ranks_N, hypotheses = ended
        rows = rows_N.tolist()
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            best = self.best[row]
            insort(best, hypothesis, key=lambda h: -h.score)
            del best[self.keep :]
        self.counts_R.index_add_(0, rows_N, torch.ones_like(rows_N))
        self.best_ended_R[rows_N[ranks_N == 0]] = True
        self._raise_thresholds({row for row in rows if len(self.best[row]) == self.keep})

    def _raise_thresholds(self, rows: Set[int]) -> None:
        device = self.threshold_R.device
        scores = torch.tensor([self.best[row][-1].score for row in rows], device=device)
        self.threshold_R[torch.tensor([*rows], dtype=torch.long, device=device)] = scores


def endings(
    beam: Beam, candidates: Candidates, ends_BC: Tensor, scores_BC: Tensor, alpha: float, eos: int
) -> Ended | None:
    """Return the candidates that end, with their rows in the beam, if there are any."""
    rows_N, ranks_N = ends_BC.nonzero(as_tuple=True)  # note: this is a sync point
    if not len(rows_N):
        return None
    parents_N = candidates.parents_BC[rows_N, ranks_N]
    tokens_NE, own_NE = _histories(beam, candidates, rows_N, ranks_N)
    scores_N = scores_BC[rows_N, ranks_N]
    sums_N = candidates.log_probs_BC[rows_N, ranks_N]
    penalties_N = normalised(sums_N, tokens_NE.size(1), alpha) - scores_N
    log_probs_N = own_NE.double().sum(1)  # more exact: the search rounds its sum at each step
    columns = (tokens_NE, scores_N, log_probs_N, penalties_N, own_NE)
    attention = _attention(beam, rows_N, parents_N)
    hypotheses = [
        Hypothesis(tuple(tokens), tokens[-1] == eos, score, log_prob, penalty, tuple(own), seen)
        for tokens, score, log_prob, penalty, own, seen in zip(
            *(column.tolist() for column in columns), attention, strict=True
        )
    ]
    return Ended(rows_N, ranks_N, hypotheses)


def _histories(
    beam: Beam, candidates: Candidates, rows_N: Tensor, ranks_N: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what some candidates have emitted in all, and the log-probability of each token."""
    parents_N = candidates.parents_BC[rows_N, ranks_N]
    tokens_N1 = candidates.tokens_BC[rows_N, ranks_N, None]
    own_N1 = candidates.own_BC[rows_N, ranks_N, None]
    return (
        torch.cat((beam.emitted_BKE[rows_N, parents_N], tokens_N1), dim=1),
        torch.cat((beam.token_log_probs_BKE[rows_N, parents_N], own_N1), dim=1),
    )


def _attention(beam: Beam, rows_N: Tensor, parents_N: Tensor) -> Sequence[Tensor | None]:
    """Return the attention of some hypotheses, without the padding of their sources."""
    if beam.attention_BKES is None:
        return [None] * len(rows_N)
    lengths = beam.source_lengths_B[rows_N].tolist()
    weights_NES = beam.attention_BKES[rows_N, parents_N].cpu()
    return [w_ES[:, :length] for w_ES, length in zip(weights_NES, lengths, strict=True)]
