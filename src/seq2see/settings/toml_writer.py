"""Write a config as TOML, with the docstring of each field as a comment above its key.

`# text` is a comment; `#key = value` shows the default of a key that is not set.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from seq2see.config import Config

_WIDTH = 98


def write_section(name: str, config: Config) -> Iterator[str]:
    """Write a table, each of its keys with its meaning."""
    yield from ("", "", *_comment(type(config).__doc__), f"[{name}]")
    yield from _keys(name, config)


def _keys(path: str, config: Config) -> Iterator[str]:
    """Write the keys of a table, and behind them the tables inside it."""
    for name, value in _fields(config):
        if not _tables(value):
            yield from _explained(config, name)
            yield _line(name, value)
    for name, value in _fields(config):
        for table in _tables(value):
            yield from ("", *_explained(config, name))
            yield f"[{path}.{name}]" if table is value else f"[[{path}.{name}]]"
            yield from _keys(f"{path}.{name}", table)


def write_overrides(
    config: Config, set_values: Mapping[str, Any], excluded: Sequence[str] = (), path: str = ""
) -> Iterator[str]:
    """Write every key with its value, as one that is not set unless it was given.

    Keys of inner tables have dots: a table in braces could not be added to.
    """
    for name, value in _fields(config):
        if name in excluded:
            continue
        yield from _explained(config, name)
        if isinstance(value, Config):
            yield from write_overrides(value, set_values.get(name, {}), path=f"{path}{name}.")
        else:
            yield _line(f"{path}{name}", value, unset=name not in set_values)


def _fields(config: Config) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(config, name)) for name in type(config).model_fields)


def _tables(value: Any) -> Sequence[Config]:
    """Return the tables that a value is, or is a list of."""
    if isinstance(value, Config):
        return [value]
    if isinstance(value, tuple) and any(isinstance(each, Config) for each in value):
        return value
    return []


def _explained(config: Config, name: str) -> Iterator[str]:
    return _comment(type(config).model_fields[name].description)


def _comment(text: str | None) -> Iterator[str]:
    flat = " ".join((text or "").split())
    yield from (f"# {line}" for line in textwrap.wrap(flat, _WIDTH))


def _line(name: str, value: Any, unset: bool = False) -> str:
    if value is None:
        return f"#{name} ="
    return f"{'#' * unset}{name} = {format_toml_value(value)}"


def format_toml_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {format_toml_value(each)}" for key, each in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml_value, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return json.dumps(value)
