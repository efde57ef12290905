"""The recipe of a training run: its settings, read from and written to a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from seq2see.config import deep_merge, parse_override_as_dict
from seq2see.errors import ConfigError, InputError
from seq2see.settings.toml_writer import (
    format_commented_toml_keys,
    format_toml_section,
    format_toml_value,
)
from seq2see.training.config import RunConfig, list_model_setting_names

_SECTIONS = (
    *("data", "tokenizer", "batches", "train", "schedule", "optimizer"),
    *("loss", "validation", "checkpoints"),
)
"""Order in a file; `model` comes last."""


class Recipe(RunConfig):
    """All settings of a training run, in a TOML file."""

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
            raise ConfigError(
                *(f"{_find_origin(p.field, path, overrides)}: {p}" for p in error.problems)
            ) from None

    def to_toml(self) -> str:
        """Return the recipe as TOML with a comment for each key.

        Of the model, only settings that differ from the preset are set; others are commented out.
        """
        model, preset = self.build_model_config(self.tokenizer.vocab_size), self.model.get("preset")
        lines = [
            line for name in _SECTIONS for line in format_toml_section(name, getattr(self, name))
        ]
        lines += ["", "", f"# {type(self).model_fields['model'].description}", "[model]"]
        if preset:
            lines.append(f"preset = {format_toml_value(preset)}")
        lines += format_commented_toml_keys(model, self.model, list_model_setting_names())
        return "\n".join(lines).strip() + "\n"


def list_setting_names() -> list[str]:
    """Return the names of all settings in the form section.key."""
    sections = {name: field.annotation for name, field in Recipe.model_fields.items()}
    keys = {name: getattr(part, "model_fields", ()) for name, part in sections.items()}
    keys["model"] = list_model_setting_names()
    return [f"{section}.{key}" for section, names in keys.items() for key in names]


def _find_origin(name: str, path: Path | str, overrides: Sequence[str]) -> str:
    """Return the override that sets a setting, otherwise the file."""
    for override in overrides:
        key = override.partition("=")[0].strip()
        if key == name or key.startswith(f"{name}."):
            return override
    return str(path)
