"""Validation: loss and scores of an evaluation set, the best update, and early stopping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from seq2see import metrics
from seq2see.data.batch_loader import Batch, BatchConfig
from seq2see.data.batch_sampler import split_by_tokens
from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.data.readers import SentencePair
from seq2see.engines.torch_engine import TorchEngine
from seq2see.evaluate import compute_bleu_and_chrf
from seq2see.search import LengthConfig, SearchConfig, StopRule
from seq2see.text import PackedIds, TokenizerPair
from seq2see.training.config import ValidationConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.trainer import StopReason, TrainingProgress, UpdateReport
from seq2see.translator import Translator

_TIMING_SENTENCES = (10, 50)
"""Numbers of sentences to time; the second is used if the first takes too little time."""
_MIN_TIMING_SECONDS = 0.5
_SOURCE_LENGTH = LengthConfig(min_ratio=1.0, max_ratio=1.0, max_extra=1)
"""Limits the translations to the length of the source."""

ValidationCallback = Callable[[TrainingProgress, Mapping[str, Any]], None]
"""Called with the progress and the log record of each validation."""


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Loss, scores and example translations of a model on an evaluation set."""

    nll: float
    """Mean negative log-likelihood per token."""
    scores: Mapping[str, metrics.MetricScore]
    examples: list[tuple[str, str, str]]
    """Triples of source, reference and translation."""

    def metric_value(self, metric: Literal["loss", "bleu", "chrf"]) -> float:
        """Return the value of a metric, negated if needed so that larger is better."""
        return -self.nll if metric == "loss" else self.scores[metric].value


class CorpusEvaluator:
    """Evaluates a model on a corpus; the workers share the work."""

    def __init__(
        self,
        pairs: Sequence[SentencePair],
        encoded_corpus: EncodedCorpus,
        tokenizers: TokenizerPair,
        languages: tuple[str, str],
        workers: WorkerCommunicator,
        build_unsharded: Callable[[], Objective],
        batch_config: BatchConfig,
    ) -> None:
        self._pairs = pairs
        self._encoded = encoded_corpus
        self._tokenizers = tokenizers
        self._languages = languages
        self._workers = workers
        self._build_unsharded = build_unsharded
        self._batch_config = batch_config

    @property
    def source_tokens(self) -> int:
        """Number of source tokens of the corpus."""
        lengths, _ = self._encoded.lengths(np.arange(len(self._encoded)))
        return int(lengths.sum())

    def evaluate(
        self, objective: Objective, config: ValidationConfig, stop_rule: StopRule = "exact"
    ) -> ValidationResult:
        """Translate the corpus; return loss, scores and examples."""
        objective = self._workers.unsharded_copy(objective, self._build_unsharded)
        pairs = self._pairs[: config.max_sentences]
        search = SearchConfig(beam_size=config.beam_size, stop_rule=stop_rule)
        translations = self._translate(objective, [p.source for p in pairs], search)
        references = [pair.target for pair in pairs]
        scores = compute_bleu_and_chrf(translations, references, self._languages[1])
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
        objective = self._workers.unsharded_copy(objective, self._build_unsharded)
        pairs = self._pairs[: config.max_sentences]
        search = SearchConfig(beam_size=config.beam_size, length=_SOURCE_LENGTH)
        for max_sentences in _TIMING_SENTENCES:
            sample = pairs[:: len(pairs) // max_sentences + 1]
            start = time.perf_counter()
            self._translate(objective, [pair.source for pair in sample], search)
            seconds = float(self._workers.broadcast(time.perf_counter() - start))
            if seconds > _MIN_TIMING_SECONDS:
                break
        return seconds / len(sample) * len(pairs) + self._estimate_loss_seconds(objective)

    @torch.no_grad()
    def _estimate_loss_seconds(self, objective: Objective) -> float:
        batches = list(self._iterate_batches())
        objective.eval()
        start = time.perf_counter()
        objective(batches[len(batches) // 2])
        return (time.perf_counter() - start) * len(batches) / self._workers.world_size

    def _translate(self, objective: Objective, lines: list[str], search: SearchConfig) -> list[str]:
        """Translate the lines; each worker translates every n-th line."""
        rank, world_size = self._workers.data_shard
        engine, max_length = TorchEngine(objective.model), self._batch_config.max_length
        translator = Translator(engine, self._tokenizers, self._languages, max_length)
        own = translator.translate(lines[rank::world_size], search=search)
        texts = self._workers.all_gather([translation.text for translation in own])
        return [texts[index % world_size][index // world_size] for index in range(len(lines))]

    @torch.no_grad()
    def _compute_nll(self, objective: Objective) -> float:
        """Return the mean negative log-likelihood per token."""
        rank, world_size = self._workers.data_shard
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
            batch_lines = lines[order[part]]
            yield Batch.from_packed_ids(
                PackedIds(*self._encoded.source.take(batch_lines)),
                PackedIds(*self._encoded.target.take(batch_lines)),
            )


class PeriodicValidator:
    """Listener that validates the model at each interval and remembers the best update."""

    def __init__(
        self,
        evaluator: CorpusEvaluator,
        objective: Objective,
        config: ValidationConfig,
        improvement_callbacks: Sequence[Callable[[int, bool], None]],
        on_result: ValidationCallback,
    ) -> None:
        self._evaluator = evaluator
        self._objective = objective
        self._config = config
        self._improvement_callbacks = improvement_callbacks
        self._on_result = on_result
        self.best_value: float | None = None
        """Best value of the metric so far; larger is better."""
        self.best_update = 0
        self.validations_since_best = 0
        """Number of validations since the best one."""

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Validate at each interval; return a stop reason if patience is exceeded."""
        del report
        if progress.update % self._config.interval:
            return None
        result = self._evaluator.evaluate(self._objective, self._config)
        self._update_best(progress, result)
        self._on_result(
            progress,
            {**build_validation_log_record(result), "best": self.validations_since_best == 0},
        )
        return self.stop_reason

    @property
    def stop_reason(self) -> StopReason | None:
        """Reason to stop after `patience` validations without improvement, otherwise None."""
        patience = self._config.patience
        if patience and self.validations_since_best >= patience:
            text = f"{self._config.metric} has not improved for {patience} validations"
            return StopReason(text, is_final=True)
        return None

    def _update_best(self, progress: TrainingProgress, result: ValidationResult) -> None:
        value = result.metric_value(self._config.metric)
        improved = self.best_value is None or value > self.best_value
        if improved:
            self.best_value, self.best_update = value, progress.update
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        for callback in self._improvement_callbacks:
            callback(progress.update, improved)

    def state(self) -> dict[str, Any]:
        """Return the state to store in a checkpoint."""
        return {
            "best_value": self.best_value,
            "best_update": self.best_update,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Set the state."""
        self.best_value, self.best_update = state["best_value"], state["best_update"]
        self.validations_since_best = state["validations_since_best"]


def build_validation_log_record(result: ValidationResult) -> dict[str, Any]:
    """Return the values of a validation or result record of the log."""
    return {
        "nll": result.nll,
        **{name: score.value for name, score in result.scores.items()},
        "signatures": {name: score.signature for name, score in result.scores.items()},
        "examples": result.examples,
    }
