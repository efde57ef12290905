"""Wrong use: one line that names the options as they are typed, and the exit status 2."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer

from seq2see.cli.mistakes import UsageError, in_words
from seq2see.errors import ConfigError

STATUS = 2
"""Of options, arguments and settings that cannot be; whatever else fails has 1."""
_FLAGS = {
    "forbidden": "forbid",
    "token_scores": "scores",
    "metrics": "metric",
    "methods": "method",
}
_NAME = re.compile(r"(?:^|(?<=did you mean ))`(?P<search>search\.)?(?P<name>\w[\w.]*?)(?:\.\d+)?`")
_OPTIONS: ContextVar[Collection[str]] = ContextVar("options", default=())


@contextmanager
def options_of(names: Collection[str]) -> Iterator[None]:
    """Let wrong use name these options, which are those of the verb, and no others."""
    token = _OPTIONS.set(names)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


@contextmanager
def wrong_use() -> Iterator[None]:
    """Make one line, and the exit status of wrong use, from options that cannot be."""
    try:
        yield
    except ConfigError as error:
        problem = "; ".join(map(_by_flag, error.problems))
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # no mistake: it shows the help
            raise
        problem = in_words(error)
    else:
        return
    typer.echo(f"seq2see: {problem}", err=True)
    raise typer.Exit(STATUS)


def all_of(*makes: Callable[[], Any]) -> list[Any]:
    """Return what each of them makes, or say all that is wrong at once."""
    made: list[Any] = []
    problems: list[str] = []
    for make in makes:
        try:
            made.append(make())
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made


def refuse_ending(path: Path, endings: Sequence[str], option: str) -> None:
    """Refuse a name that no file of these kinds has."""
    if path.suffix.lower() not in endings:
        wanted = ", ".join(endings)
        raise ConfigError([f"`{option}` must end with one of {wanted}, but is {path} instead"])


def given(settings: Mapping[str, object]) -> str:
    """Name the options that were typed, by the values of their settings."""
    found = (k for k, v in settings.items() if v is not None and v is not False and v != [])
    return ", ".join(f"`{flag(name)}`" for name in found)  # 0 is given


def flag(name: str) -> str:
    """Return what a setting is called on the command line."""
    return f"--{_FLAGS.get(name, name.replace('_', '-'))}"


def _by_flag(problem: str) -> str:
    if problem.startswith("`files`"):
        return problem.replace("`files`", "FILES", 1)  # they are arguments
    return _NAME.sub(_typed, problem)


def _typed(match: re.Match[str]) -> str:
    """Return a setting as one types it: by an option of the verb, or through `--search`."""
    option = flag(match["name"].removeprefix("sampling."))
    if option in _OPTIONS.get():
        return f"`{option}`"
    return f"`--search {match['name']}`" if match["search"] else match[0]
