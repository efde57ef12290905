"""Wrong use: one line that names the options as they are typed, and the exit status 2."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from seq2see.errors import ConfigError

STATUS = 2
"""Of options, arguments and settings that cannot be; whatever else fails has 1."""
_FLAGS = {"forbidden": "forbid", "token_scores": "scores", "metrics": "metric"}
_NAME = re.compile(r"`(?!-)(?:search\.)?(?:sampling\.)?(\w+)(?:\.\d+)?`")


@contextmanager
def wrong_use() -> Iterator[None]:
    """Make one line, and the exit status of wrong use, from options that cannot be."""
    try:
        yield
    except ConfigError as error:
        typer.echo(f"seq2see: {'; '.join(map(_by_flag, error.problems))}", err=True)
        raise typer.Exit(STATUS) from None


def refuse_ending(path: Path, endings: Sequence[str], option: str) -> None:
    """Refuse a name that no file of these kinds has."""
    if path.suffix.lower() not in endings:
        wanted = ", ".join(endings)
        raise ConfigError([f"`{option}` must end with one of {wanted}, but is {path} instead"])


def flag(name: str) -> str:
    """Return what a setting is called on the command line."""
    return f"--{_FLAGS.get(name, name.replace('_', '-'))}"


def _by_flag(problem: str) -> str:
    if problem.startswith("`files`"):
        return problem.replace("`files`", "FILES", 1)  # they are arguments
    return _NAME.sub(lambda match: f"`{flag(match[1])}`", problem, count=1)
