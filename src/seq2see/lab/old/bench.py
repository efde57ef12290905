"""The bench: what experiments share. Seeds, the size of the effort, and small models trained once.

A trained model is a function of its `Lesson`, so it is kept in the cache under the lesson's
fingerprint: experiments that ask for the same lesson share it, and the next run has it at once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_model, save_model
from torch import Generator

from seq2see.atomic_files import atomic_write
from seq2see.bundle import Bundle
from seq2see.cpu import tune_malloc
from seq2see.data import digit_tasks
from seq2see.data.batch_loader import Batch
from seq2see.data.digit_tasks import DigitTask
from seq2see.data.readers import SplitName
from seq2see.engines.batching import collect_in_order
from seq2see.engines.torch_engine import TorchEngine
from seq2see.errors import TrainingError
from seq2see.keyed_random import mix_seeds
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.search import SearchConfig, SentenceSearchInput
from seq2see.text import EOS_ID, PAD_ID, PackedIds
from seq2see.training.distributed import WorkerCommunicator
from seq2see.training.objective import Objective
from seq2see.training.optimization import (
    LearningRateSchedule,
    OptimizerConfig,
    ScheduleConfig,
    build_optimizer,
)
from seq2see.training.trainer import ModelUpdater

ZERO = 4
"""The id of the digit 0, behind the special ids."""
DIGITS = ModelConfig(
    vocab_size=ZERO + 10, d_model=64, d_ff=128, heads=4, encoder_layers=2, decoder_layers=2
).replace(dropout={"embedding": 0.0, "residual": 0.0})
"""The model of the digit tasks: small enough to learn in seconds, without dropout."""
FORMAT = 1
"""Changes when lessons are taught differently, so that old models are not taken for new ones."""

CARD, WEIGHTS = "card.json", "model.safetensors"
HELD_OUT = 400
"""Sources that are translated to see how many are solved; the loss is over all."""

Make = Callable[[ModelConfig], Transformer]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a small model learns, and how. Digits are copied, reversed or sorted."""

    task: DigitTask = "reverse"
    model: ModelConfig = DIGITS
    updates: int = 300
    seed: int = 1
    """Decides the first weights and the order of the data."""
    longest: int = 12
    """Digits of a source at most."""
    sentences: int = 64
    """Of a batch."""
    peak: float = 3e-3
    """The highest rate; it falls to 0 with a cosine."""
    warmup: int = 40
    smoothing: float = 0.0
    variant: str = ""
    """Names what `make` changes, if the model is not made from the config alone."""

    def with_model(self, **settings: Any) -> Lesson:
        """Return the lesson for another architecture."""
        return replace(self, model=self.model.replace(**settings))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all of it."""
        content = {**asdict(self), "model": self.model.model_dump(mode="json"), "format": FORMAT}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A model behind its lesson."""

    model: Transformer
    """In evaluation mode."""
    losses: tuple[float, ...]
    """Of each update, before it; fewer than asked for if the training diverged."""
    nll: float
    """The mean of −log p over the tokens of the held-out set; ∞ if the training diverged."""
    exact: float
    """The share of held-out sources that greedy search solves without a mistake."""

    @property
    def diverged(self) -> bool:
        """Whether the loss or a gradient stopped being a number."""
        return self.nll == float("inf")


class Bench:
    """What an experiment may use."""

    def __init__(
        self,
        cache: Path | None = None,
        full: bool = False,
        model: Path | None = None,
        say: Say = lambda _: None,
        threads: int | None = None,
    ) -> None:
        self.full = full
        """Whether there is time: more seeds, more updates, larger sizes."""
        self.cache = cache or default_cache()
        self.threads = threads or os.cpu_count() or 1
        self._given = model
        self._say = say
        self._fables: Future[None] | None = None

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of trainings; three, or five if there is time."""
        return (1, 2, 3, 4, 5) if self.full else (1, 2, 3)

    def generator(self, seed: int = 0) -> Generator:
        """Return a source of random numbers."""
        return Generator().manual_seed(seed)

    def learn(self, lesson: Lesson, make: Make | None = None) -> Learned:
        """Train a small model, or take it from the cache.

        `make` may change the model that the config gives; then `lesson.variant` names the change.
        """
        assert bool(lesson.variant) == bool(make), "`variant` must name what `make` changes"
        home = self._home(lesson)
        if not _is_kept(home):
            self._tell(lesson)
            _learn(lesson, home, make)
        return _recall(lesson, home, make)

    def learn_all(self, lesson: Lesson, make: Make | None = None) -> tuple[Learned, ...]:
        """Train the lesson with each of the seeds."""
        lessons = [replace(lesson, seed=seed) for seed in self.seeds]
        if make is None:
            self.prepare(lessons)
        return tuple(self.learn(each, make) for each in lessons)

    def losses(self, lesson: Lesson) -> list[float]:
        """Return the held-out loss of the lesson with each of the seeds."""
        return [each.nll for each in self.learn_all(lesson)]

    def prepare(self, lessons: Iterable[Lesson]) -> None:
        """Train what is not in the cache yet, one lesson a core: so small a model needs no more."""
        missing = [each for each in lessons if not _is_kept(self._home(each))]
        if len(missing) < 2 or self.threads < 2:
            return
        for each in missing:
            self._tell(each)
        with suppress(BrokenProcessPool):  # a script without a main guard: then one by one
            list(self._pool.map(_learn, missing, map(self._home, missing)))

    @cached_property
    def _pool(self) -> ProcessPoolExecutor:
        """Processes that stay: to start one takes as long as a short lesson."""
        return ProcessPoolExecutor(self.threads, get_context("spawn"))

    def _home(self, lesson: Lesson) -> Path:
        return self.cache / "digits" / lesson.fingerprint

    def _tell(self, lesson: Lesson) -> None:
        self._say(f"learning to {lesson.task} digits: {_described(lesson)}")

    def fables(self, seed: int = 1) -> Bundle:
        """Return a translator of `builtin:fables-short`: the one given, or a small one trained."""
        if self._given is not None:
            return Bundle.load(self._given)
        home = self._fables_home(seed)
        if self._fables is not None:
            with suppress(BrokenProcessPool):  # a script without a main guard: then here
                self._fables.result()
        if not (home / WEIGHTS).exists():
            from seq2see.lab.old.fables import learn_fables  # noqa: PLC0415 few ask for it

            self._say(f"learning English to French from fables, seed {seed}")
            learn_fables(home, self._epochs, seed, self._say)
        return Bundle.load(home)

    def begin_fables(self) -> None:
        """Let a process train the translator meanwhile: the longest lesson by far."""
        if self._given is not None or self.threads < 2:
            return
        home = self._fables_home(1)
        if not (home / WEIGHTS).exists():
            from seq2see.lab.old.fables import learn_fables  # noqa: PLC0415 few ask for it

            self._say("learning English to French from fables, seed 1, beside the rest")
            self._fables = self._pool.submit(learn_fables, home, self._epochs, 1, threads=1)

    @property
    def _epochs(self) -> int:
        return 8 if self.full else 5

    def _fables_home(self, seed: int) -> Path:
        from seq2see.lab.old.fables import fingerprint  # noqa: PLC0415 few ask for it

        return self.cache / "fables" / fingerprint(self._epochs, seed)

    def translators(self) -> tuple[Bundle, ...]:
        """Return one translator of fables, or one a seed if there is time and none was given."""
        several = self.full and self._given is None
        return tuple(self.fables(seed) for seed in (self.seeds[:3] if several else (1,)))


def default_cache() -> Path:
    """Return the folder of the user's cache that is ours."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "seq2see" / "lab"


def pairs(
    task: DigitTask, split: SplitName, longest: int = 12
) -> list[tuple[list[int], list[int]]]:
    """Return sources and targets of a digit task as ids, without their ends."""
    return [
        (_ids(source), _ids(target))
        for source, target in digit_tasks.load_digit_pairs(task, split, longest)
    ]


def batch_of(chosen: Sequence[tuple[list[int], list[int]]]) -> Batch:
    """Make a batch of pairs of ids."""
    return Batch.from_packed_ids(
        PackedIds.from_lists([s for s, _ in chosen]), PackedIds.from_lists([t for _, t in chosen])
    )


def untrained(seed: int = 1) -> Transformer:
    """Return the model of the digit tasks as it starts, in evaluation mode."""
    torch.manual_seed(seed)
    return Transformer.from_config(DIGITS).eval()


def _ids(text: str) -> list[int]:
    return [ZERO + int(digit) for digit in text.split()]


def _described(lesson: Lesson) -> str:
    """Name what differs from the usual lesson."""
    usual, model = asdict(Lesson()), lesson.model.model_dump()
    changes = {k: v for k, v in asdict(lesson).items() if k not in {"model", "task"}}
    named = [f"{key} {value}" for key, value in changes.items() if value != usual[key]]
    return ", ".join([*_changes(DIGITS.model_dump(), model), *named]) or "seed 1"


def _changes(usual: Mapping[str, Any], model: Mapping[str, Any]) -> Iterator[str]:
    for key, value in model.items():
        before = usual.get(key)
        if isinstance(value, dict) and isinstance(before, dict):
            yield from _changes(before, value)
        elif value != before:
            yield f"{key} {value}"


def _model(lesson: Lesson, make: Make | None) -> Transformer:
    torch.manual_seed(mix_seeds(lesson.seed))
    return (make or Transformer.from_config)(lesson.model)


def _learn(lesson: Lesson, home: Path, make: Make | None = None) -> None:
    """Train a model from its beginning, and keep it."""
    model = _model(lesson, make)
    card = _teach(lesson, model)
    home.mkdir(parents=True, exist_ok=True)
    save_model(model, str(home / WEIGHTS))
    with atomic_write(home / CARD) as partial:  # last: with a card, all is there
        partial.write_text(json.dumps(card), "utf-8")


def _is_kept(home: Path) -> bool:
    return (home / CARD).exists()


def _recall(lesson: Lesson, home: Path, make: Make | None) -> Learned:
    model = _model(lesson, make)
    load_model(model, home / WEIGHTS)
    card = json.loads((home / CARD).read_text("utf-8"))
    return Learned(model.eval(), tuple(card["losses"]), card["nll"], card["exact"])


def _teach(lesson: Lesson, model: Transformer) -> dict[str, Any]:
    """Train with the project's own parts; return losses and what the held-out set says."""
    tune_malloc()
    torch.set_num_threads(1)  # so small a model gains nothing by more
    objective = Objective(model, LossConfig(label_smoothing=lesson.smoothing), PAD_ID)
    schedule = ScheduleConfig(kind="cosine", peak_lr=lesson.peak, warmup_updates=lesson.warmup)
    stepper = ModelUpdater(
        objective,
        build_optimizer(OptimizerConfig(), objective),
        LearningRateSchedule(schedule, lesson.model.d_model, lesson.updates),
        0.0,
        lesson.seed,
        WorkerCommunicator(),
    )
    losses: list[float] = []
    try:
        for number, batch in enumerate(_batches(lesson), 1):
            losses.append(stepper(number, [batch]).loss)
    except TrainingError:
        return {"losses": losses, "nll": float("inf"), "exact": 0.0}
    return {"losses": losses, **_examined(lesson, objective)}


def _batches(lesson: Lesson) -> Iterator[Batch]:
    """Draw the batch of each update; an epoch has every pair once."""
    known = pairs(lesson.task, "train", lesson.longest)
    generator = Generator().manual_seed(lesson.seed)
    order: list[int] = []
    for _ in range(lesson.updates):
        if len(order) < lesson.sentences:
            order = torch.randperm(len(known), generator=generator).tolist()
        chosen, order = order[: lesson.sentences], order[lesson.sentences :]
        yield batch_of([known[line] for line in chosen])


@torch.no_grad()
def _examined(lesson: Lesson, objective: Objective) -> dict[str, float]:
    held_out = pairs(lesson.task, "test", lesson.longest)
    objective.eval()
    loss = objective(batch_of(held_out))
    return {
        "nll": float(loss.nll) / loss.num_tokens,
        "exact": exactness(objective.model, held_out[:HELD_OUT]),
    }


def exactness(model: Transformer, held_out: Sequence[tuple[list[int], list[int]]]) -> float:
    """Return the share of sources for which greedy search finds the very target."""
    sources = [source for source, _ in held_out]
    lines = [SentenceSearchInput([*source, EOS_ID]) for source in sources]
    found = collect_in_order(TorchEngine(model).search(lines, SearchConfig(beam_size=1)))
    right = [
        list(f[0].tokens_without_eos) == target
        for f, (_, target) in zip(found, held_out, strict=True)
    ]
    return sum(right) / len(right)
