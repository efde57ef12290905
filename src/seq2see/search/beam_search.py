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
from seq2see.search.config import SearchConfig, Source, check
from seq2see.search.decoder import Decoder
from seq2see.search.hypotheses import (
    Beam,
    Candidates,
    Finished,
    Hypothesis,
    attainable,
    coverage_penalty,
    endings,
    normalised,
)
from seq2see.search.lexical_constraints import Glossary, glossary
from seq2see.search.observer import Fate, SearchObserver, StepRecord
from seq2see.search.processors import (
    Forbidden,
    MinLength,
    NoRepeatNgram,
    Prefix,
    RepetitionPenalty,
    StepProcessor,
)
from seq2see.search.selectors import BestChoice, Choice, DiverseChoice, SampleChoice

# B rows, K beams, C candidates, V vocabulary, S sources
# S sources
# B rows, K beams, C candidates

LEAVING = 8
"""Rows that are done leave once they are one in so many: each leaving copies what the model
remembers of the others."""


@torch.inference_mode()
def search(
    decoder: Decoder,
    sources: Sequence[Source],
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
    if not sources:
        return []
    never = frozenset({bos, pad} - {eos})
    check(sources, never | {eos})
    run = Run(sources, config, eos, never, processors, observer, torch.device(device))
    beam = run.start(decoder, bos)
    while len(beam):
        beam = run.step(decoder, beam)
    return run.results()


class Run:
    """One search under way: its parts, made from the config, and what has ended so far."""

    def __init__(
        self,
        sources: Sequence[Source],
        config: SearchConfig,
        eos: int,
        never: frozenset[int],
        processors: Sequence[StepProcessor],
        observer: SearchObserver | None,
        device: torch.device,
    ) -> None:
        self.sources = sources
        self.config = config
        self.eos = eos
        self.observer = observer
        self.never = torch.tensor(sorted(never), dtype=torch.long, device=device)
        self.limits_S = torch.tensor([s.longest(config.lengths) for s in sources], device=device)
        self.lengths_S = torch.tensor([s.length for s in sources], device=device)
        terms = _build_allocation(sources, self.limits_S, config, eos)
        self.choice = _build_selector(sources, config, terms)
        self.rule = _build_stopping_criterion(config)
        every = _build_processors(sources, config, eos, terms, processors, device)
        self.processors = tuple(every)
        rows = len(sources) * config.members
        self.finished = Finished(rows, config.keep, device)

    def start(self, decoder: Decoder, bos: int) -> Beam:
        """Give each source its rows, and each row a hypothesis with nothing in it."""
        members = self.config.members
        beam = Beam.start(self.limits_S, self.lengths_S, members, bos)
        if members > 1:
            decoder.reorder(beam.sources_B, torch.zeros_like(beam.sources_B)[:, None])
        return beam

    def step(self, decoder: Decoder, beam: Beam) -> Beam:
        """Emit one token more, and return the hypotheses that are left to go on with."""
        prediction = decoder.step(beam.tokens_BKT[:, :, -1])
        beam = beam.attend(prediction.attention_BKS)
        candidates = self.candidates(beam, prediction.log_probs_BKV)
        verdict = judge(candidates, self.config.width, self.eos, beam.last_B)
        scores_BC = self.scores(beam, candidates)
        rows_B = beam.sources_B * self.config.members + beam.members_B
        self.finish(rows_B, beam, candidates, verdict.ends_BC, scores_BC)
        standing = Standing(verdict.values_BK, beam.limits_B, self.finished, rows_B)
        stops_B1 = self.rule.stops(standing)[:, None]
        values_BK = verdict.values_BK.masked_fill(stops_B1, -torch.inf)
        staying_B = staying(values_BK)
        if self.observer:
            fate = fates(candidates, verdict, values_BK > -torch.inf)
            self.observer.step(StepRecord(beam, candidates, scores_BC, *fate, staying_B))
        ended_B = beam.ended_B | verdict.ends_BC.any(1)
        chosen = candidates.take(verdict.places_BK)
        return follow(decoder, beam, beam.follow(chosen, values_BK, ended_B), chosen, staying_B)

    def candidates(self, beam: Beam, own_BKV: Tensor) -> Candidates:
        """Return the continuations that are worth a look."""
        own_BKV.index_fill_(2, self.never, -torch.inf)
        values_BKV = processed(self.processors, beam, own_BKV)
        candidates = self.choice.choose(beam, own_BKV, values_BKV)
        if candidates.values_BC.isnan().any():  # it comes first in every order: none stays hidden
            raise InputError("the model must give log-probabilities, but gave NaN instead")
        return candidates

    def scores(self, beam: Beam, candidates: Candidates) -> Tensor:
        """Return what each candidate would be worth, had it ended here."""
        scores_BC = normalised(candidates.values_BC, beam.length + 1, self.config.length_penalty)
        if not self.config.coverage_penalty:
            return scores_BC
        if beam.attention_BKES is None:
            raise InputError("the decoder must tell its attention for a coverage penalty")
        beta, lengths_B = self.config.coverage_penalty, beam.source_lengths_B
        penalty_BK = coverage_penalty(beam.attention_BKES, lengths_B, beta)
        return scores_BC - penalty_BK.gather(1, candidates.parents_BC)

    def finish(
        self,
        rows_B: Tensor,
        beam: Beam,
        candidates: Candidates,
        ends_BC: Tensor,
        scores_BC: Tensor,
    ) -> None:
        """Put away what has ended."""
        alpha = self.config.length_penalty
        ended = endings(beam, candidates, ends_BC, scores_BC, alpha, self.eos)
        if ended is not None:
            self.finished.add(ended._replace(rows_N=rows_B[ended.rows_N]))

    def results(self) -> list[list[Hypothesis]]:
        """Return what has ended, a list for each source."""
        members, best = self.config.members, self.finished.best
        starts = range(0, len(best), members)
        together = [list(chain.from_iterable(best[i : i + members])) for i in starts]
        if self.config.groups == 1:
            return together
        return [ranked(hypotheses)[: self.config.n_best] for hypotheses in together]


def processed(processors: Sequence[StepProcessor], beam: Beam, own_BKV: Tensor) -> Tensor:
    """Return the log-probabilities as the processors leave them; themselves, if none is active."""
    active = [processor for processor in processors if processor.active(beam.length)]
    if not active:
        return own_BKV
    values_BKV = own_BKV.clone()
    for processor in active:
        processor.process(beam, values_BKV, own_BKV)
    return values_BKV


def ranked(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Return the best first; groups may find the same one, which then counts once."""
    different = {hypothesis.tokens: hypothesis for hypothesis in hypotheses}
    return sorted(different.values(), key=lambda h: -h.score)


def staying(values_BK: Tensor) -> Tensor | None:
    """Return the rows to go on with, or None while it does not pay to leave any behind."""
    alive_B = (values_BK > -torch.inf).any(1)
    rows_B = alive_B.nonzero().flatten()  # note: this is a sync point
    done = len(alive_B) - len(rows_B)
    return rows_B if len(rows_B) == 0 or done * LEAVING >= len(alive_B) else None


def follow(
    decoder: Decoder, before: Beam, beam: Beam, chosen: Candidates, rows_B: Tensor | None
) -> Beam:
    """Let the decoder follow to the next beam, and return those of its rows that are left."""
    parents_BK = chosen.parents_BC
    if rows_B is not None:
        beam, parents_BK = beam.keep(rows_B), parents_BK[rows_B]
    elif before.values_BK.size(1) == beam.values_BK.size(1) == 1:
        return beam  # greedy, and nobody left: all are where they were
    else:
        rows_B = torch.arange(len(beam), device=parents_BK.device)
    if len(rows_B):
        decoder.reorder(rows_B, parents_BK)
    return beam


def _build_stopping_criterion(config: SearchConfig) -> StopRule:
    """Return the rule that the config names."""
    if config.stop != "beam_full":
        return Exact(config.length_penalty)
    if config.length_penalty or config.coverage_penalty:
        return BeamFull(config.width)
    return BestEnded(config.keep)


def _build_selector(
    sources: Sequence[Source], config: SearchConfig, _build_allocation: Glossary | None
) -> Choice:
    """Return what orders the candidates."""
    if _build_allocation:
        return _build_allocation
    if config.sampling:
        return SampleChoice(config.sampling, tuple(source.line for source in sources))
    if config.groups > 1:
        return DiverseChoice(config.width, config.groups, config.diversity, len(sources))
    return BestChoice(config.width)


def _build_allocation(
    sources: Sequence[Source], limits_S: Tensor, config: SearchConfig, eos: int
) -> Glossary | None:
    """Return the glossary, if any source has terms."""
    if not any(source.terms for source in sources):
        return None
    if config.members > 1 or config.sampling:
        raise InputError("`terms` must be left out with sampling or groups: only a beam meets them")
    return glossary(sources, limits_S, config.width, eos)


def _build_processors(
    sources: Sequence[Source],
    config: SearchConfig,
    eos: int,
    _build_allocation: Glossary | None,
    further: Sequence[StepProcessor],
    device: torch.device,
) -> Iterator[StepProcessor]:
    """Yield what changes the log-probabilities; the later have the last word.

    The further ones come behind the glossary: it allows what a term wants, whoever forbade it, and
    may not have one term begin inside another that must end as a word.
    """
    if config.no_repeat_ngram:
        yield NoRepeatNgram(config.no_repeat_ngram)
    if config.repetition_penalty > 1:
        yield RepetitionPenalty(config.repetition_penalty)
    shortest = [source.shortest(config.lengths) for source in sources]
    if max(shortest) > 1:
        yield MinLength(torch.tensor(shortest, device=device), eos)
    if _build_allocation:
        yield _build_allocation
    yield from further
    if any(source.forbidden for source in sources):
        yield Forbidden.of([source.forbidden for source in sources], device)
    if any(source.prefix for source in sources):
        yield Prefix.of([source.prefix for source in sources], device)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the candidates of one step."""

    ends_BC: Tensor
    """It is a finished hypothesis now: with the stop symbol, or cut at its greatest length."""
    places_BK: Tensor
    """Which candidates the next beams are."""
    values_BK: Tensor
    """Their values, −∞ where there was none to take."""


def judge(candidates: Candidates, width: int, eos: int, last_B: Tensor) -> Verdict:
    """Let the first `width` candidates end that can, and as many go on as there is room for.

    To count among the finished, a candidate must be as good as those that the beam would keep.
    """
    alive_BC = candidates.values_BC > -torch.inf
    stops_BC = (candidates.tokens_BC == eos) | last_B[:, None]
    ends_BC = alive_BC & stops_BC
    if candidates.values_BC.size(1) == 1:
        places_BK = torch.zeros_like(candidates.parents_BC)
        return Verdict(ends_BC, places_BK, candidates.values_BC.masked_fill(stops_BC, -torch.inf))
    ends_BC[:, width:] = False
    goes_on_BC = alive_BC & ~stops_BC
    # Those that go on to the front, in their order: no two keys are equal, so `topk` will do.
    count = goes_on_BC.size(1)
    keys_BC = goes_on_BC * count - torch.arange(count, device=goes_on_BC.device)
    places_BK = keys_BC.topk(min(width, count)).indices
    values_BK = candidates.values_BC.masked_fill(~goes_on_BC, -torch.inf).gather(1, places_BK)
    return Verdict(ends_BC, places_BK, values_BK)


@dataclass(frozen=True, slots=True)
class Standing:
    """How each row stands behind a step: what goes on, and what has ended so far."""

    values_BK: Tensor
    limits_B: Tensor
    finished: Finished
    rows_B: Tensor
    """Where the rows stand among the finished."""


class StopRule(Protocol):
    """Says when a row needs no further step."""

    def stops(self, standing: Standing) -> Tensor:
        """Return for each row whether it is done."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Stop when no live hypothesis could still enter the n best."""

    alpha: float

    def stops(self, standing: Standing) -> Tensor:
        """Compare what the living may reach with what the n-th best has; a tie changes nothing."""
        reachable_B = attainable(standing.values_BK, standing.limits_B, self.alpha)
        return reachable_B <= standing.finished.threshold_R[standing.rows_B]


@dataclass(frozen=True, slots=True)
class BeamFull:
    """Stop when as many have ended as the beam is wide: ctranslate2's rule."""

    width: int

    def stops(self, standing: Standing) -> Tensor:
        """Count the finished."""
        return standing.finished.counts_R[standing.rows_B] >= self.width


@dataclass(frozen=True, slots=True)
class BestEnded:
    """Stop when the likeliest candidate has ended and n are there: ctranslate2's, no penalties."""

    n_best: int

    def stops(self, standing: Standing) -> Tensor:
        """Count the finished, once the likeliest is among them."""
        ready_R = standing.finished.best_ended_R & (standing.finished.counts_R >= self.n_best)
        return ready_R[standing.rows_B]


def fates(candidates: Candidates, verdict: Verdict, alive_BK: Tensor) -> tuple[Tensor, Tensor]:
    """Return what became of each candidate, and which beam each living one is next."""
    fates_BC = torch.full_like(candidates.tokens_BC, Fate.PRUNED)
    beams_BC = torch.full_like(candidates.tokens_BC, -1)
    taken_BK = verdict.values_BK > -torch.inf
    kept_BK = torch.where(alive_BK, Fate.ALIVE, Fate.STOPPED)
    old_BK = fates_BC.gather(1, verdict.places_BK)
    fates_BC.scatter_(1, verdict.places_BK, torch.where(taken_BK, kept_BK, old_BK))
    numbers_BK = torch.arange(alive_BK.size(1), device=alive_BK.device).expand_as(alive_BK)
    beams_BC.scatter_(1, verdict.places_BK, numbers_BK.masked_fill(~alive_BK, -1))
    fates_BC.masked_fill_(verdict.ends_BC, Fate.FINISHED)
    fates_BC.masked_fill_(candidates.values_BC == -torch.inf, Fate.NONE)
    return fates_BC, beams_BC
