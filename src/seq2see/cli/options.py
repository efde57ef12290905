"""Command-line options and arguments that several commands share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2see.cli.usage import option_name
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.evaluate import ScoringConfig
    from seq2see.translator import TranslationOptions, Translator

CorpusFilesArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES…",
        help="Parallel corpus: two text files with the same number of lines, or one .tsv, .jsonl "
        "or .tmx file, optionally compressed (.gz, .xz, .zst). `-` reads TSV from standard input; "
        "`builtin:fables` is the built-in English-French corpus.",
    ),
]


LanguagesOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="Language codes of source and target, for example en,de. Default: the extensions of "
        "the files, for example of train.en and train.de.",
    ),
]


ColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="Columns with source and target: numbers from 1 (TSV), keys (JSONL) or language codes "
        "(TMX). Default: columns 1 and 2 (TSV), the codes of --languages (JSONL, TMX).",
    ),
]


FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="text|tsv|jsonl|tmx",
        help="Format of the corpus files. Default: determined by the file extension.",
    ),
]


TestSetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--test-set",
        metavar="FILES…",
        help="Test set with sources and references: two text files, one .tsv, .jsonl or .tmx file "
        "(optionally compressed), or `builtin:fables/test`.",
    ),
]


ReferencesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="FILES…",
        help="Text file with one reference translation per line. Several files give several "
        "references per sentence.",
    ),
]


TestColumnsOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="Columns of the test set with source and target: numbers from 1 (TSV), keys (JSONL) "
        "or language codes (TMX). Default: columns 1 and 2 (TSV), the language codes (JSONL, TMX).",
    ),
]


TestFormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="text|tsv|jsonl|tmx",
        help="Format of the test set. Default: determined by the file extension.",
    ),
]


ReferenceLanguageOption = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language code of the references, for example zh; selects the tokenizer of BLEU. "
        "Default: target language of the model, or the file extension.",
    ),
]


TokenizeOption = Annotated[
    Literal["13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "none"] | None,
    typer.Option(
        help="Tokenizer of BLEU, as named by sacrebleu. Default: chosen by the language of the "
        "references, 13a for most languages."
    ),
]


MetricOption = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="bleu|chrf|ter|exact",
        help="Metric to compute. May be repeated; in `compare` the first one decides which system "
        "is better. Default: bleu, chrf and ter; in `evaluate` also exact.",
    ),
]


LowercaseOption = Annotated[
    bool | None,
    typer.Option(
        "--lowercase/--cased",
        help="Ignore or respect case in all metrics. Default: that of each metric (only TER "
        "ignores case).",
    ),
]


def build_scoring_config(
    metrics: list[str] | None,
    tokenize: str | None,
    lowercase: bool | None,
    resamples: int | None = None,
) -> ScoringConfig:
    """Make the settings of scoring from those that are given."""
    from seq2see.evaluate import ScoringConfig

    given: dict[str, Any] = {
        "metrics": tuple(metrics) if metrics else None,
        "tokenize": tokenize,
        "lowercase": lowercase,
        "resamples": resamples,
    }
    return ScoringConfig(**{name: value for name, value in given.items() if value is not None})


JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


PlotOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write a plot to this file (.png, .svg or .pdf)."),
]


ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="Model directory.")]


EngineName = Literal["auto", "torch", "ctranslate2"]


EngineOption = Annotated[
    EngineName,
    typer.Option(
        help="Inference backend. `auto` uses ctranslate2 where it gives the same result, otherwise "
        "torch."
    ),
]


DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Device of the torch engine, for example cpu or cuda:0. `auto` uses cuda if it is "
        "available, otherwise cpu.",
    ),
]


ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, max=1024, help="Number of CPU threads. Default: all available cores."),
]


PrecisionOption = Annotated[
    Literal["float32", "int8"],
    typer.Option(
        help="Number format of ctranslate2. int8 is faster and slightly less accurate; it is used "
        "only if a quality check passes on this CPU, otherwise float32."
    ),
]


EnsembleOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL",
        help="Directory of a further model that is ensembled with MODEL (probabilities are "
        "averaged). May be repeated.",
    ),
]


SearchOption = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="KEY=VALUE",
        help="Set any field of the search settings, for example coverage_penalty=0.2, "
        "no_repeat_ngram_size=3 or length.max_length=80 (see docs/translating.md). May be "
        "repeated.",
    ),
]


BeamSizeOption = Annotated[
    int | None, typer.Option(help="Beam size; 1 is greedy search. Default: 5.")
]


LengthPenaltyOption = Annotated[
    float | None,
    typer.Option(
        help="Length penalty α: score = log-probability / length^α. 0 favors short translations. "
        "Default: 1, the mean log-probability per token."
    ),
]


StopRuleOption = Annotated[
    Literal["exact", "beam_full"] | None,
    typer.Option(
        help="When beam search stops. `exact`: when no unfinished hypothesis can still reach the "
        "n-best list. `beam_full`: when beam-size hypotheses are finished. Default: set in the "
        "model directory, usually `exact`."
    ),
]


def load_translator(
    model: Path,
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
    ensemble: Sequence[Path] | None = None,
) -> Translator:
    """Load a model, or several as one, and tell what should be known about its engine."""
    set_passive_omp_wait()
    from seq2see.cpu import freeze_gc
    from seq2see.translator import load

    homes = [model, *(ensemble or ())]
    translator = load(homes, engine, device, threads, precision)
    freeze_gc()
    for note in translator.engine_notes:
        typer.echo(f"seq2see: {note}", err=True)
    return translator


@contextmanager
def exit_on_interrupt(partial_output: Path | None = None) -> Iterator[None]:
    """End at Ctrl-C as a program ends that knows nothing of it: by the signal, without a trace.

    So a shell knows that it was interrupted, and stops its loop as well. A file that another run
    can go on with is named.
    """
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stdout.flush()
            can_resume = partial_output and partial_output.exists()
            hint = f"; --resume continues {partial_output}" if can_resume else ""
            typer.echo(f"seq2see: interrupted{hint}", err=True)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def build_translation_options(
    search: Mapping[str, Any],
    sampling: Mapping[str, Any] | None = None,
    glossary: Path | None = None,
    problems: Iterable[str] = (),
    search_settings: Iterable[str] = (),
    **others: Any,
) -> TranslationOptions:
    """Make the options of what was asked for, leaving out what is None; or say all that is wrong.

    `sampling` has `sample`, which turns it on, beside its own settings; `problems` are those that
    were found before; `search_settings` are settings of the search as `key=value`.
    """
    from seq2see.config import deep_merge, parse_override
    from seq2see.data.readers import read_lines
    from seq2see.translator import TranslationOptions

    draw = _given(sampling or {})
    sample = draw.pop("sample", False)
    problems = [
        *problems,
        *(f"`{option_name(name)}` needs --sample" for name in draw if not sample),
    ]
    table = {**_given(others), "search": _given(search)}
    if sample:
        table["search"]["sampling"] = draw
    for setting in search_settings:
        try:
            table["search"] = deep_merge(table["search"], parse_override(setting))
        except ConfigError:
            problems.append(f"`--search {setting}` must be KEY=VALUE")
    if glossary:
        lines = list(read_lines(str(glossary)))
        try:
            table["glossary"] = dict(_terms(glossary, lines))
        except InputError as error:
            problems.append(str(error))
    try:
        options = TranslationOptions(**table)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    return options


def _given(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in settings.items() if v is not None and v is not False}  # 0 is given


def _terms(path: Path, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield terms and their translations; what is blank or begins with # is no term."""
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) != 2 or not all(cells):
            raise InputError(
                f"{path}, line {number} must be a term, a tab and its translation, "
                f"but is {line!r} instead"
            )
        if first := seen.get(cells[0]):
            raise InputError(f"{path}, line {number} repeats the term {cells[0]!r} of line {first}")
        seen[cells[0]] = number
        yield cells[0], cells[1]


def set_passive_omp_wait() -> None:
    """Let threads that wait for others give up their core; before torch is imported.

    By default they wait in a loop and take the cores from whoever has work: with other programs on
    the machine, two threads were slower than one.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
