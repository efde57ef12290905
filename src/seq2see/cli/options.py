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

from seq2see.cli.usage import flag
from seq2see.config import assigned, merged
from seq2see.errors import ConfigError, InputError

if TYPE_CHECKING:
    from seq2see.evaluate import ScoringConfig
    from seq2see.translator import TranslationOptions, Translator

Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILES…",
        help="Two text files side by side, or one .tsv, .jsonl or .tmx (also .gz, .xz, .zst); "
        "`-` is a TSV on standard input; `builtin:fables` is our own.",
    ),
]


Languages = Annotated[
    str | None,
    typer.Option(metavar="SOURCE,TARGET", help="Codes such as en,de. By default from the names."),
]


Columns = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE,TARGET",
        help="TSV: numbers from 1. JSONL: keys. TMX: languages. By default the first two, or the "
        "languages.",
    ),
]


Format = Annotated[
    str | None,
    typer.Option("--format", metavar="text|tsv|jsonl|tmx", help="Where the names do not tell."),
]


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


TestColumnsOption = Annotated[
    str | None,
    typer.Option(metavar="SOURCE,TARGET", help="Of --test: TSV: numbers from 1. JSONL: keys."),
]


TestFormatOption = Annotated[
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


Json = Annotated[bool, typer.Option("--json", help="For machines.")]


Plot = Annotated[Path | None, typer.Option(help="Also draw a picture: .png, .svg, .pdf.")]


Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The directory of a model.")]


EngineName = Literal["auto", "torch", "ctranslate2"]


Engine = Annotated[
    EngineName,
    typer.Option(help="What computes: `auto` is the fastest that can do what is asked for."),
]


Device = Annotated[str, typer.Option(help="Where the torch engine computes: cpu, cuda, …")]


Threads = Annotated[
    int | None, typer.Option(min=1, max=1024, help="Of the processor. By default all cores.")
]


Precision = Annotated[
    Literal["float32", "int8"],
    typer.Option(
        help="Of ctranslate2: int8 is faster and a little less exact, and is used only if it "
        "passes a check on this processor."
    ),
]


Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL", help="A further model, asked together with the first; may be repeated."
    ),
]


Search = Annotated[
    list[str] | None,
    typer.Option(
        "--search",
        metavar="KEY=VALUE",
        help="Any setting of the search, such as coverage_penalty=0.2, no_repeat_ngram=3 or "
        "lengths.max_length=80; may be repeated.",
    ),
]


BeamSize = Annotated[
    int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy. By default 5.")
]


LengthPenalty = Annotated[
    float | None,
    typer.Option(
        help="α: the score is log-probability / length^α. 0 favours the short, 1 (the "
        "default) is the mean of the tokens."
    ),
]


Stop = Annotated[
    Literal["exact", "beam_full"] | None,
    typer.Option(
        help="`exact`: when nothing better can come. `beam_full`: once as many have ended as the "
        "beam is wide. By default as the model says."
    ),
]


def loaded(
    model: Path,
    engine: EngineName = "auto",
    device: str = "auto",
    threads: int | None = None,
    precision: Literal["float32", "int8"] = "float32",
    ensemble: Sequence[Path] | None = None,
) -> Translator:
    """Load a model, or several as one, and tell what should be known about its engine."""
    let_threads_sleep()
    from seq2see.cpu import keep_what_is_loaded
    from seq2see.translator import load

    homes = [model, *(ensemble or ())]
    translator = load(homes, engine, device, threads, precision)
    keep_what_is_loaded()
    for note in translator.notes:
        typer.echo(f"seq2see: {note}", err=True)
    return translator


@contextmanager
def dying_of_interrupts(partial: Path | None = None) -> Iterator[None]:
    """End at Ctrl-C as a program ends that knows nothing of it: by the signal, without a trace.

    So a shell knows that it was interrupted, and stops its loop as well. A file that another run
    can go on with is named.
    """
    try:
        yield
    except KeyboardInterrupt:
        with suppress(OSError):
            sys.stdout.flush()
            kept = f"{partial} is kept; --resume goes on" if partial and partial.exists() else ""
            typer.echo(f"seq2see: {kept or 'stopped'}", err=True)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def translation_options(
    search: Mapping[str, Any],
    sampling: Mapping[str, Any] | None = None,
    glossary: Path | None = None,
    problems: Iterable[str] = (),
    further: Iterable[str] = (),
    **others: Any,
) -> TranslationOptions:
    """Make the options of what was asked for, leaving out what is None; or say all that is wrong.

    `sampling` has `sample`, which turns it on, beside its own settings; `problems` are those that
    were found before; `further` are settings of the search as `key=value`.
    """
    from seq2see.data.readers import read_lines
    from seq2see.translator import TranslationOptions

    draw = _given(sampling or {})
    sample = draw.pop("sample", False)
    problems = [*problems, *(f"`{flag(name)}` needs --sample" for name in draw if not sample)]
    table = {**_given(others), "search": _given(search)}
    if sample:
        table["search"]["sampling"] = draw
    for setting in further:
        try:
            table["search"] = merged(table["search"], assigned(setting))
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
            raise InputError(
                f"{path}, line {number} must be another term, but {cells[0]!r} is in line {first}"
            )
        seen[cells[0]] = number
        yield cells[0], cells[1]


def let_threads_sleep() -> None:
    """Let threads that wait for others give up their core; before torch is imported.

    By default they wait in a loop and take the cores from whoever has work: with other programs on
    the machine, two threads were slower than one.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
