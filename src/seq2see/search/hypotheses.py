"""Live hypotheses, candidates for the next step, finished hypotheses, and their scores.

An observer receives a record of each step, which the search discards. The records contain the
complete search tree: candidate `c` of a step extends beam `parents[c]`, which is the candidate of
the previous step with that number in `next_beam_BC`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Protocol

import torch
from torch import Tensor

# B rows, R rows at the start of the search, K beams, C candidates, T tokens with the start symbol,
# E output tokens (T − 1), V vocabulary, S inputs or source tokens, N hypotheses


@dataclass(frozen=True, slots=True)
class Beam:
    """The live hypotheses of each row, in the order in which they were selected.

    A row is an independent search: a sentence, or one of its samples or beam groups.
    """

    input_index_B: Tensor
    """Index of the sentence that each row translates."""
    search_index_B: Tensor
    """Index of the sample or beam group among those of its sentence."""
    max_lengths_B: Tensor
    """Maximum length of the hypotheses."""
    source_lengths_B: Tensor
    """Length of the source."""
    has_finished_B: Tensor
    """Whether a hypothesis of the row has finished."""
    tokens_BKT: Tensor
    """The start symbol and the output tokens."""
    log_probs_BK: Tensor
    """Sum of the model's log-probabilities of the output tokens."""
    beam_scores_BK: Tensor
    """The same sum after the processors, used for pruning. −∞: no hypothesis."""
    token_log_probs_BKE: Tensor
    """The terms of `log_probs_BK`."""
    attention_BKES: Tensor | None = None
    """Attention weights of the steps so far; those of the current step are appended by
    `append_attention`."""

    @classmethod
    def create_initial(
        cls, max_lengths_S: Tensor, source_lengths_S: Tensor, searches_per_input: int, bos: int
    ) -> Beam:
        """Return a beam with one empty hypothesis per row, and the rows of each input."""
        device = max_lengths_S.device
        rows_B = torch.arange(len(max_lengths_S) * searches_per_input, device=device)
        inputs_B = rows_B // searches_per_input
        zeros_BK = torch.zeros(len(rows_B), 1, device=device)
        return cls(
            input_index_B=inputs_B,
            search_index_B=rows_B % searches_per_input,
            max_lengths_B=max_lengths_S[inputs_B],
            source_lengths_B=source_lengths_S[inputs_B],
            has_finished_B=torch.zeros_like(rows_B, dtype=torch.bool),
            tokens_BKT=torch.full((len(rows_B), 1, 1), bos, device=device),
            log_probs_BK=zeros_BK,
            beam_scores_BK=zeros_BK,
            token_log_probs_BKE=zeros_BK.new_zeros(len(rows_B), 1, 0),
        )

    def __len__(self) -> int:
        return len(self.input_index_B)

    @property
    def length(self) -> int:
        """The number of output tokens of each hypothesis."""
        return self.tokens_BKT.size(2) - 1

    @property
    def emitted_BKE(self) -> Tensor:
        """The output tokens, without the start symbol."""
        return self.tokens_BKT[:, :, 1:]

    @property
    def is_last_step_B(self) -> Tensor:
        """Whether the next token reaches the maximum length."""
        return self.max_lengths_B <= self.length + 1

    def append_attention(self, attention_BKS: Tensor | None) -> Beam:
        """Return the beam with the attention of the current step."""
        if attention_BKS is None:
            return self
        current_BKES = attention_BKS[:, :, None]
        past = self.attention_BKES
        attention = current_BKES if past is None else torch.cat((past, current_BKES), dim=2)
        return replace(self, attention_BKES=attention)

    def select_rows(self, rows_B: Tensor) -> Beam:
        """Return the beam of these rows only."""
        tensors = (getattr(self, field.name) for field in fields(self))
        selected: list[Any] = [x_B if x_B is None else x_B[rows_B] for x_B in tensors]
        return Beam(*selected)

    def advance(self, chosen: Candidates, beam_scores_BK: Tensor, has_finished_B: Tensor) -> Beam:
        """Return the beam of the next step, whose hypotheses are the chosen candidates."""
        parents_BK = chosen.parents_BC
        attention = self.attention_BKES
        if attention is not None:
            attention = gather_parent_histories(attention, parents_BK)
        return replace(
            self,
            has_finished_B=has_finished_B,
            tokens_BKT=_append(self.tokens_BKT, parents_BK, chosen.tokens_BC),
            log_probs_BK=chosen.log_probs_BC,
            beam_scores_BK=beam_scores_BK,
            token_log_probs_BKE=_append(
                self.token_log_probs_BKE, parents_BK, chosen.model_log_probs_BC
            ),
            attention_BKES=attention,
        )


@dataclass(frozen=True, slots=True)
class Candidates:
    """Hypotheses extended by one token, in order of preference."""

    parents_BC: Tensor
    """Index of the beam that each candidate extends."""
    tokens_BC: Tensor
    model_log_probs_BC: Tensor
    """The model's log-probability of the token."""
    log_probs_BC: Tensor
    """The sum of the model's log-probabilities up to the token."""
    beam_scores_BC: Tensor
    """The sum after the processors, by which candidates are ranked. −∞: no candidate."""

    @classmethod
    def from_tokens(
        cls,
        beam: Beam,
        model_log_probs_BKV: Tensor,
        parents_BC: Tensor,
        tokens_BC: Tensor,
        beam_scores_BC: Tensor,
    ) -> Candidates:
        """Return the candidates that extend `parents_BC` by `tokens_BC`."""
        rows_B1 = torch.arange(len(beam), device=parents_BC.device)[:, None]
        model_log_probs_BC = model_log_probs_BKV[rows_B1, parents_BC, tokens_BC]
        log_probs_BC = beam.log_probs_BK.gather(1, parents_BC) + model_log_probs_BC
        return cls(parents_BC, tokens_BC, model_log_probs_BC, log_probs_BC, beam_scores_BC)

    def take(self, indices_BC: Tensor) -> Candidates:
        """Return the candidates at these indices, in their order."""
        tensors = (getattr(self, field.name) for field in fields(self))
        return Candidates(*(each.gather(1, indices_BC) for each in tensors))


def gather_parent_histories(history: Tensor, parents_BC: Tensor) -> Tensor:
    """Return the history of each candidate's parent, [B, C, …] from [B, K, …]."""
    if history.size(1) == parents_BC.size(1) == 1:
        return history  # greedy search: nothing to reorder
    rows_B1 = torch.arange(len(parents_BC), device=parents_BC.device)[:, None]
    return history[rows_B1, parents_BC]


def _append(history_BKT: Tensor, parents_BC: Tensor, new_BC: Tensor) -> Tensor:
    return torch.cat((gather_parent_histories(history_BKT, parents_BC), new_BC[:, :, None]), dim=2)


MIN_COVERAGE = 1e-9
"""Lower bound of the coverage of a source token; the logarithm of 0 would be −∞."""


def normalize_by_length(values: Tensor, lengths: Tensor | int, alpha: float) -> Tensor:
    """Return value / length^α. The length includes the end symbol."""
    return values / lengths**alpha


def compute_coverage_penalty(
    attention_BKES: Tensor, source_lengths_B: Tensor, beta: float
) -> Tensor:
    """Return the penalty for source tokens with little attention: β Σ_s |log min(Σ_t a_ts, 1)|.

    From Wu et al. 2016. The attention of a finished hypothesis includes the step of the end symbol.
    """
    coverage_BKS = attention_BKES.sum(2).clamp(MIN_COVERAGE, 1)
    positions_S = torch.arange(coverage_BKS.size(2), device=coverage_BKS.device)
    padding_B1S = (positions_S >= source_lengths_B[:, None])[:, None]
    return beta * -coverage_BKS.log().masked_fill(padding_B1S, 0).sum(2)


def score_upper_bound(beam_scores_BK: Tensor, max_lengths_B: Tensor, alpha: float) -> Tensor:
    """Return an upper bound of the final score of the live hypotheses of each row.

    A further token never increases the beam score, a negative score is divided by most at the
    maximum length, and the coverage penalty may become 0.
    """
    return normalize_by_length(beam_scores_BK.amax(1), max_lengths_B, alpha)


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The ids of one translation, with its score."""

    tokens: tuple[int, ...]
    """The output tokens, without the start symbol; the last is the end symbol if finished."""
    is_finished: bool
    """Whether the end symbol was reached; otherwise the translation was cut at its maximum
    length."""
    score: float
    """log_prob / length^α, less the coverage and repetition penalties. It ranks hypotheses."""
    log_prob: float
    """Sum of the model's log-probabilities of the tokens."""
    token_log_probs: tuple[float, ...]
    """The model's log-probability of each token."""
    attention_ES: Tensor | None = None
    """Attention weights of each token's step for the source tokens, if the decoder returns them."""

    @property
    def tokens_without_eos(self) -> tuple[int, ...]:
        """The tokens without the end symbol."""
        return self.tokens[:-1] if self.is_finished else self.tokens


class FinishedHypotheses:
    """The best finished hypotheses of each row, best first, and the number of all finished."""

    def __init__(self, num_rows: int, n_best: int, device: torch.device) -> None:
        self.best: list[list[Hypothesis]] = [[] for _ in range(num_rows)]
        self.n_best = n_best
        self.counts_R = torch.zeros(num_rows, dtype=torch.long, device=device)
        self.n_best_threshold_R = torch.full((num_rows,), -torch.inf, device=device)
        """The score of the last of the n best; −∞ while there are fewer."""
        self.best_finished_R = torch.zeros(num_rows, dtype=torch.bool, device=device)
        """Whether a hypothesis finished when it was the most likely of its row."""

    def add(self, rows_N: Tensor, ranks_N: Tensor, hypotheses: Sequence[Hypothesis]) -> None:
        """Add the hypotheses of one step; among equal scores the earlier one is ranked first.

        `ranks_N` are their ranks among the candidates of the row; 0 is the most likely.
        """
        rows = rows_N.tolist()
        for row, hypothesis in zip(rows, hypotheses, strict=True):
            best = self.best[row]
            insort(best, hypothesis, key=lambda h: -h.score)
            del best[self.n_best :]
        self.counts_R.index_add_(0, rows_N, torch.ones_like(rows_N))
        self.best_finished_R[rows_N[ranks_N == 0]] = True
        device = self.n_best_threshold_R.device
        scores = {
            row: self.best[row][-1].score for row in rows if len(self.best[row]) == self.n_best
        }
        rows_R = torch.tensor([*scores], dtype=torch.long, device=device)
        self.n_best_threshold_R[rows_R] = torch.tensor([*scores.values()], device=device)


def build_finished_hypotheses(
    beam: Beam, candidates: Candidates, rows_N: Tensor, ranks_N: Tensor, scores_BC: Tensor, eos: int
) -> list[Hypothesis]:
    """Return the candidates with these rows of the beam and ranks, which have finished."""
    parents_N = candidates.parents_BC[rows_N, ranks_N]

    def extend(history_BKE: Tensor, new_BC: Tensor) -> Tensor:
        return torch.cat((history_BKE[rows_N, parents_N], new_BC[rows_N, ranks_N, None]), dim=1)

    tokens_NE = extend(beam.emitted_BKE, candidates.tokens_BC)
    token_log_probs_NE = extend(beam.token_log_probs_BKE, candidates.model_log_probs_BC)
    # More exact than the sum of the search, which is rounded at each step. MPS has no float64.
    log_probs_N = token_log_probs_NE.cpu().double().sum(1)
    columns = (tokens_NE, scores_BC[rows_N, ranks_N], log_probs_N, token_log_probs_NE)
    hypotheses = [
        Hypothesis(tuple(tokens), tokens[-1] == eos, score, log_prob, tuple(log_probs))
        for tokens, score, log_prob, log_probs in zip(*(x.tolist() for x in columns), strict=True)
    ]
    if beam.attention_BKES is None:
        return hypotheses
    lengths = beam.source_lengths_B[rows_N].tolist()
    weights_NES = beam.attention_BKES[rows_N, parents_N].cpu()
    return [
        replace(hypothesis, attention_ES=weights_ES[:, :length])
        for hypothesis, weights_ES, length in zip(hypotheses, weights_NES, lengths, strict=True)
    ]


class CandidateStatus(IntEnum):
    """What happened to a candidate in a step."""

    NONE = 0
    """Not a candidate: the slot is unused, or the row has stopped."""
    ALIVE = 1
    """It is a hypothesis of the next step."""
    FINISHED = 2
    """It is a finished hypothesis."""
    PRUNED = 3
    """Other candidates were better."""
    STOPPED = 4
    """It was alive when the search of its row stopped."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of all rows, with the candidates in order of preference."""

    beam: Beam
    """The hypotheses before the step."""
    log_probs_BKV: Tensor
    """Log-probabilities of the model for the next token of each hypothesis."""
    candidates: Candidates
    scores_BC: Tensor
    """The score of each candidate if it ended in this step."""
    statuses_BC: Tensor
    """A `CandidateStatus` for each candidate."""
    next_beam_BC: Tensor
    """The beam index of each live candidate in the next step, otherwise −1."""
    remaining_rows_B: Tensor | None
    """The rows of the next step; None: all."""


class SearchObserver(Protocol):
    """Receives a record of each step."""

    def step(self, record: StepRecord) -> None:
        """Process the record of a step. Its tensors belong to the search: do not change them."""
