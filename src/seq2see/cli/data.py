"""`seq2see data`: look at parallel text, clean it, split it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import endings, opened, refuse_place, refuse_plot, spoken
from seq2see.cli.options import Columns, Files, Format, Json, Languages, Plot, let_threads_sleep
from seq2see.cli.progress import show_corpus_progress
from seq2see.cli.usage import Verb, Verbs
from seq2see.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seq2see.data.corpus import Corpus
    from seq2see.data.quality.corpus_model import Progress
    from seq2see.data.quality.report import Report
    from seq2see.data.readers import Pair
    from seq2see.text import Tokenizers

app = typer.Typer(
    name="data",
    cls=Verbs,
    help="Look at parallel text, clean it, split it.",
    no_args_is_help=True,
)

Output = Annotated[Path, typer.Option("--output", "-o", help="The folder to write to.")]
Against = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="A test set, which must have nothing in common with this text; given once or twice, "
        "as FILES.",
    ),
]


@app.command(cls=Verb)
def check(
    files: Files,
    languages: Languages = None,
    columns: Columns = None,
    form: Format = None,
    against: Against = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A folder with a tokenizer, or a SentencePiece file.")
    ] = None,
    examples: Annotated[int, typer.Option(min=0, max=100, help="Pairs shown for a finding.")] = 2,
    estimate: Annotated[
        bool, typer.Option(help="Measure how long training would take here: about ten seconds.")
    ] = True,
    as_json: Json = False,
    plot: Plot = None,
) -> None:
    """Say what is wrong with a corpus, and which model fits its size; status 1 if it has faults."""
    let_threads_sleep()
    from seq2see.cli import corpus_report
    from seq2see.data.quality.analysis import examine
    from seq2see.data.quality.config import DoctorConfig

    refuse_plot(plot)
    refuse_place(plot)
    config = DoctorConfig(examples=max(examples, DoctorConfig().examples))
    with opened(files, languages, columns, form) as corpus, show_corpus_progress() as told:
        tests = _held_out(against, corpus)
        report = examine(corpus, config, corpus.languages, _tokenizers(tokenizer), tests, told)
        seconds = _training_seconds(report, corpus, told) if estimate else None
    if plot:
        corpus_report.plot(report, spoken(files), plot)
    if as_json:
        typer.echo(json.dumps(corpus_report.record(report, seconds), ensure_ascii=False))
    else:
        corpus_report.show(report, spoken(files), examples, seconds)
    if report.faults:
        raise typer.Exit(1)


def _training_seconds(report: Report, corpus: Corpus, told: Progress) -> float | None:
    from seq2see.settings.suggest_recipe import training_seconds

    told("measuring", report.pairs)
    return training_seconds(report, corpus)


@app.command(cls=Verb)
def clean(
    files: Files,
    output: Output,
    languages: Languages = None,
    columns: Columns = None,
    form: Format = None,
    against: Against = None,
) -> None:
    """Write what passes the doctor's rules, and each pair that does not with its reason."""
    from seq2see.data.quality import analysis
    from seq2see.data.writers import REJECTED, write_clean

    with opened(files, languages, columns, form) as corpus, show_corpus_progress() as told:
        tests = _held_out(against, corpus)
        verdicts = analysis.clean(corpus, None, corpus.languages, tests, told)
        counts = write_clean(verdicts, output, endings(corpus.languages))
    for rule, count in counts.most_common():
        typer.echo(f"{count:>12,}  {rule.replace('_', ' ')}", err=True)
    typer.echo(
        f"Kept pairs are in {output / 'clean.*'}, the others in {output / REJECTED}.", err=True
    )


@app.command(cls=Verb)
def split(
    files: Files,
    output: Output,
    languages: Languages = None,
    columns: Columns = None,
    form: Format = None,
    valid: Annotated[int, typer.Option(min=0, help="Pairs to watch while training.")] = 1000,
    test: Annotated[int, typer.Option(min=0, help="Pairs to judge the result by.")] = 1000,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Another seed, another split.")
    ] = 1,
) -> None:
    """Split off validation and test sets; pairs with the same source stay together."""
    from seq2see.data.writers import Splitter, write_split

    with opened(files, languages, columns, form) as corpus:
        choose = Splitter(corpus, valid, test, seed)
        counts = write_split(corpus, output, endings(corpus.languages), choose)
    for part, count in counts.items():
        names = " and ".join(f"{output / part}.{ending}" for ending in endings(corpus.languages))
        typer.echo(f"{count:>12,}  {names}", err=True)


def _held_out(files: list[str] | None, corpus: Corpus) -> Iterable[Pair]:
    """Return the pairs of a test set, which is read as the corpus is."""
    from seq2see.data.corpus import Corpus, CorpusConfig
    from seq2see.data.readers import STANDARD_INPUT

    if not files:
        return ()
    if STANDARD_INPUT in files:
        raise ConfigError(["`--against` must be a file, not standard input"])
    config = CorpusConfig(files=tuple(files))
    if config.kind == corpus.config.kind:
        config = config.replace(columns=corpus.config.columns)
    return Corpus(config, corpus.languages)


def _tokenizers(path: Path | None) -> Tokenizers | None:
    from seq2see.text import Tokenizer, Tokenizers

    if path is None:
        return None
    if path.is_dir():
        return Tokenizers.load(path)
    both = Tokenizer.load(path)
    return Tokenizers(both, both)
