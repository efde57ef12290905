"""What the parser of the command line finds wrong, in our words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any

import typer

from seq2see.config import wanted

UsageError: Any = typer.BadParameter.__mro__[1]  # typer gives it no name of its own
"""What the parser raises."""

_NEAR = 0.7
"""Names that are less alike are not suggested."""
_PARTS = re.compile(r"[-_. ]")
_CHOICE = re.compile(r"'(?P<given>.*)' is not one of (?P<choices>.*?)\.?$")
_OTHERS = {
    r"Got unexpected extra argument\S* \((.*)\)": r"`\1` is too much",
    r"Option '(.*)' requires an argument\.": r"`\1` needs a value",
    r"Option '(.*)' does not take a value\.": r"`\1` takes no value",
}


def in_words(error: Any) -> str:
    """Say what is wrong with an option or an argument, and what to do."""
    kind = type(error).__name__  # of typer, which has them from click or has its own
    if kind == "NoSuchOption":
        return _no_option(error.option_name, error.ctx)
    if kind == "MissingParameter":
        return f"{_name(error)} must be given{_help(error.ctx)}"
    if kind == "BadParameter":
        return f"{_name(error)} {_misfit(error)}"
    for pattern, words in _OTHERS.items():
        if match := re.fullmatch(pattern, error.message):
            return match.expand(words) + _help(error.ctx)
    return str(error.format_message())


def no_command(name: str, names: Iterable[str]) -> str:
    """Say that there is no such command, and which is nearest."""
    near = nearest(name, names)
    return f"`{name}` is not a command" + (_meant(near) or ": `seq2see --help` names them")


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that may have been meant, the likeliest first: none that is far."""
    closeness = {each: _closeness(name, each) for each in names}
    least = max(_NEAR, max(closeness.values(), default=0) - 0.05)
    near = [each for each in closeness if closeness[each] >= least]
    return sorted(near, key=lambda each: -closeness[each])[:3]


def _closeness(name: str, other: str) -> float:
    """Return how alike two names are, 1 at most; one word is compared with each of the other's."""
    name, other = name.lstrip("-").lower(), other.lstrip("-").lower()
    found = [_ratio(_PARTS.sub("", name), _PARTS.sub("", other))]
    if not _PARTS.search(name):
        for part in _PARTS.split(other):
            begins = len(name) > 2 and part.startswith(name)
            found.append(max(_ratio(name, part), 0.9 * begins))
    return max(found)


def _ratio(a: str, b: str) -> float:
    return SequenceMatcher(None, a, b).ratio()


def _no_option(name: str, ctx: Any) -> str:
    parameters = ctx.command.get_params(ctx) if ctx else []
    options = [each for p in parameters for each in p.opts if each.startswith("--")]
    if name.startswith("--"):
        if near := nearest(name, options):
            return f"`{name}` is not an option{_meant(near)}"
        if any(each.name == "changes" for each in parameters):
            return f"`{name}` is not an option{_as_setting(name)}"
    return f"`{name}` is not an option{_help(ctx)}"


def _as_setting(name: str) -> str:
    from seq2see.settings.recipe import setting_names

    near = nearest(name, setting_names())
    return f": settings are given as {' or '.join(f'`{n}=VALUE`' for n in near or ['section.key'])}"


def _meant(near: list[str]) -> str:
    return f"; did you mean {' or '.join(f'`{each}`' for each in near)}?" if near else ""


def _help(ctx: Any) -> str:
    return f": see `{ctx.command_path} --help`" if ctx else ""


def _name(error: Any) -> str:
    """Return an option or an argument as its help names it."""
    parameter = error.param
    if parameter is None:
        return str(error.param_hint or "the value")
    if parameter.param_type_name == "option":
        return f"`{max(parameter.opts, key=len)}`"
    return str(parameter.metavar or parameter.name.upper()).rstrip("…")


def _misfit(error: Any) -> str:
    """Return what a value must be, and what it is."""
    if match := _CHOICE.search(error.message):
        choices = match["choices"].replace("'", "")
        return f"must be one of {choices}, but is {match['given']} instead"
    details = error.__cause__.errors() if hasattr(error.__cause__, "errors") else []
    if details:
        return f"must be {wanted(details[0])}, but is {details[0]['input']} instead"
    return f"cannot be so: {error.message}"
