"""Command-line options and arguments that several commands share.

Args:
    files: Parallel corpus: two text files with the same number of lines, or one .tsv, .jsonl or
        .tmx file, optionally compressed (.gz, .xz, .zst). `-` reads TSV from standard input;
        `builtin:fables` is the built-in English-French corpus.
    columns: Columns with source and target: numbers from 1 (TSV), keys (JSONL) or language codes
        (TMX). Default: columns 1 and 2 (TSV), the codes of --languages (JSONL, TMX; without them
        this option is required).
    format_name: Format of the corpus files. Default: determined by the file extension.
    test_files: Test set with sources and references: two text files (--test-set test.en --test-set
        test.de, or at the end of the command --test-set test.en test.de), one .tsv, .jsonl or .tmx
        file, optionally compressed, or `builtin:fables/test`. Required to translate with a model.
    references: Text file with one reference per line. Repeat the option for several references per
        sentence. They are added to the references of --test-set; without --test-set, they are the
        only ones.
    test_columns: Columns of the test set with source and target: numbers from 1 (TSV), keys (JSONL)
        or language codes (TMX). Default: columns 1 and 2 (TSV), the language codes of the model
        (JSONL, TMX; without a model this option is required).
    test_format: Format of the test set. Default: determined by the file extension.
    language: Language code of the references, for example zh; selects the tokenizer of BLEU.
        Default: target language of the model, or the extension of the references, if it is a
        language code.
    tokenize: Tokenizer of BLEU, as named by sacrebleu. Default: chosen by the language of the
        references, 13a for most languages.
    lowercase: Ignore or respect case in all metrics. Default: that of each metric (only TER ignores
        case).
    as_json: Print the result as JSON.
    model: Model directory.
    engine: Inference backend. `auto` uses ctranslate2 where its result is that of torch: on a CPU,
        for models and search settings that it supports, with beam search only if the search ends
        when the beam is full (stop rule `beam_full`, which is stored with imported models, and with
        trained models if it loses almost no BLEU). Otherwise it uses torch. `ctranslate2` reports
        an error if it does not support them.
    device: Device, for example cpu or cuda:0. `auto` uses cuda if it is available, otherwise cpu.
        On devices other than cpu, `--engine auto` uses torch.
    threads: Number of CPU threads. Default: all available cores.
    precision: Number format of the weights in ctranslate2; torch ignores it and uses float32. int8
        is faster and slightly less accurate. It is used only if its translations of probes.txt in
        the model directory are close to those of float32 on this CPU (chrF of at least 80);
        otherwise float32 is used, with a message on standard error.
    ensemble: Directory of a further model that is ensembled with MODEL (probabilities are
        averaged). May be repeated.
    search_settings: Set any field of the search settings, for example coverage_penalty=0.2,
        no_repeat_ngram_size=3 or length.max_length=80 (see docs/translating.md). May be repeated.
    beam_size: Beam size; 1 is greedy search. Default: 5.
    length_penalty: Length penalty α: score = log-probability / length^α. 0 favors short
        translations. Default: 1, the mean log-probability per token.
    stop_rule: When beam search stops. `exact`: when no unfinished hypothesis can still reach the
        n-best list. `beam_full`: when the number of finished hypotheses is the beam size (with
        length penalty 0: when the most likely hypothesis is finished). Default: the rule stored
        with the model, otherwise `exact`; with --engine ctranslate2 `beam_full`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from seq2see.cli.usage_errors import option_name
from seq2see.errors import ConfigError, Problem
from seq2see.registries import EngineName, Precision

if TYPE_CHECKING:
    from seq2see.evaluate import MetricsConfig
    from seq2see.translator import TranslationOptions, Translator

# --- corpora, test sets and metrics ---

CorpusFilesArgument = Annotated[list[str], typer.Argument(metavar="FILES")]
ColumnsOption = Annotated[str | None, typer.Option(metavar="SOURCE,TARGET")]
LanguagesOption = Annotated[str | None, typer.Option(metavar="SOURCE,TARGET")]
FormatOption = Annotated[str | None, typer.Option("--format", metavar="text|tsv|jsonl|tmx")]
TestSetOption = Annotated[list[str] | None, typer.Option("--test-set", metavar="FILE")]
ReferencesOption = Annotated[list[str] | None, typer.Option("--reference", metavar="FILE")]
TestColumnsOption = Annotated[str | None, typer.Option("--columns", metavar="SOURCE,TARGET")]
ReferenceLanguageOption = Annotated[str | None, typer.Option(metavar="CODE")]
LowercaseOption = Annotated[bool | None, typer.Option("--lowercase/--cased")]

# --- results ---

JsonOption = Annotated[bool, typer.Option("--json")]

# --- models and search ---

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL")]
DeviceOption = Annotated[str, typer.Option(metavar="DEVICE")]
ThreadsOption = Annotated[int | None, typer.Option(min=1, max=1024)]
EnsembleOption = Annotated[list[Path] | None, typer.Option(metavar="MODEL")]
SearchOption = Annotated[list[str] | None, typer.Option("--search", metavar="KEY=VALUE")]


def load_translator(
    model: Path,
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Precision = "float32",
    ensemble: Sequence[Path] | None = None,
) -> Translator:
    """Load a model, or several as an ensemble, and print the notes on its engine."""
    from seq2see.cpu import freeze_gc
    from seq2see.translator import load

    directories = [model, *(ensemble or ())]
    translator = load(directories, engine, device, threads, precision)
    freeze_gc()
    for note in translator.engine_notes:
        typer.echo(f"seq2see: {note}", err=True)
    return translator


def build_metrics_config(
    metrics: list[str] | None,
    tokenize: str | None,
    lowercase: bool | None,
    resamples: int | None = None,
) -> MetricsConfig:
    """Return the scoring config with the given options; None keeps a default."""
    from seq2see.evaluate import MetricsConfig

    settings: dict[str, Any] = {"metrics": tuple(metrics or ()) or None, "tokenize": tokenize}
    settings |= {"lowercase": lowercase, "resamples": resamples}
    return MetricsConfig(**{name: value for name, value in settings.items() if value is not None})


def build_translation_options(
    search: Mapping[str, Any],
    sampling: Mapping[str, Any] | None = None,
    glossary: Path | None = None,
    problems: Iterable[Problem | str] = (),
    search_settings: Iterable[str] = (),
    **other_options: Any,
) -> TranslationOptions:
    """Return the translation options; None and False keep a default.

    Args:
        search: fields of the search config
        sampling: fields of the sampling config, and `sample`, which enables sampling
        glossary: file with one term and its translation per line
        problems: problems found before, which are reported together with those found here
        search_settings: further fields of the search config as KEY=VALUE
        other_options: other fields of the translation options

    Raises ConfigError with all problems.
    """
    from seq2see.config import deep_merge, parse_override_as_dict
    from seq2see.translator import TranslationOptions

    sampling = _drop_unset(sampling or {})
    is_sampling = sampling.pop("sample", False)
    unused = () if is_sampling else sampling
    problems = [*problems, *(Problem(option_name(name), "needs --sample") for name in unused)]
    table = {**_drop_unset(other_options), "search": _drop_unset(search)}
    if is_sampling:
        table["search"]["sampling"] = sampling
    for setting in search_settings:
        try:
            table["search"] = deep_merge(table["search"], parse_override_as_dict(setting))
        except ConfigError:
            problems.append(Problem(f"--search {setting}", "must be KEY=VALUE"))
    if glossary:
        try:
            table["glossary"] = _read_glossary(glossary)
        except ConfigError as error:
            problems += error.problems
    try:
        options = TranslationOptions(**table)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return options


def _drop_unset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings without None and False; 0 is kept."""
    return {k: v for k, v in settings.items() if v is not None and v is not False}


def _read_glossary(path: Path) -> dict[str, str]:
    """Return the translation of each term; empty lines and lines that start with # are skipped.

    Raises InputError if the file cannot be read, and ConfigError if a line is invalid.
    """
    from seq2see.data.readers import read_lines

    glossary: dict[str, str] = {}
    line_numbers: dict[str, int] = {}
    for number, line in enumerate(read_lines(str(path)), 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        location = f"{path}, line {number}"
        if len(cells) != 2 or not all(cells):
            raise ConfigError(
                f"{location} must be a term, a tab and its translation, but is {line!r}"
            )
        term, translation = cells
        if first := line_numbers.get(term):
            raise ConfigError(f"{location} repeats the term {term!r} of line {first}")
        glossary[term], line_numbers[term] = translation, number
    return glossary
