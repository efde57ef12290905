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

from seq2see.search.config import Phrase, SearchInput
from seq2see.search.hypotheses import Beam, Candidates, gather_parents
from seq2see.search.processors import PHRASE_PAD, StepProcessor, pad_phrases
from seq2see.search.selectors import stable_topk

# B rows, K beams, C candidates, N candidates of one beam, V vocabulary, E emitted tokens,
# S sources, P terms of a source, L tokens of a term, W windows, F findings


@dataclass(frozen=True, slots=True)
class ConstraintProgress:
    """How much of the terms each hypothesis has."""

    met_BKP: Tensor
    matched_BKP: Tensor
    """How many of a term's tokens the hypothesis ends with; 0 where it is met."""
    lengths_B1P: Tensor

    @property
    def all_met_BK(self) -> Tensor:
        """Whether all terms are met."""
        return self.met_BKP.all(2)

    @property
    def num_tokens_BK(self) -> Tensor:
        """The tokens of all terms that are met, and of the one that has got furthest."""
        met_BKP = self.lengths_B1P * self.met_BKP
        return met_BKP.sum(2) + self.matched_BKP.amax(2)


@dataclass(frozen=True, slots=True)
class DynamicBeamAllocation(StepProcessor):
    """Processor and choice in one: what must come may come, and is kept."""

    phrases_SPL: Tensor
    """Filled up with `NO_TOKEN`; a term without a token is met from the start."""
    beam_size: int
    eos: int

    def process(self, beam: Beam, step_scores_BKV: Tensor, model_log_probs_BKV: Tensor) -> None:
        """Allow what a term goes on with, whoever forbade it, and no stop before all are met."""
        terms_BPL = self.phrases_SPL[beam.input_index_B]
        progress = measure_progress(beam.emitted_BKE, terms_BPL)
        tokens_BKP = next_required_tokens(progress, terms_BPL)
        rows_F, beams_F, places_F = (tokens_BKP != PHRASE_PAD).nonzero(as_tuple=True)
        tokens_F = tokens_BKP[rows_F, beams_F, places_F]
        now_F, own_F = (
            x[rows_F, beams_F, tokens_F] for x in (step_scores_BKV, model_log_probs_BKV)
        )
        step_scores_BKV[rows_F, beams_F, tokens_F] = torch.where(now_F == -torch.inf, own_F, now_F)
        step_scores_BKV[:, :, self.eos].masked_fill_(~progress.all_met_BK, -torch.inf)

    def select(
        self, beam: Beam, model_log_probs_BKV: Tensor, step_scores_BKV: Tensor
    ) -> Candidates:
        """Return what goes on best from each hypothesis, and with its terms, bank after bank."""
        terms_BPL = self.phrases_SPL[beam.input_index_B]
        wanted_BKP = next_required_tokens(measure_progress(beam.emitted_BKE, terms_BPL), terms_BPL)
        # As many from each as it could place alone, and the stop symbol: a hypothesis with terms
        # is less likely than one without, and would never be seen among the best of all.
        count = self.beam_size + 1 if self.beam_size > 1 else 1
        tokens_BKN, steps_BKN = propose_tokens(step_scores_BKV, wanted_BKP, count)
        values_BC = (beam.beam_scores_BK[:, :, None] + steps_BKN).flatten(1)
        beams_K1 = torch.arange(tokens_BKN.size(1), device=tokens_BKN.device)[:, None]
        parents_BC = beams_K1.expand_as(tokens_BKN).flatten(1)
        candidates = Candidates.from_tokens(
            beam, model_log_probs_BKV, parents_BC, tokens_BKN.flatten(1), values_BC
        )
        progress = measure_progress(extend_tokens(beam, candidates), terms_BPL)
        values_BC = mask_incomplete(values_BC, progress.all_met_BK, beam)
        order_BC = order_round_robin(values_BC, progress.num_tokens_BK)[:, : 2 * self.beam_size]
        return replace(candidates, beam_scores_BC=values_BC).take(order_BC)


def select_feasible_phrases(search_input: SearchInput, max_length: int) -> tuple[Phrase, ...]:
    """Return the terms that can be met: those without a forbidden phrase, while there is room."""
    room = max_length - len(search_input.prefix) - 1
    kept = []
    for term in dict.fromkeys(search_input.required):
        possible = not any(contains_phrase(term, phrase) for phrase in search_input.forbidden)
        if possible and len(term) <= room:
            kept.append(term)
            room -= len(term)
    return tuple(kept)


def missing_phrases(phrases: Sequence[Phrase], tokens: Sequence[int]) -> tuple[Phrase, ...]:
    """Return the terms that a translation does not hold: the report of what could not be met."""
    return tuple(term for term in phrases if not contains_phrase(tokens, term))


def contains_phrase(tokens: Sequence[int], phrase: Phrase) -> bool:
    """Say whether the phrase stands somewhere among the tokens."""
    starts = range(len(tokens) - len(phrase) + 1)
    return any(tuple(tokens[i : i + len(phrase)]) == phrase for i in starts)


def build_beam_allocation(
    inputs: Sequence[SearchInput], max_lengths_S: Tensor, beam_size: int, eos: int
) -> DynamicBeamAllocation | None:
    """Make the glossary of these sources, if any has terms that can be met."""
    fits = [
        select_feasible_phrases(s, longest)
        for s, longest in zip(inputs, max_lengths_S.tolist(), strict=True)
    ]
    if not any(fits):
        return None
    return DynamicBeamAllocation(pad_phrases(fits, max_lengths_S.device), beam_size, eos)


def measure_progress(emitted_BKE: Tensor, phrases_BPL: Tensor) -> ConstraintProgress:
    """Look up how much of the terms each hypothesis has."""
    terms_B1PL, size = phrases_BPL[:, None], phrases_BPL.size(2)
    lengths_B1P = (terms_B1PL != PHRASE_PAD).sum(3)
    begun_BKP = emitted_BKE.new_zeros(*emitted_BKE.shape[:2], phrases_BPL.size(1))
    for m in range(1, min(size - 1, emitted_BKE.size(2)) + 1):  # the longest comes last and stays
        ends_BKP = (emitted_BKE[:, :, None, -m:] == terms_B1PL[..., :m]).all(3)
        begun_BKP.masked_fill_(ends_BKP & (lengths_B1P > m), m)
    # Places behind the last token, so that a short term is found at the end as well.
    padded_BKE = torch.nn.functional.pad(emitted_BKE, (0, size), value=PHRASE_PAD - 1)
    windows_BK1WL = padded_BKE.unfold(2, size, 1)[:, :, None]
    terms_B1P1L = terms_B1PL[:, :, :, None]
    met_BKP = ((windows_BK1WL == terms_B1P1L) | (terms_B1P1L == PHRASE_PAD)).all(4).any(3)
    met_BKP = met_BKP | (lengths_B1P == 0)
    return ConstraintProgress(met_BKP, begun_BKP.masked_fill(met_BKP, 0), lengths_B1P)


def next_required_tokens(progress: ConstraintProgress, phrases_BPL: Tensor) -> Tensor:
    """Return the token that each unmet term goes on with, [B, K, P]; `NO_TOKEN` for the others."""
    beams = progress.met_BKP.size(1)
    terms_BKPL = phrases_BPL[:, None].expand(-1, beams, -1, -1)
    tokens_BKP = terms_BKPL.gather(3, progress.matched_BKP[..., None])[..., 0]
    return tokens_BKP.masked_fill(progress.met_BKP, PHRASE_PAD)


def propose_tokens(
    step_scores_BKV: Tensor, required_BKP: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Return the best tokens of each hypothesis and those that its terms want, with their values.

    What came up before, and places without a token, have −∞.
    """
    best_BKC, places_BKC = stable_topk(step_scores_BKV, count)
    asked_BKP = required_BKP.clamp(min=0)
    values_BKP = step_scores_BKV.gather(2, asked_BKP).masked_fill(
        required_BKP == PHRASE_PAD, -torch.inf
    )
    tokens_BKN = torch.cat((places_BKC, asked_BKP), dim=2)
    values_BKN = torch.cat((best_BKC, values_BKP), dim=2)
    same_BKNN = tokens_BKN[..., None] == tokens_BKN[..., None, :]
    before_BKNN = (same_BKNN & (values_BKN > -torch.inf)[..., None, :]).tril(-1)
    return tokens_BKN, values_BKN.masked_fill(before_BKNN.any(3), -torch.inf)


def extend_tokens(beam: Beam, candidates: Candidates) -> Tensor:
    """Return what each candidate would have emitted, [B, C, E + 1]."""
    emitted_BCE = gather_parents(beam.emitted_BKE, candidates.parents_BC)
    return torch.cat((emitted_BCE, candidates.tokens_BC[:, :, None]), dim=2)


def mask_incomplete(beam_scores_BC: Tensor, all_met_BC: Tensor, beam: Beam) -> Tensor:
    """Return the values, −∞ where a row's last step would cut a hypothesis that lacks a term.

    Unless none has them all, here or among those that ended: then the best of these is the answer,
    and the report names what it lacks.
    """
    all_met_BC = all_met_BC & (beam_scores_BC > -torch.inf)
    strict_B = beam.is_last_step_B & (all_met_BC.any(1) | beam.has_finished_B)
    return beam_scores_BC.masked_fill(strict_B[:, None] & ~all_met_BC, -torch.inf)


def order_round_robin(beam_scores_BC: Tensor, banks_BC: Tensor) -> Tensor:
    """Return the order in which banks take turns, the fullest first: the best of each, then …"""
    turns_BC, banks = rank_within_bank(beam_scores_BC, banks_BC), int(banks_BC.max()) + 1
    places_BC = turns_BC * banks - banks_BC
    dead_BC = beam_scores_BC == -torch.inf
    return places_BC.masked_fill(dead_BC, banks * beam_scores_BC.size(1)).argsort(
        dim=1, stable=True
    )


def rank_within_bank(beam_scores_BC: Tensor, banks_BC: Tensor) -> Tensor:
    """Return how many of its own bank stand before each candidate; of equals, those in front."""
    by_value_BC = beam_scores_BC.argsort(dim=1, descending=True, stable=True)
    banks_sorted_BC = banks_BC.gather(1, by_value_BC)
    by_bank_BC = banks_sorted_BC.argsort(dim=1, stable=True)
    banks_sorted_BC = banks_sorted_BC.gather(1, by_bank_BC)
    # Where each bank begins in that order: at the first place that has its number.
    starts_BC = torch.searchsorted(banks_sorted_BC.contiguous(), banks_sorted_BC.contiguous())
    ranks_BC = torch.arange(beam_scores_BC.size(1), device=beam_scores_BC.device) - starts_BC
    return torch.empty_like(ranks_BC).scatter_(1, by_value_BC.gather(1, by_bank_BC), ranks_BC)
