"""The command line: one thin verb a file. Heavy imports stand inside the verbs, so that `--help`
answers at once.

Results go to standard output, progress and notes to standard error. The exit status is 0, 2 (wrong
use: options, arguments or settings that cannot be, in a recipe too) or 1 (it failed for any other
reason, or found what it looks for: `data check`, `lab run`); one line says why.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from seq2see import __version__
from seq2see.cli.compare import compare
from seq2see.cli.data import app as data
from seq2see.cli.demo import demo
from seq2see.cli.evaluate import evaluate
from seq2see.cli.explain import explain
from seq2see.cli.import_ import import_
from seq2see.cli.info import info
from seq2see.cli.init import init
from seq2see.cli.lab import app as lab
from seq2see.cli.score import score
from seq2see.cli.serve import serve
from seq2see.cli.train import train
from seq2see.cli.translate import translate
from seq2see.cli.usage import USAGE_ERROR_STATUS, Command, CommandGroup
from seq2see.errors import ConfigError, Seq2SeeError

_STANDARD_OUTPUT = 1
app = typer.Typer(
    name="seq2see",
    cls=CommandGroup,
    help="Train, run, serve and inspect Transformer translation models.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in (demo, init, train, translate, evaluate, compare, score, explain, serve):
    app.command(cls=Command)(verb)
app.add_typer(data)
app.add_typer(lab)
app.command(cls=Command)(info)
app.command("import", cls=Command)(import_)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seq2see {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command; what a user can mend becomes one line, not a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a tree with question marks beats none
    try:
        app(prog_name="seq2see")
    except Seq2SeeError as error:
        typer.echo(f"seq2see: {error}", err=True)
        sys.exit(USAGE_ERROR_STATUS if isinstance(error, ConfigError) else 1)
    except OSError as error:  # a full disk
        typer.echo(f"seq2see: {_where(error)}{error.strerror or error}", err=True)
        sys.exit(1)


def _where(error: OSError) -> str:
    """Return what could not be read or written, if that is known."""
    if error.filename:
        return f"{error.filename}: "
    try:
        sys.stdout.flush()  # what it could not write, it tries to write again
        os.write(_STANDARD_OUTPUT, b"")
    except OSError:
        # Python tries once more at its end, and would complain in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_OUTPUT)
        return "standard output cannot be written: "
    return ""
