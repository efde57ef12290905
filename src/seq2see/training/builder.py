"""Build every part of a training run from its settings, and load the models that it starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2see.bundle import Bundle, Framing
from seq2see.data.batch_loader import Loader, Sampled, stored
from seq2see.data.batch_sampler import Plan, Position
from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.data.encoded_corpus import EncodedCorpus, Encoding, encode, has_any
from seq2see.data.quality.preflight import inspect
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID, Tokenizers
from seq2see.training.config import Ingredients, _path
from seq2see.training.objective import Objective
from seq2see.training.optimizer import build_optimiser
from seq2see.training.run_directory import RunFolder
from seq2see.training.schedule import build_schedule
from seq2see.training.trainer import Stepper, mixed
from seq2see.training.validation import Examiner
from seq2see.training.workers import Workers, precision_of


@dataclass(frozen=True)
class Foundations:
    """What a run builds on, if anything."""

    start: Bundle | None = None
    """Whose weights are trained on."""
    teacher: Bundle | None = None
    """Whose answers are learnt."""

    @classmethod
    def load(cls, start: str | None, teacher: str | None, origin: Path) -> Foundations:
        """Read the directories, seen from the recipe's; refuse what does not go together."""
        found = cls(
            _trainable(start, origin, "train.start"), _trainable(teacher, origin, "loss.teacher")
        )
        prints = {bundle.tokenizers.fingerprint for bundle in found if bundle}
        if len(prints) > 1:
            raise InputError(
                "`train.start` and `loss.teacher` must have the same tokenizer, but do not"
            )
        return found

    def __iter__(self) -> Iterator[Bundle | None]:
        return iter((self.start, self.teacher))

    @property
    def tokenizers(self) -> Tokenizers | None:
        """Their tokenizers, which the run must take over."""
        return next((bundle.tokenizers for bundle in self if bundle), None)

    def refuse_longer(self, max_length: int) -> None:
        """Refuse text that one of them could not take, which would show only midway."""
        named = {"train.start": self.start, "loss.teacher": self.teacher}
        problems = [
            f"`batches.max_length` must be at most {limit - 1}, since `{key}` takes {limit} "
            f"tokens with the sentence's end, but is {max_length} instead"
            for key, bundle in named.items()
            for limit in (greatest_lengths(bundle.config).values() if bundle else ())
            if limit <= max_length
        ]
        if problems:
            raise ConfigError(problems)


def greatest_lengths(config: ModelConfig) -> dict[str, int]:
    """Return the tokens that a model can take at most, by what sets the limit."""
    attention = config.source_attention
    limits = {
        "positions": config.longest,
        "encoder_attention": attention.max_length if attention.kind == "linformer" else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def fine_tuned(config: ModelConfig, settings: Mapping[str, Any]) -> ModelConfig:
    """Return the config of a model to be trained on; only its dropout may become another."""
    changed = config.replace(**settings)
    before, now = dict(_leaves(config.model_dump())), dict(_leaves(changed.model_dump()))
    problems = [
        f"`model.{path}` must be {before.get(path)} as in `train.start`, but is {value} instead: "
        f"leave it out, or add model.{path}={before.get(path)}"
        for path, value in now.items()
        if before.get(path) != value and not path.startswith("dropout.")
    ]
    if problems:
        raise ConfigError(problems)
    return changed


def _leaves(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and of those inside it, by their paths."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _trainable(path: str | None, origin: Path, key: str) -> Bundle | None:
    """Read a model that has its sentence ends where training puts them."""
    if path is None:
        return None
    bundle = Bundle.load(_path(path, origin, key))
    if bundle.framing != Framing() or bundle.config.pad_id != PAD_ID:
        raise InputError(
            f"`{key}` must be a model that seq2see has trained, but {path} frames its sentences "
            "in another way"
        )
    return bundle


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
