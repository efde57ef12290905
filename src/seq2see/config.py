"""How a part declares its settings: typed, frozen, and refused with every problem at once.

A part's own config stands beside the part; this is only their common base. The docstring under a
field is its help text. Unknown keys are refused with the nearest valid one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
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
        return type(self)(**merged(self.model_dump(), changes))


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the changes; where both have a table, it is merged field by field."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = merged(old, value)
        else:
            result[key] = value
    return result


@contextmanager
def _our_words(config: type[BaseModel]) -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        problems = [p for detail in error.errors() for p in _problems(config, detail)]
        raise ConfigError(problems) from None


def _problems(config: type[BaseModel], detail: ErrorDetails) -> Iterator[str]:
    """Say in our grammar what pydantic found: "`x` must be …, but is … instead"."""
    path = ".".join(str(step) for step in detail["loc"])
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # from a config inside this one, or from `conflicts`
        inside = f"`{path}." if path else "`"
        yield from (problem.replace("`", inside, 1) for problem in cause.problems)
    elif detail["type"] == "extra_forbidden":
        yield f"`{path}` is not a setting{_nearest(path, config.model_fields)}"
    elif detail["type"] == "json_invalid":
        yield f"settings must be JSON, but: {detail['ctx']['error']}"
    elif detail["type"] == "missing":
        yield f"`{path}` must be given"
    else:
        yield f"`{path}` must be {_wanted(detail)}, but is {detail['input']!r} instead"


def _nearest(name: str, valid: Mapping[str, object]) -> str:
    near = get_close_matches(name, valid, n=1)
    return f"; did you mean `{near[0]}`?" if near else f"; valid are {', '.join(valid)}"


_WANTED: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "literal_error": lambda c: "one of " + c["expected"].replace("'", ""),
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
    "model_type": lambda _: "a table of settings",
}


def _wanted(detail: ErrorDetails) -> str:
    words = _WANTED.get(detail["type"])
    return words(detail.get("ctx", {})) if words else detail["msg"]
