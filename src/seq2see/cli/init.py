"""`seq2see init`: from two files to a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import format_corpus_name, open_corpus, side_suffixes
from seq2see.cli.options import ColumnsOption, CorpusFilesArgument, FormatOption, LanguagesOption
from seq2see.cli.progress import show_corpus_progress
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.data.corpus import Corpus
    from seq2see.data.quality.report import CorpusReport
    from seq2see.data.writers import SplitName

RECIPE_FILE = "recipe.toml"
_HEADER = """\
# A recipe for seq2see, from {name}.
# Train:    seq2see train {path}
# Change:   here, or on the command line: section.key=value
# Explain:  `# text` explains a key; `#key = value` is a key that is not set, with what holds then.

"""


def init(
    files: CorpusFilesArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIRECTORY",
            help="Output directory; must not exist. Default: the language codes, for example "
            "en-de.",
        ),
    ] = None,
    languages: LanguagesOption = None,
    columns: ColumnsOption = None,
    form: FormatOption = None,
    evaluation_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of pairs in the validation set, and also in the test set. Default: 5 % of "
            "the corpus, at most 1,000.",
        ),
    ] = None,
    clean: Annotated[
        bool,
        typer.Option(
            help="Remove the pairs that `seq2see data clean` removes before the corpus is split."
        ),
    ] = False,
) -> None:
    """Check a parallel corpus, split it into training, validation and test sets, write a recipe."""
    from seq2see.cli import corpus_report
    from seq2see.data.quality.analysis import analyze_corpus
    from seq2see.data.writers import check_not_existing, create_directory
    from seq2see.settings import suggest_recipe
    from seq2see.settings.toml_writer import format_toml_value

    with open_corpus(files, languages, columns, form) as corpus:
        _refuse_same(corpus.paths)
        check_not_existing(filter(None, [_home(output, corpus.languages)]))  # before the work
        with show_corpus_progress() as told:
            report = analyze_corpus(corpus, languages=corpus.languages, on_stage=told)
        sides = _languages(report)
        home = output or Path("-".join(sides))
        check_not_existing([home])
        corpus_report.print_corpus_report(report, format_corpus_name(files), examples=1)
        recipe = suggest_recipe.suggest_recipe(report, sides, _parts(files, sides))
        header = _HEADER.format(
            name=format_toml_value(format_corpus_name(files)),
            path=format_toml_value(str(home / RECIPE_FILE)),
        )
        with create_directory(home) as folder:
            (folder / RECIPE_FILE).write_text(header + recipe.to_toml(), "utf-8")
            if corpus.config.resolved_format != "builtin":
                healthy = _cleaned(corpus, sides, folder) if clean else corpus
                counts = _split(healthy, sides, folder, evaluation_size)
                _tell(counts, 0 if clean else report.num_pairs - report.num_accepted, home)
    advice = (
        "mend the faults above first; then" if report.faults else f"read {home / RECIPE_FILE}, then"
    )
    typer.echo(f"Next: {advice} `seq2see train {home / RECIPE_FILE}`.", err=True)


def _refuse_same(paths: tuple[str, ...]) -> None:
    """Raise an error if a text would be learnt as its own translation."""
    if len(paths) == 2 and Path(paths[0]).resolve() == Path(paths[1]).resolve():
        raise InputError(f"source and target must be two files, but both are {paths[0]}")


def _home(output: Path | None, sides: tuple[str, str] | None) -> Path | None:
    """Return the folder to write to, as far as it is known."""
    return output or (Path("-".join(sides)) if sides else None)


def _tell(counts: dict[SplitName, int], bad: int, home: Path) -> None:
    parts = ", ".join(f"{part} {count:,}" for part, count in counts.items())
    typer.echo(f"\nPairs for {parts}.", err=True)
    if bad:
        typer.echo(
            f"Cleaning would remove {bad:,} of them, which are still there: to leave them out, "
            f"remove {home} and run this again with --clean.",
            err=True,
        )


def _languages(report: CorpusReport) -> tuple[str, str]:
    """Return the languages as stated, or as the doctor found them."""
    source, target = (
        side.declared_language or side.detected_language for side in (report.source, report.target)
    )
    if source is None or target is None:
        raise ConfigError(
            ["`--languages` must be given, since the files do not tell: --languages en,de"]
        )
    return source, target


def _cleaned(corpus: Corpus, sides: tuple[str, str], folder: Path) -> Corpus:
    from seq2see.data.corpus import Corpus, CorpusConfig
    from seq2see.data.quality import analysis
    from seq2see.data.writers import write_filtered_corpus

    with show_corpus_progress() as told:
        verdicts = analysis.filter_corpus(corpus, languages=corpus.languages, on_stage=told)
        write_filtered_corpus(verdicts, folder, side_suffixes(sides))
    files = [f"clean.{ending}" for ending in side_suffixes(sides)]
    return Corpus(CorpusConfig(files=files), sides, folder)


def _split(
    corpus: Corpus, sides: tuple[str, str], folder: Path, evaluation_size: int | None
) -> dict[SplitName, int]:
    from seq2see.data.writers import CorpusSplitter, write_splits
    from seq2see.settings import suggest_recipe

    if evaluation_size is None:
        evaluation_size = suggest_recipe.choose_evaluation_size(sum(1 for _ in corpus))
    return write_splits(
        corpus,
        folder,
        side_suffixes(sides),
        CorpusSplitter(corpus, evaluation_size, evaluation_size),
    )


def _parts(files: list[str], sides: tuple[str, str]) -> dict[str, list[str]]:
    """Return the files of each part: what is built in has parts of its own."""
    if files[0].startswith("builtin:"):
        name = files[0].partition("/")[0]
        return {part: [f"{name}/{part}"] for part in ("train", "valid", "test")}
    return {
        part: [f"{part}.{e}" for e in side_suffixes(sides)] for part in ("train", "valid", "test")
    }
