"""Loss, scores and example translations of a model on an evaluation set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from seq2see import metrics
from seq2see.data.batch_loader import Batch, BatchConfig
from seq2see.data.batch_sampler import split_by_tokens
from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.data.readers import SentencePair
from seq2see.engines.torch_engine import TorchEngine
from seq2see.evaluate import score_validation_translations
from seq2see.search import LengthConfig, SearchConfig, StopRule
from seq2see.text import TokenizerPair
from seq2see.training.config import ValidationConfig
from seq2see.training.distributed import WorkerCommunicator, unsharded_copy
from seq2see.training.objective import Objective
from seq2see.translator import Translator

_TIMING_SENTENCES = (10, 50)
"""Numbers of sentences to time; the second is used if the first takes too little time."""
_MIN_TIMING_SECONDS = 0.5
_SOURCE_LENGTH = LengthConfig(min_ratio=1.0, max_ratio=1.0, max_extra=1)
"""Limits the translations to the length of the source."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Loss, scores and example translations of a model on an evaluation set."""

    nll: float
    """Mean negative log-likelihood per token."""
    scores: Mapping[str, metrics.MetricScore]
    examples: list[tuple[str, str, str]]
    """Triples of source, reference and translation."""

    def metric_value(self, metric: str) -> float:
        """Return the value of a metric, negated if needed so that larger is better."""
        if metric == "loss":
            return -self.nll
        score = self.scores[metric]
        return score.value if score.higher_is_better else -score.value

    def log_record(self) -> dict[str, Any]:
        """Return the values of a validation or result record of the log."""
        return {
            "nll": self.nll,
            **{name: score.value for name, score in self.scores.items()},
            "signatures": {name: score.signature for name, score in self.scores.items()},
            "examples": self.examples,
        }


@dataclass(frozen=True)
class CorpusEvaluator:
    """Evaluates a model on a corpus; the workers share the work."""

    _pairs: Sequence[SentencePair]
    _encoded: EncodedCorpus
    _tokenizers: TokenizerPair
    _languages: tuple[str, str]
    _workers: WorkerCommunicator
    _build_unsharded: Callable[[], Objective]
    _batch_config: BatchConfig
    _max_sentences_per_line: int

    @property
    def source_tokens(self) -> int:
        """Number of source tokens of the corpus."""
        lengths, _ = self._encoded.lengths(np.arange(len(self._encoded)))
        return int(lengths.sum())

    def evaluate(
        self, objective: Objective, config: ValidationConfig, stop_rule: StopRule = "exact"
    ) -> ValidationResult:
        """Translate the corpus; return loss, scores and examples.

        With the metric `loss`, only the examples are translated, and there are no scores.
        """
        objective = unsharded_copy(objective, self._build_unsharded)
        pairs = self._pairs[: config.max_translations]
        search = SearchConfig(beam_size=config.beam_size, stop_rule=stop_rule)
        translations = self._translate(objective, [p.source for p in pairs], search)
        scores = {}
        if config.metric != "loss":
            references = [pair.target for pair in pairs]
            scores = score_validation_translations(
                translations, references, self._languages[1], config.metric
            )
        examples = zip(pairs[: config.num_examples], translations, strict=False)
        return ValidationResult(
            self._compute_nll(objective),
            scores,
            [(pair.source, pair.target, text) for pair, text in examples],
        )

    def estimate_seconds(self, objective: Objective, config: ValidationConfig) -> float:
        """Estimate the time of `evaluate` with a trained model from a few sentences.

        An untrained model does not produce end tokens, so translations get the length of the
        source.
        """
        objective = unsharded_copy(objective, self._build_unsharded)
        pairs = self._pairs[: config.max_translations]
        search = SearchConfig(beam_size=config.beam_size, length=_SOURCE_LENGTH)
        for max_sentences in _TIMING_SENTENCES:
            sample = pairs[:: len(pairs) // max_sentences + 1]
            start = time.perf_counter()
            self._translate(objective, [pair.source for pair in sample], search)
            seconds = float(self._workers.broadcast(time.perf_counter() - start))
            if seconds > _MIN_TIMING_SECONDS:
                break
        return seconds / max(1, len(sample)) * len(pairs) + self._estimate_loss_seconds(objective)

    @torch.no_grad()
    def _estimate_loss_seconds(self, objective: Objective) -> float:
        batches = list(self._iterate_batches())
        objective.eval()
        start = time.perf_counter()
        objective(batches[len(batches) // 2])
        return (time.perf_counter() - start) * len(batches) / self._workers.world_size

    def _translate(self, objective: Objective, lines: list[str], search: SearchConfig) -> list[str]:
        """Translate the lines; each worker translates every n-th line."""
        rank, world_size = self._workers.rank, self._workers.world_size
        engine, max_length = TorchEngine(objective.model), self._batch_config.max_length
        translator = Translator(
            engine, self._tokenizers, self._languages, max_length, self._max_sentences_per_line
        )
        own = translator.translate(lines[rank::world_size], search=search)
        texts = self._workers.all_gather([translation.text for translation in own])
        return [texts[index % world_size][index // world_size] for index in range(len(lines))]

    @torch.no_grad()
    def _compute_nll(self, objective: Objective) -> float:
        """Return the mean negative log-likelihood per token."""
        rank, world_size = self._workers.rank, self._workers.world_size
        objective.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        for index, batch in enumerate(self._iterate_batches()):
            if index % world_size == rank:
                loss = objective(batch)
                sums += torch.tensor([float(loss.nll), loss.num_tokens], dtype=torch.float64)
        nll, num_tokens = self._workers.all_reduce(sums).tolist()
        return float(nll / num_tokens)

    def _iterate_batches(self) -> Iterator[Batch]:
        """Yield the pairs in batches of similar length."""
        lines = np.arange(len(self._encoded))
        source, target = self._encoded.lengths(lines)
        order = np.lexsort((target, source))
        for part in split_by_tokens(source[order], target[order], self._batch_config.max_tokens):
            yield Batch.from_packed_ids(*self._encoded.take(lines[order[part]]))
