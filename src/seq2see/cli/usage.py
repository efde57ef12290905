"""Typer command classes, and usage errors as one line with exit status 2."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import SequenceMatcher
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from seq2see.errors import ConfigError

UsageError: Any = typer.BadParameter.__mro__[1]  # typer gives it no name of its own
"""What the parser raises."""


_NEAR = 0.7
"""Names that are less alike are not suggested."""


_PARTS = re.compile(r"[-_. ]")


_CHOICE = re.compile(r"'(?P<given>.*)' is not one of (?P<choices>.*?)\.?$")


_OTHERS = {
    r"Got unexpected extra argument\S* \((.*)\)": r"`\1` is an unexpected argument",
    r"Option '(.*)' requires an argument\.": r"`\1` needs a value",
    r"Option '(.*)' does not take a value\.": r"`\1` takes no value",
}


def format_usage_error(error: Any) -> str:
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


def format_unknown_command(name: str, names: Iterable[str]) -> str:
    """Say that there is no such command, and which is nearest."""
    near = find_close_matches(name, names)
    return f"`{name}` is not a command" + (_meant(near) or ": see `seq2see --help`")


def find_close_matches(name: str, names: Iterable[str]) -> list[str]:
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
        if near := find_close_matches(name, options):
            return f"`{name}` is not an option{_meant(near)}"
        if any(each.name == "overrides" for each in parameters):
            return f"`{name}` is not an option{_as_setting(name)}"
    return f"`{name}` is not an option{_help(ctx)}"


def _as_setting(name: str) -> str:
    from seq2see.settings.recipe import list_setting_names

    near = find_close_matches(name, list_setting_names())
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
    from seq2see.config import expected_type  # imports pydantic, which is slow

    details = error.__cause__.errors() if hasattr(error.__cause__, "errors") else []
    if details:
        return f"must be {expected_type(details[0])}, but is {details[0]['input']} instead"
    return f"cannot be so: {error.message}"


USAGE_ERROR_STATUS = 2
"""Of options, arguments and settings that cannot be; whatever else fails has 1."""


_NAME = re.compile(r"(?:^|(?<=did you mean ))`(?P<search>search\.)?(?P<name>\w[\w.]*?)(?:\.\d+)?`")


_OPTIONS: ContextVar[Collection[str]] = ContextVar("options", default=())


@contextmanager
def use_option_names(names: Collection[str]) -> Iterator[None]:
    """Let wrong use name these options, which are those of the verb, and no others."""
    token = _OPTIONS.set(names)
    try:
        yield
    finally:
        _OPTIONS.reset(token)


@contextmanager
def report_usage_errors() -> Iterator[None]:
    """Make one line, and the exit status of wrong use, from options that cannot be."""
    try:
        yield
    except ConfigError as error:
        problem = "; ".join(map(_by_flag, error.problems))
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # no mistake: it shows the help
            raise
        problem = format_usage_error(error)
    else:
        return
    typer.echo(f"seq2see: {problem}", err=True)
    raise typer.Exit(USAGE_ERROR_STATUS)


def collect_errors(*functions: Callable[[], Any]) -> list[Any]:
    """Return what each of them makes, or say all that is wrong at once."""
    made: list[Any] = []
    problems: list[str] = []
    for make in functions:
        try:
            made.append(make())
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made


def format_given_options(settings: Mapping[str, object]) -> str:
    """Name the options that were typed, by the values of their settings."""
    found = (k for k, v in settings.items() if v is not None and v is not False and v != [])
    return ", ".join(f"`{option_name(name)}`" for name in found)  # 0 is given


def option_name(name: str) -> str:
    """Return what a setting is called on the command line."""
    return f"--{name.replace('_', '-')}"


def _by_flag(problem: str) -> str:
    if problem.startswith("`files`"):
        return problem.replace("`files`", "FILES", 1)  # they are arguments
    return _NAME.sub(_typed, problem)


def _typed(match: re.Match[str]) -> str:
    """Return a setting as it is typed: by an option of the command, or through `--search`.

    A repeatable option has the singular of the setting that it sets: `--metric` sets `metrics`.
    """
    name = match["name"].removeprefix("sampling.")
    for option in (option_name(name), option_name(name.removesuffix("s"))):
        if option in _OPTIONS.get():
            return f"`{option}`"
    return f"`--search {match['name']}`" if match["search"] else match[0]


LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*")
"""A language: en, pt-BR."""


class _Ours:
    """What single commands and groups have in common."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read what is typed; what is wrong with it is one line."""
        with report_usage_errors():
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


class Command(_Ours, TyperCommand):
    """A command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--languages en de` for `--languages en,de`, as many type it."""
        parsed: list[str] = super().parse_args(ctx, join_language_pair(args))
        return parsed

    def invoke(self, ctx: Any) -> Any:
        """Run it; what is wrong is named by its own options, wherever it is found."""
        names = {option for each in self.params for option in each.opts}
        with use_option_names(names), report_usage_errors():
            return super().invoke(ctx)


class CommandGroup(_Ours, TyperGroup):
    """Several commands under one name."""

    def invoke(self, ctx: Any) -> Any:
        """Run one of them."""
        with report_usage_errors():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is named first, or the one that was meant."""
        if self.get_command(ctx, args[0]) is None:
            raise ConfigError([format_unknown_command(args[0], self.command_paths())])
        return super().resolve_command(ctx, args)

    def command_paths(self) -> list[str]:
        """Return the commands with those of groups, such as `data check`."""
        groups = {
            name: each for name, each in self.commands.items() if isinstance(each, CommandGroup)
        }
        inner = [
            f"{name} {path}" for name, group in groups.items() for path in group.command_paths()
        ]
        return [*self.commands, *inner]


def join_language_pair(arguments: Sequence[str]) -> list[str]:
    """Put a comma between the two languages where a space is."""
    result: list[str] = []
    for word in arguments:
        is_second = result[-2:-1] == ["--languages"] and LANGUAGE_CODE.fullmatch(result[-1])
        if is_second and LANGUAGE_CODE.fullmatch(word):
            result[-1] += f",{word}"
        else:
            result.append(word)
    return result
