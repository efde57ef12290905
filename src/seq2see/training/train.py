"""A training run from its beginning, or from its last checkpoint, to a model directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import torch

from seq2see.engines.memory import keep_freed_memory, sparing_what_is_loaded
from seq2see.errors import InputError
from seq2see.training.averages import MovingAverage
from seq2see.training.builder import Ingredients, RunBuilder
from seq2see.training.checkpointer import Checkpointer
from seq2see.training.checkpoints import Checkpoints, Part
from seq2see.training.log import JsonLines, Sink, TrainingLog
from seq2see.training.machine import started, threads_of, workers_of
from seq2see.training.pace import planned
from seq2see.training.parts import ModelPart, OptimiserPart, PlainPart, Progress
from seq2see.training.result import Result
from seq2see.training.run import RunFolder, RunPlan
from seq2see.training.stops import DONE, Planned, Reason, Signals
from seq2see.training.tensorboard import TensorBoard, is_installed
from seq2see.training.trainer import Listener, Trainer
from seq2see.training.validation import Validator
from seq2see.training.workers import Workers

Watch = Callable[[RunPlan, Progress], Sink]
"""Makes what shows a run to a person."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    reason: str
    update: int
    done: bool
    """Whether there is a model now."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What is known before the workers start."""

    processes: int
    """How many of them to start here."""
    notes: list[str]
    """What a person should know of the data and the model."""


def prepare(ingredients: Ingredients, folder: RunFolder, resume: bool) -> Prepared:
    """Check and make all that workers will read: a mistake shows here, before anything starts."""
    if folder.begun and not resume:
        raise InputError(
            f"{folder.path} has a run already: go on with --resume, or name another folder"
        )
    if not folder.begun:
        folder.refuse_others()
    builder = RunBuilder(ingredients, folder, Workers())
    builder.check()
    before = _begun(builder) if folder.begun else None
    folder.path.mkdir(parents=True, exist_ok=True)
    with folder.claimed():
        builder.make_files()
    processes = before.processes if before else _processes(builder)
    return Prepared(processes, [*_notes(builder, started() or processes)])


def _notes(builder: RunBuilder, processes: int) -> Iterator[str]:
    for corpus, text in zip(builder.training_corpora, builder.encoded, strict=True):
        if str(text.left_out):
            yield f"{corpus.name}: {text.left_out}."
    for corpus in builder.held_out:
        if said := str(builder.encoded_held_out(corpus).left_out):
            yield f"{corpus.name}, in its loss alone: {said}."
    if processes > 1 and builder.config.norm.kind == "batch":
        yield (
            f"Batch norm is over the share of each of the {processes} processes, which is another "
            "training than with train.processes = 1."
        )


def _processes(builder: RunBuilder) -> int:
    ingredients = builder.ingredients
    if ingredients.training.processes is None and builder.config.norm.kind == "batch":
        return 1  # more of them would change what is learnt
    return workers_of(ingredients.training.processes, ingredients.batches.tokens)


@sparing_what_is_loaded()
def train(
    ingredients: Ingredients,
    folder: RunFolder,
    workers: Workers,
    watch: Watch,
    free: bool = True,
) -> Outcome | None:
    """Train as one of the workers, from the last checkpoint on if there is one.

    Unless the number of workers is `free`, all of them are needed. Return None if this one is not.
    """
    with ExitStack() as claim:
        workers.led(lambda: claim.enter_context(folder.claimed()))
        return _trained(ingredients, folder, workers, watch, free)


def _trained(
    ingredients: Ingredients, folder: RunFolder, workers: Workers, watch: Watch, free: bool
) -> Outcome | None:
    keep_freed_memory()
    threads = threads_of(ingredients.training.threads, workers.here, free)
    torch.set_num_threads(threads)
    builder = RunBuilder(ingredients, folder, workers)
    plan = _plan(builder, free)
    if not free:
        plan = plan.moved(workers.count, threads)
    if free and plan.processes < workers.count:  # the leader with several threads is faster
        if not workers.leads:
            return None
        workers.release()
        workers = Workers()
        builder = RunBuilder(ingredients, folder, workers)
    workers.shares_memory = plan.shares_memory
    torch.set_num_threads(plan.threads)
    return Session(builder, plan, watch).run()


def _plan(builder: RunBuilder, free: bool) -> RunPlan:
    """Return the plan of the run, made now or when it began."""
    if builder.workers.agreed(builder.folder.begun):
        return _begun(builder)
    plan, ingredients = planned(builder, free), builder.ingredients
    known = ingredients.models, builder.texts, builder.workers.agents()
    builder.workers.led(lambda: builder.folder.begin(ingredients.recipe, plan, *known))
    return plan


def _begun(builder: RunBuilder) -> RunPlan:
    """Return the plan of a run that has begun, if it may go on with this recipe."""
    ingredients = builder.ingredients
    sums = ingredients.models, builder.texts
    return builder.folder.plan(ingredients.recipe, ingredients.completed, *sums)


class Session:
    """The parts of a run, alive."""

    def __init__(self, builder: RunBuilder, plan: RunPlan, watch: Watch) -> None:
        self.builder = builder
        self.plan = plan
        self.progress = Progress()
        self.objective = builder.objective()
        self.stepper = builder.stepper(self.objective, plan.updates)
        config = builder.ingredients.checkpoints
        self.average = MovingAverage(self.objective.model, config.ema) if config.ema else None
        self.signals = Signals(builder.workers)
        self.checkpoints = Checkpoints(builder.folder.checkpoints, config.keep, config.every)
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
        reason = self._ended() or self._trained()
        if reason.is_done:
            result = Result(self.builder, self.objective, self.log, self.progress)
            result.write(self.checkpointer.result())
        return Outcome(reason.text, self.progress.update, reason.is_done)

    def _ended(self) -> Reason | None:
        """Return why there is nothing left to train: it may have been killed before the result."""
        return DONE if self.progress.update >= self.plan.updates else self.validator.verdict

    def _trained(self) -> Reason:
        """Train, save, and return why it ended."""
        trainer = Trainer(self.stepper, self.builder.loader(), self.progress, self._listeners())
        with self.signals.listening():
            reason = trainer.run()
            self.checkpointer.save(self.progress)  # whole, though a signal comes twice
        return reason

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
        folder, update = self.builder.folder, self.progress.update
        sinks: list[Sink] = [JsonLines(folder.log, update), watch(self.plan, self.progress)]
        if self.builder.ingredients.training.tensorboard and is_installed():
            sinks.append(TensorBoard(folder.tensorboard, update))
        return sinks
