"""Search for translations, given log-probabilities: greedy search, beam search, sampling.

`search` translates `SentenceSearchInput`s with an `IncrementalDecoder`, the interface of a model.
It works on ids and knows neither models nor text. Its components are separate: processors change
the log-probabilities of a step, a selector orders the candidates, and a stopping criterion decides
when the search of a sentence ends."""

from seq2see.search.beam_search import search as search
from seq2see.search.config import (
    LengthConfig as LengthConfig,
    Phrase as Phrase,
    SearchConfig as SearchConfig,
    SentenceSearchInput as SentenceSearchInput,
    StopRule as StopRule,
)
from seq2see.search.hypotheses import (
    Beam as Beam,
    Candidates as Candidates,
    CandidateStatus as CandidateStatus,
    Hypothesis as Hypothesis,
    SearchObserver as SearchObserver,
    StepRecord as StepRecord,
)
from seq2see.search.incremental_decoder import (
    EnsembleDecoder as EnsembleDecoder,
    IncrementalDecoder as IncrementalDecoder,
    StepOutput as StepOutput,
    log_mean_probability as log_mean_probability,
)
from seq2see.search.step_processors import StepProcessor as StepProcessor
