"""Prepare a run, train it from the start or from its last checkpoint, and write the model
directory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

import torch
from torch import Tensor

from seq2see.bundle import Bundle, DataOrigin, Origin, SignedScore
from seq2see.cpu import keep_freed_memory, sparing_what_is_loaded
from seq2see.data.corpus import Corpus
from seq2see.engines.ctranslate2_engine import PROBES
from seq2see.engines.loading import STOP
from seq2see.errors import InputError
from seq2see.search import Stop
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import (
    Checkpointer,
    Checkpoints,
    ModelPart,
    MovingAverage,
    OptimiserPart,
    Part,
    PlainPart,
)
from seq2see.training.config import Ingredients
from seq2see.training.objective import Objective
from seq2see.training.planning import LAST_LOOK, planned, started, threads_of, workers_of
from seq2see.training.run_directory import RunFolder, RunPlan
from seq2see.training.trainer import DONE, Listener, Planned, Progress, Reason, Signals, Trainer
from seq2see.training.training_log import (
    JsonLines,
    Sink,
    TensorBoard,
    TrainingLog,
    draw_curves,
    is_installed,
    read_log,
)
from seq2see.training.validation import Examination, Validator, record_of
from seq2see.training.workers import Workers

LITTLE = 0.2
"""BLEU that a faster search may cost."""


class Result:
    """Scores the weights that were chosen, and writes them down."""

    def __init__(
        self, builder: RunBuilder, objective: Objective, log: TrainingLog, progress: Progress
    ) -> None:
        self._builder = builder
        self._objective = objective
        self._log = log
        self._progress = progress

    def write(self, weights: Mapping[str, Tensor]) -> None:
        """Write the model directory and the picture. The workers share the translating."""
        ModelPart(self._objective.model).restore(weights, {})
        origin, builder = self._origin(), self._builder
        bundle = Bundle(
            builder.config,
            builder.tokenizers,
            builder.ingredients.data.languages,
            weights,
            max_length=builder.ingredients.batches.max_length,
            origin=origin,
        )
        builder.workers.led(lambda: self._save(bundle))

    def _save(self, bundle: Bundle) -> None:
        folder = self._builder.folder
        bundle.save(folder.path)
        self._keep_probes()
        draw_curves(read_log(folder.log), folder.curves, " → ".join(bundle.languages))

    def _keep_probes(self) -> None:
        """Leave some sentences that int8 can be checked by, on any CPU."""
        count = self._builder.ingredients.checkpoints.probes
        lines = [pair.source for pair in islice(self._builder.validation_corpus, count)]
        path = self._builder.folder.path / PROBES
        if lines:
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        else:
            path.unlink(missing_ok=True)

    def _origin(self) -> Origin:
        builder = self._builder
        valid = self._examined("validation set", builder.validation_corpus)
        test = self._examined("test set", builder.test_corpus) if builder.test_corpus else None
        stop = self._stop(valid)
        named = (*builder.training_corpora, builder.validation_corpus, builder.test_corpus)
        return Origin(
            recipe=dict(builder.ingredients.recipe),
            data=[
                DataOrigin(name=corpus.name, fingerprint=corpus.fingerprint)
                for corpus in named
                if corpus
            ],
            scores=[*_signed("validation set", valid), *_signed("test set", test)],
            notes={STOP: stop},
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._progress.seconds,
            updates=self._progress.update,
        )

    def _examined(self, name: str, corpus: Corpus) -> Examination:
        """Score the result, by beam search."""
        found = self._look(corpus, "exact")
        self._log.write("result", self._progress, {"data": name, **record_of(found)})
        return found

    def _look(self, corpus: Corpus, stop: Stop) -> Examination:
        start = time.perf_counter()
        found = self._builder.examiner(corpus).examine(self._objective, LAST_LOOK, stop)
        self._progress.seconds += time.perf_counter() - start
        return found

    def _stop(self, exact: Examination) -> Stop:
        """Return the faster stop rule if it loses next to nothing on the validation set.

        A model that is sure of itself, with few pieces, fills its beam with wrong endings first.
        """
        fast = self._look(self._builder.validation_corpus, "beam_full")
        lost = exact.value("bleu") - fast.value("bleu")
        return "beam_full" if lost <= LITTLE else "exact"


def _signed(name: str, found: Examination | None) -> Iterator[SignedScore]:
    for score in found.scores.values() if found else ():
        yield SignedScore(
            data=name, metric=score.name, value=score.value, signature=score.signature
        )


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
