"""Required phrases, by dynamic beam allocation (Post & Vilar 2018).

Every live hypothesis also proposes the next tokens of its unmet phrases. Candidates with the same
number of phrase tokens form a bank, and the banks take turns to fill the beam. The bank with the
most phrase tokens is always represented and gains one token per step, so after as many steps as the
phrases have tokens, some hypothesis contains all of them. Only such a hypothesis may end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.search.candidate_selection import stable_topk
from seq2see.search.config import Phrase, SearchConfig, SentenceSearchInput
from seq2see.search.hypotheses import Beam, Candidates, gather_parent_histories
from seq2see.search.step_processors import PHRASE_PAD, StepProcessor, pad_phrases

# B rows, K beams, C candidates, N candidates of one beam, V vocabulary, E output tokens,
# S inputs, P phrases of an input, L tokens of a phrase, W windows, F matches


@dataclass(frozen=True, slots=True)
class ConstraintProgress:
    """The part of the required phrases that each hypothesis contains."""

    met_BKP: Tensor
    matched_BKP: Tensor
    """Number of tokens of a phrase that the hypothesis ends with; 0 if the phrase is met."""
    lengths_B1P: Tensor

    @property
    def all_met_BK(self) -> Tensor:
        """Whether all phrases are met."""
        return self.met_BKP.all(2)

    @property
    def num_tokens_BK(self) -> Tensor:
        """The number of tokens of all met phrases and of the unmet phrase with most matches."""
        met_tokens_BKP = self.lengths_B1P * self.met_BKP
        return met_tokens_BKP.sum(2) + self.matched_BKP.amax(2)


@dataclass(frozen=True, slots=True)
class DynamicBeamAllocation(StepProcessor):
    """Step processor and candidate selector that together guarantee the required phrases."""

    phrases_SPL: Tensor
    """Padded with `PHRASE_PAD`; an empty phrase counts as met."""
    beam_size: int
    eos: int

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Allow the next token of each phrase, even if another processor has forbidden it, and
        forbid the end symbol until all phrases are met."""
        phrases_BPL = self.phrases_SPL[beam.input_index_B]
        progress = measure_constraint_progress(beam.emitted_BKE, phrases_BPL)
        tokens_BKP = next_required_tokens(progress, phrases_BPL)
        rows_F, beams_F, phrases_F = (tokens_BKP != PHRASE_PAD).nonzero(as_tuple=True)
        tokens_F = tokens_BKP[rows_F, beams_F, phrases_F]
        scores_F = step_scores_BKV[rows_F, beams_F, tokens_F]
        log_probs_F = model_log_probs_BKV[rows_F, beams_F, tokens_F]
        allowed_F = torch.where(scores_F == -torch.inf, log_probs_F, scores_F)
        step_scores_BKV[rows_F, beams_F, tokens_F] = allowed_F
        step_scores_BKV[:, :, self.eos].masked_fill_(~progress.all_met_BK, -torch.inf)

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Return the best continuations and the required tokens of each hypothesis, the banks in
        turn."""
        phrases_BPL = self.phrases_SPL[beam.input_index_B]
        progress = measure_constraint_progress(beam.emitted_BKE, phrases_BPL)
        required_BKP = next_required_tokens(progress, phrases_BPL)
        # From each hypothesis as many as could fill the beam, and the end symbol: a hypothesis with
        # required phrases is less likely than one without, and would rarely be in a joint top k.
        k = self.beam_size + 1 if self.beam_size > 1 else 1
        tokens_BKN, steps_BKN = propose_best_and_required_tokens(step_scores_BKV, required_BKP, k)
        scores_BC = (beam.beam_scores_BK[:, :, None] + steps_BKN).flatten(1)
        beams_K1 = torch.arange(tokens_BKN.size(1), device=tokens_BKN.device)[:, None]
        parents_BC = beams_K1.expand_as(tokens_BKN).flatten(1)
        candidates = Candidates.from_tokens(
            beam, model_log_probs_BKV, parents_BC, tokens_BKN.flatten(1), scores_BC
        )
        emitted_BCE = gather_parent_histories(beam.emitted_BKE, candidates.parents_BC)
        tokens_BCE = torch.cat((emitted_BCE, candidates.tokens_BC[:, :, None]), dim=2)
        progress = measure_constraint_progress(tokens_BCE, phrases_BPL)
        scores_BC = mask_incomplete_at_last_step(scores_BC, progress.all_met_BK, beam)
        order_BC = order_banks_round_robin(scores_BC, progress.num_tokens_BK)
        candidates = replace(candidates, beam_scores_BC=scores_BC)
        return candidates.take(order_BC[:, : 2 * self.beam_size])


def select_feasible_phrases(
    search_input: SentenceSearchInput, max_length: int
) -> tuple[Phrase, ...]:
    """Return the required phrases that contain no forbidden phrase and fit into the length."""
    remaining = max_length - len(search_input.prefix) - 1
    feasible = []
    for phrase in dict.fromkeys(search_input.required):
        is_allowed = not any(contains_phrase(phrase, other) for other in search_input.forbidden)
        if is_allowed and len(phrase) <= remaining:
            feasible.append(phrase)
            remaining -= len(phrase)
    return tuple(feasible)


def contains_phrase(tokens: Sequence[int], phrase: Phrase) -> bool:
    """Return whether the tokens contain the phrase."""
    starts = range(len(tokens) - len(phrase) + 1)
    return any(tuple(tokens[i : i + len(phrase)]) == phrase for i in starts)


def build_beam_allocation(
    inputs: Sequence[SentenceSearchInput], max_lengths_S: Tensor, config: SearchConfig, eos: int
) -> DynamicBeamAllocation | None:
    """Return the allocation for these inputs, or None if no required phrase is feasible.

    Raises `InputError` if the search is not a beam search.
    """
    if config.searches_per_input > 1 or config.sampling:
        raise InputError(
            "`required` must be left out with sampling or beam groups: "
            "only beam search guarantees it"
        )
    phrases = [
        select_feasible_phrases(search_input, max_length)
        for search_input, max_length in zip(inputs, max_lengths_S.tolist(), strict=True)
    ]
    if not any(phrases):
        return None
    return DynamicBeamAllocation(
        pad_phrases(phrases, max_lengths_S.device), config.beams_per_search, eos
    )


def measure_constraint_progress(emitted_BKE: Tensor, phrases_BPL: Tensor) -> ConstraintProgress:
    """Return the part of the phrases that each hypothesis contains."""
    phrases_B1PL, max_length = phrases_BPL[:, None], phrases_BPL.size(2)
    lengths_B1P = (phrases_B1PL != PHRASE_PAD).sum(3)
    matched_BKP = emitted_BKE.new_zeros(*emitted_BKE.shape[:2], phrases_BPL.size(1))
    for m in range(1, min(max_length - 1, emitted_BKE.size(2)) + 1):  # the longest match is last
        is_match_BKP = (emitted_BKE[:, :, None, -m:] == phrases_B1PL[..., :m]).all(3)
        matched_BKP.masked_fill_(is_match_BKP & (lengths_B1P > m), m)
    # Padded, so that the windows also contain a short phrase at the end.
    padded_BKE = torch.nn.functional.pad(emitted_BKE, (0, max_length), value=PHRASE_PAD - 1)
    windows_BK1WL = padded_BKE.unfold(2, max_length, 1)[:, :, None]
    phrases_B1P1L = phrases_B1PL[:, :, :, None]
    met_BKP = ((windows_BK1WL == phrases_B1P1L) | (phrases_B1P1L == PHRASE_PAD)).all(4).any(3)
    met_BKP = met_BKP | (lengths_B1P == 0)
    return ConstraintProgress(met_BKP, matched_BKP.masked_fill(met_BKP, 0), lengths_B1P)


def next_required_tokens(progress: ConstraintProgress, phrases_BPL: Tensor) -> Tensor:
    """Return the next token of each unmet phrase, [B, K, P]; `PHRASE_PAD` for met phrases."""
    beams = progress.met_BKP.size(1)
    phrases_BKPL = phrases_BPL[:, None].expand(-1, beams, -1, -1)
    tokens_BKP = phrases_BKPL.gather(3, progress.matched_BKP[..., None])[..., 0]
    return tokens_BKP.masked_fill(progress.met_BKP, PHRASE_PAD)


def propose_best_and_required_tokens(
    step_scores_BKV: Tensor, required_BKP: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """Return the `k` best tokens of each hypothesis and its required tokens, with their scores.

    Duplicates and padding have the score −∞.
    """
    best_BKC, best_tokens_BKC = stable_topk(step_scores_BKV, k)
    tokens_BKP = required_BKP.clamp(min=0)
    scores_BKP = step_scores_BKV.gather(2, tokens_BKP)
    scores_BKP = scores_BKP.masked_fill(required_BKP == PHRASE_PAD, -torch.inf)
    tokens_BKN = torch.cat((best_tokens_BKC, tokens_BKP), dim=2)
    scores_BKN = torch.cat((best_BKC, scores_BKP), dim=2)
    same_BKNN = tokens_BKN[..., None] == tokens_BKN[..., None, :]
    duplicate_BKNN = (same_BKNN & (scores_BKN > -torch.inf)[..., None, :]).tril(-1)
    return tokens_BKN, scores_BKN.masked_fill(duplicate_BKNN.any(3), -torch.inf)


def mask_incomplete_at_last_step(beam_scores_BC: Tensor, all_met_BC: Tensor, beam: Beam) -> Tensor:
    """Return the scores, with −∞ for candidates that lack a phrase in the last step of a row.

    If no candidate and no finished hypothesis has all phrases, nothing is masked: the best
    candidate is then the result, and its missing phrases are reported.
    """
    all_met_BC = all_met_BC & (beam_scores_BC > -torch.inf)
    must_mask_B = beam.is_last_step_B & (all_met_BC.any(1) | beam.has_finished_B)
    return beam_scores_BC.masked_fill(must_mask_B[:, None] & ~all_met_BC, -torch.inf)


def order_banks_round_robin(beam_scores_BC: Tensor, banks_BC: Tensor) -> Tensor:
    """Return the order of the candidates in which banks take turns.

    First the best candidate of each bank, then the second best and so on; in each turn the bank
    with the most phrase tokens is first.
    """
    ranks_BC, num_banks = rank_within_bank(beam_scores_BC, banks_BC), int(banks_BC.max()) + 1
    keys_BC = ranks_BC * num_banks - banks_BC
    last = num_banks * beam_scores_BC.size(1)
    return keys_BC.masked_fill(beam_scores_BC == -torch.inf, last).argsort(dim=1, stable=True)


def rank_within_bank(beam_scores_BC: Tensor, banks_BC: Tensor) -> Tensor:
    """Return the rank of each candidate in its bank; equal scores are ranked by index."""
    by_score_BC = beam_scores_BC.argsort(dim=1, descending=True, stable=True)
    banks_BC = banks_BC.gather(1, by_score_BC)
    counts_BCN = torch.nn.functional.one_hot(banks_BC).cumsum(1)
    ranks_BC = counts_BCN.gather(2, banks_BC[:, :, None])[:, :, 0] - 1
    return torch.empty_like(ranks_BC).scatter_(1, by_score_BC, ranks_BC)
