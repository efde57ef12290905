"""The recipe of a training run. Each package defines its own settings; a recipe combines them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from seq2see.config import Config, deep_merge, parse_override_as_dict, prefix_field_names
from seq2see.data.batch_loader import BatchConfig
from seq2see.data.corpus_config_and_reading import DataConfig
from seq2see.errors import ConfigError, InputError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig
from seq2see.settings.toml_writer import (
    format_commented_toml_keys,
    format_toml_section,
    format_toml_value,
)
from seq2see.text import PAD_ID, TokenizerConfig
from seq2see.training.builder import find_component_length_limits
from seq2see.training.config import (
    CheckpointConfig,
    RunConfig,
    TrainingLimitsAndHardwareConfig,
    ValidationConfig,
)
from seq2see.training.optimizers_and_gradient_clipping import OptimizerConfig
from seq2see.training.schedule import ScheduleConfig

_SECTIONS = (
    "data",
    "tokenizer",
    "batches",
    "train",
    "schedule",
    "optimizer",
    "loss",
    "validation",
    "checkpoints",
)
_FROM_TOKENIZER = ("vocab_size", "target_vocab_size", "pad_id")
"""Fields of the model config that the tokenizer determines."""


class Recipe(Config):
    """All settings of a training run."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    batches: BatchConfig = BatchConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    train: TrainingLimitsAndHardwareConfig
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    model: dict[str, Any] = Field(default_factory=lambda: {"preset": "base"})
    """Model architecture: a preset (tiny, small, base, big), and settings that differ from it."""

    @classmethod
    def read(cls, path: Path | str, overrides: Sequence[str] = ()) -> Self:
        """Read a TOML file and apply overrides of the form `section.key=value`.

        Raises InputError if the file cannot be read, and ConfigError with all problems, each with
        the file or the override that it comes from.
        """
        tables = [parse_override_as_dict(override) for override in overrides]
        try:
            table = tomllib.loads(Path(path).read_text("utf-8-sig"))
            for override_table in tables:
                table = deep_merge(table, override_table)
            return cls(**table)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path} must be UTF-8, but is not") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{path} must be TOML, but: {error}") from None
        except ConfigError as error:
            # `conflicts`, which checks the model, runs only if every section is valid by itself.
            model_problems = _model_problems(table.get("model", {}))
            problems = dict.fromkeys((*error.problems, *model_problems))
            raise ConfigError(
                [f"{_find_origin(problem, path, overrides)}: {problem}" for problem in problems]
            ) from None

    def conflicts(self) -> Iterator[str]:
        """Yield the problems of the model, and of sections that do not fit together."""
        if problems := _model_problems(self.model):
            yield from problems
        else:
            yield from self._length_problems(self.build_model_config(self.tokenizer.vocab_size))
        if bool(self.loss.teacher) != (self.loss.distillation_weight > 0):
            yield (
                "`loss.teacher` must be given if and only if `loss.distillation_weight` is above 0"
            )
        if self.train.fsdp and self.optimizer.kind == "muon":
            yield (
                "`optimizer.kind` must be adam or adamw with `train.fsdp`: "
                "muon needs unsharded matrices"
            )
        for corpus in self.data.train:
            if corpus.tag and corpus.tag not in self.tokenizer.user_defined_symbols:
                yield (
                    f"`tokenizer.user_defined_symbols` must have {corpus.tag!r}, "
                    f"the tag of {corpus.files[0]}"
                )

    def _length_problems(self, model: ModelConfig) -> Iterator[str]:
        """Yield a problem for each part of the model that is too short for the longest lines."""
        needed = self.batches.max_length + 1  # with the end-of-sentence token
        for name, limit in find_component_length_limits(model).items():
            if limit < needed:
                yield (
                    f"`model.{name}.max_length` must be at least {needed}, for "
                    f"batches.max_length = {self.batches.max_length} and the end of the sentence, "
                    f"but is {limit} instead"
                )

    def build_model_config(
        self, vocab_size: int, target_vocab_size: int | None = None
    ) -> ModelConfig:
        """Return the config of the model for these vocabulary sizes."""
        return _build_model_config(self.model, vocab_size, target_vocab_size)

    def build_run_config(self, base_directory: Path) -> RunConfig:
        """Return the config of the run; relative paths start at `base_directory`."""
        return RunConfig(
            self.data,
            self.tokenizer,
            self.batches,
            self.build_model_config,
            self.loss,
            self.optimizer,
            self.schedule,
            self.train,
            self.validation,
            self.checkpoints,
            base_directory,
            self.model_dump(mode="json"),
            lambda earlier: type(self)(**earlier).model_dump(mode="json"),
            {key: value for key, value in self.model.items() if key != "preset"},
        )

    def to_toml(self) -> str:
        """Return the recipe as TOML with a comment for each key.

        Of the model, only settings that differ from the preset are set; others are commented out.
        """
        model, preset = self.build_model_config(self.tokenizer.vocab_size), self.model.get("preset")
        lines = [
            *(
                line
                for name in _SECTIONS
                for line in format_toml_section(name, getattr(self, name))
            ),
            *("", "", f"# {type(self).model_fields['model'].description}", "[model]"),
            *([f"preset = {format_toml_value(preset)}"] if preset else []),
            *format_commented_toml_keys(model, self.model, excluded=_FROM_TOKENIZER),
        ]
        return "\n".join(lines).strip() + "\n"


def list_setting_names() -> list[str]:
    """Return the names of all settings in the form section.key."""
    sections = {name: field.annotation for name, field in Recipe.model_fields.items()}
    fields = {name: getattr(part, "model_fields", {}) for name, part in sections.items()}
    fields["model"] = {"preset": None, **ModelConfig.model_fields}
    return [
        f"{section}.{key}"
        for section, keys in fields.items()
        for key in keys
        if section != "model" or key not in _FROM_TOKENIZER
    ]


def _build_model_config(
    model: dict[str, Any], vocab_size: int, target_vocab_size: int | None = None
) -> ModelConfig:
    settings = {"preset": "base", **model}
    if not isinstance(settings["preset"], str):
        raise ConfigError([f"`preset` must be a string, but is {settings['preset']!r} instead"])
    if given := [name for name in _FROM_TOKENIZER if name in settings]:
        problems = [f"`{name}` must be left out: the tokenizer determines it" for name in given]
        raise ConfigError(problems)
    sizes = {"vocab_size": vocab_size, "target_vocab_size": target_vocab_size}
    settings |= {**sizes, "pad_id": PAD_ID}
    return ModelConfig.from_preset(settings.pop("preset"), settings)


def _find_origin(problem: str, path: Path | str, overrides: Sequence[str]) -> str:
    """Return the override that sets the first setting that a problem names, otherwise the file."""
    name = problem.partition("`")[2].partition("`")[0]
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key == name or key.startswith(f"{name}."):
            return override
    return str(path)


def _model_problems(model: Any) -> list[str]:
    """Return the problems of the section `model` that do not depend on the vocabulary."""
    try:
        if isinstance(model, dict):
            _build_model_config(model, TokenizerConfig().vocab_size)
    except ConfigError as error:
        return [prefix_field_names("model", problem) for problem in error.problems]
    return []
