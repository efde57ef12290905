"""The recipe of a training run: its settings, read from and written to a TOML file.

In a file, the docstring of each field is a comment above its key: `# text` is a comment, and
`#key = value` shows the default of a key that is not set.
"""

from __future__ import annotations

import json
import os
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from seq2see.config import Config, deep_merge, parse_override_as_dict
from seq2see.errors import ConfigError, InputError, Problem
from seq2see.training.config import RunConfig, list_model_setting_names

_SECTIONS = (
    *("data", "tokenizer", "batches", "train", "schedule", "optimizer"),
    *("loss", "validation", "checkpoints"),
)
"""Order in a file; `model` comes last."""


class Recipe(RunConfig):
    """All settings of a training run, in a TOML file."""

    @classmethod
    def read(
        cls,
        path: Path | str,
        overrides: Sequence[str] = (),
        overrides_directory: Path | None = None,
    ) -> Self:
        """Read a TOML file and apply overrides of the form `section.key=value`.

        Paths are relative to the recipe; those in overrides to `overrides_directory`, if given.

        Raises InputError if the file cannot be read, and ConfigError with all problems, each with
        the file or the override that it comes from.
        """
        tables = [parse_override_as_dict(override) for override in overrides]
        if overrides_directory is not None:
            tables = [_make_paths_absolute(table, overrides_directory) for table in tables]
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
            raise name_origins(error, path, overrides) from None

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


def name_origins(error: ConfigError, path: Path | str, overrides: Sequence[str]) -> ConfigError:
    """Return the error with the override or the file that each of its problems comes from."""
    return ConfigError(*(f"{_find_origin(p, path, overrides)}: {p}" for p in error.problems))


def _find_origin(problem: Problem, path: Path | str, overrides: Sequence[str]) -> str:
    """Return the last override of the setting.

    Without one, return the file, with the overrides of settings that the message names.
    """
    keys = {override: override.partition("=")[0].strip() for override in overrides}
    for override in reversed(overrides):
        key, name = keys[override], problem.field
        if f"{key}.".startswith(f"{name}.") or f"{name}.".startswith(f"{key}."):
            return override
    named = [o for o in overrides if f"`{keys[o].rpartition('.')[2]}`" in problem.message]
    return " with ".join([str(path), *named])


_PATH_SETTINGS = frozenset({("data", "root"), ("train", "init_from"), ("loss", "teacher")})


def _make_paths_absolute(value: Any, directory: Path, path: tuple[str, ...] = ()) -> Any:
    """Return a table with absolute paths of directories and corpus files."""
    if isinstance(value, dict):
        items = value.items()
        return {key: _make_paths_absolute(each, directory, (*path, key)) for key, each in items}
    if isinstance(value, list):
        return [_make_paths_absolute(each, directory, path) for each in value]
    is_path = path in _PATH_SETTINGS or (path[:1] == ("data",) and path[-1:] == ("files",))
    is_name = not isinstance(value, str) or value.startswith(("$", "builtin:"))
    return value if is_name or not is_path else os.path.normpath(directory / value)


_COMMENT_WIDTH = 98


def format_toml_section(name: str, config: Config) -> Iterator[str]:
    """Yield the lines of a TOML table, each key with a comment."""
    yield from ("", "", *_write_comment(type(config).__doc__), f"[{name}]")
    yield from _write_keys(name, config)


def _write_keys(path: str, config: Config) -> Iterator[str]:
    """Yield the lines of the keys of a table, and then those of its nested tables."""
    for name, value in _fields(config):
        if not _nested_configs(value):
            yield from _write_description(config, name)
            yield _write_key(name, value)
    for name, value in _fields(config):
        for table in _nested_configs(value):
            yield from ("", *_write_description(config, name))
            yield f"[{path}.{name}]" if table is value else f"[[{path}.{name}]]"
            yield from _write_keys(f"{path}.{name}", table)


def format_commented_toml_keys(
    config: Config, set_values: Mapping[str, Any], names: Sequence[str], path: str = ""
) -> Iterator[str]:
    """Yield the lines of the keys in `names`; those not in `set_values` are commented out.

    Keys of nested tables are dotted, because keys cannot be added to an inline table.
    """
    for name, value in _fields(config):
        if name not in names:
            continue
        yield from _write_description(config, name)
        if isinstance(value, Config):
            inner = set_values.get(name, {})
            fields = [*type(value).model_fields]
            yield from format_commented_toml_keys(value, inner, fields, f"{path}{name}.")
        else:
            yield _write_key(f"{path}{name}", value, is_unset=name not in set_values)


def _fields(config: Config) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(config, name)) for name in type(config).model_fields)


def _nested_configs(value: Any) -> Sequence[Config]:
    """Return the configs in a field: one, or a tuple of them, or none."""
    if isinstance(value, Config):
        return [value]
    if isinstance(value, tuple) and any(isinstance(each, Config) for each in value):
        return value
    return []


def _write_description(config: Config, name: str) -> Iterator[str]:
    return _write_comment(type(config).model_fields[name].description)


def _write_comment(text: str | None) -> Iterator[str]:
    flat = " ".join((text or "").split())
    yield from (f"# {line}" for line in textwrap.wrap(flat, _COMMENT_WIDTH))


def _write_key(name: str, value: Any, is_unset: bool = False) -> str:
    if value is None:
        return f"#{name} ="
    return f"{'#' * is_unset}{name} = {format_toml_value(value)}"


def format_toml_value(value: Any) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {format_toml_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return json.dumps(value)
