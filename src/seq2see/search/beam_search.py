"""The search loop.

Each step runs the decoder, applies the processors, selects candidates, stores finished hypotheses
and reorders the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import torch
from torch import Tensor

from seq2see.cancellation import check_cancelled
from seq2see.errors import InputError
from seq2see.keyed_random import hash_key
from seq2see.search.candidate_selection import (
    CandidateSelector,
    sample_candidates,
    select_diverse,
    select_top_k,
)
from seq2see.search.config import SearchConfig, SentenceSearchInput
from seq2see.search.hypotheses import (
    Beam,
    Candidates,
    CandidateStatus,
    FinishedHypotheses,
    Hypothesis,
    SearchObserver,
    StepRecord,
    build_finished_hypotheses,
    compute_coverage_penalty,
    normalize_by_length,
    score_upper_bound,
)
from seq2see.search.incremental_decoder import IncrementalDecoder
from seq2see.search.lexical_constraints import build_beam_allocation
from seq2see.search.step_processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    StepProcessor,
    pad_phrases,
)

# B rows, K beams, C candidates, V vocabulary, S inputs

COMPACTION_DIVISOR = 8
"""Finished rows are removed once they are one in this many: each removal copies the decoder's cache
of the other rows."""


@torch.inference_mode()
def search(
    decoder: IncrementalDecoder,
    inputs: Sequence[SentenceSearchInput],
    config: SearchConfig,
    *,
    bos: int,
    eos: int,
    pad: int,
    processors: Sequence[StepProcessor] = (),
    observer: SearchObserver | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the hypotheses of each input, best first, or samples in the order of their indices.

    There are `n_best` hypotheses, or fewer if no more were found; none if the processors left no
    possible continuation. The start symbol and padding are never output. `processors` are applied
    after required phrases and before forbidden phrases and prefixes.
    """
    if not inputs:
        return []
    suppressed_ids = frozenset({bos, pad} - {eos})
    beam_search = BeamSearch(
        inputs, config, eos, suppressed_ids, processors, observer, torch.device(device)
    )
    beam = beam_search.start(decoder, bos)
    while len(beam):
        check_cancelled()
        beam = beam_search.step(decoder, beam)
    return beam_search.collect_results()


class BeamSearch:
    """One search: its components, built from the config, and the finished hypotheses."""

    def __init__(
        self,
        inputs: Sequence[SentenceSearchInput],
        config: SearchConfig,
        eos: int,
        suppressed_ids: frozenset[int],
        processors: Sequence[StepProcessor],
        observer: SearchObserver | None,
        device: torch.device,
    ) -> None:
        self.inputs = inputs
        self.config = config
        self.eos = eos
        self.observer = observer
        self.suppressed_ids = torch.tensor(sorted(suppressed_ids), dtype=torch.long, device=device)
        max_lengths = [each.max_target_length(config.length) for each in inputs]
        self.max_lengths_S = torch.tensor(max_lengths, device=device)
        self.source_lengths_S = torch.tensor(
            [len(each.source_ids) for each in inputs], device=device
        )
        self.allocation = (
            build_beam_allocation(inputs, self.max_lengths_S, config, eos)
            if any(each.required for each in inputs)
            else None
        )
        self.select = self._build_selector()
        self.processors = tuple(self._build_processors(processors))
        num_rows = len(inputs) * config.searches_per_input
        self.finished = FinishedHypotheses(num_rows, config.n_best_per_search, device)

    def _build_selector(self) -> CandidateSelector:
        config, sampling = self.config, self.config.sampling
        if self.allocation:
            return self.allocation.select
        if sampling:
            keys = [hash_key(sampling.seed, *each.source_ids) for each in self.inputs]
            return partial(sample_candidates, config=sampling, source_keys=keys)
        if config.num_beam_groups > 1:
            return partial(select_diverse, config=config)
        return partial(select_top_k, beam_size=config.beams_per_search)

    def _build_processors(self, extra: Sequence[StepProcessor]) -> Iterator[StepProcessor]:
        """Yield the processors in the order in which they are applied.

        The extra processors come after the allocation, which allows the next tokens of required
        phrases even if they were forbidden: they can still prevent that a phrase begins inside
        another one that must end as a word.
        """
        inputs, config, device = self.inputs, self.config, self.max_lengths_S.device
        if config.no_repeat_ngram_size:
            yield NoRepeatNgram(config.no_repeat_ngram_size)
        if config.repetition_penalty > 1:
            yield RepetitionPenalty(config.repetition_penalty)
        min_lengths = [config.length.min_target_length(len(each.source_ids)) for each in inputs]
        if max(min_lengths) > 1:
            yield MinLength(torch.tensor(min_lengths, device=device), self.eos)
        if self.allocation:
            yield self.allocation
        yield from extra
        if any(each.forbidden for each in inputs):
            forbidden = [each.forbidden for each in inputs]
            yield ForbiddenPhrases(pad_phrases(forbidden, device, align_right=True))
        if any(each.prefix for each in inputs):
            yield ForcedPrefix.from_prefixes([each.prefix for each in inputs], device)

    def start(self, decoder: IncrementalDecoder, bos: int) -> Beam:
        """Return the first beam: the rows of each input, each with one empty hypothesis."""
        searches = self.config.searches_per_input
        beam = Beam.create_initial(self.max_lengths_S, self.source_lengths_S, searches, bos)
        if searches > 1:
            decoder.reorder(beam.input_index_B, torch.zeros_like(beam.input_index_B)[:, None])
        return beam

    def step(self, decoder: IncrementalDecoder, beam: Beam) -> Beam:
        """Extend the hypotheses by one token and return those that are still live."""
        output = decoder.step(beam.tokens_BKT[:, :, -1])
        beam = beam.append_attention(output.attention_BKS)
        # The selection changes the log-probabilities of suppressed tokens.
        log_probs_BKV = output.log_probs_BKV.clone() if self.observer else output.log_probs_BKV
        candidates = self.select_candidates(beam, output.log_probs_BKV)
        beam_size = self.config.beams_per_search
        update = separate_finished_and_surviving(
            candidates, beam_size, self.eos, beam.is_last_step_B
        )
        scores_BC = self.score_candidates(beam, candidates)
        rows_B = beam.input_index_B * self.config.searches_per_input + beam.search_index_B
        rows_N, ranks_N = update.finished_BC.nonzero(as_tuple=True)  # note: this is a sync point
        if len(rows_N):
            new = build_finished_hypotheses(beam, candidates, rows_N, ranks_N, scores_BC, self.eos)
            self.finished.add(rows_B[rows_N], ranks_N, new)
        should_stop_B = should_stop(
            self.config, update.beam_scores_BK, beam.max_lengths_B, self.finished, rows_B
        )
        beam_scores_BK = update.beam_scores_BK.masked_fill(should_stop_B[:, None], -torch.inf)
        active_rows_B = find_active_rows(beam_scores_BK)
        if self.observer:
            is_alive_BK = beam_scores_BK > -torch.inf
            statuses = compute_candidate_statuses_and_beams(candidates, update, is_alive_BK)
            record = StepRecord(
                beam, log_probs_BKV, candidates, scores_BC, *statuses, active_rows_B
            )
            self.observer.step(record)
        has_finished_B = beam.has_finished_B | update.finished_BC.any(1)
        chosen = candidates.take(update.survivor_indices_BK)
        new_beam = beam.advance(chosen, beam_scores_BK, has_finished_B)
        return select_rows_and_reorder_decoder(decoder, new_beam, chosen.parents_BC, active_rows_B)

    def select_candidates(self, beam: Beam, model_log_probs_BKV: Tensor) -> Candidates:
        """Return the best continuations. Raises `InputError` if the model returned NaN."""
        model_log_probs_BKV.index_fill_(2, self.suppressed_ids, -torch.inf)
        step_scores_BKV = apply_processors(self.processors, beam, model_log_probs_BKV)
        candidates = self.select(beam, model_log_probs_BKV, step_scores_BKV)
        if candidates.beam_scores_BC.isnan().any():  # NaN is always selected: it is sorted first
            raise InputError("the model must return log-probabilities, but returned NaN instead")
        return candidates

    def score_candidates(self, beam: Beam, candidates: Candidates) -> Tensor:
        """Return the score of each candidate if it ended in this step.

        Raises `InputError` if a coverage penalty needs attention that the decoder does not return.
        """
        alpha, beta = self.config.length_penalty, self.config.coverage_penalty
        scores_BC = normalize_by_length(candidates.beam_scores_BC, beam.length + 1, alpha)
        if not beta:
            return scores_BC
        if beam.attention_BKES is None:
            raise InputError("the decoder must return attention weights for a coverage penalty")
        penalty_BK = compute_coverage_penalty(beam.attention_BKES, beam.source_lengths_B, beta)
        return scores_BC - penalty_BK.gather(1, candidates.parents_BC)

    def collect_results(self) -> list[list[Hypothesis]]:
        """Return the finished hypotheses of each input."""
        searches, best = self.config.searches_per_input, self.finished.best
        starts = range(0, len(best), searches)
        results = [list(chain.from_iterable(best[i : i + searches])) for i in starts]
        if self.config.num_beam_groups == 1:
            return results
        return [rank_unique_hypotheses(hypotheses)[: self.config.n_best] for hypotheses in results]


def apply_processors(
    processors: Sequence[StepProcessor], beam: Beam, model_log_probs_BKV: Tensor
) -> Tensor:
    """Return the log-probabilities after the processors; not copied if none is active."""
    active = [processor for processor in processors if processor.is_active(beam.length)]
    if not active:
        return model_log_probs_BKV
    step_scores_BKV = model_log_probs_BKV.clone()
    for processor in active:
        processor.process(beam, step_scores_BKV, model_log_probs_BKV)
    return step_scores_BKV


def rank_unique_hypotheses(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the hypotheses, best first; those that several groups found are returned once."""
    unique = {hypothesis.tokens: hypothesis for hypothesis in hypotheses}
    return sorted(unique.values(), key=lambda h: -h.score)


def find_active_rows(beam_scores_BK: Tensor) -> Tensor | None:
    """Return the rows with live hypotheses, or None if it is faster to keep all rows."""
    is_active_B = (beam_scores_BK > -torch.inf).any(1)
    rows_B = is_active_B.nonzero().flatten()  # note: this is a sync point
    num_done = len(is_active_B) - len(rows_B)
    should_remove = len(rows_B) == 0 or num_done * COMPACTION_DIVISOR >= len(is_active_B)
    return rows_B if should_remove else None


def select_rows_and_reorder_decoder(
    decoder: IncrementalDecoder, beam: Beam, parents_BK: Tensor, rows_B: Tensor | None
) -> Beam:
    """Reorder the decoder for the next beam, and return the rows of the beam that remain."""
    if rows_B is not None:
        beam, parents_BK = beam.select_rows(rows_B), parents_BK[rows_B]
    elif parents_BK.size(1) == 1:
        return beam  # greedy search without removed rows: the order is unchanged
    else:
        rows_B = torch.arange(len(beam), device=parents_BK.device)
    if len(rows_B):
        decoder.reorder(rows_B, parents_BK)
    return beam


@dataclass(frozen=True, slots=True)
class FinishedAndSurviving:
    """The result of pruning the candidates of one step."""

    finished_BC: Tensor
    """Whether the candidate is a finished hypothesis: it ends with the end symbol or reaches the
    maximum length."""
    survivor_indices_BK: Tensor
    """Indices of the candidates that are the hypotheses of the next step."""
    beam_scores_BK: Tensor
    """Their beam scores; −∞ where there are not enough candidates."""


def separate_finished_and_surviving(
    candidates: Candidates, beam_size: int, eos: int, is_last_step_B: Tensor
) -> FinishedAndSurviving:
    """Return which candidates finish and which are continued.

    Of the first `beam_size` candidates, those that end are finished; later ones are dropped if they
    end. The first `beam_size` candidates that do not end are continued.
    """
    is_candidate_BC = candidates.beam_scores_BC > -torch.inf
    ends_BC = (candidates.tokens_BC == eos) | is_last_step_B[:, None]
    finished_BC = is_candidate_BC & ends_BC
    if candidates.beam_scores_BC.size(1) == 1:
        indices_BK = torch.zeros_like(candidates.parents_BC)
        beam_scores_BK = candidates.beam_scores_BC.masked_fill(ends_BC, -torch.inf)
        return FinishedAndSurviving(finished_BC, indices_BK, beam_scores_BK)
    finished_BC[:, beam_size:] = False
    continues_BC = is_candidate_BC & ~ends_BC
    # Move the candidates that continue to the front, in order. All keys differ, so `topk` is exact.
    count = continues_BC.size(1)
    keys_BC = continues_BC * count - torch.arange(count, device=continues_BC.device)
    indices_BK = keys_BC.topk(min(beam_size, count)).indices
    scores_BC = candidates.beam_scores_BC.masked_fill(~continues_BC, -torch.inf)
    return FinishedAndSurviving(finished_BC, indices_BK, scores_BC.gather(1, indices_BK))


def should_stop(
    config: SearchConfig,
    beam_scores_BK: Tensor,
    max_lengths_B: Tensor,
    finished: FinishedHypotheses,
    rows_B: Tensor,
) -> Tensor:
    """Return whether the search of each row ends after a step, [B].

    `rows_B` is the row of `finished` for each row of the beam. The rule `exact` stops when no live
    hypothesis can enter the n-best list; a tie stops. `beam_full` stops as CTranslate2 does: when
    `beam_size` hypotheses have finished, or, without penalties, when the most likely candidate has
    finished and there are `n_best` finished hypotheses.
    """
    if config.stop_rule != "beam_full":
        bounds_B = score_upper_bound(beam_scores_BK, max_lengths_B, config.length_penalty)
        return bounds_B <= finished.n_best_threshold_R[rows_B]
    counts_B = finished.counts_R[rows_B]
    if config.length_penalty or config.coverage_penalty:
        return counts_B >= config.beams_per_search
    return finished.best_finished_R[rows_B] & (counts_B >= config.n_best_per_search)


def compute_candidate_statuses_and_beams(
    candidates: Candidates, update: FinishedAndSurviving, is_alive_BK: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the `CandidateStatus` of each candidate, and its beam index in the next step or −1."""
    statuses_BC = torch.full_like(candidates.tokens_BC, CandidateStatus.PRUNED)
    next_beam_BC = torch.full_like(candidates.tokens_BC, -1)
    rows_N, beams_N = (update.beam_scores_BK > -torch.inf).nonzero(as_tuple=True)
    indices_N = update.survivor_indices_BK[rows_N, beams_N]
    is_alive_N = is_alive_BK[rows_N, beams_N]
    statuses = (CandidateStatus.ALIVE, CandidateStatus.STOPPED)
    statuses_BC[rows_N, indices_N] = torch.where(is_alive_N, *statuses)
    next_beam_BC[rows_N, indices_N] = torch.where(is_alive_N, beams_N, -1)
    statuses_BC.masked_fill_(update.finished_BC, CandidateStatus.FINISHED)
    statuses_BC.masked_fill_(candidates.beam_scores_BC == -torch.inf, CandidateStatus.NONE)
    return statuses_BC, next_beam_BC
