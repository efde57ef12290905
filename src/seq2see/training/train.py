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

from seq2see.bundle import Bundle, DatasetInfo, Provenance, ReportedScore
from seq2see.cpu import gc_frozen, tune_malloc
from seq2see.data.corpus import Corpus
from seq2see.engines.ctranslate2_engine import PROBE_FILE
from seq2see.engines.loading import STOP_RULE_NOTE
from seq2see.errors import InputError
from seq2see.search import StopRule
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import (
    Checkpointable,
    CheckpointableJson,
    CheckpointableModel,
    CheckpointableOptimizer,
    CheckpointDirectory,
    Checkpointer,
    ExponentialMovingAverage,
)
from seq2see.training.config import RunConfig
from seq2see.training.objective import Objective
from seq2see.training.planning import (
    FINAL_EVALUATION,
    choose_processes,
    choose_threads,
    plan_run,
    torchrun_world_size,
)
from seq2see.training.run_directory import RunDirectory, RunPlan
from seq2see.training.trainer import (
    ALL_UPDATES_DONE,
    SignalHandler,
    StopReason,
    Trainer,
    TrainingProgress,
    UpdateLimit,
    UpdateListener,
)
from seq2see.training.training_log import (
    JsonlLogWriter,
    LogWriter,
    TensorBoardWriter,
    TrainingLog,
    draw_training_curves,
    is_tensorboard_installed,
    read_training_log,
)
from seq2see.training.validation import ValidationListener, ValidationResult, to_log_record
from seq2see.training.workers import WorkerGroup

MAX_BLEU_LOSS = 0.2
"""BLEU that a faster search may cost."""


class ResultWriter:
    """Scores the weights that were chosen, and writes them down."""

    def __init__(
        self,
        builder: RunBuilder,
        objective: Objective,
        log: TrainingLog,
        progress: TrainingProgress,
    ) -> None:
        self._builder = builder
        self._objective = objective
        self._log = log
        self._progress = progress

    def write(self, weights: Mapping[str, Tensor]) -> None:
        """Write the model directory and the picture. The workers share the translating."""
        CheckpointableModel(self._objective.model).restore(weights, {})
        origin, builder = self._origin(), self._builder
        bundle = Bundle(
            builder.model_config,
            builder.tokenizers,
            builder.run_config.data.languages,
            weights,
            max_length=builder.run_config.batches.max_length,
            provenance=origin,
        )
        builder.workers.run_on_main(lambda: self._save(bundle))

    def _save(self, bundle: Bundle) -> None:
        folder = self._builder.directory
        bundle.save(folder.path)
        self._keep_probes()
        draw_training_curves(
            read_training_log(folder.log), folder.curves, " → ".join(bundle.languages)
        )

    def _keep_probes(self) -> None:
        """Leave some sentences that int8 can be checked by, on any CPU."""
        count = self._builder.run_config.checkpoints.int8_probes
        lines = [pair.source for pair in islice(self._builder.validation_corpus, count)]
        path = self._builder.directory.path / PROBE_FILE
        if lines:
            path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        else:
            path.unlink(missing_ok=True)

    def _origin(self) -> Provenance:
        builder = self._builder
        valid = self._examined("validation set", builder.validation_corpus)
        test = self._examined("test set", builder.test_corpus) if builder.test_corpus else None
        stop = self._stop(valid)
        named = (*builder.training_corpora, builder.validation_corpus, builder.test_corpus)
        return Provenance(
            recipe=dict(builder.run_config.recipe),
            data=[
                DatasetInfo(name=corpus.name, fingerprint=corpus.fingerprint)
                for corpus in named
                if corpus
            ],
            scores=[*_signed("validation set", valid), *_signed("test set", test)],
            notes={STOP_RULE_NOTE: stop},
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._progress.seconds,
            updates=self._progress.update,
        )

    def _examined(self, name: str, corpus: Corpus) -> ValidationResult:
        """Score the result, by beam search."""
        found = self._look(corpus, "exact")
        self._log.write("result", self._progress, {"data": name, **to_log_record(found)})
        return found

    def _look(self, corpus: Corpus, stop: StopRule) -> ValidationResult:
        start = time.perf_counter()
        found = self._builder.build_evaluator(corpus).evaluate(
            self._objective, FINAL_EVALUATION, stop
        )
        self._progress.seconds += time.perf_counter() - start
        return found

    def _stop(self, exact: ValidationResult) -> StopRule:
        """Return the faster stop rule if it loses next to nothing on the validation set.

        A model that is sure of itself, with few pieces, fills its beam with wrong endings first.
        """
        fast = self._look(self._builder.validation_corpus, "beam_full")
        lost = exact.metric_value("bleu") - fast.metric_value("bleu")
        return "beam_full" if lost <= MAX_BLEU_LOSS else "exact"


def _signed(name: str, found: ValidationResult | None) -> Iterator[ReportedScore]:
    for score in found.scores.values() if found else ():
        yield ReportedScore(
            data=name, metric=score.name, value=score.value, signature=score.signature
        )


ProgressDisplayFactory = Callable[[RunPlan, TrainingProgress], LogWriter]
"""Makes what shows a run to a person."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended."""

    reason: str
    update: int
    is_complete: bool
    """Whether there is a model now."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """What is known before the workers start."""

    processes: int
    """How many of them to start here."""
    notes: list[str]
    """What a person should know of the data and the model."""


def prepare_run(run_config: RunConfig, directory: RunDirectory, resume: bool) -> PreparedRun:
    """Check and make all that workers will read: a mistake shows here, before anything starts."""
    if directory.has_run and not resume:
        raise InputError(
            f"{directory.path} has a run already: go on with --resume, or name another folder"
        )
    if not directory.has_run:
        directory.check_can_start()
    builder = RunBuilder(run_config, directory, WorkerGroup())
    builder.check_inputs()
    before = _begun(builder) if directory.has_run else None
    directory.path.mkdir(parents=True, exist_ok=True)
    with directory.lock():
        builder.prepare_files()
    processes = before.processes if before else _processes(builder)
    return PreparedRun(processes, [*_notes(builder, torchrun_world_size() or processes)])


def _notes(builder: RunBuilder, processes: int) -> Iterator[str]:
    for corpus, text in zip(builder.training_corpora, builder.encoded_corpora, strict=True):
        if str(text.skipped):
            yield f"{corpus.name}: {text.skipped}."
    for corpus in builder.evaluation_corpora:
        if said := str(builder.encode_evaluation_corpus(corpus).skipped):
            yield f"{corpus.name}, in its loss alone: {said}."
    if processes > 1 and builder.model_config.norm.kind == "batch":
        yield (
            f"Batch norm is over the share of each of the {processes} processes, which is another "
            "training than with train.processes = 1."
        )


def _processes(builder: RunBuilder) -> int:
    ingredients = builder.run_config
    if ingredients.training.processes is None and builder.model_config.norm.kind == "batch":
        return 1  # more of them would change what is learnt
    return choose_processes(ingredients.training.processes, ingredients.batches.max_tokens)


@gc_frozen()
def run_training(
    run_config: RunConfig,
    directory: RunDirectory,
    workers: WorkerGroup,
    create_display: ProgressDisplayFactory,
    may_choose_processes: bool = True,
) -> RunOutcome | None:
    """Train as one of the workers, from the last checkpoint on if there is one.

    Unless the number of workers is `free`, all of them are needed. Return None if this one is not.
    """
    with ExitStack() as claim:
        workers.run_on_main(lambda: claim.enter_context(directory.lock()))
        return _trained(run_config, directory, workers, create_display, may_choose_processes)


def _trained(
    ingredients: RunConfig,
    folder: RunDirectory,
    workers: WorkerGroup,
    watch: ProgressDisplayFactory,
    free: bool,
) -> RunOutcome | None:
    tune_malloc()
    threads = choose_threads(ingredients.training.threads, workers.local_world_size, free)
    torch.set_num_threads(threads)
    builder = RunBuilder(ingredients, folder, workers)
    plan = _plan(builder, free)
    if not free:
        plan = plan.with_processes(workers.world_size, threads)
    if free and plan.processes < workers.world_size:  # the leader with several threads is faster
        if not workers.is_main:
            return None
        workers.free_shared_memory()
        workers = WorkerGroup()
        builder = RunBuilder(ingredients, folder, workers)
    workers.uses_shared_memory = plan.uses_shared_memory
    torch.set_num_threads(plan.threads)
    return TrainingSession(builder, plan, watch).run()


def _plan(builder: RunBuilder, free: bool) -> RunPlan:
    """Return the plan of the run, made now or when it began."""
    if builder.workers.broadcast(builder.directory.has_run):
        return _begun(builder)
    plan, ingredients = plan_run(builder, free), builder.run_config
    known = (
        ingredients.model_checksums,
        builder.corpus_fingerprints,
        builder.workers.torchrun_agents(),
    )
    builder.workers.run_on_main(
        lambda: builder.directory.write_start(ingredients.recipe, plan, *known)
    )
    return plan


def _begun(builder: RunBuilder) -> RunPlan:
    """Return the plan of a run that has begun, if it may go on with this recipe."""
    ingredients = builder.run_config
    sums = ingredients.model_checksums, builder.corpus_fingerprints
    return builder.directory.load_plan(ingredients.recipe, ingredients.complete_recipe, *sums)


class TrainingSession:
    """The parts of a run, alive."""

    def __init__(
        self, builder: RunBuilder, plan: RunPlan, create_display: ProgressDisplayFactory
    ) -> None:
        self.builder = builder
        self.plan = plan
        self.progress = TrainingProgress()
        self.objective = builder.build_objective()
        self.updater = builder.build_updater(self.objective, plan.num_updates)
        config = builder.run_config.checkpoints
        self.moving_average = (
            ExponentialMovingAverage(self.objective.model, config.ema_decay)
            if config.ema_decay
            else None
        )
        self.signals = SignalHandler(builder.workers)
        self.checkpoints = CheckpointDirectory(
            builder.directory.checkpoints, config.keep_last, config.interval
        )
        self.validator = ValidationListener(
            builder.build_evaluator(builder.validation_corpus),
            self.objective,
            builder.run_config.validation,
            [self.updater.schedule.after_validation],
            lambda progress, record: self.log.write("validation", progress, record),
        )
        self.state_parts = self._parts()
        if updates := self.checkpoints.saved_updates():
            self.checkpoints.restore(updates[-1], self.state_parts)
        self.log = TrainingLog(self._sinks(create_display))
        self.checkpointer = Checkpointer(
            self.checkpoints,
            config,
            self.state_parts,
            builder.workers,
            lambda: self.validator.best_update,
        )

    def run(self) -> RunOutcome:
        """Train to the end, or to an interruption, and keep what was reached."""
        reason = self._ended() or self._trained()
        if reason.is_final:
            result = ResultWriter(self.builder, self.objective, self.log, self.progress)
            result.write(self.checkpointer.final_weights())
        return RunOutcome(reason.text, self.progress.update, reason.is_final)

    def _ended(self) -> StopReason | None:
        """Return why there is nothing left to train: it may have been killed before the result."""
        return (
            ALL_UPDATES_DONE
            if self.progress.update >= self.plan.num_updates
            else self.validator.stop_reason
        )

    def _trained(self) -> StopReason:
        """Train, save, and return why it ended."""
        trainer = Trainer(
            self.updater, self.builder.build_loader(), self.progress, self._listeners()
        )
        with self.signals.handle_signals():
            reason = trainer.run()
            self.checkpointer.save(self.progress)  # whole, though a signal comes twice
        return reason

    def _parts(self) -> dict[str, Checkpointable]:
        parts: dict[str, Checkpointable] = {
            "model": CheckpointableModel(self.objective.model),
            "optimizer": CheckpointableOptimizer(self.updater.optimizer, self.objective.model),
            "schedule": CheckpointableJson(self.updater.schedule),
            "validation": CheckpointableJson(self.validator),
            "progress": CheckpointableJson(self.progress),
        }
        if self.moving_average:
            parts["ema"] = self.moving_average
        return parts

    def _listeners(self) -> list[UpdateListener]:
        """Return them in their order: the checkpoint must hold what all others remember."""
        average: list[UpdateListener] = [self.moving_average] if self.moving_average else []
        ends: list[UpdateListener] = [UpdateLimit(self.plan.num_updates), self.signals]
        return [self.log, *average, self.validator, *ends, self.checkpointer]

    def _sinks(self, watch: ProgressDisplayFactory) -> list[LogWriter]:
        if not self.builder.workers.is_main:
            return []
        folder, update = self.builder.directory, self.progress.update
        sinks: list[LogWriter] = [
            JsonlLogWriter(folder.log, update),
            watch(self.plan, self.progress),
        ]
        if self.builder.run_config.training.tensorboard and is_tensorboard_installed():
            sinks.append(TensorBoardWriter(folder.tensorboard, update))
        return sinks
