"""Selects experiments, trains the models that they declare, and runs them once per seed."""

from __future__ import annotations

import math
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seq2see.bundle import Bundle
from seq2see.cpu import count_available_cores
from seq2see.errors import ConfigError
from seq2see.lab.core import (
    MAX_SEEDS,
    REGISTERED,
    Conclusion,
    Context,
    Experiment,
    Measurement,
    Numbers,
    Verdict,
)
from seq2see.lab.texts import ExperimentTexts, load_all_texts
from seq2see.lab.training import ModelCache, train, train_translator
from seq2see.progress_callbacks import MessageCallback

Work = Callable[[], None]
SEEDS, FULL_SEEDS = (1, 2, 3), (1, 2, 3, 4, 5)
TRANSLATOR_EPOCHS, FULL_TRANSLATOR_EPOCHS = 5, 8


def select_experiments(names: Sequence[str]) -> list[ExperimentTexts]:
    """Return the experiments with these numbers, or those of `all`.

    Raises ConfigError if there is none with a number.
    """
    known = {str(number): texts for number, texts in load_all_texts().items()}
    if list(names) == ["all"]:
        return list(known.values())
    if wrong := [name for name in names if name not in known]:
        numbers = f"{next(iter(known))} to {list(known)[-1]}"
        raise ConfigError(f"an experiment must be a number ({numbers}) or all, but is {wrong[0]}")
    return [known[name] for name in dict.fromkeys(names)]


def load_experiment(number: int) -> Experiment:
    """Return an experiment; imports its module."""
    import_module(f"seq2see.lab.experiments.{load_all_texts()[number].module}")
    return REGISTERED[number]


@dataclass(frozen=True, slots=True)
class Result:
    """What an experiment measured, and what follows from it."""

    texts: ExperimentTexts
    seeds: tuple[int, ...]
    seconds: float
    measurements: tuple[Measurement, ...] = ()
    conclusions: tuple[Conclusion, ...] = ()
    arrays: tuple[Mapping[str, Any], ...] = ()
    """The arrays of each seed, as nested lists."""
    error: str = ""
    """Type of the exception that ended the experiment."""
    traceback: str = ""
    """Its traceback, which contains paths of this machine."""

    @property
    def number(self) -> int:
        """The number of the experiment."""
        return self.texts.number

    @property
    def as_published(self) -> bool:
        """Whether all parts have the published conclusion."""
        return not self.error and all(each.as_published for each in self.conclusions)

    @property
    def verdict(self) -> Verdict:
        """The verdict of all parts if they agree, UNDECIDED if one is undecided, else PARTLY."""
        verdicts = {each.verdict for each in self.conclusions}
        if len(verdicts) == 1:
            return verdicts.pop()
        is_decided = verdicts and Verdict.UNDECIDED not in verdicts
        return Verdict.PARTLY if is_decided else Verdict.UNDECIDED

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object without the traceback; numbers that JSON lacks are None."""
        return {
            **self.texts.to_json(),
            "status": "failed" if self.error else "ok" if self.as_published else "differs",
            "error": self.error or None,
            "seconds": round(self.seconds, 3),
            "seeds": list(self.seeds),
            "verdict": self.verdict.value,
            "parts": [self._part_to_json(each) for each in self.conclusions],
            "measurements": [self._measurement_to_json(each) for each in self.measurements],
        }

    def _part_to_json(self, conclusion: Conclusion) -> dict[str, Any]:
        return {
            "name": conclusion.part,
            "claim": self.texts.parts[conclusion.part].claim.to_json(),
            "verdict": conclusion.verdict.value,
            "text": conclusion.text.to_json(),
            "as_published": conclusion.as_published,
            "rules": [
                {"verdict": case.verdict.value, "checks": [str(check) for check in case.checks]}
                for part in REGISTERED[self.number].parts
                if part.name == conclusion.part
                for case in part.cases
            ],
        }

    def _measurement_to_json(self, measurement: Measurement) -> dict[str, Any]:
        what = self.texts.find_quantity(measurement.name)
        assert what is not None
        low, high = measurement.interval
        return {
            "name": measurement.name,
            "what": what.to_json(),
            "value": _finite(measurement.mean),
            "interval": [_finite(low), _finite(high)],
            "values": [_finite(value) for value in measurement.values],
            "text": str(measurement),
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Lab:
    """Runs experiments with these settings."""

    seeds: tuple[int, ...] = SEEDS
    full: bool = False
    cache: Path | None = None
    """Directory of trained models; None is the user's cache directory."""
    model: Path | None = None
    """Model directory to use instead of the translator of fables."""
    processes: int | None = None
    """With 1, everything runs in this process. None: one per available core."""
    on_message: MessageCallback = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        if not 0 < len(self.seeds) <= MAX_SEEDS or len(set(self.seeds)) < len(self.seeds):
            raise ConfigError(f"`--seeds` must be 1 to {MAX_SEEDS} different integers")

    def with_cache(self, cache: Path) -> Lab:
        """Return the same with another directory of trained models."""
        return replace(self, cache=cache)

    def run(self, number: int) -> Result:
        """Run one experiment."""
        (result,) = self.run_all([number])
        return result

    def run_all(self, numbers: Iterable[int]) -> Iterator[Result]:
        """Train the models that the experiments declare, and yield the result of each."""
        numbers = list(numbers)
        trainings = self._missing_trainings(map(load_experiment, numbers))
        processes = self.processes or count_available_cores()
        if processes == 1:
            for name, work in trainings.items():
                self.on_message(f"training {name}")
                work()
            for number in numbers:
                yield self._run_one(number)
            return
        tasks = replace(self, processes=1, on_message=_ignore_message)
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            running = {name: pool.submit(work) for name, work in trainings.items()}
            for index, (name, future) in enumerate(running.items(), 1):
                future.result()
                self.on_message(f"trained {index} of {len(running)} models: {name}")
            for number, result in zip(numbers, pool.map(tasks._run_one, numbers), strict=True):
                load_experiment(number)
                yield result

    def _missing_trainings(self, experiments: Iterable[Experiment]) -> dict[str, Work]:
        """Return the trainings that are not cached, each once, by description; longest first."""
        experiments, works = list(experiments), dict[Path, tuple[str, Work]]()
        if any(each.needs_translator for each in experiments) and self.model is None:
            for seed in self.seeds if self.full else self.seeds[:1]:
                path = self._models.translator_path(seed, self._epochs)
                work: Work = partial(train_translator, path, seed, self._epochs)
                works[path] = f"translator of fables, seed {seed}", work
        for each in experiments:
            for name, spec in each.get_trainings(self.full).items():
                for seed in self.seeds:
                    seeded = spec.replace(seed=seed)
                    path = self._models.path(seeded)
                    label = f"{name} (experiment {each.number}), seed {seed}"
                    works.setdefault(path, (label, partial(train, seeded, path)))
        return {label: work for path, (label, work) in works.items() if not path.exists()}

    def _run_one(self, number: int) -> Result:
        start, experiment = time.perf_counter(), load_experiment(number)
        result = partial(Result, experiment.texts, self.seeds)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # floating-point sums depend on the number of threads
        try:
            per_seed = [self._measure(experiment, seed) for seed in self.seeds]
            found = experiment.combine(per_seed)
            conclusions = experiment.decide(found, self.full)
        except Exception as error:  # the other experiments still run
            name, trace = type(error).__name__, traceback.format_exc()
            return result(time.perf_counter() - start, error=name, traceback=trace)
        finally:
            torch.set_num_threads(threads)
        names = {each.name for each in found}
        arrays = tuple(
            {name: _to_list(value) for name, value in numbers.items() if name not in names}
            for numbers in per_seed
        )
        return result(time.perf_counter() - start, found, conclusions, arrays)

    def _measure(self, experiment: Experiment, seed: int) -> Numbers:
        trained = {
            name: self._models.load(spec.replace(seed=seed))
            for name, spec in experiment.get_trainings(self.full).items()
        }
        load = partial(self._load_translator, seed) if experiment.needs_translator else None
        context = Context(experiment.number, seed, self.full, trained, load)
        torch.manual_seed(context.mix_seed("torch"))
        return experiment.measure(context)

    def _load_translator(self, seed: int) -> Bundle:
        """Return the translator; without `full`, all seeds share one, since it trains longest."""
        if self.model is not None:
            return Bundle.load(self.model)
        return self._models.load_translator(seed if self.full else self.seeds[0], self._epochs)

    @property
    def _models(self) -> ModelCache:
        return ModelCache(self.cache)

    @property
    def _epochs(self) -> int:
        return FULL_TRANSLATOR_EPOCHS if self.full else TRANSLATOR_EPOCHS


def _ignore_message(message: str) -> None:
    pass


def _to_list(value: Any) -> Any:
    """Return nested lists and numbers of Python instead of tensors."""
    if isinstance(value, Tensor):
        return value.tolist()
    return [_to_list(each) for each in value] if isinstance(value, list | tuple) else value
