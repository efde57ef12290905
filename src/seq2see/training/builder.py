"""Build every part of a training run from its settings, and load the models that it starts from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from seq2see.atomic_files import compute_sha256
from seq2see.bundle import Bundle, StartAndEndTokenIds
from seq2see.bundle.files import WEIGHTS_FILE
from seq2see.data.batch_loader import BatchLoader
from seq2see.data.batch_sampler import BatchSampler, DataPosition
from seq2see.data.corpus_config_and_reading import (
    Corpus,
    CorpusConfig,
    expand_environment_variables,
)
from seq2see.data.encoded_corpus import (
    EncodedCorpus,
    EncodingOptions,
    encode_corpus,
    has_pairs_within_limits,
)
from seq2see.data.quality.empty_or_swapped_corpora import check_not_empty_or_swapped
from seq2see.errors import ConfigError, InputError, Problem, reading
from seq2see.keyed_random import mix_seeds
from seq2see.model import ModelConfig, Transformer
from seq2see.text import PAD_ID, TokenizerPair
from seq2see.training.config import RunConfig, find_component_length_limits
from seq2see.training.distributed import WorkerCommunicator, choose_dtype
from seq2see.training.objective import Objective
from seq2see.training.optimizers_and_gradient_clipping import build_optimizer
from seq2see.training.run_directory import RunDirectory
from seq2see.training.schedule import LearningRateSchedule
from seq2see.training.trainer import ModelUpdater
from seq2see.training.validation import CorpusEvaluator


@dataclass(frozen=True)
class PretrainedModels:
    """Models that a run starts from or learns from, if any."""

    init_from: Bundle | None = None
    """Model whose weights are fine-tuned."""
    teacher: Bundle | None = None
    """Model whose output distribution is learned (distillation)."""

    @classmethod
    def load(cls, paths: Mapping[str, Path]) -> PretrainedModels:
        """Load the model directories, given by recipe key.

        Raise InputError if a model was not trained by seq2see or the tokenizers differ.
        """
        bundles = {key: _load_trainable(path, key) for key, path in paths.items()}
        models = cls(bundles.get("train.init_from"), bundles.get("loss.teacher"))
        fingerprints = {bundle.tokenizers.fingerprint for bundle in models if bundle}
        if len(fingerprints) > 1:
            raise InputError(
                "`train.init_from` and `loss.teacher` must have the same tokenizer, but differ"
            )
        return models

    def __iter__(self) -> Iterator[Bundle | None]:
        return iter((self.init_from, self.teacher))

    @property
    def tokenizers(self) -> TokenizerPair | None:
        """Tokenizers of the models, which the run must use; None without models."""
        return next((bundle.tokenizers for bundle in self if bundle), None)

    def check_max_length(self, max_length: int) -> None:
        """Raise ConfigError if a model supports only shorter sentences than `max_length`."""
        models = {"train.init_from": self.init_from, "loss.teacher": self.teacher}
        problems = [
            Problem(
                "batches.max_length",
                f"must be at most {limit - 1}, since `{key}` supports {limit} tokens including "
                f"the end token, but is {max_length} instead",
            )
            for key, bundle in models.items()
            for limit in (find_component_length_limits(bundle.config).values() if bundle else ())
            if limit <= max_length
        ]
        if problems:
            raise ConfigError(*problems)


def override_finetuned_model_config(
    config: ModelConfig, overrides: Mapping[str, Any]
) -> ModelConfig:
    """Return the config of a model to fine-tune, with `overrides` applied.

    Raise ConfigError if anything except dropout would change.
    """
    changed = config.replace(**overrides)
    old, new = dict(_flatten(config.model_dump())), dict(_flatten(changed.model_dump()))
    problems = [
        Problem(
            f"model.{path}",
            f"must be {old.get(path)} as in `train.init_from`, but is {value} instead: leave it "
            f"out, or add model.{path}={old.get(path)}",
        )
        for path, value in new.items()
        if old.get(path) != value and not path.startswith("dropout.")
    ]
    if problems:
        raise ConfigError(*problems)
    return changed


def _flatten(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and the value of each key of a nested table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _load_trainable(path: Path, key: str) -> Bundle:
    """Load a model directory; raise InputError if its special tokens are not those of training."""
    bundle = Bundle.load(path)
    if bundle.special_tokens != StartAndEndTokenIds() or bundle.config.pad_id != PAD_ID:
        raise InputError(
            f"`{key}` must be a model that was trained by seq2see, but {path} uses other special "
            "tokens"
        )
    return bundle


class RunBuilder:
    """Builds the parts of a run. The main process writes files; the other workers read them."""

    def __init__(
        self,
        run_config: RunConfig,
        base_directory: Path,
        directory: RunDirectory,
        workers: WorkerCommunicator,
    ) -> None:
        """Create a builder; paths of `run_config` are relative to `base_directory`."""
        self.run_config = run_config
        self.base_directory = base_directory
        self.directory = directory
        self.workers = workers

    @cached_property
    def training_corpora(self) -> list[Corpus]:
        """Training corpora."""
        return [self._corpus(config) for config in self.run_config.data.train]

    @cached_property
    def validation_corpus(self) -> Corpus:
        """Validation set."""
        return self._corpus(self.run_config.data.valid)

    @cached_property
    def test_corpus(self) -> Corpus | None:
        """Test set, if the recipe has one."""
        test = self.run_config.data.test
        return self._corpus(test) if test else None

    @property
    def evaluation_corpora(self) -> list[Corpus]:
        """Validation set and, if the recipe has one, test set."""
        return [corpus for corpus in (self.validation_corpus, self.test_corpus) if corpus]

    def _corpus(self, config: CorpusConfig) -> Corpus:
        return self.run_config.data.build_corpus(config, self.base_directory)

    @property
    def corpus_fingerprints(self) -> dict[str, str]:
        """Fingerprints of the corpora that are read from files, by name and recipe key."""
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
    def pretrained_model_paths(self) -> dict[str, Path]:
        """Model directories by recipe key; raise ConfigError for an undefined variable."""
        paths = {}
        for key, path in self.run_config.pretrained_model_paths.items():
            paths[key] = self.base_directory / expand_environment_variables(path, key)
        return paths

    @property
    def model_checksums(self) -> dict[str, str]:
        """SHA-256 of the weights that the run starts from and of the teacher, by recipe key."""
        return {key: _checksum(path) for key, path in self.pretrained_model_paths.items()}

    @cached_property
    def pretrained_models(self) -> PretrainedModels:
        """Models that the run starts from or learns from."""
        return PretrainedModels.load(self.pretrained_model_paths)

    @cached_property
    def model_overrides(self) -> dict[str, Any]:
        """Keys of `[model]` except the preset. Fine-tuning may only change dropout."""
        return {key: value for key, value in self.run_config.model.items() if key != "preset"}

    def check_inputs(self) -> None:
        """Raise ConfigError or InputError for unusable models or corpora; write nothing.

        The corpora of a run that is resumed were checked when it started.
        """
        if bundle := self.pretrained_models.init_from:
            override_finetuned_model_config(bundle.config, self.model_overrides)
        if not self.directory.has_run:
            self.pretrained_models.check_max_length(self.run_config.batches.max_length)
            check_not_empty_or_swapped(
                self.training_corpora, self.evaluation_corpora, self.run_config.data.languages
            )
            self._check_usable_pairs()

    def _check_usable_pairs(self) -> None:
        """Raise an error if a corpus has no usable pair, or a tag that the tokenizer lacks."""
        tags = [config.tag for config in self.run_config.data.train]
        training = zip(self.training_corpora, tags, strict=True)
        for corpus, tag in (*training, *((corpus, "") for corpus in self.evaluation_corpora)):
            options = EncodingOptions(
                self.initial_tokenizers, self.run_config.batches.max_length, tag
            )
            if not has_pairs_within_limits(corpus, options):
                raise _no_usable_pair(corpus)

    def prepare_files(self) -> None:
        """Write all files that the workers read. A run that is resumed keeps its tokenizers."""
        if not self.directory.has_run:
            self.initial_tokenizers.save(self.directory.path)
        _ = self.model_config, self.batch_sampler
        for corpus in self.evaluation_corpora:
            self.encode_evaluation_corpus(corpus)

    @cached_property
    def initial_tokenizers(self) -> TokenizerPair:
        """Tokenizers of a new run: those of the pretrained models, or trained on the corpora."""
        pretrained = self.pretrained_models.tokenizers
        return pretrained or TokenizerPair.train(
            self._iterate_side(0), self._iterate_side(1), self.run_config.tokenizer
        )

    @cached_property
    def tokenizers(self) -> TokenizerPair:
        """Tokenizers stored in the run directory."""
        return TokenizerPair.load(self.directory.path)

    def _iterate_side(self, side: int) -> Iterator[str]:
        return (pair[side] for corpus in self.training_corpora for pair in corpus)

    @cached_property
    def encoded_corpora(self) -> list[EncodedCorpus]:
        """Training corpora as token ids."""
        return [
            self._encode(corpus, config.tag)
            for corpus, config in zip(
                self.training_corpora, self.run_config.data.train, strict=True
            )
        ]

    def encode_evaluation_corpus(self, corpus: Corpus) -> EncodedCorpus:
        """Return the pairs of an evaluation set that its loss is computed on, as token ids."""
        return self._encode(corpus, keep_text=False)

    def _encode(
        self, corpus: Corpus, tag: str = "", keep_text: bool | None = None
    ) -> EncodedCorpus:
        """Encode a corpus in the main process and open the result in all workers.

        `keep_text` stores the text too, which subword dropout needs.
        """
        batches = self.run_config.batches
        if keep_text is None:
            keep_text = batches.subword_dropout > 0
        options = EncodingOptions(self.tokenizers, batches.max_length, tag, keep_text)
        if self.workers.is_main:
            encode_corpus(corpus, options, self.directory.cache, torch.get_num_threads())
        self.workers.barrier()
        encoded = encode_corpus(corpus, options, self.directory.cache)
        if not len(encoded):
            raise _no_usable_pair(corpus)
        return encoded

    @cached_property
    def model_config(self) -> ModelConfig:
        """Model config for the vocabulary of the tokenizers, or of the model to fine-tune."""
        if bundle := self.pretrained_models.init_from:
            return override_finetuned_model_config(bundle.config, self.model_overrides)
        source, target = self.tokenizers.source, self.tokenizers.target
        target_vocab_size = None if self.tokenizers.is_joint else target.vocab_size
        return self.run_config.build_model_config(source.vocab_size, target_vocab_size)

    def build_model(self) -> Transformer:
        """Build a model with its initial weights, which are the same in every worker."""
        torch.manual_seed(mix_seeds(self.run_config.train.seed))
        model = Transformer.from_config(self.model_config)
        if bundle := self.pretrained_models.init_from:
            model.load_state_dict(bundle.build_model().state_dict())
        return model

    def build_objective(self) -> Objective:
        """Build the training objective: the model, its loss and, with distillation, the teacher."""
        if teacher := self.pretrained_models.teacher:
            model = teacher.build_model().to(self.workers.device)
            return self._build_objective(model.requires_grad_(False))
        return self._build_objective()

    def _build_objective(self, teacher: Transformer | None = None) -> Objective:
        device = self.workers.device
        dtype = choose_dtype(self.run_config.train.precision, device)
        loss = self.run_config.loss
        return Objective(self.build_model().to(device), loss, PAD_ID, teacher, dtype)

    def build_updater(self, objective: Objective, num_updates: int) -> ModelUpdater:
        """Build what updates the weights, with a schedule for this number of updates."""
        config = self.run_config
        return ModelUpdater(
            self.workers.wrap_module(objective),
            build_optimizer(config.optimizer, objective, self.workers),
            LearningRateSchedule(config.schedule, self.model_config.d_model, num_updates),
            config.optimizer.max_grad_norm,
            config.train.seed,
            self.workers,
        )

    @cached_property
    def batch_sampler(self) -> BatchSampler:
        """Sampler that forms batches of sentence pairs."""
        data, training = self.run_config.data, self.run_config.train
        return BatchSampler(
            self.encoded_corpora,
            self.run_config.batches.max_tokens,
            training.seed,
            training.batches_per_update,
            [corpus.weight for corpus in data.train],
        )

    @cached_property
    def updates_per_epoch(self) -> int:
        """Number of updates of the first epoch; later epochs differ little."""
        return sum(1 for _ in self.batch_sampler.remaining_updates(DataPosition()))

    def build_loader(self) -> BatchLoader:
        """Build the loader of this worker's batches."""
        return BatchLoader(
            self.encoded_corpora,
            self.batch_sampler,
            self.workers.data_shard,
            self.run_config.batches.subword_dropout,
            self.run_config.train.seed,
        )

    def build_evaluator(self, corpus: Corpus) -> CorpusEvaluator:
        """Build the evaluator of a validation or test set."""
        return CorpusEvaluator(
            list(corpus),
            self.encode_evaluation_corpus(corpus),
            self.tokenizers,
            self.run_config.data.languages,
            self.workers,
            self._build_objective,  # without the teacher
            self.run_config.batches,
        )


def _no_usable_pair(corpus: Corpus) -> InputError:
    return InputError(
        f"{corpus.name} has no usable pair: all are empty or longer than batches.max_length"
    )


def _checksum(directory: Path) -> str:
    """Return the SHA-256 of the weights of a model directory."""
    with reading(directory):
        return compute_sha256(directory / WEIGHTS_FILE)
