"""Train a prepared run from the start or its last checkpoint, and write the model directory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from seq2see.bundle import Bundle, Provenance, ReportedScore
from seq2see.cpu import gc_frozen, tune_malloc
from seq2see.engines.ctranslate2_engine import PROBE_FILE
from seq2see.engines.loading import STOP_RULE_NOTE
from seq2see.search import StopRule
from seq2see.training.builder import RunBuilder
from seq2see.training.checkpoints import (
    CheckpointDirectory,
    ExponentialMovingAverage,
    TrainingProgress,
    TrainingState,
    load_model_tensors,
)
from seq2see.training.config import RunConfig
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.process_and_update_counts import (
    FINAL_EVALUATION,
    choose_threads,
    plan_processes_and_updates,
)
from seq2see.training.run_directory import RunPlan
from seq2see.training.trainer import Trainer
from seq2see.training.training_log import (
    JsonlLogWriter,
    RecordWriter,
    TensorBoardWriter,
    TrainingLog,
    is_tensorboard_installed,
    read_training_log,
    save_training_curves,
)
from seq2see.training.validation import ValidationResult

MAX_BLEU_LOSS = 0.2
"""Largest loss of BLEU for which the faster stop rule is stored with the model."""


@dataclass
class FinalModelWriter:
    """Scores the final weights and writes the model directory."""

    _builder: RunBuilder
    _objective: Objective
    _log: TrainingLog
    _progress: TrainingProgress

    def write(self, weights: Mapping[str, Tensor]) -> None:
        """Score these weights, and write the model directory and the plot of the training curves.

        All workers must call it: they share the translation of the evaluation sets.
        """
        load_model_tensors(self._objective.model, weights)
        config = self._builder.run_config
        bundle = Bundle(
            self._builder.model_config,
            self._builder.tokenizers,
            config.data.languages,
            weights,
            max_length=config.batches.max_length,
            provenance=self._build_provenance(),
            training_text=self._builder.directory.read_training_text(),
        )
        self._builder.workers.run_on_main(lambda: self._save(bundle))

    def _save(self, bundle: Bundle) -> None:
        directory = self._builder.directory
        bundle.save(directory.path)
        # Source sentences by which int8 inference is checked on the user's CPU.
        num_probes = self._builder.run_config.checkpoints.int8_probes
        pairs = self._builder.evaluation_pairs["data.valid"][:num_probes]
        probes = directory.path / PROBE_FILE
        probes.unlink(missing_ok=True)
        if pairs:
            probes.write_text("".join(f"{pair.source}\n" for pair in pairs), "utf-8")
        title = " → ".join(bundle.languages)
        save_training_curves(read_training_log(directory.log), directory.curves, title)

    def _build_provenance(self) -> Provenance:
        """Score the model and return how it was made."""
        builder = self._builder
        results = {}
        for key in builder.evaluation_keys:
            name = {"data.valid": "validation set", "data.test": "test set"}[key]
            results[name] = self._evaluate(key, "exact")
            record = {"data": name, **results[name].log_record()}
            self._log.write("result", self._progress, record)
        # An overconfident model with a small vocabulary finishes wrong hypotheses first, which
        # fill the beam: then the faster stop rule loses BLEU.
        fast = self._evaluate("data.valid", "beam_full")
        lost_bleu = results["validation set"].metric_value("bleu") - fast.metric_value("bleu")
        stop_rule = "beam_full" if lost_bleu <= MAX_BLEU_LOSS else "exact"
        return Provenance(
            recipe=builder.run_config.model_dump(mode="json"),
            data=[*builder.directory.read_corpus_records().values()],
            scores=[
                ReportedScore(
                    data=name, metric=score.name, value=score.value, signature=score.signature
                )
                for name, result in results.items()
                for score in result.scores.values()
            ],
            notes={STOP_RULE_NOTE: stop_rule},
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=self._progress.seconds,
            updates=self._progress.update,
        )

    def _evaluate(self, key: str, stop_rule: StopRule) -> ValidationResult:
        start = time.perf_counter()
        evaluator = self._builder.build_evaluator(key)
        result = evaluator.evaluate(self._objective, FINAL_EVALUATION, stop_rule)
        self._progress.seconds += time.perf_counter() - start
        return result


class ProgressDisplay(Protocol):
    """Shows the records of a run to the user."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Show a record."""

    def close(self) -> None:
        """Restore the terminal."""


ProgressDisplayFactory = Callable[[RunConfig, RunPlan, TrainingProgress], ProgressDisplay]
"""Creates the progress display of the main process."""


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How a run ended."""

    signal_name: str | None
    """Signal after which the run can be resumed; None if the model directory was written."""
    update: int
    """Number of the last update."""


@gc_frozen()
def train_as_worker(
    builder: RunBuilder, create_display: ProgressDisplayFactory, may_choose_processes: bool = True
) -> RunEnding | None:
    """Train as one of the workers, from the start or from the last checkpoint.

    The files of the run must have been written by `prepare_run`. With `may_choose_processes`, the
    main process continues alone if that is faster; the other workers then return None. Otherwise
    the number of processes was set by torchrun.
    """
    workers = builder.workers
    tune_malloc()
    plan = _load_or_make_plan(builder, may_choose_processes)
    if not may_choose_processes:
        requested = builder.run_config.train.threads
        threads = choose_threads(requested, workers.local_world_size, may_choose_processes=False)
        plan = plan.with_processes(workers.world_size, threads)
    elif plan.processes < workers.world_size:  # one process with several threads is faster
        if not workers.is_main:
            return None
        builder = replace(builder, workers=WorkerCommunicator())
    torch.set_num_threads(plan.threads)
    return _train(builder, plan, create_display)


def _load_or_make_plan(builder: RunBuilder, may_choose_processes: bool) -> RunPlan:
    """Return the plan of a run that is resumed, or make and store the plan of a new run."""
    directory, workers = builder.directory, builder.workers
    if workers.broadcast(directory.has_run):
        return directory.read_plan()
    plan = plan_processes_and_updates(builder, may_choose_processes)
    fingerprints = {
        f"{record.name} ({key})": record.fingerprint
        for key, record in directory.read_corpus_records().items()
    }
    workers.run_on_main(
        lambda: directory.write_start(
            builder.run_config,
            plan,
            builder.model_checksums,
            fingerprints,
            builder.base_directory,
        )
    )
    return plan


def _train(builder: RunBuilder, plan: RunPlan, create_display: ProgressDisplayFactory) -> RunEnding:
    """Train until the end or an interruption; at the end, write the model directory."""
    config, objective = builder.run_config, builder.build_objective()
    updater = builder.build_updater(objective, plan.num_updates)
    decay = config.checkpoints.ema_decay
    average = ExponentialMovingAverage(objective.model, decay) if decay else None
    state = TrainingState(objective.model, updater.optimizer, updater.schedule, average)
    checkpoints = CheckpointDirectory(builder.directory.checkpoints, config.checkpoints)
    checkpoints.restore_last(state)
    evaluator = builder.build_evaluator("data.valid")
    with ExitStack() as stack:
        writers: list[RecordWriter] = []
        if builder.workers.is_main:
            display = stack.enter_context(closing(create_display(config, plan, state.progress)))
            writers = [*_open_log_files(builder, state.progress.update), display.write]
        log = TrainingLog(writers)
        trainer = Trainer(
            updater,
            builder.build_loader(),
            partial(evaluator.evaluate, objective, config.validation),
            state,
            checkpoints,
            log,
            config.validation,
            plan.num_updates,
            builder.workers,
        )
        signal_name = trainer.run()
        if signal_name is None:
            result = FinalModelWriter(builder, objective, log, state.progress)
            result.write(checkpoints.final_weights(state))
    return RunEnding(signal_name, state.progress.update)


def _open_log_files(builder: RunBuilder, resume_update: int) -> Iterator[RecordWriter]:
    yield JsonlLogWriter(builder.directory.log, resume_update).write
    if builder.run_config.train.tensorboard and is_tensorboard_installed():
        yield TensorBoardWriter(builder.directory.tensorboard, resume_update).write
