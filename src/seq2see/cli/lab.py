"""`seq2see lab`: what is said about the Transformer, tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2see.cli.inputs import refuse_ending, refuse_no_folder, refuse_place
from seq2see.cli.options import Json, let_threads_sleep
from seq2see.cli.usage import Verb, Verbs
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.lab.experiment import Experiment
    from seq2see.lab.runner import Outcome

Language = Literal["en", "zh"]
Languages = Annotated[Language, typer.Option("--lang", help="English or Chinese.")]
PAGES = (".html", ".htm")

app = typer.Typer(
    name="lab",
    cls=Verbs,
    help="Claims about the Transformer as experiments on this code, each with its verdict.",
    no_args_is_help=True,
)


@app.command("list", cls=Verb)
def list_(language: Languages = "en", as_json: Json = False) -> None:
    """List the experiments."""
    from seq2see.lab.registry import experiments
    from seq2see.lab.words import NEEDS_FULL, TRAINS

    if as_json:
        rows = [{"number": e.number, "title": e.title.said(language)} for e in experiments()]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    for each in experiments():
        marks = ((TRAINS, each.trains), (NEEDS_FULL, each.needs_full))
        said = ", ".join(mark.said(language) for mark, is_so in marks if is_so)
        title = f"{each.number:>3}  {each.title.said(language)}"
        typer.echo(f"{title}  ({said})" if said else title)


@app.command(cls=Verb)
def run(
    names: Annotated[list[str], typer.Argument(metavar="NUMBER… | all", help="Which of them.")],
    full: Annotated[
        bool, typer.Option("--full", help="Take the time that it takes: more seeds, larger sizes.")
    ] = False,
    language: Languages = "en",
    report: Annotated[
        Path | None, typer.Option(help="Write all of it, with pictures, into one HTML file.")
    ] = None,
    docs: Annotated[
        Path | None,
        typer.Option(help="Write lab.md and lab.zh.md into this folder. Only with all."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="A translator of fables to look into."),
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Where small trained models are kept. By default ~/.cache.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run experiments; the exit status is 1 if a number is not as expected."""
    refuse_no_folder(docs, model)
    refuse_place(report)
    if report:
        refuse_ending(report, PAGES, "--report")
    if docs is not None and names != ["all"]:
        raise ConfigError(["--docs must go with all: its pages hold every experiment"])
    let_threads_sleep()
    from seq2see.lab.bench import Bench
    from seq2see.lab.runner import run as run_all
    from seq2see.lab.table import plain

    wanted = _numbered(names)
    if model and any(each.translates for each in wanted):
        _refuse_languages(model)
    bench = Bench(cache, full, model, lambda line: typer.echo(f"     {line}", err=True))
    outcomes = []
    for outcome in run_all(wanted, bench, lambda e: typer.echo(f"{e.number:>3} …", err=True)):
        outcomes.append(outcome)
        if not as_json:
            typer.echo(plain(outcome, language) + "\n")
    if as_json:
        records = [outcome.record() for outcome in outcomes]
        typer.echo(json.dumps(records, ensure_ascii=False, allow_nan=False))
    _write(outcomes, language, report, docs)
    failed = [str(outcome.experiment.number) for outcome in outcomes if outcome.status == "failed"]
    if failed:
        typer.echo(f"seq2see: not as expected: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _refuse_languages(model: Path) -> None:
    """Refuse a model that cannot be asked about the fables, which are English and French."""
    from seq2see.bundle.files import CONFIG, read_config
    from seq2see.bundle.manifest import parse

    languages = parse(model / CONFIG, read_config(model)).languages
    if tuple(language[:2] for language in languages) != ("en", "fr"):
        raise InputError(
            f"the model must translate from en to fr to be asked about the fables, "
            f"but translates from {' to '.join(languages)} instead"
        )


def _numbered(names: list[str]) -> tuple[Experiment, ...]:
    from seq2see.lab.registry import chosen

    try:
        return chosen(names)
    except InputError as error:
        raise ConfigError([str(error)]) from None


def _write(
    outcomes: list[Outcome], language: Language, page: Path | None, docs: Path | None
) -> None:
    """Write the report and the documentation, where they were asked for, in numerical order."""
    from seq2see.lab.report import report
    from seq2see.lab.table import markdown

    outcomes = sorted(outcomes, key=lambda outcome: outcome.experiment.number)
    if page is not None:
        page.write_text(report(outcomes, language), "utf-8")
        typer.echo(f"The report is {page}.", err=True)
    if docs is not None:
        (docs / "lab.md").write_text(markdown(outcomes, "en"), "utf-8")
        (docs / "lab.zh.md").write_text(markdown(outcomes, "zh"), "utf-8")
