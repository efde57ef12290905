"""Write a config as TOML, with the docstring of each field as a comment above its key.

`# text` is a comment; `#key = value` shows the default of a key that is not set.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq2see.config import Config

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
