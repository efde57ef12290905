"""`seq2see lab`: run experiments that test claims about the Transformer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from seq2see.cli import inputs
from seq2see.cli.options import JsonOption
from seq2see.cli.usage_errors import OneLineErrorCommand, OneLineErrorGroup
from seq2see.errors import ConfigError, InputError, Problem

if TYPE_CHECKING:
    from seq2see.lab.runner import Outcome

OutputLanguage = Literal["en", "zh"]
HTML_EXTENSIONS = (".html", ".htm")

app = typer.Typer(
    name="lab",
    cls=OneLineErrorGroup,
    help="Run experiments that test claims about the Transformer.",
    no_args_is_help=True,
)


@app.command("list", cls=OneLineErrorCommand)
def print_lab_experiments(language: OutputLanguage = "en", as_json: JsonOption = False) -> None:
    """List the experiments.

    Args:
        language: Language of the output: English or Chinese.
    """
    from seq2see.lab.registry import experiments
    from seq2see.lab.words import NEEDS_FULL, TRAINS

    if as_json:
        rows = [{"number": e.number, "title": e.title.said(language)} for e in experiments()]
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    for experiment in experiments():
        flags = ((TRAINS, experiment.trains), (NEEDS_FULL, experiment.needs_full))
        remarks = ", ".join(text.said(language) for text, is_set in flags if is_set)
        title = f"{experiment.number:>3}  {experiment.title.said(language)}"
        typer.echo(f"{title}  ({remarks})" if remarks else title)


@app.command("run", cls=OneLineErrorCommand)
def run_lab_experiments(
    names: Annotated[list[str], typer.Argument(metavar="NUMBER|all")],
    full: Annotated[bool, typer.Option("--full")] = False,
    language: OutputLanguage = "en",
    html: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="DIRECTORY")] = None,
    model: Annotated[Path | None, typer.Option(metavar="MODEL")] = None,
    cache: Annotated[Path | None, typer.Option(metavar="DIRECTORY")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run experiments. The exit status is 1 if a measurement differs from its expected value.

    Args:
        names: Numbers of the experiments (see `lab list`), or `all`.
        full: Run the full version, which takes longer: more seeds, larger sizes.
        language: Language of the output and of the HTML report: English or Chinese.
        html: Also write a report with figures to this HTML file.
        markdown: Also write the results as Markdown pages, lab.md (English) and lab.zh.md
            (Chinese), to this directory. Requires `all`.
        model: Model directory. Experiments that analyze a trained model use this one, which must be
            an English-French model trained on builtin:fables or builtin:fables-short, such as that
            of `seq2see demo`. Default: a small model is trained.
        cache: Cache directory for the small models that experiments train. Default:
            ~/.cache/seq2see/lab.
    """
    inputs.check_directories_exist(markdown, model)
    inputs.check_output_path(html)
    inputs.check_extension(html, HTML_EXTENSIONS, "--html")
    if markdown is not None and names != ["all"]:
        raise ConfigError(
            Problem("--markdown", "needs the argument `all`: its pages contain every experiment")
        )
    from seq2see.lab.bench import Bench
    from seq2see.lab.registry import chosen
    from seq2see.lab.runner import run as run_all
    from seq2see.lab.table import plain

    experiments = chosen(names)
    if model and any(experiment.translates for experiment in experiments):
        _check_model_languages(model)
    bench = Bench(cache, full, model, lambda line: typer.echo(f"     {line}", err=True))
    outcomes = []
    for outcome in run_all(experiments, bench, lambda e: typer.echo(f"{e.number:>3} …", err=True)):
        outcomes.append(outcome)
        if not as_json:
            typer.echo(plain(outcome, language) + "\n")
    if as_json:
        records = [outcome.record() for outcome in outcomes]
        typer.echo(json.dumps(records, ensure_ascii=False, allow_nan=False))
    _write_reports(outcomes, language, html, markdown)
    failed = [str(outcome.experiment.number) for outcome in outcomes if outcome.status == "failed"]
    if failed:
        typer.echo(f"seq2see: unexpected measurements in experiment {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def _check_model_languages(model: Path) -> None:
    """Raise InputError if the model does not translate from English to French, as fables do."""
    from seq2see.bundle.files import CONFIG_FILE, read_config_bytes
    from seq2see.bundle.manifest import parse_manifest

    languages = parse_manifest(model / CONFIG_FILE, read_config_bytes(model)).languages
    if tuple(language[:2] for language in languages) != ("en", "fr"):
        raise InputError(
            f"the model must translate from en to fr for experiments on fables, "
            f"but translates from {' to '.join(languages)} instead"
        )


def _write_reports(
    outcomes: list[Outcome], language: OutputLanguage, html: Path | None, markdown: Path | None
) -> None:
    """Write the HTML file and the Markdown pages if requested, ordered by experiment number."""
    from seq2see.lab.report import report
    from seq2see.lab.table import markdown as format_markdown

    outcomes = sorted(outcomes, key=lambda outcome: outcome.experiment.number)
    if html is not None:
        html.write_text(report(outcomes, language), "utf-8")
        typer.echo(f"seq2see: wrote {html}", err=True)
    if markdown is not None:
        (markdown / "lab.md").write_text(format_markdown(outcomes, "en"), "utf-8")
        (markdown / "lab.zh.md").write_text(format_markdown(outcomes, "zh"), "utf-8")
