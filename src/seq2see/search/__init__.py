"""From log-probabilities to hypotheses: greedy, beam, sampling. Knows no model and no words.

A `Decoder` is what a search asks of a model, a `Source` what it knows of a sentence, `search` goes
from one to the other. Everything that shapes the result is a part of its own: processors change
what may follow, a choice orders the candidates, a stop rule says when a row is done.
"""

from seq2see.search.beam import Beam, Candidates
from seq2see.search.config import LengthsConfig, SamplingConfig, SearchConfig, Stop
from seq2see.search.decoders import Decoder, Prediction
from seq2see.search.ensemble import Ensemble, mean_log_probability
from seq2see.search.finished import Hypothesis
from seq2see.search.glossary import missing
from seq2see.search.loop import search
from seq2see.search.observer import Fate, SearchObserver, StepRecord
from seq2see.search.processors import StepProcessor
from seq2see.search.sources import Phrase, Source

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
