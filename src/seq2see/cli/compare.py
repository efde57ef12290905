"""`seq2see compare`: which of two systems is better, and where they differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli import inputs, options
from seq2see.cli.options import Json
from seq2see.cli.usage import all_of, given
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.data.corpus import CorpusConfig

METRICS = ["bleu", "chrf", "ter"]
"""Unless others are named."""

Trials = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        help="Draws of each test. By default 1,000 for the bootstrap, 10,000 for randomisation.",
    ),
]


def compare(
    first: Annotated[
        str, typer.Argument(metavar="A", help="A model's directory, or a file of translations.")
    ],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES…", help="Further files of --test or --references."),
    ] = None,
    test: options.Test = None,
    references: options.References = None,
    columns: options.TestColumnsOption = None,
    form: options.TestFormatOption = None,
    language: options.Language = None,
    metrics: options.Metrics = None,
    tokenize: options.Tokenize = None,
    lowercase: options.Lowercase = None,
    trials: Trials = None,
    examples: Annotated[int, typer.Option(min=0, help="Differences that are shown.")] = 5,
    engine: options.Engine = "auto",
    device: options.Device = "auto",
    threads: options.Threads = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    as_json: Json = False,
) -> None:
    """Tell which of two systems is better on the same sentences, and whether that is chance."""
    from seq2see.cli import comparison
    from seq2see.cli.progress import sentence_bar
    from seq2see.evaluate import compared

    names = first, second
    _refuse_missing(names)
    search = {"beam_size": beam_size, "length_penalty": length_penalty}
    chosen: dict[str, Any] = {"engine": engine, "device": device, "threads": threads}
    corpus = partial(inputs.corpus_config, columns=columns, form=form)
    _, (tests, further), scoring, options = all_of(
        lambda: _refuse_unused(names, {**search, **chosen}),
        lambda: _files(files, test, references, names, corpus),
        lambda: options.scoring_config(metrics or METRICS, tokenize, lowercase),
        lambda: options.translation_options(search),
    )
    with options.dying_of_interrupts(), sentence_bar() as told:
        models = {n: options.loaded(Path(n), **chosen) for n in names if _is_model(n)}
        languages = next((model.languages for model in models.values()), None)
        test_set = inputs.read_held_out(tests, further, languages, language)
        ours, theirs = (
            comparison.translations(name, models.get(name), test_set, options, told)
            for name in names
        )
    found = compared(comparison.short(names), ours, theirs, test_set, scoring, trials)
    if as_json:
        typer.echo(json.dumps(found.to_json(examples), ensure_ascii=False))
    else:
        comparison.show(found, test_set.name, examples)


def _refuse_missing(names: Sequence[str]) -> None:
    """Refuse what is not there: nobody can tell whether it would be a model or a file."""
    for name in names:
        if not Path(name).exists():
            what = "give the directory of a model, or a file of translations"
            raise InputError(f"{name} is not there: {what}")


def _is_model(name: str) -> bool:
    return Path(name).is_dir()


def _refuse_unused(names: Sequence[str], of_model: Mapping[str, object]) -> None:
    """Refuse the options that mean nothing without a model."""
    wanted = {option: value != "auto" and value for option, value in of_model.items()}
    if not any(map(_is_model, names)) and (unused := given(wanted)):
        raise ConfigError([f"{unused} must be left out with two files: nothing is translated"])


def _files(
    files: list[str] | None,
    test: list[str] | None,
    references: list[str] | None,
    names: Sequence[str],
    corpus: Callable[[list[str]], CorpusConfig | None],
) -> tuple[CorpusConfig | None, list[str]]:
    """Return the test set, and files of references beside: a shell gives `--test a.en a.de` as an
    option and an argument."""
    tests, further = list(test or ()), list(references or ())
    (further if further and not tests else tests).extend(files or ())
    if not tests and any(map(_is_model, names)):
        raise ConfigError(["`--test` must be given: what the models have to translate"])
    return corpus(tests), further
