"""`seq2see data`: check, clean and split parallel corpora."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seq2see.cli import inputs
from seq2see.cli.options import CorpusOptions, JsonOption, expand_option_groups
from seq2see.cli.usage_errors import OneLineErrorCommand, OneLineErrorGroup
from seq2see.errors import ConfigError, Problem
from seq2see.registries import FIGURE_FORMATS

if TYPE_CHECKING:
    from seq2see.data.corpus_config_and_reading import CombinedCorpus, Corpus

app = typer.Typer(
    name="data",
    cls=OneLineErrorGroup,
    help="Check, clean and split parallel corpora.",
    no_args_is_help=True,
)


@app.command(cls=OneLineErrorCommand)
@expand_option_groups
def check(
    *,
    corpus_options: CorpusOptions,
    test_files: Annotated[list[str] | None, typer.Option("--test-set", metavar="FILE")] = None,
    tokenizer: Annotated[Path | None, typer.Option(metavar="PATH")] = None,
    num_examples: Annotated[int, typer.Option(min=0, max=100)] = 2,
    estimate_time: bool = True,
    as_json: JsonOption = False,
    plot: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
) -> None:
    """Report the quality of a parallel corpus.

    The report has findings, and suggests a model size. Each finding is a fault, a warning or a
    note. The exit status is 1 if there is a fault, which must be fixed before training.

    Args:
        languages: Language codes of source and target, for example en,de. Default: the extensions
            of two text files if they are language codes (train.en, train.de); otherwise detected in
            the text if lingua is installed.
        test_files: Test set: pairs of the corpus whose source is in it, apart from case,
            punctuation and spaces, are reported. One file, or two text files (give the option
            twice). --columns applies to it if it has the format of the corpus;
            otherwise its columns are the default ones.
        tokenizer: Model directory or SentencePiece file: also report characters of the corpus for
            which this tokenizer has no piece. They are encoded as bytes or, without byte fallback,
            as unknown tokens.
        num_examples: Number of example pairs to print per finding. --json has at least 5, if there
            are as many.
        estimate_time: Estimate how long training takes on this machine, by a measurement of about
            10 seconds.
        plot: Also plot histograms of sentence lengths and length ratios, and the number of pairs
            per finding, to this file (.png, .svg or .pdf).
    """
    from seq2see.cli import corpus_report_output
    from seq2see.cli.corpus_and_translation_progress import show_corpus_progress
    from seq2see.data.quality.analysis_and_filtering import analyze_corpus
    from seq2see.data.quality.rules import QualityConfig
    from seq2see.text import TokenizerPair

    inputs.check_extension(plot, FIGURE_FORMATS, "--plot")
    inputs.check_output_path(plot)
    config = QualityConfig(num_examples=max(num_examples, QualityConfig().num_examples))
    with corpus_options.open() as corpus, show_corpus_progress() as on_stage:
        test_set = _read_test_set(test_files, corpus)
        tokenizers = TokenizerPair.load(tokenizer) if tokenizer else None
        report = analyze_corpus(corpus, config, corpus.languages, tokenizers, test_set, on_stage)
        seconds = None
        if estimate_time:
            from seq2see.settings import suggested_recipe_and_training_time

            on_stage("measuring", report.num_pairs)
            seconds = suggested_recipe_and_training_time.estimate_training_seconds(report)
    if plot:
        corpus_report_output.plot_corpus_report(report, corpus_options.name, plot)
    if as_json:
        record = report.to_json()
        record["suggestion"]["seconds"] = seconds
        typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        corpus_report_output.print_corpus_report(report, corpus_options.name, num_examples, seconds)
    if report.faults:
        raise typer.Exit(1)


@app.command(cls=OneLineErrorCommand)
@expand_option_groups
def clean(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIRECTORY")],
    corpus_options: CorpusOptions,
    test_files: Annotated[list[str] | None, typer.Option("--test-set", metavar="FILE")] = None,
) -> None:
    """Remove faulty pairs from a parallel corpus, or faulty lines from one text file.

    Writes the pairs that pass all rules, and the rejected pairs with their reasons. Regions where
    the target is some lines late or early are realigned. Pairs are rejected if they are empty,
    damaged, too long, identical, duplicate, swapped, unlikely to be translations, or in a wrong
    language.

    Args:
        languages: Language codes of source and target, for example en,de. Default: the extensions
            of two text files if they are language codes (train.en, train.de); otherwise detected in
            the text if lingua is installed. The languages of the option or the extensions name the
            output files; detected languages do not: the files are then clean.source and
            clean.target.
        output: Output directory for clean.SOURCE and clean.TARGET, for example clean.en and
            clean.de, and for rejected.tsv. If one of these files exists, this is an error.
        test_files: Test set: pairs of the corpus whose source is in it, apart from case,
            punctuation and spaces, are removed. One file, or two text files (give the option
            twice). --columns applies to it if it has the format of the corpus;
            otherwise its columns are the default ones.
    """
    from seq2see.data.corpus_splitting_and_writing import REJECTED_FILE

    is_one_sided = corpus_options.is_one_text_file
    if is_one_sided:
        corpus_options = corpus_options.duplicate_file()
    with corpus_options.open() as corpus:
        test_set = _read_test_set(test_files, corpus)
        suffixes: tuple[str, ...] = inputs.side_suffixes(corpus.languages)
        if is_one_sided:
            suffixes = (inputs.infer_language(corpus_options.files[0]) or "txt",)
        counts = inputs.write_clean_corpus(corpus, output, suffixes, test_set)
    for rule, count in counts.most_common():
        typer.echo(f"{count:>12,}  {rule.replace('_', ' ')}", err=True)
    clean_files, rejected_file = output / "clean.*", output / REJECTED_FILE
    typer.echo(f"Accepted pairs: {clean_files}, rejected pairs: {rejected_file}.", err=True)


@app.command(cls=OneLineErrorCommand)
@expand_option_groups
def split(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIRECTORY")],
    corpus_options: CorpusOptions,
    valid_size: Annotated[int, typer.Option(min=0)] = 1000,
    test_size: Annotated[int, typer.Option(min=0)] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 1,
) -> None:
    """Split a corpus into training, validation and test sets.

    Pairs with the same source are put into the same set.

    Args:
        languages: Language codes of source and target, for example en,de. Default: the extensions
            of two text files if they are language codes (train.en, train.de); otherwise the output
            files are train.source, train.target and so on.
        output: Output directory for two files per set, for example train.en, train.de, valid.en,
            valid.de, test.en and test.de. If one of these files exists, this is an error.
        valid_size: Number of pairs in the validation set.
        test_size: Number of pairs in the test set.
        seed: Random seed that selects the validation and test pairs.
    """
    from seq2see.data.corpus_splitting_and_writing import CorpusSplitter, write_splits

    with corpus_options.open() as corpus:
        splitter = CorpusSplitter(corpus, valid_size, test_size, seed)
        suffixes = inputs.side_suffixes(corpus.languages)
        counts = write_splits(corpus, output, suffixes, splitter)
    for split_name, count in counts.items():
        names = " and ".join(f"{output / split_name}.{suffix}" for suffix in suffixes)
        typer.echo(f"{count:>12,}  {names}", err=True)


def _read_test_set(files: list[str] | None, corpus: CombinedCorpus) -> Corpus | None:
    """Return the pairs of the test set, read with the columns of the corpus if formats agree."""
    from seq2see.data.corpus_config_and_reading import Corpus

    if not files:
        return None
    if inputs.STANDARD_INPUT in files:
        raise ConfigError(Problem("--test-set", "must be a file, not standard input"))
    config = inputs.build_corpus_config(files, None, None, "`--test-set`")
    corpus_config = corpus.corpora[0].config
    if config.resolved_format == corpus_config.resolved_format:
        config = config.replace(columns=corpus_config.columns)
    return Corpus(config, corpus.languages)
