"""Command-line options and arguments that several commands share, in groups.

Args:
    files: Parallel corpus: two text files with the same number of lines, two subtitle files (.srt,
        .vtt), or one .tsv, .csv, .xlsx, .json, .jsonl, .parquet, .tmx, .xliff or .po file,
        optionally compressed (.gz, .xz, .zst); a directory of Hugging Face datasets; or several of
        these. `-` reads TSV from standard input; `builtin:fables` is the built-in English-French
        corpus.
    columns: Columns with source and target: numbers from 1 or names in the header (TSV, CSV, XLSX),
        keys (JSON, Parquet) or language codes (TMX). Default: those that name the languages, or
        source and target; otherwise the first two columns with text.
    format_name: Format of the corpus files. Default: determined by the file extension or, if it is
        unknown, by the content.
    test_files: Test set with sources and references: two text files (--test-set test.en --test-set
        test.de, or at the end of the command --test-set test.en test.de), one file in another
        format of parallel text, optionally compressed, or `builtin:fables/test`.
        Default for a run directory: the test set of the run, if it is unchanged. Required to
        translate with another model.
    references: Text file with one reference per line. Repeat the option for several references per
        sentence. They are added to the references of --test-set; without --test-set, they are the
        only ones.
    test_columns: Columns of the test set with source and target: numbers from 1 or names in the
        header (TSV, CSV, XLSX), keys (JSON, Parquet) or language codes (TMX). Default: those that
        name the languages of the model, or source and target.
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
    engine: Inference backend. `auto` uses ctranslate2 where its result is that of torch: on a CPU
        or cuda, for models and search settings that it supports, with beam search only if the
        search ends when the beam is full (stop rule `beam_full`, which is stored with imported
        models, and with trained models if it loses almost no BLEU). Otherwise it uses torch.
        `ctranslate2` reports an error if it does not support them.
    device: Device, for example cpu or cuda:0. `auto` uses cuda if it is available, otherwise mps
        (Apple), otherwise cpu. ctranslate2 supports cpu and cuda; on other devices, `--engine auto`
        uses torch.
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

import inspect
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from seq2see.cli import inputs
from seq2see.cli.usage_errors import collecting, given_options, option_name, raise_problems
from seq2see.errors import ConfigError, Problem, reading
from seq2see.registries import CORPUS_FORMATS, METRICS, EngineName, Precision, Tokenization

if TYPE_CHECKING:
    from seq2see.data.corpus_config_and_reading import CombinedCorpus, CorpusConfig
    from seq2see.evaluate import EvaluationSet, MetricsConfig
    from seq2see.translator import TranslationOptions, Translator


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the fields of its option groups as parameters.

    A group is a parameter whose type is a dataclass. Typer knows only parameters of simple types.
    """
    hints = get_type_hints(command)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            settings = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**settings)
        command(**values)

    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        group = groups.get(name)
        own = inspect.signature(group, eval_str=True).parameters.values() if group else [parameter]
        parameters += [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


# --- corpora, test sets and metrics ---

ColumnsOption = Annotated[str | None, typer.Option("--columns", metavar="SOURCE,TARGET")]
FormatOption = Annotated[str | None, typer.Option("--format", metavar="|".join(CORPUS_FORMATS))]


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """A parallel corpus."""

    files: Annotated[list[str], typer.Argument(metavar="FILES")]
    languages: Annotated[str | None, typer.Option(metavar="SOURCE,TARGET")] = None
    columns: ColumnsOption = None
    format_name: FormatOption = None

    @property
    def name(self) -> str:
        """Name of the corpus for messages."""
        return inputs.format_corpus_name(self.files)

    @property
    def is_one_text_file(self) -> bool:
        """Whether this is text without translations."""
        from seq2see.data.formats.sniffing import find_corpus_format

        path = Path(self.files[0])
        is_text = self.format_name == "text" or find_corpus_format(str(path)) is None
        return len(self.files) == 1 and path.is_file() and is_text

    def duplicate_file(self) -> CorpusOptions:
        """Return the options for a text file that is its own translation."""
        language = inputs.infer_language(self.files[0])
        languages = self.languages or (f"{language},{language}" if language else None)
        return replace(self, files=self.files * 2, languages=languages)

    @contextmanager
    def open(self) -> Iterator[CombinedCorpus]:
        """Yield the corpus, and print what was detected in its files.

        Standard input is copied to a temporary file, so that the corpus can be read several times.
        """
        files = self.files
        with tempfile.TemporaryDirectory() as directory:
            if files == [inputs.STANDARD_INPUT]:
                files = [str(Path(directory, "standard-input.tsv"))]
                with Path(files[0]).open("wb") as copy, reading("standard input"):
                    shutil.copyfileobj(sys.stdin.buffer, copy)
            languages = inputs.parse_languages(self.languages)
            inputs.check_files_exist(files)
            configs = inputs.build_corpus_configs(files, self.columns, self.format_name)
            yield _open_combined(configs, languages)


def _open_combined(
    configs: Sequence[CorpusConfig], languages: tuple[str, str] | None
) -> CombinedCorpus:
    """Return the corpora, and print what was detected in their files.

    Without `languages`, they are those of the first corpus whose files or names state both of
    them. Two files in the other order are exchanged.
    """
    from seq2see.data.corpus_config_and_reading import CombinedCorpus, Corpus

    named = [inputs.infer_languages(config.files) for config in configs]
    opened = [Corpus(config, languages).open() if not languages else None for config in configs]
    for name, each in zip(named, opened, strict=True):
        source, target = each.languages if each else (None, None)
        languages = languages or ((source, target) if source and target else name)
    corpora = []
    for config, name in zip(configs, named, strict=True):
        is_reversed = len(config.files) == 2 and languages and name == languages[::-1]
        files = config.files[::-1] if is_reversed else config.files
        corpus = Corpus(config.replace(files=files), languages)
        corpora.append(corpus)
        for note in corpus.open().notes:
            typer.echo(f"seq2see: {note}", err=True)
    return CombinedCorpus(tuple(corpora), languages)


@dataclass(frozen=True, slots=True)
class EvaluationSetOptions:
    """A test set: sources and references, further references, or both."""

    test_files: Annotated[list[str] | None, typer.Option("--test-set", metavar="FILE")] = None
    references: Annotated[list[str] | None, typer.Option("--reference", metavar="FILE")] = None
    test_columns: ColumnsOption = None
    test_format: FormatOption = None
    language: Annotated[str | None, typer.Option(metavar="CODE")] = None

    @property
    def is_given(self) -> bool:
        """Whether there is a test set or a file with references."""
        return bool(self.test_files or self.references)

    def with_arguments(
        self, files: Sequence[str], has_model: bool, has_default: bool = False
    ) -> EvaluationSetOptions:
        """Return the options with further files; raise ConfigError if they are invalid.

        Click parses `--test-set a.en a.de` as an option and an argument. A model requires a test
        set to translate, unless it `has_default`.
        """
        test_files, references = [*(self.test_files or ())], [*(self.references or ())]
        (test_files if test_files or has_model else references).extend(files)
        if has_model and not test_files and (references or not has_default):
            raise ConfigError(
                Problem("--test-set", "must be given: the sentences that the model translates")
            )
        options = replace(self, test_files=test_files, references=references)
        options._build_config()
        return options

    def _build_config(self) -> CorpusConfig | None:
        if not self.test_files:
            return None
        return inputs.build_corpus_config(
            self.test_files, self.test_columns, self.test_format, "`--test-set`"
        )

    def read(self, model_languages: tuple[str, str] | None = None) -> EvaluationSet:
        """Read the test set; without a model, languages are those of the file extensions."""
        from seq2see.data.corpus_config_and_reading import Corpus
        from seq2see.data.readers import read_lines
        from seq2see.evaluate import EvaluationSet

        files, reference_files = self.test_files or [], self.references or []
        if not files and not reference_files:
            raise ConfigError(Problem("--test-set", "or `--reference` must be given"))
        references = [list(read_lines(name)) for name in reference_files]
        inferred = next(
            filter(None, map(inputs.infer_language, [*files[-1:], *reference_files])), None
        )
        config = self._build_config()
        if config is None:
            name = " and ".join(Path(name).name for name in reference_files)
            language = self.language or inferred
            return EvaluationSet(name, tuple(references), None, (None, language))
        corpus = Corpus(config, model_languages or inputs.infer_languages(files))
        test_set = EvaluationSet.from_corpus(corpus, references)
        source, target = test_set.languages
        target = self.language or target or inferred
        return replace(test_set, name=inputs.format_corpus_name(files), languages=(source, target))


@dataclass(frozen=True, slots=True)
class ScoringOptions:
    """Metrics and their settings."""

    metrics: Annotated[list[str] | None, typer.Option("--metric", metavar="|".join(METRICS))] = None
    tokenize: Tokenization | None = None
    lowercase: Annotated[bool | None, typer.Option("--lowercase/--cased")] = None

    def build_config(self, **defaults: Any) -> MetricsConfig:
        """Return the config of the metrics, with other defaults than those of the config."""
        from seq2see.evaluate import MetricsConfig

        settings = asdict(self) | {"metrics": tuple(self.metrics or ()) or None}
        return MetricsConfig(**{**defaults, **_drop_none(settings)})


# --- results ---

JsonOption = Annotated[bool, typer.Option("--json")]

# --- models and search ---

ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL")]
SearchOption = Annotated[list[str] | None, typer.Option("--search", metavar="KEY=VALUE")]


@dataclass(frozen=True, slots=True)
class InferenceOptions:
    """Where a model runs."""

    engine: EngineName = "auto"
    device: Annotated[str, typer.Option(metavar="DEVICE")] = "auto"
    threads: Annotated[int | None, typer.Option(min=1, max=1024)] = None

    def load_translator(self, model: Path) -> Translator:
        """Load a model, or several as an ensemble, and print the notes on its engine."""
        from seq2see.cpu import freeze_gc
        from seq2see.translator import load

        settings = asdict(self)
        translator = load([model, *(settings.pop("ensemble", None) or ())], **settings)
        freeze_gc()
        for note in translator.engine_notes:
            typer.echo(f"seq2see: {note}", err=True)
        return translator


@dataclass(frozen=True, slots=True)
class EnsembleInferenceOptions(InferenceOptions):
    """Where a model or an ensemble runs, and with which precision."""

    precision: Precision = "float32"
    ensemble: Annotated[list[Path] | None, typer.Option(metavar="MODEL")] = None


@dataclass(frozen=True, slots=True)
class BeamSearchOptions:
    """Settings of beam search that several commands have."""

    beam_size: int | None = None
    length_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Sampling instead of beam search."""

    sample: Annotated[bool, typer.Option("--sample")] = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    seed: int | None = None

    def to_search_settings(self) -> dict[str, Any]:
        """Return the settings of the search; raise ConfigError if they need `--sample`."""
        settings = _drop_none(asdict(self))
        if settings.pop("sample"):
            return {"sampling": settings}
        if settings:
            raise ConfigError(*(Problem(option_name(name), "needs --sample") for name in settings))
        return {}


def check_no_unused_model_options(context: typer.Context, has_model: bool) -> None:
    """Raise ConfigError if no model translates, but options are given that apply only then."""
    names = [each.name for each in (*fields(EnsembleInferenceOptions), *fields(BeamSearchOptions))]
    unused = given_options(context, *names, "search_settings", "output")
    if unused and not has_model:
        raise ConfigError(f"{', '.join(unused)} must be left out, because no model translates")


def check_systems_come_first(
    context: typer.Context, names: str, first: str, files: Sequence[str] | None
) -> None:
    """Raise ConfigError if the systems follow two files of an option, as in `--test-set a b X Y`.

    Click would parse b as the first system and Y as a file of the option. `names` are those of the
    systems in the usage of the command.
    """
    arguments = context.meta["arguments"]
    before = arguments[: arguments.index(first)]
    for option in ("--test-set", "--reference"):
        if files and (before[-2:-1] == [option] or "".join(before[-1:]).startswith(f"{option}=")):
            value = before[-1].removeprefix(f"{option}=")
            raise ConfigError(
                f"{names} must come before the files of `{option}`: "
                f"{context.command_path} {names} {option} {value} {first}"
            )


def build_translation_options(
    beam_search: BeamSearchOptions,
    search_settings: Sequence[str] | None = None,
    sampling: SamplingOptions | None = None,
    glossary: Path | None = None,
    problems: Sequence[Problem] = (),
    search: dict[str, Any] | None = None,
    **other_options: Any,
) -> TranslationOptions:
    """Return the translation options; None keeps a default.

    Args:
        beam_search: options of beam search
        search_settings: fields of the search config as KEY=VALUE
        sampling: options of sampling
        glossary: file with one term and its translation per line
        problems: problems found before, which are reported together with those found here
        search: other fields of the search config
        other_options: other fields of the translation options

    Raises ConfigError with all problems.
    """
    from seq2see.config import deep_merge
    from seq2see.translator import TranslationOptions

    problems = list(problems)
    table = _drop_none(
        {**other_options, "search": _drop_none(asdict(beam_search) | (search or {}))}
    )
    for setting in search_settings or ():
        with collecting(problems):
            table["search"] = deep_merge(table["search"], parse_key_value("--search", setting))
    with collecting(problems):
        table["search"] |= sampling.to_search_settings() if sampling else {}
    with collecting(problems):
        table["glossary"] = _read_glossary(glossary) if glossary else {}
    with collecting(problems):
        options = TranslationOptions(**table)
    raise_problems(problems)
    return options


def parse_key_value(option: str, setting: str) -> dict[str, Any]:
    """Return the setting that an option gives as KEY=VALUE, where KEY may have dots."""
    from seq2see.config import parse_override_as_dict

    try:
        return parse_override_as_dict(setting)
    except ConfigError:
        raise ConfigError(Problem(f"{option} {setting}", "must be KEY=VALUE")) from None


def _drop_none(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


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
        location = f"{path}, line {number}"
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise ConfigError(
                f"{location} must be a term, a tab and its translation, but is {line!r}"
            )
        term, translation = cells
        if first := line_numbers.get(term):
            raise ConfigError(f"{location} repeats the term {term!r} of line {first}")
        glossary[term], line_numbers[term] = translation, number
    return glossary
