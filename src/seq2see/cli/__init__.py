"""The command line: one module per command, and modules that several commands share.

Slow imports are inside the functions, so that `--help` is fast. Results go to standard output,
progress and notes to standard error. The exit status is 0; 2 for invalid options, arguments or
settings, also in a recipe; and 1 for all other failures and for findings of `data check` and
`lab run`. An error is one line.
"""

from __future__ import annotations

import os
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
from seq2see.cli.init_splits_and_recipe import init
from seq2see.cli.lab_experiments import app as lab
from seq2see.cli.options import expand_option_groups
from seq2see.cli.score_log_probability import score
from seq2see.cli.serve import serve
from seq2see.cli.standard_streams import configure_output_encoding, reopen_closed_streams
from seq2see.cli.train import train
from seq2see.cli.translate import translate
from seq2see.cli.usage_errors import OneLineErrorCommand, OneLineErrorGroup

app = typer.Typer(
    name="seq2see",
    cls=OneLineErrorGroup,
    help="Train, run, serve and inspect Transformer translation models.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich would make --help slow
)
for command in (demo, init, train, translate, evaluate, compare, score, explain, serve):
    app.command(cls=OneLineErrorCommand)(expand_option_groups(command))
app.add_typer(data)
app.add_typer(lab)
app.command(cls=OneLineErrorCommand)(info)
app.command("import", cls=OneLineErrorCommand)(import_)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(f"seq2see {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 handled by its callback
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    # OpenMP threads that wait give up their core. By default they spin and take the cores from
    # threads with work: beside other programs, two threads were slower than one. The variable must
    # be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def main() -> None:
    """Run the command."""
    reopen_closed_streams()
    configure_output_encoding()
    app()
