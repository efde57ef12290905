"""Build every part of a training run from its settings, and load the models that it starts from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.data.batch_loader import BatchLoader
from seq2see.data.batch_sampler import BatchSampler
from seq2see.data.corpus_config_and_reading import (
    Corpus,
    CorpusConfig,
    expand_environment_variables,
)
from seq2see.data.encoded_corpus import EncodedCorpus, EncodingOptions
from seq2see.data.readers import SentencePair
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.keyed_random import mix_seeds
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID, TokenizerPair
from seq2see.training.config import RunConfig, find_length_problems
from seq2see.training.distributed import WorkerCommunicator, choose_dtype
from seq2see.training.objective import Objective
from seq2see.training.optimization import LearningRateSchedule, build_optimizer
from seq2see.training.run_directory import RunDirectory, find_differences
from seq2see.training.trainer import ModelUpdater
from seq2see.training.validation import CorpusEvaluator


def _override_dropout(config: ModelConfig, settings: Mapping[str, Any]) -> ModelConfig:
    """Return the config of a model to fine-tune with the settings of `[model]` applied.

    Raise ConfigError if anything except dropout would change.
    """
    overrides = {key: value for key, value in settings.items() if key != "preset"}
    changed = config.replace(**overrides)
    problems = [
        Problem(
            f"model.{path}",
            f"must be {old} as in `train.init_from`, but is {new} instead: leave it out, or add "
            f"model.{path}={old}",
        )
        for path, old, new in find_differences(config.model_dump(), changed.model_dump())
        if not path.startswith("dropout.")
    ]
    if problems:
        raise ConfigError(*problems)
    return changed


def _load_trainable(path: Path, key: str, max_length: int) -> Bundle:
    """Load a model directory.

    Raise InputError if its special tokens are not those of training, and ConfigError if it supports
    only shorter sentences.
    """
    bundle = Bundle.load(path)
    if problems := list(find_length_problems(bundle.config, max_length, key)):
        raise ConfigError(*problems)
    if bundle.special_tokens != StartAndEndTokenIds() or bundle.config.pad_id != PAD_ID:
        raise InputError(
            f"`{key}` must be a model that was trained by seq2see, but {path} uses other special "
            "tokens"
        )
    return bundle


@dataclass
class RunBuilder:
    """Builds the parts of a run from its settings and from the files that `prepare_run` writes."""

    run_config: RunConfig
    base_directory: Path
    """Directory that paths of `run_config` are relative to."""
    directory: RunDirectory
    workers: WorkerCommunicator = field(default_factory=WorkerCommunicator)

    @cached_property
    def corpora(self) -> dict[str, Corpus]:
        """Corpora by recipe key."""
        data = self.run_config.data
        configs: dict[str, CorpusConfig] = dict(zip(self.training_keys, data.train, strict=True))
        configs["data.valid"] = data.valid
        if data.test:
            configs["data.test"] = data.test
        return {
            key: data.build_corpus(config, self.base_directory) for key, config in configs.items()
        }

    @cached_property
    def training_keys(self) -> list[str]:
        """Recipe keys of the training corpora."""
        return [f"data.train.{number}" for number in range(len(self.run_config.data.train))]

    @property
    def evaluation_keys(self) -> list[str]:
        """Recipe keys of the validation set and, if the recipe has one, the test set."""
        return [key for key in self.corpora if key not in self.training_keys]

    def encoding_options(self, key: str, tokenizers: TokenizerPair) -> EncodingOptions:
        """Return the options to encode the corpus of a recipe key."""
        batches, is_training = self.run_config.batches, key in self.training_keys
        tag = getattr(self.corpora[key].config, "tag", "")
        store_text = is_training and batches.subword_dropout > 0
        return EncodingOptions(tokenizers, batches.max_length, tag, store_text)

    @cached_property
    def encoded_corpora(self) -> dict[str, EncodedCorpus]:
        """Corpora as token ids, by recipe key; of evaluation sets, the pairs for the loss."""
        return {
            key: EncodedCorpus(
                self.directory.cache / record.directory, self.encoding_options(key, self.tokenizers)
            )
            for key, record in self.directory.read_corpus_records().items()
        }

    @cached_property
    def evaluation_pairs(self) -> dict[str, list[SentencePair]]:
        """Pairs of the validation and test set, by recipe key."""
        return {key: list(self.corpora[key]) for key in self.evaluation_keys}

    @cached_property
    def pretrained_models(self) -> dict[str, Bundle]:
        """Models that the run starts from or learns from, by recipe key.

        Raise InputError if a model was not trained by seq2see or the tokenizers differ, and
        ConfigError for an undefined variable.
        """
        config = self.run_config
        paths = {"train.init_from": config.train.init_from, "loss.teacher": config.loss.teacher}
        models = {}
        for key, path in paths.items():
            if path:
                directory = self.base_directory / expand_environment_variables(path, key)
                models[key] = _load_trainable(directory, key, config.batches.max_length)
        if len({bundle.tokenizers.fingerprint for bundle in models.values()}) > 1:
            raise InputError(
                "`train.init_from` and `loss.teacher` must have the same tokenizer, but differ"
            )
        return models

    @property
    def model_checksums(self) -> dict[str, str]:
        """Checksums of the pretrained models, by recipe key."""
        return {key: str(model.config_checksum) for key, model in self.pretrained_models.items()}

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """Tokenizers stored in the run directory."""
        return TokenizerPair.load(self.directory.path)

    @cached_property
    def model_config(self) -> ModelConfig:
        """Model config for the vocabulary of the tokenizers, or of the model to fine-tune."""
        if bundle := self.pretrained_models.get("train.init_from"):
            return _override_dropout(bundle.config, self.run_config.model)
        source, target = self.tokenizers.source, self.tokenizers.target
        target_vocab_size = None if self.tokenizers.is_joint else target.vocab_size
        return self.run_config.build_model_config(source.vocab_size, target_vocab_size)

    def build_model(self) -> Transformer:
        """Build a model with its initial weights, which are the same in every worker."""
        torch.manual_seed(mix_seeds(self.run_config.train.seed))
        model = Transformer.from_config(self.model_config)
        if bundle := self.pretrained_models.get("train.init_from"):
            model.load_state_dict(bundle.build_model().state_dict())
        return model

    def build_objective(self, with_teacher: bool = True) -> Objective:
        """Build the training objective: the model, its loss and, with distillation, the teacher."""
        training, device, teacher = self.run_config.train, self.workers.device, None
        bundle = self.pretrained_models.get("loss.teacher")
        if bundle and with_teacher:
            teacher = bundle.build_model().to(device).requires_grad_(False)
        dtype = choose_dtype(training.precision, device)
        model = self.build_model().to(device)
        return Objective(model, self.run_config.loss, PAD_ID, teacher, dtype)

    def build_updater(self, objective: Objective, num_updates: int) -> ModelUpdater:
        """Build what updates the weights, with a schedule for this number of updates."""
        config = self.run_config
        return ModelUpdater(
            self.workers.wrap_module(objective, config.train.fsdp),
            build_optimizer(config.optimizer, objective, self.workers),
            LearningRateSchedule(config.schedule, self.model_config.d_model, num_updates),
            config.optimizer.max_grad_norm,
            config.train.seed,
            self.workers,
        )

    @property
    def _encoded_training_corpora(self) -> list[EncodedCorpus]:
        return [self.encoded_corpora[key] for key in self.training_keys]

    @cached_property
    def batch_sampler(self) -> BatchSampler:
        """Sampler that forms batches of sentence pairs."""
        data, training = self.run_config.data, self.run_config.train
        return BatchSampler(
            self._encoded_training_corpora,
            self.run_config.batches.max_tokens,
            training.seed,
            training.batches_per_update,
            [corpus.weight for corpus in data.train],
        )

    def build_loader(self) -> BatchLoader:
        """Build the loader of this worker's batches."""
        return BatchLoader(
            self._encoded_training_corpora,
            self.batch_sampler,
            self.workers.rank,
            self.workers.world_size,
            self.run_config.batches.subword_dropout,
            self.run_config.train.seed,
        )

    def build_evaluator(self, key: str) -> CorpusEvaluator:
        """Build the evaluator of the validation or test set, given by its recipe key."""
        text = self.directory.read_training_text()
        return CorpusEvaluator(
            self.evaluation_pairs[key],
            self.encoded_corpora[key],
            self.tokenizers,
            self.run_config.data.languages,
            self.workers,
            partial(self.build_objective, with_teacher=False),
            self.run_config.batches,
            text.max_sentences_per_line if text else 1,
        )
