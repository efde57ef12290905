"""Looks at the validation set: the loss, the scores of translations, and which was the best."""

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
from seq2see.training.objective import Objective
from seq2see.training.trainer import StopReason, TrainingProgress, UpdateReport
from seq2see.training.workers import WorkerGroup
from seq2see.translator import Translator

_FEW = (10, 50)
"""Sentences that an estimate is made from; more only if so few are fast."""
_LONG_ENOUGH = 0.5
_AS_THE_SOURCE = LengthConfig(min_ratio=1.0, max_ratio=1.0, max_extra=1)

ValidationCallback = Callable[[TrainingProgress, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """What a model makes of the validation set."""

    nll: float
    """The mean of −log p over its tokens."""
    scores: Mapping[str, metrics.MetricScore]
    examples: list[tuple[str, str, str]]
    """Some sources with their reference and translation."""

    def metric_value(self, metric: Literal["loss", "bleu", "chrf"]) -> float:
        """Return a number of which more is better."""
        return -self.nll if metric == "loss" else self.scores[metric].value


class CorpusEvaluator:
    """Examines a model; the workers share the work."""

    def __init__(
        self,
        pairs: Sequence[SentencePair],
        encoded_corpus: EncodedCorpus,
        tokenizers: TokenizerPair,
        languages: tuple[str, str],
        workers: WorkerGroup,
        build_unsharded: Callable[[], Objective],
        batch_config: BatchConfig,
    ) -> None:
        self._pairs = pairs
        self._encoded = encoded_corpus
        self._tokenizers = tokenizers
        self._languages = languages
        self._workers = workers
        self._plain = build_unsharded
        self._batches = batch_config

    @property
    def source_tokens(self) -> int:
        """What there is to translate."""
        lengths, _ = self._encoded.lengths(np.arange(len(self._encoded)))
        return int(lengths.sum())

    def evaluate(
        self, objective: Objective, config: ValidationConfig, stop_rule: StopRule = "exact"
    ) -> ValidationResult:
        """Return loss, scores and samples."""
        objective = self._workers.unsharded_copy(objective, self._plain)
        pairs = self._pairs[: config.max_sentences]
        search = SearchConfig(beam_size=config.beam_size, stop_rule=stop_rule)
        translations = self._translated(objective, [p.source for p in pairs], search)
        references = [pair.target for pair in pairs]
        found = compute_bleu_and_chrf(translations, references, self._languages[1])
        shown = zip(pairs[: config.num_examples], translations, strict=False)
        return ValidationResult(
            self._nll(objective),
            found,
            [(pair.source, pair.target, text) for pair, text in shown],
        )

    def estimate_seconds(self, objective: Objective, config: ValidationConfig) -> float:
        """Estimate how long it takes with a trained model, by a few sentences.

        A model that has learnt nothing does not know where to stop: here, as late as the source.
        """
        objective = self._workers.unsharded_copy(objective, self._plain)
        pairs = self._pairs[: config.max_sentences]
        search = SearchConfig(beam_size=config.beam_size, length=_AS_THE_SOURCE)
        for most in _FEW:
            few = pairs[:: len(pairs) // most + 1]
            start = time.perf_counter()
            self._translated(objective, [pair.source for pair in few], search)
            seconds = float(self._workers.broadcast(time.perf_counter() - start))
            if seconds > _LONG_ENOUGH:
                break
        return seconds / len(few) * len(pairs) + self._loss_seconds(objective)

    @torch.no_grad()
    def _loss_seconds(self, objective: Objective) -> float:
        batches = list(self._in_batches())
        objective.eval()
        start = time.perf_counter()
        objective(batches[len(batches) // 2])
        return (time.perf_counter() - start) * len(batches) / self._workers.world_size

    def _translated(
        self, objective: Objective, lines: list[str], search: SearchConfig
    ) -> list[str]:
        """Translate every line as the model directory will; each worker its share of them."""
        rank, count = self._workers.data_shard
        engine, longest = TorchEngine(objective.model), self._batches.max_length
        translator = Translator(engine, self._tokenizers, self._languages, longest)
        own = translator.translate(lines[rank::count], search=search)
        shares = self._workers.all_gather([translation.text for translation in own])
        return [shares[place % count][place // count] for place in range(len(lines))]

    @torch.no_grad()
    def _nll(self, objective: Objective) -> float:
        rank, count = self._workers.data_shard
        objective.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        for number, batch in enumerate(self._in_batches()):
            if number % count == rank:
                loss = objective(batch)
                sums += torch.tensor([float(loss.nll), loss.num_tokens], dtype=torch.float64)
        nll, tokens = self._workers.all_reduce(sums).tolist()
        return float(nll / tokens)

    def _in_batches(self) -> Iterator[Batch]:
        lines = np.arange(len(self._encoded))
        source, target = self._encoded.lengths(lines)
        order = np.lexsort((target, source))
        for part in split_by_tokens(source[order], target[order], self._batches.max_tokens):
            chosen = lines[order[part]]
            yield Batch.from_packed_ids(
                PackedIds(*self._encoded.source.take(chosen)),
                PackedIds(*self._encoded.target.take(chosen)),
            )


class ValidationListener:
    """Examines the model now and then, and knows which was the best."""

    def __init__(
        self,
        evaluator: CorpusEvaluator,
        objective: Objective,
        config: ValidationConfig,
        improvement_callbacks: Sequence[Callable[[bool], None]],
        on_result: ValidationCallback,
    ) -> None:
        self._examiner = evaluator
        self._objective = objective
        self._config = config
        self._judged = improvement_callbacks
        self._report = on_result
        self.best_value: float | None = None
        """The best value so far, of which more is better."""
        self.best_update = 0
        self.validations_since_best = 0
        """Looks since then."""

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> StopReason | None:
        """Look if it is time; stop if nothing has got better for too long."""
        del report
        if progress.update % self._config.interval:
            return None
        result = self._examiner.evaluate(self._objective, self._config)
        self._take(progress, result)
        self._report(progress, {**to_log_record(result), "best": self.validations_since_best == 0})
        return self.stop_reason

    @property
    def stop_reason(self) -> StopReason | None:
        """The reason to stop, if nothing has got better for too long."""
        patience = self._config.patience
        if patience and self.validations_since_best >= patience:
            text = f"{self._config.metric} has not got better for {patience} validations"
            return StopReason(text, is_final=True)
        return None

    def _take(self, progress: TrainingProgress, result: ValidationResult) -> None:
        value = result.metric_value(self._config.metric)
        improved = self.best_value is None or value > self.best_value
        if improved:
            self.best_value, self.best_update = value, progress.update
        self.validations_since_best = 0 if improved else self.validations_since_best + 1
        for hear in self._judged:
            hear(improved)

    def state(self) -> dict[str, Any]:
        """Return what must be remembered."""
        return {
            "best_value": self.best_value,
            "best_update": self.best_update,
            "validations_since_best": self.validations_since_best,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        self.best_value, self.best_update = state["best_value"], state["best_update"]
        self.validations_since_best = state["validations_since_best"]


def to_log_record(result: ValidationResult) -> dict[str, Any]:
    """Return it as a log has it."""
    return {
        "nll": result.nll,
        **{name: score.value for name, score in result.scores.items()},
        "signatures": {name: score.signature for name, score in result.scores.items()},
        "examples": result.examples,
    }
