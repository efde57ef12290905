"""`seq2see init`: prepare a corpus for training and write a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.corpora_and_path_checks import format_corpus_name, open_corpus, side_suffixes
from seq2see.cli.options import ColumnsOption, CorpusFilesArgument, FormatOption, LanguagesOption
from seq2see.errors import ConfigError, InputError, Problem

if TYPE_CHECKING:
    from seq2see.data.corpus_config_and_reading import Corpus
    from seq2see.data.quality.report import CorpusReport
    from seq2see.data.readers import SplitName

RECIPE_FILE = "recipe.toml"
_HEADER = """\
# Recipe for seq2see, from {name}.
# Train:       seq2see train {path}
# Change:      in this file, or on the command line with section.key=value
# Comments:    `#key = value` shows the default of a key that is not set.

"""


def init(
    files: CorpusFilesArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIRECTORY")] = None,
    languages: LanguagesOption = None,
    columns: ColumnsOption = None,
    format_name: FormatOption = None,
    evaluation_size: Annotated[int | None, typer.Option(min=1)] = None,
    clean: bool = False,
) -> None:
    """Check and split a parallel corpus, and write a recipe.

    The corpus is split into training, validation and test sets.

    Args:
        output: Directory to create for recipe.toml and the three sets; must not exist. Default: the
            language codes, for example en-de.
        languages: Language codes of source and target, for example en,de. Default: the extensions
            of two text files if they are language codes (train.en, train.de); otherwise detected in
            the text if lingua is installed. Required if they cannot be detected.
        evaluation_size: Number of pairs of the validation set, and the same number for the test
            set. Ignored for built-in corpora, which have their own sets. Default: 5 % of the
            corpus, at most 1,000.
        clean: Before the corpus is split, remove the pairs that `seq2see data clean` removes.
    """
    from seq2see.cli import corpus_report_output
    from seq2see.cli.corpus_and_translation_progress import show_corpus_progress
    from seq2see.data.corpus_splitting_and_writing import (
        CorpusSplitter,
        check_not_existing,
        create_directory_atomically,
        write_splits,
    )
    from seq2see.data.quality.analysis_and_filtering import analyze_corpus
    from seq2see.settings import suggested_recipe_and_training_time
    from seq2see.settings.recipe import format_toml_value

    with open_corpus(files, languages, columns, format_name) as corpus:
        _check_two_files(corpus.paths)
        if output or corpus.languages:  # before the analysis
            check_not_existing([output or Path("-".join(corpus.languages or ()))])
        with show_corpus_progress() as on_stage:
            report = analyze_corpus(corpus, languages=corpus.languages, on_stage=on_stage)
        sides = _get_languages(report)
        directory = output or Path("-".join(sides))
        check_not_existing([directory])
        if not corpus.config.builtin:
            evaluation_size = _choose_evaluation_size(report, clean, evaluation_size)
        corpus_report_output.print_corpus_report(report, format_corpus_name(files), num_examples=1)
        recipe = suggested_recipe_and_training_time.suggest_recipe(
            report, sides, _name_split_files(files, sides)
        )
        header = _HEADER.format(
            name=format_toml_value(format_corpus_name(files)),
            path=format_toml_value(str(directory / RECIPE_FILE)),
        )
        with create_directory_atomically(directory) as new_directory:
            (new_directory / RECIPE_FILE).write_text(header + recipe.to_toml(), "utf-8")
            if evaluation_size and not corpus.config.builtin:
                kept = _filter_corpus(corpus, sides, new_directory) if clean else corpus
                splitter = CorpusSplitter(kept, evaluation_size, evaluation_size)
                counts = write_splits(kept, new_directory, side_suffixes(sides), splitter)
                num_rejected = 0 if clean else report.num_pairs - report.num_accepted
                _print_counts(counts, num_rejected, directory)
    path = directory / RECIPE_FILE
    advice = "fix the faults above, then" if report.faults else f"read {path}, then"
    typer.echo(f"Next: {advice} `seq2see train {path}`.", err=True)


def _check_two_files(paths: tuple[str, ...]) -> None:
    """Raise InputError if source and target are the same file."""
    if len(paths) == 2 and Path(paths[0]).resolve() == Path(paths[1]).resolve():
        raise InputError(f"source and target must be two files, but both are {paths[0]}")


def _print_counts(counts: dict[SplitName, int], num_rejected: int, directory: Path) -> None:
    """Print the sizes of the splits, and how many of their pairs `--clean` would remove."""
    sizes = ", ".join(f"{split} {count:,}" for split, count in counts.items())
    typer.echo(f"\nNumber of pairs: {sizes}.", err=True)
    if num_rejected:
        typer.echo(
            f"{num_rejected:,} of them would be removed by cleaning: to remove them, delete "
            f"{directory} and run this again with --clean.",
            err=True,
        )


def _get_languages(report: CorpusReport) -> tuple[str, str]:
    """Return the languages as declared by the user or the file names, otherwise as detected."""
    source, target = (
        side.declared_language or side.detected_language for side in (report.source, report.target)
    )
    if source is None or target is None:
        raise ConfigError(
            Problem(
                "--languages",
                "must be given, because they could not be detected: --languages en,de",
            )
        )
    return source, target


def _filter_corpus(corpus: Corpus, sides: tuple[str, str], directory: Path) -> Corpus:
    """Write the accepted and the rejected pairs, and return the corpus of accepted pairs."""
    from seq2see.cli.corpus_and_translation_progress import show_corpus_progress
    from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
    from seq2see.data.corpus_splitting_and_writing import write_accepted_and_rejected_pairs
    from seq2see.data.quality import analysis_and_filtering

    with show_corpus_progress() as on_stage:
        results = analysis_and_filtering.accept_or_reject_pairs(
            corpus, languages=corpus.languages, on_stage=on_stage
        )
        write_accepted_and_rejected_pairs(results, directory, side_suffixes(sides))
    files = [f"clean.{suffix}" for suffix in side_suffixes(sides)]
    return Corpus(CorpusConfig(files=files), sides, directory)


def _choose_evaluation_size(report: CorpusReport, clean: bool, evaluation_size: int | None) -> int:
    """Return the size of the validation set and of the test set.

    Raises InputError if no pair would remain for training.
    """
    from seq2see.settings.suggested_recipe_and_training_time import choose_evaluation_size

    num_pairs = report.num_accepted if clean else report.num_pairs
    size = evaluation_size or choose_evaluation_size(num_pairs)
    if num_pairs <= 2 * size:
        cleaned = " after cleaning" if clean else ""
        raise InputError(
            f"the corpus must have more than {2 * size:,} pairs, because the validation set and "
            f"the test set take {size:,} each, but has {num_pairs:,}{cleaned}"
        )
    return size


def _name_split_files(files: list[str], sides: tuple[str, str]) -> dict[str, list[str]]:
    """Return the file names of each split; a built-in corpus has its own splits."""
    from seq2see.data.corpus_config_and_reading import BuiltinName
    from seq2see.data.readers import SPLIT_NAMES

    if builtin := BuiltinName.parse(files[0]):
        return {split: [f"builtin:{builtin.corpus}/{split}"] for split in SPLIT_NAMES}
    suffixes = side_suffixes(sides)
    return {split: [f"{split}.{suffix}" for suffix in suffixes] for split in SPLIT_NAMES}
