"""The command line: one thin verb a file. Heavy imports stand inside the verbs, so that `--help`
answers at once.

Results go to standard output, progress and notes to standard error. The exit status is 0, 1 (it
failed, with one line that says why) or 2 (wrong use).
"""

from __future__ import annotations

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
from seq2see.errors import Seq2SeeError

app = typer.Typer(
    name="seq2see",
    help="A Transformer that you train on your own text, run fast, serve, and see through.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(init)
app.command()(train)
app.command()(translate)
app.command()(evaluate)
app.command()(compare)
app.command()(score)
app.command()(explain)
app.command()(serve)
app.add_typer(data)
app.add_typer(lab)
app.command()(info)
app.command("import")(import_)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"seq2see {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command; what a user can mend becomes one line, not a traceback."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a tree with question marks beats none
    try:
        app()
    except Seq2SeeError as error:
        typer.echo(f"seq2see: {error}", err=True)
        sys.exit(1)
    except OSError as error:  # a full disk
        where = f"{error.filename}: " if error.filename else ""
        typer.echo(f"seq2see: {where}{error.strerror or error}", err=True)
        sys.exit(1)
