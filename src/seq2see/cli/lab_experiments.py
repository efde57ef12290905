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
    from seq2see.lab.runner import Result

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
    from seq2see.lab.texts import load_all_texts, word

    if as_json:
        records = [experiment.to_json() for experiment in load_all_texts().values()]
        typer.echo(json.dumps(records, ensure_ascii=False))
        return
    for number, experiment in load_all_texts().items():
        title = f"{number:>3}  {experiment.title.get(language)}"
        typer.echo(f"{title}  ({word('trains').get(language)})" if experiment.trains else title)


@app.command("run", cls=OneLineErrorCommand)
def run_lab_experiments(
    names: Annotated[list[str], typer.Argument(metavar="NUMBER|all")],
    seeds: Annotated[str | None, typer.Option(metavar="N,N,…")] = None,
    full: Annotated[bool, typer.Option("--full")] = False,
    language: OutputLanguage = "en",
    html: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    markdown: Annotated[Path | None, typer.Option(metavar="DIRECTORY")] = None,
    model: Annotated[Path | None, typer.Option(metavar="MODEL")] = None,
    cache: Annotated[Path | None, typer.Option(metavar="DIRECTORY")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run experiments. The exit status is 1 if a result differs from the published one.

    Args:
        names: Numbers of the experiments (see `lab list`), or `all`.
        seeds: Random seeds, separated by commas; each experiment runs once per seed. Default:
            1,2,3 (1,2,3,4,5 with --full).
        full: Run the full version, which takes longer: more seeds, larger sizes.
        language: Language of the output and of the HTML report: English or Chinese.
        html: Also write a report with figures to this HTML file.
        markdown: Also write the results as Markdown pages, lab.md (English) and lab.zh.md
            (Chinese), to this directory. Requires `all`. They are not written if a result differs
            from the published one.
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
    from seq2see.lab.output import format_plain
    from seq2see.lab.runner import FULL_SEEDS, SEEDS, Lab, select_experiments

    experiments = select_experiments(names)
    if model and any(experiment.trains for experiment in experiments):
        _check_model_languages(model)
    lab = Lab(
        _parse_seeds(seeds) if seeds else FULL_SEEDS if full else SEEDS,
        full,
        cache,
        model,
        on_message=lambda line: typer.echo(f"     {line}", err=True),
    )
    results = []
    for result in lab.run_all([experiment.number for experiment in experiments]):
        results.append(result)
        if not as_json:
            typer.echo(format_plain(result, language) + "\n")
    if as_json:
        records = [result.to_json() for result in results]
        typer.echo(json.dumps(records, ensure_ascii=False, allow_nan=False))
    differing = [str(result.number) for result in results if not result.as_published]
    _write_reports(results, language, html, None if differing else markdown)
    if differing:
        typer.echo(
            f"seq2see: results differ from the published ones in experiment {', '.join(differing)}",
            err=True,
        )
        raise typer.Exit(1)


def _parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a list such as `1,2,3`; raise ConfigError if it is not one."""
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise ConfigError(
            Problem("--seeds", f"must be integers separated by commas, but is {text}")
        ) from None


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
    results: list[Result], language: OutputLanguage, html: Path | None, markdown: Path | None
) -> None:
    """Write the HTML file and the Markdown pages if requested, ordered by experiment number."""
    from seq2see.atomic_files import atomic_write
    from seq2see.lab.output import format_html, format_markdown

    results = sorted(results, key=lambda result: result.number)
    pages = {html: format_html(results, language)} if html is not None else {}
    if markdown is not None:
        pages[markdown / "lab.md"] = format_markdown(results, "en")
        pages[markdown / "lab.zh.md"] = format_markdown(results, "zh")
    for path, page in pages.items():
        with atomic_write(path) as partial:
            partial.write_text(page, "utf-8")
        typer.echo(f"seq2see: wrote {path}", err=True)
