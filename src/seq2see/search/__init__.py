"""From log-probabilities to hypotheses: greedy, beam, sampling. Knows no model and no words.

A `Decoder` is what a search asks of a model, a `Source` what it knows of a sentence, `search` goes
from one to the other. Everything that shapes the result is a part of its own: processors change
what may follow, a choice orders the candidates, a stop rule says when a row is done.
"""

from seq2see.search.beam_search import search
from seq2see.search.config import LengthsConfig, Phrase, SamplingConfig, SearchConfig, Source, Stop
from seq2see.search.decoder import Decoder, Ensemble, Prediction, mean_log_probability
from seq2see.search.hypotheses import Beam, Candidates, Hypothesis
from seq2see.search.lexical_constraints import missing
from seq2see.search.observer import Fate, SearchObserver, StepRecord
from seq2see.search.processors import StepProcessor

__all__ = [
    "Beam",
    "Candidates",
    "Decoder",
    "Ensemble",
    "Fate",
    "Hypothesis",
    "LengthsConfig",
    "Phrase",
    "Prediction",
    "SamplingConfig",
    "SearchConfig",
    "SearchObserver",
    "Source",
    "StepProcessor",
    "StepRecord",
    "Stop",
    "mean_log_probability",
    "missing",
    "search",
]
