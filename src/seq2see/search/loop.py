"""The loop: step, process, choose, judge, keep. It knows none of its parts any closer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.search import assembly
from seq2see.search.beam import Beam, Candidates
from seq2see.search.config import SearchConfig
from seq2see.search.decoders import Decoder
from seq2see.search.finished import Finished, Hypothesis, endings
from seq2see.search.observer import SearchObserver, StepRecord, fates
from seq2see.search.processors import StepProcessor
from seq2see.search.pruning import Standing, judge
from seq2see.search.scoring import coverage_penalty, normalised
from seq2see.search.sources import Source, check

# B rows, K beams, C candidates, V vocabulary, S sources

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
        terms = assembly.terms(sources, self.limits_S, config, eos)
        self.choice = assembly.choice(sources, config, terms)
        self.rule = assembly.stop_rule(config)
        every = assembly.processors(sources, config, eos, terms, processors, device)
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
