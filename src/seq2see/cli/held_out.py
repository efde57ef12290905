"""What the verbs that judge have in common: a test set, and how to score it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2see.cli.corpora import columns_of, language_of, languages_of, spoken
from seq2see.errors import ConfigError

if TYPE_CHECKING:
    from seq2see.data.corpora import CorpusConfig
    from seq2see.evaluate import HeldOut, ScoringConfig

Test = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILES…",
        help="Sources and references: two text files, or one .tsv, .jsonl or .tmx (also packed), "
        "or `builtin:fables/test`.",
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(metavar="FILES…", help="One reference a line; several files are several each."),
]
Columns = Annotated[
    str | None,
    typer.Option(metavar="SOURCE,TARGET", help="Of --test: TSV: numbers from 1. JSONL: keys."),
]
Format = Annotated[
    str | None,
    typer.Option("--format", metavar="text|tsv|jsonl|tmx", help="Of --test, if no name tells."),
]
Language = Annotated[
    str | None,
    typer.Option(help="Of the references, such as zh, which is cut into words in its own way."),
]
Tokenize = Annotated[
    Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"] | None,
    typer.Option(help="How BLEU finds words. By default by the language; 13a for most."),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="bleu|chrf|ter|exact",
        help="By default all, to compare all but exact; may be given again. The first one decides.",
    ),
]
Lowercase = Annotated[
    bool | None,
    typer.Option("--lowercase/--case", help="Ignore case or not, instead of each metric's way."),
]


def corpus_config(
    test: list[str], columns: str | None = None, form: str | None = None
) -> CorpusConfig | None:
    """Return what sources and references are to be read from, if from anything."""
    from seq2see.data.corpora import CorpusConfig

    if not test:
        return None
    table = {"files": test, "columns": columns_of(columns, form or ""), "format": form}
    try:
        return CorpusConfig.model_validate(table)
    except ConfigError as error:
        problems = [problem.replace("`files`", "`--test`", 1) for problem in error.problems]
        raise ConfigError(problems) from None


def read_held_out(
    test: CorpusConfig | None,
    references: list[str],
    languages: tuple[str, str] | None = None,
    language: str | None = None,
) -> HeldOut:
    """Read what is given: sources with references, references alone, or both.

    `languages` are those of a model; `language`, that of the references, is stated by the user.
    """
    from seq2see.data.corpora import Corpus
    from seq2see.data.readers import read_lines
    from seq2see.evaluate import HeldOut

    if not test and not references:
        raise ConfigError(["`--test` or `--references` must be given"])
    further = [list(read_lines(name)) for name in references]
    if not test:
        name = " and ".join(Path(name).name for name in references)
        return HeldOut(name, tuple(further), None, (None, language or language_of(references[0])))
    files = list(test.files)
    held_out = HeldOut.of(Corpus(test, languages or languages_of(files)), further)
    source, target = held_out.languages
    return replace(held_out, name=spoken(files), languages=(source, language or target))


def scoring_config(
    metrics: list[str] | None,
    tokenize: str | None,
    lowercase: bool | None,
    samples: int | None = None,
) -> ScoringConfig:
    """Make the settings of scoring from those that are given."""
    from seq2see.evaluate import ScoringConfig

    given: dict[str, Any] = {
        "metrics": tuple(metrics) if metrics else None,
        "tokenize": tokenize,
        "lowercase": lowercase,
        "samples": samples,
    }
    return ScoringConfig(**{name: value for name, value in given.items() if value is not None})
