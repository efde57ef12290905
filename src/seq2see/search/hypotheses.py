"""Live hypotheses, candidates, finished hypotheses, and their scores."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

# B rows, K beams, C candidates, T tokens with the start symbol, E emitted tokens (T - 1),
# V vocabulary, S source tokens
# B rows, K beams, E emitted tokens, S source tokens
# B rows, C candidates, N hypotheses, E emitted tokens, S source tokens


@dataclass(frozen=True, slots=True)
class Beam:
    """The live hypotheses of every row, each row's in the order of its last choice.

    A row is a search of its own: a sentence, or one of the samples or groups of a sentence.
    """

    input_index_B: Tensor
    """Which source each row translates."""
    search_index_B: Tensor
    """Which of its samples or groups the row is."""
    max_lengths_B: Tensor
    """How long each row's hypotheses may become."""
    source_lengths_B: Tensor
    """How long each row's source is."""
    has_finished_B: Tensor
    """Whether a hypothesis of the row has ended already."""
    tokens_BKT: Tensor
    """The start symbol, and what was emitted."""
    log_probs_BK: Tensor
    """The sum of the model's own log-probabilities of what was emitted."""
    beam_scores_BK: Tensor
    """What pruning goes by: the same sum as the processors left it. −∞: no hypothesis."""
    token_log_probs_BKE: Tensor
    """The terms of `log_probs_BK`."""
    attention_BKES: Tensor | None = None
    """Attention of the steps so far, the present one included once it is there."""

    @classmethod
    def create_initial(
        cls, max_lengths_S: Tensor, source_lengths_S: Tensor, searches_per_input: int, bos: int
    ) -> Beam:
        """Return one hypothesis a row, with nothing in it, and for each source its rows."""
        device = max_lengths_S.device
        rows_B = torch.arange(len(max_lengths_S) * searches_per_input, device=device)
        nothing_BK = torch.zeros(len(rows_B), 1, device=device)
        return cls(
            input_index_B=rows_B // searches_per_input,
            search_index_B=rows_B % searches_per_input,
            max_lengths_B=max_lengths_S[rows_B // searches_per_input],
            source_lengths_B=source_lengths_S[rows_B // searches_per_input],
            has_finished_B=torch.zeros_like(rows_B, dtype=torch.bool),
            tokens_BKT=torch.full((len(rows_B), 1, 1), bos, device=device),
            log_probs_BK=nothing_BK,
            beam_scores_BK=nothing_BK,
            token_log_probs_BKE=nothing_BK.new_zeros(len(rows_B), 1, 0),
        )

    def __len__(self) -> int:
        return len(self.input_index_B)

    @property
    def length(self) -> int:
        """How many tokens each hypothesis has emitted."""
        return self.tokens_BKT.size(2) - 1

    @property
    def emitted_BKE(self) -> Tensor:
        """What the hypotheses say, without the start symbol."""
        return self.tokens_BKT[:, :, 1:]

    @property
    def is_last_step_B(self) -> Tensor:
        """For which rows the next token is the last that fits."""
        return self.max_lengths_B <= self.length + 1

    def append_attention(self, attention_BKS: Tensor | None) -> Beam:
        """Return these with the attention of the present step behind that of the others."""
        if attention_BKS is None:
            return self
        now_BKES = attention_BKS[:, :, None]
        before = self.attention_BKES
        whole = now_BKES if before is None else torch.cat((before, now_BKES), dim=2)
        return replace(self, attention_BKES=whole)

    def select_rows(self, rows_B: Tensor) -> Beam:
        """Return these rows alone."""
        attention = self.attention_BKES
        return Beam(
            input_index_B=self.input_index_B[rows_B],
            search_index_B=self.search_index_B[rows_B],
            max_lengths_B=self.max_lengths_B[rows_B],
            source_lengths_B=self.source_lengths_B[rows_B],
            has_finished_B=self.has_finished_B[rows_B],
            tokens_BKT=self.tokens_BKT[rows_B],
            log_probs_BK=self.log_probs_BK[rows_B],
            beam_scores_BK=self.beam_scores_BK[rows_B],
            token_log_probs_BKE=self.token_log_probs_BKE[rows_B],
            attention_BKES=None if attention is None else attention[rows_B],
        )

    def advance(self, chosen: Candidates, beam_scores_BK: Tensor, has_finished_B: Tensor) -> Beam:
        """Return the hypotheses that the chosen candidates are, with these values."""
        parents_BK = chosen.parents_BC
        history = self.attention_BKES
        return Beam(
            input_index_B=self.input_index_B,
            search_index_B=self.search_index_B,
            max_lengths_B=self.max_lengths_B,
            source_lengths_B=self.source_lengths_B,
            has_finished_B=has_finished_B,
            tokens_BKT=_append(self.tokens_BKT, parents_BK, chosen.tokens_BC),
            log_probs_BK=chosen.log_probs_BC,
            beam_scores_BK=beam_scores_BK,
            token_log_probs_BKE=_append(
                self.token_log_probs_BKE, parents_BK, chosen.model_log_probs_BC
            ),
            attention_BKES=None if history is None else gather_parents(history, parents_BK),
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations by one token, each row's in the order in which they are wanted."""

    parents_BC: Tensor
    """The beam that each goes on from."""
    tokens_BC: Tensor
    model_log_probs_BC: Tensor
    """The model's log-probability of that token."""
    log_probs_BC: Tensor
    """The sum up to that token."""
    beam_scores_BC: Tensor
    """What they are ranked by, up to that token. −∞: no candidate."""

    @classmethod
    def from_tokens(
        cls,
        beam: Beam,
        model_log_probs_BKV: Tensor,
        parents_BC: Tensor,
        tokens_BC: Tensor,
        beam_scores_BC: Tensor,
    ) -> Candidates:
        """Return them with what the model itself thinks of each."""
        rows_B1 = torch.arange(len(beam), device=parents_BC.device)[:, None]
        own_BC = model_log_probs_BKV[rows_B1, parents_BC, tokens_BC]
        log_probs_BC = beam.log_probs_BK.gather(1, parents_BC) + own_BC
        return cls(parents_BC, tokens_BC, own_BC, log_probs_BC, beam_scores_BC)

    def take(self, indices_BC: Tensor) -> Candidates:
        """Return those at these places, in that order."""
        return Candidates(
            self.parents_BC.gather(1, indices_BC),
            self.tokens_BC.gather(1, indices_BC),
            self.model_log_probs_BC.gather(1, indices_BC),
            self.log_probs_BC.gather(1, indices_BC),
            self.beam_scores_BC.gather(1, indices_BC),
        )


def gather_parents(history: Tensor, parents_BC: Tensor) -> Tensor:
    """Return what each parent has, [B, C, …] from [B, K, …]."""
    if history.size(1) == parents_BC.size(1) == 1:
        return history  # greedy: an only child
    rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
    return history[rows_B1, parents_BC]


def _append(history_BKT: Tensor, parents_BC: Tensor, new_BC: Tensor) -> Tensor:
    return torch.cat((gather_parents(history_BKT, parents_BC), new_BC[:, :, None]), dim=2)


MIN_COVERAGE = 1e-9
"""Stands for a source token that was never looked at, whose logarithm would be −∞."""


def normalize_by_length(values: Tensor, lengths: Tensor | int, alpha: float) -> Tensor:
    """Return value / length^α. The length counts the stop symbol."""
    return values / lengths**alpha


def compute_coverage_penalty(
    attention_BKES: Tensor, source_lengths_B: Tensor, beta: float
) -> Tensor:
    """Return what source tokens cost that were looked at too little: β Σ |log min(Σ_t a_ts, 1)|.

    Wu et al. 2016. The sum of a hypothesis that has just ended has the stop symbol's step in it.
    """
    coverage_BKS = attention_BKES.sum(2).clamp(MIN_COVERAGE, 1)
    places_S = torch.arange(coverage_BKS.size(2), device=coverage_BKS.device)
    padding_B1S = (places_S >= source_lengths_B[:, None])[:, None]
    return beta * -coverage_BKS.log().masked_fill(padding_B1S, 0).sum(2)


def score_upper_bound(beam_scores_BK: Tensor, max_lengths_B: Tensor, alpha: float) -> Tensor:
    """Return the highest score that any hypothesis of each row could still end with.

    Each further token lowers the value or leaves it, and a value below 0 is divided by most at
    the greatest length; the coverage penalty may yet vanish.
    """
    return normalize_by_length(beam_scores_BK.amax(1), max_lengths_B, alpha)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation, in tokens."""

    tokens: tuple[int, ...]
    """What was emitted: without the start symbol, and with the stop symbol if it was reached."""
    is_finished: bool
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
    def tokens_without_eos(self) -> tuple[int, ...]:
        """The tokens without the stop symbol."""
        return self.tokens[:-1] if self.is_finished else self.tokens

    @property
    def alignment(self) -> tuple[int, ...] | None:
        """The source token that each token's step looked at most."""
        return None if self.attention_ES is None else tuple(self.attention_ES.argmax(1).tolist())


class NewlyFinished(NamedTuple):
    """The hypotheses that have ended in a step, those of a row by their rank."""

    rows_N: Tensor
    ranks_N: Tensor
    """Which candidate of its row each was, the likeliest first."""
    hypotheses: Sequence[Hypothesis]


class FinishedHypotheses:
    """The best hypotheses of each row so far, best first, and how many there were in all."""

    def __init__(self, num_rows: int, n_best: int, device: torch.device) -> None:
        self.best: list[list[Hypothesis]] = [[] for _ in range(num_rows)]
        self.n_best = n_best
        self.counts_R = torch.zeros(num_rows, dtype=torch.long, device=device)
        self.n_best_threshold_R = torch.full((num_rows,), -torch.inf, device=device)
        """The score of the last that is kept; −∞ while there is room for more."""
        self.best_finished_R = torch.zeros(num_rows, dtype=torch.bool, device=device)
        """Whether some hypothesis ended when it was the likeliest of its row."""

    def add(self, ended: NewlyFinished) -> None:
        """Take in what has ended in a step; of equals the earlier stays in front."""
        rows_N, ranks_N, hypotheses = ended
        rows = rows_N.tolist()
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            best = self.best[row]
            insort(best, hypothesis, key=lambda h: -h.score)
            del best[self.n_best :]
        self.counts_R.index_add_(0, rows_N, torch.ones_like(rows_N))
        self.best_finished_R[rows_N[ranks_N == 0]] = True
        self._raise_thresholds({row for row in rows if len(self.best[row]) == self.n_best})

    def _raise_thresholds(self, rows: Set[int]) -> None:
        device = self.n_best_threshold_R.device
        scores = torch.tensor([self.best[row][-1].score for row in rows], device=device)
        self.n_best_threshold_R[torch.tensor([*rows], dtype=torch.long, device=device)] = scores


def collect_finished(
    beam: Beam,
    candidates: Candidates,
    finished_BC: Tensor,
    scores_BC: Tensor,
    alpha: float,
    eos: int,
) -> NewlyFinished | None:
    """Return the candidates that end, with their rows in the beam, if there are any."""
    rows_N, ranks_N = finished_BC.nonzero(as_tuple=True)  # note: this is a sync point
    if not len(rows_N):
        return None
    parents_N = candidates.parents_BC[rows_N, ranks_N]
    tokens_NE, own_NE = _histories(beam, candidates, rows_N, ranks_N)
    scores_N = scores_BC[rows_N, ranks_N]
    sums_N = candidates.log_probs_BC[rows_N, ranks_N]
    penalties_N = normalize_by_length(sums_N, tokens_NE.size(1), alpha) - scores_N
    log_probs_N = own_NE.double().sum(1)  # more exact: the search rounds its sum at each step
    columns = (tokens_NE, scores_N, log_probs_N, penalties_N, own_NE)
    attention = _attention(beam, rows_N, parents_N)
    hypotheses = [
        Hypothesis(tuple(tokens), tokens[-1] == eos, score, log_prob, penalty, tuple(own), seen)
        for tokens, score, log_prob, penalty, own, seen in zip(
            *(column.tolist() for column in columns), attention, strict=True
        )
    ]
    return NewlyFinished(rows_N, ranks_N, hypotheses)


def _histories(
    beam: Beam, candidates: Candidates, rows_N: Tensor, ranks_N: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what some candidates have emitted in all, and the log-probability of each token."""
    parents_N = candidates.parents_BC[rows_N, ranks_N]
    tokens_N1 = candidates.tokens_BC[rows_N, ranks_N, None]
    own_N1 = candidates.model_log_probs_BC[rows_N, ranks_N, None]
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
