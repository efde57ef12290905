"""The search loop.

Each step runs the decoder, applies the processors, selects candidates, stores finished hypotheses
and reorders the decoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.search.config import SearchConfig, SearchInput, check_search_inputs
from seq2see.search.decoder import IncrementalDecoder
from seq2see.search.hypotheses import (
    Beam,
    Candidates,
    FinishedHypotheses,
    Hypothesis,
    collect_finished,
    compute_coverage_penalty,
    normalize_by_length,
    score_upper_bound,
)
from seq2see.search.lexical_constraints import DynamicBeamAllocation, build_beam_allocation
from seq2see.search.observer import CandidateStatus, SearchObserver, StepRecord
from seq2see.search.processors import (
    ForbiddenPhrases,
    ForcedPrefix,
    MinLength,
    NoRepeatNgram,
    RepetitionPenalty,
    StepProcessor,
)
from seq2see.search.selectors import (
    CandidateSelector,
    DiverseBeamSelector,
    SamplingSelector,
    TopKSelector,
)

# B rows, K beams, C candidates, V vocabulary, S sources
# S sources
# B rows, K beams, C candidates

COMPACTION_DIVISOR = 8
"""Rows that are done leave once they are one in so many: each leaving copies what the model
remembers of the others."""


@torch.inference_mode()
def search(
    decoder: IncrementalDecoder,
    inputs: Sequence[SearchInput],
    config: SearchConfig,
    *,
    bos: int,
    eos: int,
    pad: int,
    processors: Sequence[StepProcessor] = (),
    observer: SearchObserver | None = None,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Return the translations of each source, best first, samples in the order of their draw.

    There are `n_best` of each, or fewer where no more were found: none at all where processors
    left nothing that could follow. The start symbol and padding are never emitted. `processors`
    are further ones; what the sources forbid or prescribe comes behind them.
    """
    if not inputs:
        return []
    never = frozenset({bos, pad} - {eos})
    check_search_inputs(inputs, never | {eos})
    run = BeamSearch(inputs, config, eos, never, processors, observer, torch.device(device))
    beam = run.start(decoder, bos)
    while len(beam):
        beam = run.step(decoder, beam)
    return run.collect_results()


class BeamSearch:
    """One search under way: its parts, made from the config, and what has ended so far."""

    def __init__(
        self,
        inputs: Sequence[SearchInput],
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
        self.max_lengths_S = torch.tensor(
            [s.max_target_length(config.length) for s in inputs], device=device
        )
        self.source_lengths_S = torch.tensor([s.source_length for s in inputs], device=device)
        terms = _build_allocation(inputs, self.max_lengths_S, config, eos)
        self.selector = _build_selector(inputs, config, terms)
        self.stopping_criterion = _build_stopping_criterion(config)
        every = _build_processors(inputs, config, eos, terms, processors, device)
        self.processors = tuple(every)
        rows = len(inputs) * config.searches_per_input
        self.finished = FinishedHypotheses(rows, config.n_best_per_search, device)

    def start(self, decoder: IncrementalDecoder, bos: int) -> Beam:
        """Give each source its rows, and each row a hypothesis with nothing in it."""
        members = self.config.searches_per_input
        beam = Beam.create_initial(self.max_lengths_S, self.source_lengths_S, members, bos)
        if members > 1:
            decoder.reorder(beam.input_index_B, torch.zeros_like(beam.input_index_B)[:, None])
        return beam

    def step(self, decoder: IncrementalDecoder, beam: Beam) -> Beam:
        """Emit one token more, and return the hypotheses that are left to go on with."""
        prediction = decoder.step(beam.tokens_BKT[:, :, -1])
        beam = beam.append_attention(prediction.attention_BKS)
        candidates = self.select_candidates(beam, prediction.log_probs_BKV)
        verdict = prune_candidates(
            candidates, self.config.beams_per_search, self.eos, beam.is_last_step_B
        )
        scores_BC = self.score_candidates(beam, candidates)
        rows_B = beam.input_index_B * self.config.searches_per_input + beam.search_index_B
        self.store_finished(rows_B, beam, candidates, verdict.finished_BC, scores_BC)
        standing = StoppingState(verdict.beam_scores_BK, beam.max_lengths_B, self.finished, rows_B)
        stops_B1 = self.stopping_criterion.should_stop(standing)[:, None]
        values_BK = verdict.beam_scores_BK.masked_fill(stops_B1, -torch.inf)
        staying_B = select_active_rows(values_BK)
        if self.observer:
            fate = compute_candidate_statuses(candidates, verdict, values_BK > -torch.inf)
            self.observer.step(StepRecord(beam, candidates, scores_BC, *fate, staying_B))
        ended_B = beam.has_finished_B | verdict.finished_BC.any(1)
        chosen = candidates.take(verdict.survivor_indices_BK)
        return reorder_decoder(
            decoder, beam, beam.advance(chosen, values_BK, ended_B), chosen, staying_B
        )

    def select_candidates(self, beam: Beam, model_log_probs_BKV: Tensor) -> Candidates:
        """Return the continuations that are worth a look."""
        model_log_probs_BKV.index_fill_(2, self.suppressed_ids, -torch.inf)
        values_BKV = apply_processors(self.processors, beam, model_log_probs_BKV)
        candidates = self.selector.select(beam, model_log_probs_BKV, values_BKV)
        if (
            candidates.beam_scores_BC.isnan().any()
        ):  # it comes first in every order: none stays hidden
            raise InputError("the model must give log-probabilities, but gave NaN instead")
        return candidates

    def score_candidates(self, beam: Beam, candidates: Candidates) -> Tensor:
        """Return what each candidate would be worth, had it ended here."""
        scores_BC = normalize_by_length(
            candidates.beam_scores_BC, beam.length + 1, self.config.length_penalty
        )
        if not self.config.coverage_penalty:
            return scores_BC
        if beam.attention_BKES is None:
            raise InputError("the decoder must tell its attention for a coverage penalty")
        beta, lengths_B = self.config.coverage_penalty, beam.source_lengths_B
        penalty_BK = compute_coverage_penalty(beam.attention_BKES, lengths_B, beta)
        return scores_BC - penalty_BK.gather(1, candidates.parents_BC)

    def store_finished(
        self,
        rows_B: Tensor,
        beam: Beam,
        candidates: Candidates,
        finished_BC: Tensor,
        scores_BC: Tensor,
    ) -> None:
        """Put away what has ended."""
        alpha = self.config.length_penalty
        ended = collect_finished(beam, candidates, finished_BC, scores_BC, alpha, self.eos)
        if ended is not None:
            self.finished.add(ended._replace(rows_N=rows_B[ended.rows_N]))

    def collect_results(self) -> list[list[Hypothesis]]:
        """Return what has ended, a list for each source."""
        members, best = self.config.searches_per_input, self.finished.best
        starts = range(0, len(best), members)
        together = [list(chain.from_iterable(best[i : i + members])) for i in starts]
        if self.config.num_beam_groups == 1:
            return together
        return [rank_unique(hypotheses)[: self.config.n_best] for hypotheses in together]


def apply_processors(
    processors: Sequence[StepProcessor], beam: Beam, model_log_probs_BKV: Tensor
) -> Tensor:
    """Return the log-probabilities as the processors leave them; themselves, if none is active."""
    active = [processor for processor in processors if processor.is_active(beam.length)]
    if not active:
        return model_log_probs_BKV
    values_BKV = model_log_probs_BKV.clone()
    for processor in active:
        processor.process(beam, values_BKV, model_log_probs_BKV)
    return values_BKV


def rank_unique(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the best first; groups may find the same one, which then counts once."""
    different = {hypothesis.tokens: hypothesis for hypothesis in hypotheses}
    return sorted(different.values(), key=lambda h: -h.score)


def select_active_rows(beam_scores_BK: Tensor) -> Tensor | None:
    """Return the rows to go on with, or None while it does not pay to leave any behind."""
    alive_B = (beam_scores_BK > -torch.inf).any(1)
    rows_B = alive_B.nonzero().flatten()  # note: this is a sync point
    done = len(alive_B) - len(rows_B)
    return rows_B if len(rows_B) == 0 or done * COMPACTION_DIVISOR >= len(alive_B) else None


def reorder_decoder(
    decoder: IncrementalDecoder, before: Beam, beam: Beam, chosen: Candidates, rows_B: Tensor | None
) -> Beam:
    """Let the decoder follow to the next beam, and return those of its rows that are left."""
    parents_BK = chosen.parents_BC
    if rows_B is not None:
        beam, parents_BK = beam.select_rows(rows_B), parents_BK[rows_B]
    elif before.beam_scores_BK.size(1) == beam.beam_scores_BK.size(1) == 1:
        return beam  # greedy, and nobody left: all are where they were
    else:
        rows_B = torch.arange(len(beam), device=parents_BK.device)
    if len(rows_B):
        decoder.reorder(rows_B, parents_BK)
    return beam


def _build_stopping_criterion(config: SearchConfig) -> StoppingCriterion:
    """Return the rule that the config names."""
    if config.stop_rule != "beam_full":
        return ExactStopping(config.length_penalty)
    if config.length_penalty or config.coverage_penalty:
        return BeamFullStopping(config.beams_per_search)
    return BestFinishedStopping(config.n_best_per_search)


def _build_selector(
    sources: Sequence[SearchInput],
    config: SearchConfig,
    _build_allocation: DynamicBeamAllocation | None,
) -> CandidateSelector:
    """Return what orders the candidates."""
    if _build_allocation:
        return _build_allocation
    if config.sampling:
        return SamplingSelector(config.sampling, tuple(source.line_number for source in sources))
    if config.num_beam_groups > 1:
        return DiverseBeamSelector(
            config.beams_per_search, config.num_beam_groups, config.diversity_penalty, len(sources)
        )
    return TopKSelector(config.beams_per_search)


def _build_allocation(
    sources: Sequence[SearchInput], limits_S: Tensor, config: SearchConfig, eos: int
) -> DynamicBeamAllocation | None:
    """Return the glossary, if any source has terms."""
    if not any(source.required for source in sources):
        return None
    if config.searches_per_input > 1 or config.sampling:
        raise InputError("`terms` must be left out with sampling or groups: only a beam meets them")
    return build_beam_allocation(sources, limits_S, config.beams_per_search, eos)


def _build_processors(
    sources: Sequence[SearchInput],
    config: SearchConfig,
    eos: int,
    _build_allocation: DynamicBeamAllocation | None,
    further: Sequence[StepProcessor],
    device: torch.device,
) -> Iterator[StepProcessor]:
    """Yield what changes the log-probabilities; the later have the last word.

    The further ones come behind the glossary: it allows what a term wants, whoever forbade it, and
    may not have one term begin inside another that must end as a word.
    """
    if config.no_repeat_ngram_size:
        yield NoRepeatNgram(config.no_repeat_ngram_size)
    if config.repetition_penalty > 1:
        yield RepetitionPenalty(config.repetition_penalty)
    shortest = [source.min_target_length(config.length) for source in sources]
    if max(shortest) > 1:
        yield MinLength(torch.tensor(shortest, device=device), eos)
    if _build_allocation:
        yield _build_allocation
    yield from further
    if any(source.forbidden for source in sources):
        yield ForbiddenPhrases.from_phrases([source.forbidden for source in sources], device)
    if any(source.prefix for source in sources):
        yield ForcedPrefix.from_prefixes([source.prefix for source in sources], device)


@dataclass(frozen=True, slots=True)
class BeamUpdate:
    """What becomes of the candidates of one step."""

    finished_BC: Tensor
    """It is a finished hypothesis now: with the stop symbol, or cut at its greatest length."""
    survivor_indices_BK: Tensor
    """Which candidates the next beams are."""
    beam_scores_BK: Tensor
    """Their values, −∞ where there was none to take."""


def prune_candidates(
    candidates: Candidates, beam_size: int, eos: int, is_last_step_B: Tensor
) -> BeamUpdate:
    """Let the first `width` candidates end that can, and as many go on as there is room for.

    To count among the finished, a candidate must be as good as those that the beam would keep.
    """
    alive_BC = candidates.beam_scores_BC > -torch.inf
    stops_BC = (candidates.tokens_BC == eos) | is_last_step_B[:, None]
    ends_BC = alive_BC & stops_BC
    if candidates.beam_scores_BC.size(1) == 1:
        places_BK = torch.zeros_like(candidates.parents_BC)
        return BeamUpdate(
            ends_BC, places_BK, candidates.beam_scores_BC.masked_fill(stops_BC, -torch.inf)
        )
    ends_BC[:, beam_size:] = False
    goes_on_BC = alive_BC & ~stops_BC
    # Those that go on to the front, in their order: no two keys are equal, so `topk` will do.
    count = goes_on_BC.size(1)
    keys_BC = goes_on_BC * count - torch.arange(count, device=goes_on_BC.device)
    places_BK = keys_BC.topk(min(beam_size, count)).indices
    values_BK = candidates.beam_scores_BC.masked_fill(~goes_on_BC, -torch.inf).gather(1, places_BK)
    return BeamUpdate(ends_BC, places_BK, values_BK)


@dataclass(frozen=True, slots=True)
class StoppingState:
    """How each row stands behind a step: what goes on, and what has ended so far."""

    beam_scores_BK: Tensor
    max_lengths_B: Tensor
    finished: FinishedHypotheses
    finished_rows_B: Tensor
    """Where the rows stand among the finished."""


class StoppingCriterion(Protocol):
    """Says when a row needs no further step."""

    def should_stop(self, state: StoppingState) -> Tensor:
        """Return for each row whether it is done."""


@dataclass(frozen=True, slots=True)
class ExactStopping:
    """Stop when no live hypothesis could still enter the n best."""

    alpha: float

    def should_stop(self, state: StoppingState) -> Tensor:
        """Compare what the living may reach with what the n-th best has; a tie changes nothing."""
        reachable_B = score_upper_bound(state.beam_scores_BK, state.max_lengths_B, self.alpha)
        return reachable_B <= state.finished.n_best_threshold_R[state.finished_rows_B]


@dataclass(frozen=True, slots=True)
class BeamFullStopping:
    """Stop when as many have ended as the beam is wide: ctranslate2's rule."""

    beam_size: int

    def should_stop(self, state: StoppingState) -> Tensor:
        """Count the finished."""
        return state.finished.counts_R[state.finished_rows_B] >= self.beam_size


@dataclass(frozen=True, slots=True)
class BestFinishedStopping:
    """Stop when the likeliest candidate has ended and n are there: ctranslate2's, no penalties."""

    n_best: int

    def should_stop(self, state: StoppingState) -> Tensor:
        """Count the finished, once the likeliest is among them."""
        ready_R = state.finished.best_finished_R & (state.finished.counts_R >= self.n_best)
        return ready_R[state.finished_rows_B]


def compute_candidate_statuses(
    candidates: Candidates, update: BeamUpdate, alive_BK: Tensor
) -> tuple[Tensor, Tensor]:
    """Return what became of each candidate, and which beam each living one is next."""
    fates_BC = torch.full_like(candidates.tokens_BC, CandidateStatus.PRUNED)
    beams_BC = torch.full_like(candidates.tokens_BC, -1)
    taken_BK = update.beam_scores_BK > -torch.inf
    kept_BK = torch.where(alive_BK, CandidateStatus.ALIVE, CandidateStatus.STOPPED)
    old_BK = fates_BC.gather(1, update.survivor_indices_BK)
    fates_BC.scatter_(1, update.survivor_indices_BK, torch.where(taken_BK, kept_BK, old_BK))
    numbers_BK = torch.arange(alive_BK.size(1), device=alive_BK.device).expand_as(alive_BK)
    beams_BC.scatter_(1, update.survivor_indices_BK, numbers_BK.masked_fill(~alive_BK, -1))
    fates_BC.masked_fill_(update.finished_BC, CandidateStatus.FINISHED)
    fates_BC.masked_fill_(candidates.beam_scores_BC == -torch.inf, CandidateStatus.NONE)
    return fates_BC, beams_BC
