"""How the verbs read and describe what is typed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from typer.core import TyperCommand, TyperGroup

from seq2see.cli.mistakes import no_command
from seq2see.cli.usage import options_of, wrong_use
from seq2see.errors import ConfigError

CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A language: en, pt-BR."""


class _Ours:
    """What single commands and groups have in common."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what is typed; what is wrong with it is one line."""
        with wrong_use():
            return super().make_context(*args, **kwargs)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, `--help` among them.

        Flags show no type: `--json <bool>` would look as if a value had to follow.
        """
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for each in parameters:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return parameters


class Verb(_Ours, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--languages en de` for `--languages en,de`, as many type it."""
        parsed: list[str] = super().parse_args(ctx, with_pairs(args))
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run it; what is wrong is named by its own options, wherever it is found."""
        names = {option for each in self.params for option in each.opts}
        with options_of(names), wrong_use():
            return super().invoke(ctx)


class Verbs(_Ours, TyperGroup):
    """Several commands under one name."""

    def invoke(self, ctx: Any) -> Any:
        """Run one of them."""
        with wrong_use():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named first, or the one that was meant."""
        if self.get_command(ctx, args[0]) is None:
            raise ConfigError([no_command(args[0], self.paths())])
        return super().resolve_command(ctx, args)

    def paths(self) -> list[str]:
        """Return the commands with those of groups, such as `data check`."""
        groups = {name: each for name, each in self.commands.items() if isinstance(each, Verbs)}
        inner = [f"{name} {path}" for name, group in groups.items() for path in group.paths()]
        return [*self.commands, *inner]


def with_pairs(arguments: Sequence[str]) -> list[str]:
    """Put a comma between the two languages where a space is."""
    result: list[str] = []
    for word in arguments:
        is_second = result[-2:-1] == ["--languages"] and CODE.fullmatch(result[-1])
        if is_second and CODE.fullmatch(word):
            result[-1] += f",{word}"
        else:
            result.append(word)
    return result
