"""`seq2see init`: prepare a corpus for training and write a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli.inputs import RECIPE_FILE, side_suffixes, write_clean_corpus
from seq2see.cli.options import CorpusOptions
from seq2see.errors import ConfigError, InputError, Problem

if TYPE_CHECKING:
    from seq2see.data.corpus_config_and_reading import BuiltinName, CombinedCorpus
    from seq2see.data.quality.report import CorpusReport
    from seq2see.data.readers import SplitName

_WRITTEN_FILES = ("recipe.toml", "train.", "valid.", "test.", "clean.", "rejected.tsv")
"""Names, or beginnings of names, of the files in the directory."""
_HEADER = """\
# Recipe for seq2see, from {name}.
# Train:       seq2see train {path}
# Change:      in this file, or on the command line with section.key=value
# Comments:    `#key = value` shows the default of a key that is not set.

"""


def init(
    *,
    corpus_options: CorpusOptions,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="DIRECTORY")] = None,
    evaluation_size: Annotated[int | None, typer.Option(min=1)] = None,
    clean: bool = False,
    force: bool = False,
) -> None:
    """Check and split a parallel corpus, and write a recipe.

    The corpus is split into training, validation and test sets.

    Args:
        output: Directory to create for recipe.toml and the three sets; must not exist, except with
            --force. Default: the language codes, for example en-de.
        languages: Language codes of source and target, for example en,de. Default: the extensions
            of two text files if they are language codes (train.en, train.de); otherwise detected in
            the text if lingua is installed. Required if they cannot be detected.
        evaluation_size: Number of pairs of the validation set, and the same number for the test
            set. Ignored for built-in corpora, which have their own sets. Default: 5 % of the
            corpus, at most 1,000.
        clean: Before the corpus is split, remove pairs as `seq2see data clean` does: empty,
            damaged, too long, identical, duplicate, shifted, swapped or unlikely to be
            translations, or in a wrong language. They are stored in rejected.tsv.
        force: Replace the output directory if it has only files that this command writes.
    """
    from seq2see.cli import corpus_report_output
    from seq2see.cli.corpus_and_translation_progress import show_corpus_progress
    from seq2see.data.corpus_splitting_and_writing import create_directory_atomically
    from seq2see.data.quality.analysis_and_filtering import analyze_corpus
    from seq2see.settings.suggested_recipe_and_training_time import suggest_recipe

    with corpus_options.open() as corpus:
        _check_two_files(corpus.paths)
        if output or corpus.languages:  # before the analysis
            _check_directory(output or Path("-".join(corpus.languages or ())), corpus, force)
        with show_corpus_progress() as on_stage:
            report = analyze_corpus(corpus, languages=corpus.languages, on_stage=on_stage)
        sides = _get_languages(report)
        directory = output or Path("-".join(sides))
        _check_directory(directory, corpus, force)
        recipe = suggest_recipe(report, sides, _name_split_files(corpus.builtin, sides))
        with create_directory_atomically(directory, replace=force) as new_directory:
            text = _format_header(corpus_options.name, directory / RECIPE_FILE) + recipe.to_toml()
            (new_directory / RECIPE_FILE).write_text(text, "utf-8")
            counts = {}
            if not corpus.builtin:
                counts = _write_splits(corpus, report, sides, new_directory, evaluation_size, clean)
    corpus_report_output.print_corpus_report(report, corpus_options.name, num_examples=1)
    _print_counts(counts, 0 if clean else report.num_pairs - report.num_accepted)
    path = directory / RECIPE_FILE
    advice = "fix the faults above, then" if report.faults else f"read {path}, then"
    typer.echo(f"Next: {advice} `seq2see train {path}`.", err=True)


def _check_two_files(paths: tuple[str, ...]) -> None:
    """Raise InputError if source and target are the same file."""
    if len(paths) == 2 and Path(paths[0]).resolve() == Path(paths[1]).resolve():
        raise InputError(f"source and target must be two files, but both are {paths[0]}")


def _check_directory(directory: Path, corpus: CombinedCorpus, force: bool) -> None:
    """Raise InputError if the output directory exists and must not be replaced."""
    if not force:
        if directory.exists():
            raise InputError(
                f"{directory} already exists: replace it with --force, or choose another directory "
                "with --output"
            )
        return
    names = [path.name for path in directory.iterdir()] if directory.is_dir() else []
    if others := [name for name in names if not name.startswith(_WRITTEN_FILES)]:
        raise InputError(
            f"{directory} cannot be replaced, because it has {others[0]}, which is not a file of "
            "`seq2see init`"
        )
    root = directory.resolve()
    if any(Path(path).resolve().is_relative_to(root) for path in corpus.paths):
        raise InputError(f"{directory} cannot be replaced, because the corpus is in it")


def _print_counts(counts: dict[SplitName, int], num_rejected: int) -> None:
    """Print the sizes of the splits, and how many of their pairs `--clean` would remove."""
    if not counts:  # a built-in corpus
        return
    sizes = ", ".join(f"{split} {count:,}" for split, count in counts.items())
    typer.echo(f"\nNumber of pairs: {sizes}.", err=True)
    if num_rejected:
        typer.echo(
            f"{num_rejected:,} of them would be removed by cleaning: to remove them, run this "
            "again with --clean --force.",
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


def _format_header(corpus_name: str, path: Path) -> str:
    from seq2see.settings.recipe import format_toml_value

    return _HEADER.format(name=format_toml_value(corpus_name), path=format_toml_value(str(path)))


def _write_splits(
    corpus: CombinedCorpus,
    report: CorpusReport,
    sides: tuple[str, str],
    directory: Path,
    evaluation_size: int | None,
    clean: bool,
) -> dict[SplitName, int]:
    """Write the three sets, with `clean` of the accepted pairs only; return their sizes."""
    from seq2see.data.corpus_config_and_reading import CombinedCorpus, Corpus, CorpusConfig
    from seq2see.data.corpus_splitting_and_writing import CorpusSplitter, write_splits
    from seq2see.settings.suggested_recipe_and_training_time import choose_evaluation_size

    suffixes = side_suffixes(sides)
    if clean:
        write_clean_corpus(corpus, directory, suffixes)
        config = CorpusConfig(files=[f"clean.{suffix}" for suffix in suffixes])
        corpus = CombinedCorpus((Corpus(config, sides, directory),), sides)
    num_pairs = report.num_accepted if clean else report.num_pairs
    size = evaluation_size or choose_evaluation_size(num_pairs)
    return write_splits(corpus, directory, suffixes, CorpusSplitter(corpus, size, size))


def _name_split_files(builtin: BuiltinName | None, sides: tuple[str, str]) -> dict[str, list[str]]:
    """Return the file names of each split; a built-in corpus has its own splits."""
    from seq2see.data.readers import SPLIT_NAMES

    if builtin:
        return {split: [f"builtin:{builtin.corpus}/{split}"] for split in SPLIT_NAMES}
    suffixes = side_suffixes(sides)
    return {split: [f"{split}.{suffix}" for suffix in suffixes] for split in SPLIT_NAMES}
