"""Typer command classes: errors are one line, with exit status 2 for usage errors."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from seq2see.errors import ConfigError, Problem, Seq2SeeError

USAGE_ERROR_STATUS = 2
"""Exit status for invalid options, arguments and settings; other failures have status 1."""

_STANDARD_OUTPUT = 1
_ParserError: Any = typer.BadParameter.__mro__[1]
"""Base class of the parser's errors, which Typer does not export."""
_INVALID_CHOICE = re.compile(r"'(?P<given>.*)' is not one of (?P<choices>.*?)\.?$")
_PARSER_MESSAGES = {
    r"Got unexpected extra argument\S* \((.*)\)": r"`\1` is an unexpected argument",
    r"Option '(.*)' requires an argument\.": r"`\1` needs a value",
    r"Option '(.*)' does not take a value\.": r"`\1` takes no value",
}
"""Messages of the parser, and what is printed instead."""
_LIST_INDEX = re.compile(r"\.\d+$")


# --- commands ---


class _FlagsWithoutValue:
    """Shows flags in the help as `--json`: with `--json <bool>`, a value would seem to follow."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class OneLineErrorCommand(_FlagsWithoutValue, TyperCommand):
    """A command whose errors name its options.

    The help of its parameters is the section `Args` of its docstring. Parameters that are not in it
    are described in that of `seq2see.cli.options`.
    """

    def __init__(self, name: str | None, *, help: str | None = None, **kwargs: Any) -> None:  # noqa: A002
        from seq2see.cli import options

        text, own = parse_argument_help(help or "")
        super().__init__(name, help=text, **kwargs)
        descriptions = {**parse_argument_help(options.__doc__ or "")[1], **own}
        for parameter in self.params:
            parameter.help = parameter.help or descriptions.get(parameter.name)  # type: ignore[attr-defined]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, which `ctx.meta` keeps."""
        ctx.meta["arguments"] = list(args)
        return list(super().parse_args(ctx, args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line: options, then arguments as `MODEL [FILES]...`."""
        parameters = self.get_params(ctx)
        arguments = (each for each in parameters if each.param_type_name == "argument")
        return [self.options_metavar or "", *map(_format_argument, arguments)]

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors in settings name the options that set them."""
        try:
            return super().invoke(ctx)
        except ConfigError as error:
            options = {option for parameter in self.params for option in parameter.opts}
            raise ConfigError(*(_name_option(each, options) for each in error.problems)) from None


class OneLineErrorGroup(_FlagsWithoutValue, TyperGroup):
    """A group of commands whose errors are one line."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **__: Any) -> NoReturn:
        """Run a command and exit; print an error that the user can correct as one line.

        If the shell asks for completions, print them instead.
        """
        self._main_shell_completion({}, "seq2see")
        message, status = "", 0
        try:
            try:
                arguments = list(sys.argv[1:] if args is None else args)
                with self.make_context("seq2see", arguments) as context:
                    self.invoke(context)
            except typer.Exit as end:
                status = end.exit_code
            sys.stdout.flush()
        except _ParserError as error:
            status = USAGE_ERROR_STATUS
            if type(error).__name__ == "NoArgsIsHelpError":  # not an error: its message is the help
                error.show()
            else:
                message = format_parser_error(error)
        except Seq2SeeError as error:
            message = str(error)
            status = USAGE_ERROR_STATUS if isinstance(error, ConfigError) else 1
        except OSError as error:
            message, status = _format_file_error(error), 1
        except KeyboardInterrupt as error:
            _end_by_interrupt(error)
        if message:
            typer.echo(f"seq2see: {message}", err=True)
        sys.exit(status)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command named by the first argument; raise ConfigError if it is unknown."""
        if self.get_command(ctx, args[0]) is None:
            nested = (
                f"{name} {nested}"
                for name, group in self.commands.items()
                for nested in getattr(group, "commands", ())
            )
            hint = _suggest(args[0], [*self.commands, *nested]) or ": see `seq2see --help`"
            raise ConfigError(f"`{args[0]}` is not a command{hint}")
        return super().resolve_command(ctx, args)


def parse_argument_help(docstring: str) -> tuple[str, dict[str, str]]:
    """Return a docstring without its section `Args`, and the description of each argument."""
    text, _, section = docstring.partition("\n\nArgs:\n")
    entries = re.split(r"^ {4}(?=\w+: )", section, flags=re.MULTILINE)[1:]
    pairs = (entry.split(": ", 1) for entry in entries)
    return text, {name: " ".join(description.split()) for name, description in pairs}


def _format_argument(argument: Any) -> str:
    """Return an argument as in a usage line; a metavar with brackets is used as it is."""
    name = str(argument.metavar or argument.name.upper())
    if name.startswith("["):
        return name
    if not argument.required:
        name = f"[{name}]"
    elif "|" in name:
        name = f"{{{name}}}"
    return name if argument.nargs == 1 else f"{name}..."


# --- errors in settings ---


@contextmanager
def collecting(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of a ConfigError that the block raises to the list, and go on."""
    try:
        yield
    except ConfigError as error:
        problems += error.problems


def call_all_collecting_errors(*functions: Callable[[], Any]) -> list[Any]:
    """Call all functions and return their results.

    Raises one ConfigError with the problems of all functions that raise a ConfigError.
    """
    results: list[Any] = []
    problems: list[Problem] = []
    for function in functions:
        with collecting(problems):
            results.append(function())
    raise_problems(problems)
    return results


def raise_problems(problems: Sequence[Problem | str]) -> None:
    """Raise a ConfigError with all problems; do nothing if there are none."""
    if problems:
        raise ConfigError(*problems)


def given_options(context: typer.Context, *settings: str) -> list[str]:
    """Return the names of the options among some settings that the command line has."""
    options = {parameter.name: max(parameter.opts, key=len) for parameter in context.command.params}
    return [
        f"`{options[name]}`"
        for name in settings
        if (source := context.get_parameter_source(name)) and source.name == "COMMANDLINE"
    ]


def option_name(setting: str) -> str:
    """Return the name of the option for a setting: `--beam-size` for `beam_size`."""
    return f"--{setting.replace('_', '-')}"


def _name_option(problem: Problem, options: Collection[str]) -> Problem:
    """Return the problem with the settings as they are typed: as options, or with `--search`."""
    names = {
        key: _find_option(getattr(problem, key), options) for key in ("field", "suggested_field")
    }
    return replace(problem, **names)


def _find_option(setting: str, options: Collection[str]) -> str:
    """Return the option that sets a setting; the setting itself if there is none.

    A repeatable option has the singular of the setting that it sets: `--metric` sets `metrics`.
    """
    path = _LIST_INDEX.sub("", setting)
    search_path = path.removeprefix("search.")
    name = search_path.removeprefix("sampling.")
    for option in (option_name(name), option_name(name.removesuffix("s"))):
        if option in options:
            return option
    return setting if search_path == path else f"--search {search_path}"


# --- messages ---


def format_parser_error(error: Any) -> str:
    """Return the message of an error of the parser: what is wrong and what to do."""
    kind = type(error).__name__  # Typer has its own copies of Click's classes
    if kind == "NoSuchOption":
        return _format_unknown_option(error.option_name, error.ctx)
    if kind == "MissingParameter":
        return f"{_parameter_name(error)} must be given{_help_hint(error.ctx)}"
    if kind == "BadParameter":
        return f"{_parameter_name(error)} {_format_bad_value(error)}"
    for pattern, replacement in _PARSER_MESSAGES.items():
        if match := re.fullmatch(pattern, error.message):
            return match.expand(replacement) + _help_hint(error.ctx)
    return str(error.format_message())


def _format_unknown_option(name: str, ctx: Any) -> str:
    parameters = ctx.command.get_params(ctx) if ctx else []
    options = [opt for parameter in parameters for opt in parameter.opts if opt.startswith("--")]
    if name.startswith("--"):
        if suggestion := _suggest(name, options):
            return f"`{name}` is not an option{suggestion}"
        if any(parameter.name == "overrides" for parameter in parameters):
            return f"`{name}` is not an option{_suggest_overrides(name)}"
    return f"`{name}` is not an option{_help_hint(ctx)}"


def _suggest_overrides(name: str) -> str:
    from seq2see.config import find_close_matches
    from seq2see.settings.recipe import list_setting_names

    matches = find_close_matches(name, list_setting_names()) or ["section.key"]
    return f": settings are given as {' or '.join(f'`{match}=VALUE`' for match in matches)}"


def _suggest(name: str, names: Iterable[str]) -> str:
    """Return a question whether similar names were meant; an empty string if there are none."""
    from seq2see.config import find_close_matches  # imports pydantic, which is slow

    matches = find_close_matches(name, names)
    return f"; did you mean {' or '.join(f'`{match}`' for match in matches)}?" if matches else ""


def _help_hint(ctx: Any) -> str:
    return f": see `{ctx.command_path} --help`" if ctx else ""


def _parameter_name(error: Any) -> str:
    """Return the name of an option or argument as in the help."""
    parameter = error.param
    if parameter is None:
        return str(error.param_hint or "the value")
    if parameter.param_type_name == "option":
        return f"`{max(parameter.opts, key=len)}`"
    return str(parameter.metavar or parameter.name.upper())


def _format_bad_value(error: Any) -> str:
    """Return what a value must be, and what was given."""
    from seq2see.config import describe_allowed_values  # imports pydantic, which is slow

    if match := _INVALID_CHOICE.search(error.message):
        choices = match["choices"].replace("'", "")
        return f"must be one of {choices}, but is {match['given']} instead"
    details = error.__cause__.errors() if hasattr(error.__cause__, "errors") else []
    if details:
        return (
            f"must be {describe_allowed_values(details[0])}, but is {details[0]['input']} instead"
        )
    return f"is invalid: {error.message}"


def _format_file_error(error: OSError) -> str:
    """Return the message for a file that cannot be read or written, for example on a full disk.

    It is empty if standard output is a closed pipe, as in `seq2see info base | head -1`.
    """
    name = error.filename
    try:
        sys.stdout.flush()  # writes again what could not be written
        os.write(_STANDARD_OUTPUT, b"")
    except OSError:
        # Python flushes once more at exit, and would print its own error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
        name = name or "standard output cannot be written"
    if isinstance(error, BrokenPipeError):
        return ""
    return ": ".join(filter(None, (name, error.strerror or str(error))))


def _end_by_interrupt(interrupt: KeyboardInterrupt) -> None:
    """End the process by SIGINT: the shell then knows of Ctrl-C, and ends its loop as well."""
    with suppress(OSError):
        sys.stdout.flush()
        notes = ("interrupted", *getattr(interrupt, "__notes__", ()))
        typer.echo(f"seq2see: {'; '.join(notes)}", err=True)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
