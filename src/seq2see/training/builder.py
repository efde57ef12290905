"""Build every part of a training run from its settings, and load the models that it starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2see.bundle import Bundle, SpecialTokens
from seq2see.data.batch_loader import BatchLoader, SubwordDropoutLookup, lookup_encoded_ids
from seq2see.data.batch_sampler import BatchSampler, DataPosition
from seq2see.data.corpus import Corpus, CorpusConfig
from seq2see.data.encoded_corpus import (
    EncodedCorpus,
    EncodingOptions,
    encode_corpus,
    has_usable_pairs,
)
from seq2see.data.quality.preflight import check_corpora
from seq2see.errors import ConfigError, InputError
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID, TokenizerPair
from seq2see.training.config import RunConfig, resolve_model_path
from seq2see.training.objective import Objective
from seq2see.training.optimizer import build_optimizer
from seq2see.training.run_directory import RunDirectory
from seq2see.training.schedule import build_schedule
from seq2see.training.trainer import ModelUpdater, mix_seeds
from seq2see.training.validation import CorpusEvaluator
from seq2see.training.workers import WorkerGroup, choose_dtype


@dataclass(frozen=True)
class PretrainedModels:
    """What a run builds on, if anything."""

    init_from: Bundle | None = None
    """Whose weights are trained on."""
    teacher: Bundle | None = None
    """Whose answers are learnt."""

    @classmethod
    def load(
        cls, init_from: str | None, teacher: str | None, base_directory: Path
    ) -> PretrainedModels:
        """Read the directories, seen from the recipe's; refuse what does not go together."""
        found = cls(
            _trainable(init_from, base_directory, "train.init_from"),
            _trainable(teacher, base_directory, "loss.teacher"),
        )
        prints = {bundle.tokenizers.fingerprint for bundle in found if bundle}
        if len(prints) > 1:
            raise InputError(
                "`train.init_from` and `loss.teacher` must have the same tokenizer, but do not"
            )
        return found

    def __iter__(self) -> Iterator[Bundle | None]:
        return iter((self.init_from, self.teacher))

    @property
    def tokenizers(self) -> TokenizerPair | None:
        """Their tokenizers, which the run must take over."""
        return next((bundle.tokenizers for bundle in self if bundle), None)

    def check_max_length(self, max_length: int) -> None:
        """Refuse text that one of them could not take, which would show only midway."""
        named = {"train.init_from": self.init_from, "loss.teacher": self.teacher}
        problems = [
            f"`batches.max_length` must be at most {limit - 1}, since `{key}` takes {limit} "
            f"tokens with the sentence's end, but is {max_length} instead"
            for key, bundle in named.items()
            for limit in (model_length_limits(bundle.config).values() if bundle else ())
            if limit <= max_length
        ]
        if problems:
            raise ConfigError(problems)


def model_length_limits(config: ModelConfig) -> dict[str, int]:
    """Return the tokens that a model can take at most, by what sets the limit."""
    attention = config.resolved_encoder_attention
    limits = {
        "positions": config.max_positions,
        "encoder_attention": attention.max_length if attention.kind == "linformer" else None,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def finetuning_config(config: ModelConfig, overrides: Mapping[str, Any]) -> ModelConfig:
    """Return the config of a model to be trained on; only its dropout may become another."""
    changed = config.replace(**overrides)
    before, now = dict(_leaves(config.model_dump())), dict(_leaves(changed.model_dump()))
    problems = [
        f"`model.{path}` must be {before.get(path)} as in `train.init_from`, but is {value} instead: "
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
    bundle = Bundle.load(resolve_model_path(path, origin, key))
    if bundle.special_tokens != SpecialTokens() or bundle.config.pad_id != PAD_ID:
        raise InputError(
            f"`{key}` must be a model that seq2see has trained, but {path} frames its sentences "
            "in another way"
        )
    return bundle


class RunBuilder:
    """Makes each part of a run, once. The leader makes files; the others wait and read them."""

    def __init__(
        self, run_config: RunConfig, directory: RunDirectory, workers: WorkerGroup
    ) -> None:
        self.run_config = run_config
        self.directory = directory
        self.workers = workers

    @cached_property
    def training_corpora(self) -> list[Corpus]:
        """The text to learn from."""
        return [self._corpus(config) for config in self.run_config.data.train]

    @cached_property
    def validation_corpus(self) -> Corpus:
        """The text to watch."""
        return self._corpus(self.run_config.data.valid)

    @cached_property
    def test_corpus(self) -> Corpus | None:
        """The text to judge by, if there is one."""
        test = self.run_config.data.test
        return self._corpus(test) if test else None

    @property
    def evaluation_corpora(self) -> list[Corpus]:
        """The text to watch and, if there is one, the text to judge by."""
        return [corpus for corpus in (self.validation_corpus, self.test_corpus) if corpus]

    def _corpus(self, config: CorpusConfig) -> Corpus:
        return self.run_config.data.build_corpus(config, self.run_config.base_directory)

    @property
    def corpus_fingerprints(self) -> dict[str, str]:
        """The fingerprints of the corpora by their names, but for those that are built in."""
        data = self.run_config.data
        keys = [f"data.train.{number}" for number in range(len(data.train))]
        corpora = zip(
            (*keys, "data.valid", "data.test"),
            (*self.training_corpora, self.validation_corpus, self.test_corpus),
            strict=True,
        )
        return {
            f"{corpus.name} ({key})": corpus.fingerprint
            for key, corpus in corpora
            if corpus and corpus.config.resolved_format != "builtin"
        }

    @cached_property
    def pretrained_models(self) -> PretrainedModels:
        """The models that the run builds on."""
        ingredients = self.run_config
        return PretrainedModels.load(
            ingredients.training.init_from, ingredients.loss.teacher, ingredients.base_directory
        )

    def check_inputs(self) -> None:
        """Refuse what cannot be trained with, before anything is written.

        A run that has begun goes on: its text was looked at by then.
        """
        if start := self.pretrained_models.init_from:
            finetuning_config(start.config, self.run_config.model_overrides)
        if not self.directory.has_run:
            self.pretrained_models.check_max_length(self.run_config.batches.max_length)
            check_corpora(
                self.training_corpora, self.evaluation_corpora, self.run_config.data.languages
            )
            self._refuse_unfit()

    def _refuse_unfit(self) -> None:
        """Refuse a corpus of which nothing can be used with the tokenizers that the run will have,
        and a tag that they do not know."""
        tags = [config.tag for config in self.run_config.data.train]
        learnt = zip(self.training_corpora, tags, strict=True)
        for corpus, tag in (*learnt, *((corpus, "") for corpus in self.evaluation_corpora)):
            encoding = EncodingOptions(
                self.initial_tokenizers, self.run_config.batches.max_length, tag
            )
            if not has_usable_pairs(corpus, encoding):
                raise _unfit(corpus)

    def prepare_files(self) -> None:
        """Make all files that workers read. A run that has begun keeps its tokenizers."""
        if not self.directory.has_run:
            self.initial_tokenizers.save(self.directory.path)
        _ = self.model_config, self.batch_sampler
        for corpus in self.evaluation_corpora:
            self.encode_evaluation_corpus(corpus)

    @cached_property
    def initial_tokenizers(self) -> TokenizerPair:
        """Those that the run begins with: of the models it builds on, or learnt from the text."""
        given = self.pretrained_models.tokenizers
        return given or TokenizerPair.train(self._side(0), self._side(1), self.run_config.tokenizer)

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """The tokenizers of the folder."""
        return TokenizerPair.load(self.directory.path)

    def _side(self, side: int) -> Iterator[str]:
        return (pair[side] for corpus in self.training_corpora for pair in corpus)

    @cached_property
    def encoded_corpora(self) -> list[EncodedCorpus]:
        """The training corpora as ids."""
        return [
            self._encoded(corpus, config.tag)
            for corpus, config in zip(
                self.training_corpora, self.run_config.data.train, strict=True
            )
        ]

    def encode_evaluation_corpus(self, corpus: Corpus) -> EncodedCorpus:
        """Return the pairs of a held-out text that its loss is over, as ids."""
        return self._encoded(corpus, keep_text=False)

    def _encoded(
        self, corpus: Corpus, tag: str = "", keep_text: bool | None = None
    ) -> EncodedCorpus:
        batches = self.run_config.batches
        keep = batches.subword_dropout > 0 if keep_text is None else keep_text
        encoding = EncodingOptions(self.tokenizers, batches.max_length, tag, keep)
        if self.workers.is_main:
            encode_corpus(corpus, encoding, self.directory.cache, torch.get_num_threads())
        self.workers.barrier()
        encoded = encode_corpus(corpus, encoding, self.directory.cache)
        if not len(encoded):
            raise _unfit(corpus)
        return encoded

    @cached_property
    def model_config(self) -> ModelConfig:
        """The model's config."""
        if start := self.pretrained_models.init_from:
            return finetuning_config(start.config, self.run_config.model_overrides)
        source, target = self.tokenizers.source, self.tokenizers.target
        joint = self.tokenizers.is_joint
        return self.run_config.build_model_config(
            source.vocab_size, None if joint else target.vocab_size
        )

    def build_model(self) -> Transformer:
        """Make a model with its first weights, the same in every worker."""
        torch.manual_seed(mix_seeds(self.run_config.training.seed))
        model = Transformer.from_config(self.model_config)
        if start := self.pretrained_models.init_from:
            model.load_state_dict(start.build_model().state_dict())
        return model

    def build_objective(self) -> Objective:
        """Make what is trained."""
        if teacher := self.pretrained_models.teacher:
            model = teacher.build_model().to(self.workers.device)
            return self._objective(model.requires_grad_(False))
        return self._objective()

    def _objective(self, teacher: Transformer | None = None) -> Objective:
        device = self.workers.device
        precision = choose_dtype(self.run_config.training.precision, device)
        loss = self.run_config.loss
        return Objective(self.build_model().to(device), loss, PAD_ID, teacher, precision)

    def build_updater(self, objective: Objective, num_updates: int) -> ModelUpdater:
        """Make what makes updates."""
        ingredients = self.run_config
        return ModelUpdater(
            self.workers.wrap_module(objective),
            build_optimizer(ingredients.optimizer, objective, self.workers),
            build_schedule(ingredients.schedule, self.model_config.d_model, num_updates),
            ingredients.optimizer.max_grad_norm,
            ingredients.training.seed,
            self.workers,
        )

    @cached_property
    def batch_sampler(self) -> BatchSampler:
        """Which pairs go together."""
        data, training = self.run_config.data, self.run_config.training
        return BatchSampler(
            self.encoded_corpora,
            self.run_config.batches.max_tokens,
            training.seed,
            training.batches_per_update,
            [corpus.weight for corpus in data.train],
        )

    @cached_property
    def updates_per_epoch(self) -> int:
        """Updates of the first epoch; later ones differ little."""
        return sum(1 for _ in self.batch_sampler.remaining_updates(DataPosition()))

    def build_loader(self) -> BatchLoader:
        """Make what gives this worker its batches."""
        rate = self.run_config.batches.subword_dropout
        lookup = (
            SubwordDropoutLookup(rate, self.run_config.training.seed)
            if rate
            else lookup_encoded_ids
        )
        return BatchLoader(
            self.encoded_corpora, self.batch_sampler, lookup, self.workers.data_shard
        )

    def build_evaluator(self, corpus: Corpus) -> CorpusEvaluator:
        """Make what looks at a held-out text."""
        return CorpusEvaluator(
            list(corpus),
            self.encode_evaluation_corpus(corpus),
            self.tokenizers,
            self.run_config.data.languages,
            self.workers,
            self._objective,  # nobody is taught while being examined
            self.run_config.batches,
        )


def _unfit(corpus: Corpus) -> InputError:
    return InputError(
        f"{corpus.name} must have pairs of text, but has none that fits batches.max_length"
    )
