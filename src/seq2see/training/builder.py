"""Puts a run together: the one place that knows every setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2see.data.batches import BatchConfig
from seq2see.data.config import DataConfig
from seq2see.data.corpora import Corpus, CorpusConfig
from seq2see.data.encoded import EncodedCorpus, Encoding, encode, has_any
from seq2see.data.loader import Loader, Sampled, stored
from seq2see.data.plan import Plan, Position
from seq2see.errors import InputError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID, TokenizerConfig, Tokenizers
from seq2see.training.config import CheckpointsConfig, TrainingConfig, ValidationConfig
from seq2see.training.inspection import inspect
from seq2see.training.machine import precision_of
from seq2see.training.models import Foundations, checksums, fine_tuned
from seq2see.training.objective import Objective
from seq2see.training.optimiser import OptimiserConfig, build_optimiser
from seq2see.training.run import Completed, RunFolder
from seq2see.training.schedule import ScheduleConfig, build_schedule
from seq2see.training.step import Stepper, mixed
from seq2see.training.validation import Examiner
from seq2see.training.workers import Workers

Architecture = Callable[[int, int | None], ModelConfig]
"""The model's config, for a number of source pieces and, if it is another, of target pieces."""


@dataclass(frozen=True)
class Ingredients:
    """What a recipe has, part by part."""

    data: DataConfig
    tokenizer: TokenizerConfig
    batches: BatchConfig
    architecture: Architecture
    loss: LossConfig
    optimiser: OptimiserConfig
    schedule: ScheduleConfig
    training: TrainingConfig
    validation: ValidationConfig
    checkpoints: CheckpointsConfig
    origin: Path
    """The folder of the recipe, from which names of files are seen."""
    recipe: Mapping[str, Any]
    """All of it as plain JSON, to be kept with the run."""
    completed: Completed = dict
    """Gives such a recipe of an earlier version the keys that have come since."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe says of the model beyond its preset. Fine-tuning may change dropout alone."""

    @property
    def models(self) -> dict[str, str]:
        """The checksums of the models that the run builds on."""
        return checksums(self.training.start, self.loss.teacher, self.origin)


class RunBuilder:
    """Makes each part of a run, once. The leader makes files; the others wait and read them."""

    def __init__(self, ingredients: Ingredients, folder: RunFolder, workers: Workers) -> None:
        self.ingredients = ingredients
        self.folder = folder
        self.workers = workers

    @cached_property
    def training_corpora(self) -> list[Corpus]:
        """The text to learn from."""
        return [self._corpus(config) for config in self.ingredients.data.train]

    @cached_property
    def validation_corpus(self) -> Corpus:
        """The text to watch."""
        return self._corpus(self.ingredients.data.valid)

    @cached_property
    def test_corpus(self) -> Corpus | None:
        """The text to judge by, if there is one."""
        test = self.ingredients.data.test
        return self._corpus(test) if test else None

    @property
    def held_out(self) -> list[Corpus]:
        """The text to watch and, if there is one, the text to judge by."""
        return [corpus for corpus in (self.validation_corpus, self.test_corpus) if corpus]

    def _corpus(self, config: CorpusConfig) -> Corpus:
        return self.ingredients.data.corpus(config, self.ingredients.origin)

    @property
    def texts(self) -> dict[str, str]:
        """The fingerprints of the corpora by their names, but for those that are built in."""
        data = self.ingredients.data
        keys = [f"data.train.{number}" for number in range(len(data.train))]
        corpora = zip(
            (*keys, "data.valid", "data.test"),
            (*self.training_corpora, self.validation_corpus, self.test_corpus),
            strict=True,
        )
        return {
            f"{corpus.name} ({key})": corpus.fingerprint
            for key, corpus in corpora
            if corpus and corpus.config.kind != "builtin"
        }

    @cached_property
    def foundations(self) -> Foundations:
        """The models that the run builds on."""
        ingredients = self.ingredients
        return Foundations.load(
            ingredients.training.start, ingredients.loss.teacher, ingredients.origin
        )

    def check(self) -> None:
        """Refuse what cannot be trained with, before anything is written.

        A run that has begun goes on: its text was looked at by then.
        """
        if start := self.foundations.start:
            fine_tuned(start.config, self.ingredients.model)
        if not self.folder.begun:
            self.foundations.refuse_longer(self.ingredients.batches.max_length)
            inspect(self.training_corpora, self.held_out, self.ingredients.data.languages)
            self._refuse_unfit()

    def _refuse_unfit(self) -> None:
        """Refuse a corpus of which nothing can be used with the tokenizers that the run will have,
        and a tag that they do not know."""
        tags = [config.tag for config in self.ingredients.data.train]
        learnt = zip(self.training_corpora, tags, strict=True)
        for corpus, tag in (*learnt, *((corpus, "") for corpus in self.held_out)):
            encoding = Encoding(self.new_tokenizers, self.ingredients.batches.max_length, tag)
            if not has_any(corpus, encoding):
                raise _unfit(corpus)

    def make_files(self) -> None:
        """Make all files that workers read. A run that has begun keeps its tokenizers."""
        if not self.folder.begun:
            self.new_tokenizers.save(self.folder.path)
        _ = self.config, self.plan
        for corpus in self.held_out:
            self.encoded_held_out(corpus)

    @cached_property
    def new_tokenizers(self) -> Tokenizers:
        """Those that the run begins with: of the models it builds on, or learnt from the text."""
        given = self.foundations.tokenizers
        return given or Tokenizers.train(self._side(0), self._side(1), self.ingredients.tokenizer)

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of the folder."""
        return Tokenizers.load(self.folder.path)

    def _side(self, side: int) -> Iterator[str]:
        return (pair[side] for corpus in self.training_corpora for pair in corpus)

    @cached_property
    def encoded(self) -> list[EncodedCorpus]:
        """The training corpora as ids."""
        return [
            self._encoded(corpus, config.tag)
            for corpus, config in zip(
                self.training_corpora, self.ingredients.data.train, strict=True
            )
        ]

    def encoded_held_out(self, corpus: Corpus) -> EncodedCorpus:
        """Return the pairs of a held-out text that its loss is over, as ids."""
        return self._encoded(corpus, keep_text=False)

    def _encoded(
        self, corpus: Corpus, tag: str = "", keep_text: bool | None = None
    ) -> EncodedCorpus:
        batches = self.ingredients.batches
        keep = batches.subword_dropout > 0 if keep_text is None else keep_text
        encoding = Encoding(self.tokenizers, batches.max_length, tag, keep)
        if self.workers.leads:
            encode(corpus, encoding, self.folder.cache, torch.get_num_threads())
        self.workers.wait()
        encoded = encode(corpus, encoding, self.folder.cache)
        if not len(encoded):
            raise _unfit(corpus)
        return encoded

    @cached_property
    def config(self) -> ModelConfig:
        """The model's config."""
        if start := self.foundations.start:
            return fine_tuned(start.config, self.ingredients.model)
        source, target = self.tokenizers.source, self.tokenizers.target
        joint = self.tokenizers.joint
        return self.ingredients.architecture(
            source.vocab_size, None if joint else target.vocab_size
        )

    def model(self) -> Transformer:
        """Make a model with its first weights, the same in every worker."""
        torch.manual_seed(mixed(self.ingredients.training.seed))
        model = Transformer.from_config(self.config)
        if start := self.foundations.start:
            model.load_state_dict(start.model().state_dict())
        return model

    def objective(self) -> Objective:
        """Make what is trained."""
        if teacher := self.foundations.teacher:
            model = teacher.model().to(self.workers.device)
            return self._objective(model.requires_grad_(False))
        return self._objective()

    def _objective(self, teacher: Transformer | None = None) -> Objective:
        device = self.workers.device
        precision = precision_of(self.ingredients.training.precision, device)
        loss = self.ingredients.loss
        return Objective(self.model().to(device), loss, PAD_ID, teacher, precision)

    def stepper(self, objective: Objective, updates: int) -> Stepper:
        """Make what makes updates."""
        ingredients = self.ingredients
        return Stepper(
            self.workers.wrapped(objective),
            build_optimiser(ingredients.optimiser, objective, self.workers),
            build_schedule(ingredients.schedule, self.config.d_model, updates),
            ingredients.optimiser.clip,
            ingredients.training.seed,
            self.workers,
        )

    @cached_property
    def plan(self) -> Plan:
        """Which pairs go together."""
        data, training = self.ingredients.data, self.ingredients.training
        return Plan(
            self.encoded,
            self.ingredients.batches.tokens,
            training.seed,
            training.batches_per_update,
            [corpus.weight for corpus in data.train],
        )

    @cached_property
    def updates_per_epoch(self) -> int:
        """Updates of the first epoch; later ones differ little."""
        return sum(1 for _ in self.plan.rest_of_epoch(Position()))

    def loader(self) -> Loader:
        """Make what gives this worker its batches."""
        rate = self.ingredients.batches.subword_dropout
        lookup = Sampled(rate, self.ingredients.training.seed) if rate else stored
        return Loader(self.encoded, self.plan, lookup, self.workers.shard)

    def examiner(self, corpus: Corpus) -> Examiner:
        """Make what looks at a held-out text."""
        return Examiner(
            list(corpus),
            self.encoded_held_out(corpus),
            self.tokenizers,
            self.ingredients.data.languages,
            self.workers,
            self._objective,  # nobody is taught while being examined
            self.ingredients.batches,
        )


def _unfit(corpus: Corpus) -> InputError:
    return InputError(
        f"{corpus.name} must have pairs of text, but has none that fits batches.max_length"
    )
