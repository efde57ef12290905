"""What a recipe has. Each part declares its own settings; a recipe only puts them together."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import Field

from seq2see.config import Config, deep_merge, parse_override, with_prefix
from seq2see.data.batch_loader import BatchConfig
from seq2see.data.corpus import DataConfig
from seq2see.errors import ConfigError, InputError
from seq2see.loss import LossConfig
from seq2see.model import ModelConfig
from seq2see.settings.toml_writer import format_toml_value, write_overrides, write_section
from seq2see.text import PAD_ID, TokenizerConfig
from seq2see.training.builder import model_length_limits
from seq2see.training.config import CheckpointConfig, RunConfig, TrainingConfig, ValidationConfig
from seq2see.training.optimizer import OptimizerConfig
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


class Recipe(Config):
    """What to learn from, and how."""

    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    batches: BatchConfig = BatchConfig()
    loss: LossConfig = LossConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    train: TrainingConfig
    validation: ValidationConfig = ValidationConfig()
    checkpoints: CheckpointConfig = CheckpointConfig()
    model: dict[str, Any] = Field(default_factory=lambda: {"preset": "base"})
    """The architecture: a usual size (tiny, small, base, big), and what differs from it."""

    @classmethod
    def read(cls, path: Path | str, overrides: Sequence[str] = ()) -> Self:
        """Read a TOML file, with `section.key=value` on top; report all problems at once."""
        changes = [parse_override(override) for override in overrides]
        try:
            table = tomllib.loads(Path(path).read_text("utf-8-sig"))
            for change in changes:
                table = deep_merge(table, change)
            return cls(**table)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path} must be UTF-8, but is not") from None
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{path} must be TOML, but: {error}") from None
        except ConfigError as error:
            # Conflicts are looked for only where each section is right by itself.
            problems = dict.fromkeys((*error.problems, *_wrong(table.get("model", {}))))
            raise ConfigError(
                [f"{_origin(problem, path, overrides)}: {problem}" for problem in problems]
            ) from None

    def conflicts(self) -> Iterator[str]:
        """Refuse a model that cannot be, or not hold the text, and parts that do not fit."""
        if wrong := _wrong(self.model):
            yield from wrong
        else:
            yield from self._too_long(self.build_model_config(self.tokenizer.vocab_size))
        if bool(self.loss.teacher) != (self.loss.distillation_weight > 0):
            yield "`loss.teacher` must be given with `loss.distillation_weight` above 0, and only then"
        if self.train.fsdp and self.optimizer.kind == "muon":
            yield (
                "`optimizer.kind` must be adam or adamw with `train.fsdp`: "
                "muon needs matrices in one piece"
            )
        for corpus in self.data.train:
            if corpus.tag and corpus.tag not in self.tokenizer.user_defined_symbols:
                yield f"`tokenizer.user_defined_symbols` must have {corpus.tag!r}, the tag of {corpus.files[0]}"

    def _too_long(self, model: ModelConfig) -> Iterator[str]:
        """Refuse text that a model with a greatest length would meet in the middle of training."""
        needed = self.batches.max_length + 1  # with the end of the sentence
        for name, limit in model_length_limits(model).items():
            if limit < needed:
                yield (
                    f"`model.{name}.max_length` must be at least {needed}, for "
                    f"batches.max_length = {self.batches.max_length} and the sentence's end, "
                    f"but is {limit} instead"
                )

    def build_model_config(
        self, vocab_size: int, target_vocab_size: int | None = None
    ) -> ModelConfig:
        """Return the model's config for these vocabularies."""
        return _architecture(self.model, vocab_size, target_vocab_size)

    def build_run_config(self, base_directory: Path) -> RunConfig:
        """Return what training needs, for a recipe that lies in this folder."""
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
        """Return the recipe as a file that explains itself.

        Of the model, only what differs from the preset is set; the rest is shown beside it.
        """
        model, preset = self.build_model_config(self.tokenizer.vocab_size), self.model.get("preset")
        lines = [
            *(line for name in _SECTIONS for line in write_section(name, getattr(self, name))),
            *("", "", f"# {type(self).model_fields['model'].description}", "[model]"),
            *([f"preset = {format_toml_value(preset)}"] if preset else []),
            *write_overrides(model, self.model, excluded=_FROM_TOKENIZER),
        ]
        return "\n".join(lines).strip() + "\n"


def list_setting_names() -> list[str]:
    """Return what can be changed, as it is typed: section.key."""
    sections = {name: field.annotation for name, field in Recipe.model_fields.items()}
    fields = {name: getattr(part, "model_fields", {}) for name, part in sections.items()}
    fields["model"] = {"preset": None, **ModelConfig.model_fields}
    return [
        f"{section}.{key}"
        for section, keys in fields.items()
        for key in keys
        if section != "model" or key not in _FROM_TOKENIZER
    ]


def _architecture(
    model: dict[str, Any], vocab_size: int, target_vocab_size: int | None = None
) -> ModelConfig:
    settings = {"preset": "base", **model}
    if not isinstance(settings["preset"], str):
        raise ConfigError([f"`preset` must be a text, but is {settings['preset']!r} instead"])
    if taken := [name for name in _FROM_TOKENIZER if name in settings]:
        problems = [f"`{name}` must be left out: the tokenizer decides it" for name in taken]
        raise ConfigError(problems)
    sizes = {"vocab_size": vocab_size, "target_vocab_size": target_vocab_size}
    settings |= {**sizes, "pad_id": PAD_ID}
    return ModelConfig.from_preset(settings.pop("preset"), settings)


def _origin(problem: str, path: Path | str, overrides: Sequence[str]) -> str:
    """Return where the setting that a problem names first was made: the file, or on top of it."""
    name = problem.partition("`")[2].partition("`")[0]
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key == name or key.startswith(f"{name}."):
            return override
    return str(path)


def _wrong(model: Any) -> list[str]:
    """Return what is wrong with the section of the model, whatever the vocabulary."""
    try:
        if isinstance(model, dict):
            _architecture(model, TokenizerConfig().vocab_size)
    except ConfigError as error:
        return [with_prefix("model", problem) for problem in error.problems]
    return []
