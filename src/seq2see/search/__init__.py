"""Search for translations, given log-probabilities: greedy search, beam search, sampling.

`search` translates `SentenceSearchInput`s with an `IncrementalDecoder`, the interface of a model.
It works on ids and knows neither models nor text. Its components are separate: processors change
the log-probabilities of a step, a selector orders the candidates, and a stopping criterion decides
when the search of a sentence ends."""

from seq2see.search.beam_search import search
from seq2see.search.config import (
    LengthConfig,
    Phrase,
    SamplingConfig,
    SearchConfig,
    SentenceSearchInput,
    StopRule,
)
from seq2see.search.hypotheses import (
    Beam,
    Candidates,
    CandidateStatus,
    Hypothesis,
    SearchObserver,
    StepRecord,
)
from seq2see.search.incremental_decoder import (
    EnsembleDecoder,
    IncrementalDecoder,
    StepOutput,
    log_mean_probability,
)
from seq2see.search.step_processors import StepProcessor

__all__ = [
    "Beam",
    "CandidateStatus",
    "Candidates",
    "EnsembleDecoder",
    "Hypothesis",
    "IncrementalDecoder",
    "LengthConfig",
    "Phrase",
    "SamplingConfig",
    "SearchConfig",
    "SearchObserver",
    "SentenceSearchInput",
    "StepOutput",
    "StepProcessor",
    "StepRecord",
    "StopRule",
    "log_mean_probability",
    "search",
]
