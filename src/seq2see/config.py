"""Base class of all configs: typed, immutable, and validated with all problems reported at once.

The config of a component is defined next to the component. The docstring under a field is its help
text. Unknown keys are rejected with a suggestion of the nearest valid key.
"""

from __future__ import annotations

import re
import reprlib
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from seq2see.errors import ConfigError, Problem


class Config(BaseModel):
    """Base class of all configs.

    Subclasses override `conflicts` for problems that involve more than one field.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,  # neither True nor "1" is accepted as the number 1
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    def __init__(self, **data: Any) -> None:
        with _raise_config_error(type(self)):
            super().__init__(**data)

    @classmethod
    def model_validate(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a config from a dict. Raises `ConfigError` if it is invalid."""
        with _raise_config_error(cls):
            return super().model_validate(*args, **kwargs)

    @classmethod
    def model_validate_json(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a config from JSON. Raises `ConfigError` if it is invalid."""
        with _raise_config_error(cls):
            return super().model_validate_json(*args, **kwargs)

    @model_validator(mode="after")
    def _check_conflicts(self) -> Self:
        if problems := list(self.conflicts()):
            raise ConfigError(*problems)
        return self

    def conflicts(self) -> Iterator[Problem]:
        """Yield one problem for each invalid combination of individually valid fields."""
        yield from ()

    def replace(self, **changes: Any) -> Self:
        """Return a validated copy with changed fields; nested dicts are merged."""
        return type(self)(**deep_merge(self.model_dump(), changes))


def deep_merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `changes`; dicts that are in both are merged recursively."""
    result = dict(base)
    for key, value in changes.items():
        old = result.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            result[key] = deep_merge(old, value)
        else:
            result[key] = value
    return result


def parse_override_as_dict(text: str) -> dict[str, Any]:
    """Parse `a.b=value` into a nested dict.

    The value is parsed as TOML; if that fails, it is a string. Raises `ConfigError` if the text has
    another form.
    """
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(Problem(text, "must be section.key=value to change a setting"))
    try:
        parsed = tomllib.loads(f"x = {value}")["x"]
    except tomllib.TOMLDecodeError:
        parsed = value
    for key in reversed(keys):
        parsed = {key: parsed}
    return dict(parsed)


@contextmanager
def _raise_config_error(config: type[BaseModel]) -> Iterator[None]:
    """Convert a pydantic `ValidationError` to a `ConfigError`."""
    try:
        yield
    except ValidationError as error:
        details = _remove_redundant(error.errors())
        groups = [list(group) for _, group in groupby(details, _location)]
        problems = [p for group in groups[:_MAX_PROBLEMS] for p in _problems(config, group)]
        if (omitted := len(groups) - _MAX_PROBLEMS) > 0:
            problems.append(Problem("", f"and {omitted} more"))
        raise ConfigError(*problems) from None


_MAX_PROBLEMS = 50
"""Maximum number of invalid fields that are described."""


def _remove_redundant(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Remove "too short" errors of lists with invalid items: pydantic counts only valid items."""
    parents = {detail["loc"][:end] for detail in details for end in range(len(detail["loc"]))}
    return [d for d in details if d["type"] != "too_short" or d["loc"] not in parents]


_UNION_TYPES = {"int", "float", "str", "bool"}
"""Names that pydantic appends to the location of a field that accepts several types. It reports one
error per type."""


def _location(detail: ErrorDetails) -> tuple[int | str, ...]:
    """Return the keys that lead to the invalid value."""
    location = detail["loc"]
    return location[:-1] if len(location) > 1 and location[-1] in _UNION_TYPES else location


def _problems(config: type[BaseModel], details: Sequence[ErrorDetails]) -> Iterator[Problem]:
    """Yield pydantic's errors of one field as "`x` must be …, but is … instead"."""
    detail = details[0]
    path = ".".join(str(key) for key in _location(detail))
    cause = detail.get("ctx", {}).get("error")
    if isinstance(cause, ConfigError):  # from a nested config or from `conflicts`
        yield from (problem.with_prefix(path) for problem in cause.problems)
    elif detail["type"] == "extra_forbidden":
        yield unknown_setting_problem(path, config.model_fields)
    elif detail["type"] == "json_invalid":
        yield Problem("", f"settings must be JSON, but: {detail['ctx']['error']}")
    elif detail["type"] == "missing":
        yield Problem(path, "must be given")
    elif detail["type"] == "union_tag_not_found":
        yield Problem(f"{path}.{_discriminator(detail)}", "must be given")
    elif detail["type"] == "union_tag_invalid":
        field, tag = _discriminator(detail), _format_value(detail["ctx"]["tag"])
        yield Problem(
            f"{path}.{field}", f"must be {describe_allowed_values(detail)}, but is {tag} instead"
        )
    else:
        types = " or ".join(dict.fromkeys(map(describe_allowed_values, details)))
        is_secret = config.model_config.get("hide_input_in_errors", False)
        found = "" if is_secret else f", but is {_format_value(detail['input'])} instead"
        yield Problem(path, f"must be {types}{found}")


def _discriminator(detail: ErrorDetails) -> str:
    """Return the field that selects the type in a discriminated union."""
    return str(detail["ctx"]["discriminator"]).strip("'")


_MAX_SHOWN = 200
_short_repr = reprlib.Repr()  # a value may be nested too deeply for `repr`
_short_repr.maxdict = _short_repr.maxlist = _short_repr.maxtuple = 20
_short_repr.maxstring = _short_repr.maxother = _MAX_SHOWN


def _format_value(value: object) -> str:
    text = _short_repr.repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def unknown_setting_problem(name: str, valid: Collection[str]) -> Problem:
    """Return the problem of an unknown setting, with the most similar valid name."""
    if matches := find_close_matches(name, valid):
        return Problem(name, "is not a setting", matches[0])
    return Problem(name, f"is not a setting; valid are {', '.join(valid)}")


_MIN_SIMILARITY = 0.7
"""Names that are less similar are not suggested."""


def find_close_matches(name: str, names: Iterable[str]) -> list[str]:
    """Return at most three names that may have been meant, the most similar first."""
    similarities = {each: _similarity(name.strip("-").lower(), each) for each in names}
    threshold = max(_MIN_SIMILARITY, max(similarities.values(), default=0) - 0.05)
    matches = [each for each in similarities if similarities[each] >= threshold]
    return sorted(matches, key=lambda each: -similarities[each])[:3]


def _similarity(name: str, other: str) -> float:
    """Return the similarity to the other name or its most similar word; beginnings are similar."""
    other = other.strip("-").lower()
    return max(
        0.9 if word != name and word.startswith(name) else SequenceMatcher(None, name, word).ratio()
        for word in (other, *re.split(r"[-_. ]", other))
    )


_EXPECTED_TYPES = {
    "literal_error": "one of {expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "greater_than": "above {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "below {lt}",
    "less_than_equal": "at most {le}",
    "finite_number": "a finite number",
    "string_type": "a string",
    "string_pattern_mismatch": "a string of the form {pattern}",
    "too_long": "a list of at most {max_length}",
    "too_short": "a list of at least {min_length}",
    "dict_type": "a table",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("tuple_type", "list_type"), "a list"),
    **dict.fromkeys(("model_type", "model_attributes_type"), "a table of settings"),
}
"""Descriptions of the allowed values by pydantic's type of the error."""


def describe_allowed_values(detail: ErrorDetails) -> str:
    """Return a description of the values that are allowed; pydantic's message for rare errors."""
    template = _EXPECTED_TYPES.get(detail["type"])
    if template is None:
        return detail["msg"]
    return template.format(**detail.get("ctx", {})).replace("'", "")
