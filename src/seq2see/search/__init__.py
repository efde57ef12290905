"""From log-probabilities to hypotheses: greedy, beam, sampling. Knows no model and no words.

A `Decoder` is what a search asks of a model, a `Source` what it knows of a sentence, `search` goes
from one to the other. Everything that shapes the result is a part of its own: processors change
what may follow, a choice orders the candidates, a stop rule says when a row is done.
"""

from seq2see.search.beam_search import search
from seq2see.search.config import (
    LengthConfig,
    Phrase,
    SamplingConfig,
    SearchConfig,
    SearchInput,
    StopRule,
)
from seq2see.search.decoder import (
    EnsembleDecoder,
    IncrementalDecoder,
    StepOutput,
    log_mean_probability,
)
from seq2see.search.hypotheses import Beam, Candidates, Hypothesis
from seq2see.search.lexical_constraints import missing_phrases
from seq2see.search.observer import CandidateStatus, SearchObserver, StepRecord
from seq2see.search.processors import StepProcessor

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
    "SearchInput",
    "SearchObserver",
    "StepOutput",
    "StepProcessor",
    "StepRecord",
    "StopRule",
    "log_mean_probability",
    "missing_phrases",
    "search",
]
