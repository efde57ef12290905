"""Which parts a search has: made here from the config and the sources, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from seq2see.errors import InputError
from seq2see.search.choice import BestChoice, Choice
from seq2see.search.config import SearchConfig
from seq2see.search.diverse import DiverseChoice
from seq2see.search.glossary import Glossary, glossary
from seq2see.search.processors import (
    Forbidden,
    MinLength,
    NoRepeatNgram,
    Prefix,
    RepetitionPenalty,
    StepProcessor,
)
from seq2see.search.pruning import BeamFull, BestEnded, Exact, StopRule
from seq2see.search.sampling import SampleChoice
from seq2see.search.sources import Source

# S sources


def stop_rule(config: SearchConfig) -> StopRule:
    """Return the rule that the config names."""
    if config.stop != "beam_full":
        return Exact(config.length_penalty)
    if config.length_penalty or config.coverage_penalty:
        return BeamFull(config.width)
    return BestEnded(config.keep)


def choice(sources: Sequence[Source], config: SearchConfig, terms: Glossary | None) -> Choice:
    """Return what orders the candidates."""
    if terms:
        return terms
    if config.sampling:
        return SampleChoice(config.sampling, tuple(source.line for source in sources))
    if config.groups > 1:
        return DiverseChoice(config.width, config.groups, config.diversity, len(sources))
    return BestChoice(config.width)


def terms(
    sources: Sequence[Source], limits_S: Tensor, config: SearchConfig, eos: int
) -> Glossary | None:
    """Return the glossary, if any source has terms."""
    if not any(source.terms for source in sources):
        return None
    if config.members > 1 or config.sampling:
        raise InputError("`terms` must be left out with sampling or groups: only a beam meets them")
    return glossary(sources, limits_S, config.width, eos)


def processors(
    sources: Sequence[Source],
    config: SearchConfig,
    eos: int,
    terms: Glossary | None,
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
    if terms:
        yield terms
    yield from further
    if any(source.forbidden for source in sources):
        yield Forbidden.of([source.forbidden for source in sources], device)
    if any(source.prefix for source in sources):
        yield Prefix.of([source.prefix for source in sources], device)
