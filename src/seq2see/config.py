"""How a part declares its settings: typed, frozen, and refused with every problem at once.

A part's own config stands beside the part; this is only their common base. The docstring under a
field is its help text. Unknown keys are refused with the nearest valid one.
"""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import groupby
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from seq2see.errors import ConfigError


class Config(BaseModel):
    """The base of every config. Subclasses give `conflicts` for what no single field can tell."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,  # neither True nor "1" is the number 1
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    def __init__(self, **data: Any) -> None:
        with _our_words(type(self)):
            super().__init__(**data)

    @classmethod
    def model_validate(cls, *args: Any, **kwargs: Any) -> Self:
        """Make it from a table; problems are a `ConfigError` here too."""
        with _our_words(cls):
            return super().model_validate(*args, **kwargs)

    @classmethod
    def model_validate_json(cls, *args: Any, **kwargs: Any) -> Self:
        """Make it from JSON; problems are a `ConfigError` here too."""
        with _our_words(cls):
            return super().model_validate_json(*args, **kwargs)

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> Self:
        if problems := list(self.conflicts()):
            raise ConfigError(problems)
        return self

    def conflicts(self) -> Iterator[str]:
        """Yield a line for each combination of fields that cannot be, each good by itself."""
        yield from ()

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields, checked anew; tables are merged."""
        return type(self)(**deep_merge(self.model_dump(), changes))


def deep_merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the changes; where both have a table, it is merged field by field."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = deep_merge(old, value)
        else:
            result[key] = value
    return result


def parse_override(text: str) -> dict[str, Any]:
    """Return `a.b=value` as a table; the value is TOML, or else a text."""
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError([f"`{text}` must be section.key=value to change a setting"])
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for key in reversed(keys):
        parsed = {key: parsed}
    return dict(parsed)


@contextmanager
def _our_words(config: type[BaseModel]) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        details = _without_echoes(error.errors())
        groups = (list(group) for _, group in groupby(details, _place))
        raise ConfigError([p for group in groups for p in _problems(config, group)]) from None


def _without_echoes(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Leave out that a list is too short where its items are wrong: pydantic counts the right."""
    inside = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in inside]


_KINDS = {"int", "float", "str", "bool"}
"""What pydantic puts behind a place that takes several kinds of value, one problem for each."""
_MEANT = "did you mean "


def _place(detail: ErrorDetails) -> tuple[int | str, ...]:
    place = detail["loc"]
    return place[:-1] if len(place) > 1 and place[-1] in _KINDS else place


def _problems(config: type[BaseModel], details: Sequence[ErrorDetails]) -> Iterator[str]:
    """Say in our grammar what pydantic found: "`x` must be …, but is … instead"."""
    detail = details[0]
    path = ".".join(str(step) for step in _place(detail))
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # from a config inside this one, or from `conflicts`
        yield from (with_prefix(path, problem) for problem in cause.problems)
    elif detail["type"] == "extra_forbidden":
        yield f"`{path}` is not a setting{_nearest(path, config.model_fields)}"
    elif detail["type"] == "json_invalid":
        yield f"settings must be JSON, but: {detail['ctx']['error']}"
    elif detail["type"] == "missing":
        yield f"`{path}` must be given"
    elif detail["type"] == "union_tag_not_found":
        yield f"`{path}.{_tag_name(detail)}` must be given"
    elif detail["type"] == "union_tag_invalid":
        tag = _tag_name(detail)
        given = _shown(detail["ctx"]["tag"])
        yield f"`{path}.{tag}` must be {expected_type(detail)}, but is {given} instead"
    else:
        kinds = " or ".join(dict.fromkeys(map(expected_type, details)))
        yield f"`{path}` must be {kinds}, but is {_shown(detail['input'])} instead"


def with_prefix(prefix: str, problem: str) -> str:
    """Return a problem of a config as one of the config that has it at this place."""
    if not prefix:
        return problem
    said, meant, near = problem.partition(f"{_MEANT}`")
    return said.replace("`", f"`{prefix}.", 1) + (f"{meant}{prefix}.{near}" if meant else "")


def _tag_name(detail: ErrorDetails) -> str:
    """Return the field by which pydantic tells one kind of table from another."""
    return str(detail["ctx"]["discriminator"]).strip("'")


_SHOWN = 200
_brief = reprlib.Repr()  # a value may be nested deeper than `repr` can follow
_brief.maxdict = _brief.maxlist = _brief.maxtuple = 20
_brief.maxstring = _brief.maxother = _SHOWN


def _shown(value: object) -> str:
    text = _brief.repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _nearest(name: str, valid: Mapping[str, object]) -> str:
    near = get_close_matches(name, valid, n=1)
    return f"; {_MEANT}`{near[0]}`?" if near else f"; valid are {', '.join(valid)}"


_WANTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "literal_error": lambda c: "one of " + c["expected"].replace("'", ""),
    "union_tag_invalid": lambda c: "one of " + c["expected_tags"].replace("'", ""),
    "greater_than": lambda c: f"above {c['gt']}",
    "greater_than_equal": lambda c: f"at least {c['ge']}",
    "less_than": lambda c: f"below {c['lt']}",
    "less_than_equal": lambda c: f"at most {c['le']}",
    "int_type": lambda _: "a whole number",
    "int_parsing": lambda _: "a whole number",
    "int_from_float": lambda _: "a whole number",
    "float_type": lambda _: "a number",
    "float_parsing": lambda _: "a number",
    "finite_number": lambda _: "a finite number",
    "bool_type": lambda _: "true or false",
    "bool_parsing": lambda _: "true or false",
    "string_type": lambda _: "a text",
    "string_pattern_mismatch": lambda c: f"a text of the form {c['pattern']}",
    "too_long": lambda c: f"a list of at most {c['max_length']}",
    "too_short": lambda c: f"a list of at least {c['min_length']}",
    "tuple_type": lambda _: "a list",
    "list_type": lambda _: "a list",
    "dict_type": lambda _: "a table",
    "model_type": lambda _: "a table of settings",
    "model_attributes_type": lambda _: "a table of settings",
}


def expected_type(detail: ErrorDetails) -> str:
    """Return what a value must be, in our words where we have any."""
    words = _WANTED.get(detail["type"])
    return words(detail.get("ctx", {})) if words else detail["msg"]
