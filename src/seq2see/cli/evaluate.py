"""`seq2see evaluate`: how good a model is, or translations that are there already."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from seq2see.cli import inputs, options
from seq2see.cli.inputs import refuse_place, refuse_plot
from seq2see.cli.options import Json, Plot
from seq2see.cli.usage import all_of, given
from seq2see.errors import ConfigError

if TYPE_CHECKING:
    from seq2see.data.corpus import CorpusConfig
    from seq2see.evaluate import Evaluation

Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL FILES…",
        help="The directory of a model, unless there are --hypotheses; then further files of "
        "--test or --references.",
    ),
]
Hypotheses = Annotated[
    str | None, typer.Option(metavar="FILE", help="Translations, to be judged without a model.")
]
Samples = Annotated[
    int, typer.Option(min=0, max=100_000, help="Resampled test sets for the intervals.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Also write the translations.")]


def evaluate(
    arguments: Arguments = None,
    test: options.Test = None,
    hypotheses: Hypotheses = None,
    references: options.References = None,
    columns: options.TestColumnsOption = None,
    form: options.TestFormatOption = None,
    language: options.Language = None,
    metrics: options.Metrics = None,
    tokenize: options.Tokenize = None,
    lowercase: options.Lowercase = None,
    samples: Samples = 1000,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    ensemble: options.Ensemble = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    further: options.Search = None,
    output: Output = None,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Score a model on a test set, or a file of translations against references."""
    from seq2see.cli import evaluation
    from seq2see.cli.progress import sentence_bar

    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    of_model: dict[str, object] = {"output": output, **search, "search": further}
    of_model |= {"ensemble": ensemble, "precision": precision != "float32"}
    of_model |= {"engine": engine != "auto", "device": device != "auto", "threads": threads}
    corpus = partial(inputs.corpus_config, columns=columns, form=form)
    asked: _Asked
    asked, scoring, options, _ = all_of(
        lambda: _asked(list(arguments or ()), hypotheses, test, references, of_model, corpus),
        lambda: options.scoring_config(metrics, tokenize, lowercase, samples),
        lambda: options.translation_options(search, further=further or ()),
        lambda: refuse_plot(plot),
    )
    for place in (output, plot):
        refuse_place(place)
    with options.dying_of_interrupts(), sentence_bar() as told:
        load = partial(options.loaded, engine=engine, device=device, threads=threads)
        load = partial(load, precision=precision, ensemble=ensemble)
        translator = load(asked.model) if asked.model else None
        languages = translator.languages if translator else None
        test_set = inputs.read_held_out(asked.test, asked.references, languages, language)
        if translator:
            report = evaluation.of_model(translator, test_set, options, scoring, told)
        else:
            report = evaluation.of_file(asked.hypotheses, test_set, scoring)
    _tell(report, output, plot, as_json)
    if report.errors:
        raise typer.Exit(1)


def _tell(report: Evaluation, output: Path | None, plot: Path | None, as_json: bool) -> None:
    from seq2see.cli import evaluation

    if output:
        evaluation.write(report, output)
    if plot:
        evaluation.plot(report, plot)
    if as_json:
        typer.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        evaluation.show(report)


class _Asked(NamedTuple):
    """What is judged by what."""

    model: Path | None
    hypotheses: str
    test: CorpusConfig | None
    references: list[str]


def _asked(
    arguments: list[str],
    hypotheses: str | None,
    test: list[str] | None,
    references: list[str] | None,
    of_model: Mapping[str, object],
    corpus: Callable[[list[str]], CorpusConfig | None],
) -> _Asked:
    """Tell the arguments apart: a shell gives `--test a.en a.de` as an option and an argument.

    `of_model` are the options that mean nothing without one, by their names; `corpus` tells how
    files of a test set are read.
    """
    if hypotheses:
        if problems := list(_of_no_use(arguments, of_model)):
            raise ConfigError(problems)
    elif not arguments:
        raise ConfigError(["a MODEL or `--hypotheses` must be given"])
    model = None if hypotheses else Path(arguments.pop(0))
    tests, further = list(test or ()), list(references or ())
    (tests if test or model else further).extend(arguments)
    if model and not tests:
        raise ConfigError(["`--test` must be given: what the model has to translate"])
    return _Asked(model, hypotheses or "", corpus(tests), further)


def _of_no_use(arguments: list[str], of_model: Mapping[str, object]) -> Iterator[str]:
    """Yield what cannot be beside translations that are there already."""
    for name in arguments:
        if Path(name).is_dir():
            yield f"the MODEL {name} must be left out with `--hypotheses`"
    if names := given(of_model):
        yield f"{names} must be left out with `--hypotheses`: nothing is translated"
