"""A training run from its beginning, or from its last checkpoint, to a model directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import torch

from seq2see.bundle import Bundle, DataOrigin, Origin, SignedScore
from seq2see.data.corpora import Corpus
from seq2see.errors import InputError
from seq2see.training.averages import MovingAverage
from seq2see.training.builder import Ingredients, RunBuilder
from seq2see.training.checkpointer import Checkpointer
from seq2see.training.checkpoints import Checkpoints, Part
from seq2see.training.config import ValidationConfig
from seq2see.training.log import JsonLines, Sink, TrainingLog
from seq2see.training.memory import keep_freed_memory
from seq2see.training.pace import planned
from seq2see.training.parts import ModelPart, OptimiserPart, PlainPart, Progress
from seq2see.training.run import RunFolder, RunPlan
from seq2see.training.stops import DONE, Planned, Signals
from seq2see.training.trainer import Listener, Trainer
from seq2see.training.validation import Validator, record_of
from seq2see.training.workers import Workers

Watch = Callable[[RunPlan, Progress], Sink]
"""Makes what shows a run to a person."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    reason: str
    update: int

    @property
    def done(self) -> bool:
        """Whether there is a model now."""
        return self.reason == DONE or "not got better" in self.reason


def prepare(ingredients: Ingredients, folder: RunFolder, resume: bool) -> int:
    """Check and make all that workers will read: a mistake shows here, before anything starts.

    Return how many workers to start.
    """
    if folder.begun and not resume:
        raise InputError(
            f"{folder.path} has a run already: go on with --resume, or name another folder"
        )
    builder = RunBuilder(ingredients, folder, Workers())
    builder.check()
    before = folder.plan(ingredients.recipe) if folder.begun else None
    folder.path.mkdir(parents=True, exist_ok=True)
    builder.make_files()
    if before:
        return before.processes
    return ingredients.training.processes or os.cpu_count() or 1


def train(
    ingredients: Ingredients, folder: RunFolder, workers: Workers, watch: Watch
) -> Outcome | None:
    """Train as one of the workers, from the last checkpoint on if there is one.

    Return None if this worker is not needed.
    """
    keep_freed_memory()
    cores = os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // workers.count))
    builder = RunBuilder(ingredients, folder, workers)
    plan = _plan(builder, cores)
    if plan.processes < workers.count:  # by measuring: the leader with several threads is faster
        if not workers.leads:
            return None
        workers = Workers()
        builder = RunBuilder(ingredients, folder, workers)
    torch.set_num_threads(plan.threads)
    return Session(builder, plan, watch).run()


def _plan(builder: RunBuilder, cores: int) -> RunPlan:
    """Return the plan of the run, made now or when it began."""
    folder, recipe = builder.folder, builder.ingredients.recipe
    if builder.workers.agreed(folder.begun):
        return folder.plan(recipe)
    plan = planned(builder, cores)
    if builder.workers.leads:
        folder.begin(recipe, plan)
    builder.workers.wait()
    return plan


class Session:
    """The parts of a run, alive."""

    def __init__(self, builder: RunBuilder, plan: RunPlan, watch: Watch) -> None:
        self.builder = builder
        self.plan = plan
        self.progress = Progress()
        self.objective = builder.objective(builder.model())
        self.stepper = builder.stepper(self.objective, plan.updates)
        config = builder.ingredients.checkpoints
        self.average = MovingAverage(self.objective.model, config.ema) if config.ema else None
        self.signals = Signals(builder.workers)
        self.checkpoints = Checkpoints(builder.folder.checkpoints, config.keep)
        self.validator = Validator(
            builder.examiner(builder.validation_corpus),
            self.objective,
            builder.ingredients.validation,
            [self.stepper.schedule.judge],
            lambda progress, record: self.log.write("validation", progress, record),
        )
        self.parts = self._parts()
        if updates := self.checkpoints.updates():
            self.checkpoints.restore(updates[-1], self.parts)
        self.log = TrainingLog(self._sinks(watch))
        self.checkpointer = Checkpointer(
            self.checkpoints,
            config,
            self.parts,
            builder.workers,
            lambda: self.validator.best_update,
        )

    def run(self) -> Outcome:
        """Train to the end, or to an interruption, and keep what was reached."""
        reason = DONE
        if self.progress.update < self.plan.updates:
            trainer = Trainer(self.stepper, self.builder.loader(), self.progress, self._listeners())
            with self.signals.listening():
                reason = trainer.run()
            self.checkpointer.save(self.progress)
        outcome = Outcome(reason, self.progress.update)
        if outcome.done:
            self._finish()
        return outcome

    def _parts(self) -> dict[str, Part]:
        parts: dict[str, Part] = {
            "model": ModelPart(self.objective.model),
            "optimiser": OptimiserPart(self.stepper.optimiser, self.objective.model),
            "schedule": PlainPart(self.stepper.schedule),
            "validation": PlainPart(self.validator),
            "progress": PlainPart(self.progress),
        }
        if self.average:
            parts["average"] = self.average
        return parts

    def _listeners(self) -> list[Listener]:
        """Return them in their order: the checkpoint must hold what all others remember."""
        average: list[Listener] = [self.average] if self.average else []
        ends: list[Listener] = [Planned(self.plan.updates), self.signals]
        return [self.log, *average, self.validator, *ends, self.checkpointer]

    def _sinks(self, watch: Watch) -> list[Sink]:
        if not self.builder.workers.leads:
            return []
        file = JsonLines(self.builder.folder.log, self.progress.update)
        return [file, watch(self.plan, self.progress)]

    def _finish(self) -> None:
        """Write the model directory, with its scores. The workers share the translating."""
        weights = self.checkpointer.result()
        ModelPart(self.objective.model).restore(weights, {})
        origin = self._origin()
        builder = self.builder
        if builder.workers.leads:
            Bundle(
                builder.config,
                builder.tokenizers,
                builder.ingredients.data.languages,
                weights,
                max_length=builder.ingredients.batches.max_length,
                origin=origin,
            ).save(builder.folder.path)
        builder.workers.wait()

    def _origin(self) -> Origin:
        builder = self.builder
        named = (*builder.training_corpora, builder.validation_corpus, builder.test_corpus)
        return Origin(
            recipe=dict(builder.ingredients.recipe),
            data=[
                DataOrigin(name=corpus.name, fingerprint=corpus.fingerprint)
                for corpus in named
                if corpus
            ],
            scores=[
                *self._scores("validation set", builder.validation_corpus),
                *self._scores("test set", builder.test_corpus),
            ],
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self.progress.seconds,
            updates=self.progress.update,
        )

    def _scores(self, name: str, corpus: Corpus | None) -> Iterator[SignedScore]:
        """Score the result, by beam search."""
        if corpus is None:
            return
        config = ValidationConfig(beam_size=5, sentences=10**9)
        found = self.builder.examiner(corpus).examine(self.objective, config)
        for score in found.scores.values():
            yield SignedScore(
                data=name, metric=score.name, value=score.value, signature=score.signature
            )
        self.log.write("result", self.progress, {"data": name, **record_of(found)})
