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
from seq2see.data.batch_sampler import cut
from seq2see.data.encoded_corpus import EncodedCorpus
from seq2see.data.readers import Pair
from seq2see.engines.torch_engine import TorchEngine
from seq2see.evaluate import scored
from seq2see.search import LengthsConfig, SearchConfig, Stop
from seq2see.text import Packed, Tokenizers
from seq2see.training.config import ValidationConfig
from seq2see.training.objective import Objective
from seq2see.training.trainer import Progress, Reason, StepReport
from seq2see.training.workers import Workers
from seq2see.translator import Translator

_FEW = (10, 50)
"""Sentences that an estimate is made from; more only if so few are fast."""
_LONG_ENOUGH = 0.5
_AS_THE_SOURCE = LengthsConfig(min_ratio=1.0, max_ratio=1.0, max_extra=1)

Report = Callable[[Progress, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Examination:
    """What a model makes of the validation set."""

    nll: float
    """The mean of −log p over its tokens."""
    scores: Mapping[str, metrics.MetricScore]
    samples: list[tuple[str, str, str]]
    """Some sources with their reference and translation."""

    def value(self, metric: Literal["loss", "bleu", "chrf"]) -> float:
        """Return a number of which more is better."""
        return -self.nll if metric == "loss" else self.scores[metric].value


class Examiner:
    """Examines a model; the workers share the work."""

    def __init__(
        self,
        pairs: Sequence[Pair],
        encoded: EncodedCorpus,
        tokenizers: Tokenizers,
        languages: tuple[str, str],
        workers: Workers,
        plain: Callable[[], Objective],
        batches: BatchConfig,
    ) -> None:
        self._pairs = pairs
        self._encoded = encoded
        self._tokenizers = tokenizers
        self._languages = languages
        self._workers = workers
        self._plain = plain
        self._batches = batches

    @property
    def tokens(self) -> int:
        """What there is to translate."""
        lengths, _ = self._encoded.lengths(np.arange(len(self._encoded)))
        return int(lengths.sum())

    def examine(
        self, objective: Objective, config: ValidationConfig, stop: Stop = "exact"
    ) -> Examination:
        """Return loss, scores and samples."""
        objective = self._workers.whole(objective, self._plain)
        pairs = self._pairs[: config.sentences]
        search = SearchConfig(beam_size=config.beam_size, stop=stop)
        translations = self._translated(objective, [p.source for p in pairs], search)
        references = [pair.target for pair in pairs]
        found = scored(translations, references, self._languages[1])
        shown = zip(pairs[: config.samples], translations, strict=False)
        return Examination(
            self._nll(objective),
            found,
            [(pair.source, pair.target, text) for pair, text in shown],
        )

    def seconds(self, objective: Objective, config: ValidationConfig) -> float:
        """Estimate how long it takes with a trained model, by a few sentences.

        A model that has learnt nothing does not know where to stop: here, as late as the source.
        """
        objective = self._workers.whole(objective, self._plain)
        pairs = self._pairs[: config.sentences]
        search = SearchConfig(beam_size=config.beam_size, lengths=_AS_THE_SOURCE)
        for most in _FEW:
            few = pairs[:: len(pairs) // most + 1]
            start = time.perf_counter()
            self._translated(objective, [pair.source for pair in few], search)
            seconds = float(self._workers.agreed(time.perf_counter() - start))
            if seconds > _LONG_ENOUGH:
                break
        return seconds / len(few) * len(pairs) + self._loss_seconds(objective)

    @torch.no_grad()
    def _loss_seconds(self, objective: Objective) -> float:
        batches = list(self._in_batches())
        objective.eval()
        start = time.perf_counter()
        objective(batches[len(batches) // 2])
        return (time.perf_counter() - start) * len(batches) / self._workers.count

    def _translated(
        self, objective: Objective, lines: list[str], search: SearchConfig
    ) -> list[str]:
        """Translate every line as the model directory will; each worker its share of them."""
        rank, count = self._workers.shard
        engine, longest = TorchEngine(objective.model), self._batches.max_length
        translator = Translator(engine, self._tokenizers, self._languages, longest)
        own = translator.translate(lines[rank::count], search=search)
        shares = self._workers.gathered([translation.text for translation in own])
        return [shares[place % count][place // count] for place in range(len(lines))]

    @torch.no_grad()
    def _nll(self, objective: Objective) -> float:
        rank, count = self._workers.shard
        objective.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        for number, batch in enumerate(self._in_batches()):
            if number % count == rank:
                loss = objective(batch)
                sums += torch.tensor([float(loss.nll), loss.tokens], dtype=torch.float64)
        nll, tokens = self._workers.summed(sums).tolist()
        return float(nll / tokens)

    def _in_batches(self) -> Iterator[Batch]:
        lines = np.arange(len(self._encoded))
        source, target = self._encoded.lengths(lines)
        order = np.lexsort((target, source))
        for part in cut(source[order], target[order], self._batches.tokens):
            chosen = lines[order[part]]
            yield Batch.of(
                Packed(*self._encoded.source.gather(chosen)),
                Packed(*self._encoded.target.gather(chosen)),
            )


class Validator:
    """Examines the model now and then, and knows which was the best."""

    def __init__(
        self,
        examiner: Examiner,
        objective: Objective,
        config: ValidationConfig,
        judged: Sequence[Callable[[bool], None]],
        report: Report,
    ) -> None:
        self._examiner = examiner
        self._objective = objective
        self._config = config
        self._judged = judged
        self._report = report
        self.best: float | None = None
        """The best value so far, of which more is better."""
        self.best_update = 0
        self.waited = 0
        """Looks since then."""

    def after_update(self, progress: Progress, report: StepReport) -> Reason | None:
        """Look if it is time; stop if nothing has got better for too long."""
        del report
        if progress.update % self._config.every:
            return None
        result = self._examiner.examine(self._objective, self._config)
        self._take(progress, result)
        self._report(progress, {**record_of(result), "best": self.waited == 0})
        return self.verdict

    @property
    def verdict(self) -> Reason | None:
        """The reason to stop, if nothing has got better for too long."""
        patience = self._config.patience
        if patience and self.waited >= patience:
            text = f"{self._config.metric} has not got better for {patience} validations"
            return Reason(text, is_done=True)
        return None

    def _take(self, progress: Progress, result: Examination) -> None:
        value = result.value(self._config.metric)
        improved = self.best is None or value > self.best
        if improved:
            self.best, self.best_update = value, progress.update
        self.waited = 0 if improved else self.waited + 1
        for hear in self._judged:
            hear(improved)

    def state(self) -> dict[str, Any]:
        """Return what must be remembered."""
        return {"best": self.best, "best_update": self.best_update, "waited": self.waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take it over."""
        self.best, self.best_update = state["best"], state["best_update"]
        self.waited = state["waited"]


def record_of(result: Examination) -> dict[str, Any]:
    """Return it as a log has it."""
    return {
        "nll": result.nll,
        **{name: score.value for name, score in result.scores.items()},
        "signatures": {name: score.signature for name, score in result.scores.items()},
        "samples": result.samples,
    }
