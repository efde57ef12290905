"""`seq2see translate`: translate lines of text or a document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from seq2see.cli.options import (
    BeamSize,
    Device,
    Engine,
    Ensemble,
    LengthPenalty,
    Model,
    Precision,
    Search,
    Stop,
    Threads,
    dying_of_interrupts,
    loaded,
    translation_options,
)
from seq2see.cli.progress import Journal, sentence_bar
from seq2see.cli.resumable_output import Target, Unfinished
from seq2see.data.readers import STANDARD_INPUT, Lines, count, one_line
from seq2see.documents import DocumentReport, translate_document

if TYPE_CHECKING:
    from seq2see.translator import Translation, TranslationOptions, Translator

File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Bare lines, a sentence or a paragraph each, as is every .txt; or with -o a document: "
        ".html, .srt, .po, .docx, .tmx, …. By default standard input.",
    ),
]


Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="Written aside, and named when whole. By default standard output."
    ),
]


Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with -o at the line where it stopped.")
]


NBest = Annotated[
    int | None, typer.Option(help="So many translations of each line, the best first.")
]


Sample = Annotated[bool, typer.Option("--sample", help="Draw each token.")]


Temperature = Annotated[float | None, typer.Option(help="Below 1 the likely is likelier.")]


TopK = Annotated[int | None, typer.Option(help="Draw from the so many likeliest.")]


TopP = Annotated[float | None, typer.Option(help="Draw from the likeliest with this share.")]


Seed = Annotated[int | None, typer.Option(help="Another seed, other draws.")]


Prefix = Annotated[str, typer.Option(help="How each translation starts.")]


Forbid = Annotated[
    list[str] | None, typer.Option(help="What no translation has; may be given again.")
]


Glossary = Annotated[
    Path | None, typer.Option(help="A term and its translation a line, with a tab between.")
]


Split = Annotated[
    Literal["long", "always", "never"] | None,
    typer.Option(help="Lines into sentences: where too long for the model, always, never."),
]


Scores = Annotated[
    bool,
    typer.Option("--scores", help="The score before each text; with --json also of each token."),
]


Alignment = Annotated[
    bool, typer.Option("--alignment", help="Which words translate which; with --json.")
]


Json = Annotated[bool, typer.Option("--json", help="An object a line.")]


Settings = dict[str, Any]


def translate(
    model: Model,
    file: File = "-",
    output: Output = None,
    resume: Resume = False,
    engine: Engine = "auto",
    device: Device = "auto",
    threads: Threads = None,
    precision: Precision = "float32",
    ensemble: Ensemble = None,
    beam_size: BeamSize = None,
    n_best: NBest = None,
    length_penalty: LengthPenalty = None,
    stop: Stop = None,
    further: Search = None,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    prefix: Prefix = "",
    forbid: Forbid = None,
    glossary: Glossary = None,
    split: Split = None,
    scores: Scores = False,
    alignment: Alignment = False,
    as_json: Json = False,
) -> None:
    """Translate text, line by line, or a document."""
    from seq2see.cli.inputs import refuse_input, refuse_swapped

    refuse_swapped(model, file)
    refuse_input(file, model)
    search: Settings = {"beam_size": beam_size, "n_best": n_best}
    search |= {"length_penalty": length_penalty, "stop": stop}
    draw: Settings = {"sample": sample, "temperature": temperature}
    draw |= {"top_k": top_k, "top_p": top_p, "seed": seed}
    job = _Job(model, file, output, resume, "json" if as_json else "scores" if scores else "text")
    options = translation_options(
        search,
        draw,
        glossary,
        job.conflicts(n_best, alignment),
        further or (),
        prefix=prefix or None,
        forbidden=tuple(forbid) if forbid else None,
        split=split,
        alignment=alignment,
        token_scores=scores and as_json,
    )
    load = partial(loaded, model, engine, device, threads, precision, ensemble)
    how: Settings = {"engine": engine, "precision": precision}
    if not job.run(options, load, how | {"ensemble": [*map(str, ensemble or ())]}):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Job:
    """What to translate, and where to."""

    model: Path
    file: str
    output: Path | None
    resume: bool
    form: Literal["json", "scores", "text"]

    def conflicts(self, n_best: int | None, alignment: bool) -> Iterator[str]:
        """Yield what cannot be asked for together."""
        from seq2see.cli.inputs import misnamed

        if self.output and (problem := misnamed(self.file, self.output)):
            yield problem
        if self.resume and (self.output is None or self.file == "-" or self._is_document):
            yield "`--resume` needs lines of a file, and -o, to know what is done"
        if alignment and self.form != "json":
            yield "`--alignment` needs --json"
        if self._is_document and self.output is None:
            yield f"`--output` must be given for a document such as {self.file}"
        if self._is_document and (self.form != "text" or n_best):
            yield "`--json`, `--scores` and `--n-best` need lines of text, not a document"

    def run(
        self, options: TranslationOptions, load: Callable[[], Translator], how: Settings
    ) -> bool:
        """Translate all of it; return whether nothing failed. `how` decides what comes out too."""
        from seq2see.cli.resumable_output import opened_target

        with dying_of_interrupts(self._partial):
            if self._is_document:
                assert self.output
                return translate_file(load(), self.file, self.output, options)
            how |= {"form": FORMS[self.form].__name__, **options.model_dump(mode="json")}
            target, done = opened_target(self.file, self.output, self.model, how, self.resume)
            return TextJob(self.file, target, FORMS[self.form], options, done).run(load())

    @property
    def _is_document(self) -> bool:
        from seq2see.cli.inputs import is_document

        return is_document(self.file)

    @property
    def _partial(self) -> Path | None:
        return Path(f"{self.output}.partial") if self.output and self.file != "-" else None


@dataclass(frozen=True, slots=True)
class TextJob:
    """What to translate, where to, and how."""

    file: str
    target: Target
    form: Form
    options: TranslationOptions
    done: int = 0
    """Lines that are translated already."""

    def run(self, translator: Translator) -> bool:
        """Translate all lines; return whether each has a translation."""
        lines = Lines(self.file, skip=self.done)
        # Lines on the same terminal are progress enough.
        bar = sys.stderr.isatty() and not (self.target is None and sys.stdout.isatty())
        total = count(self.file) if bar else None
        with Journal(self.done, total, bar) as journal, self._opened() as output:
            at_once = 1 if self._is_typed else None  # who types waits for an answer
            found = translator.stream(lines, self.options, first_line=self.done, at_once=at_once)
            for number, translation in enumerate(found, self.done + 1):
                if problem := lines.problems.pop(number, None):
                    translation = replace(translation, error=problem)  # noqa: PLW2901
                output.write(self.form(translation) + "\n")
                journal.note(number, translation)
                if translation.error is not None and isinstance(self.target, Unfinished):
                    self.target.fail()
        earlier = isinstance(self.target, Unfinished) and self.target.has_failures
        return journal.failed == 0 and not earlier

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        match self.target:
            case Unfinished():
                with self.target.opened() as file:
                    yield file
            case Path():
                with self.target.open("w", encoding="utf-8", newline="\n") as file:
                    yield file
            case None:
                if isinstance(sys.stdout, TextIOWrapper):  # text is UTF-8, whatever the terminal
                    sys.stdout.reconfigure(
                        encoding="utf-8", newline="\n", line_buffering=self._is_typed
                    )
                yield sys.stdout
                sys.stdout.flush()

    @property
    def _is_typed(self) -> bool:
        return self.file == STANDARD_INPUT and sys.stdin.isatty()


def translate_file(
    translator: Translator, file: str, output: Path, options: TranslationOptions
) -> bool:
    """Translate a document, say what should be looked at, and return whether all was done."""
    with sentence_bar() as told:
        report = translate_document(translator, Path(file), output, options, told)
    for line in _remarks(report):
        typer.echo(f"seq2see: {line}", err=True)
    return not report.errors


def _remarks(report: DocumentReport) -> Iterator[str]:
    kept = f"; {report.kept:,} had a translation already" if report.kept else ""
    yield f"passages: {report.units:,}, sentences: {report.sentences:,}{kept}"
    for finding in report.errors:
        yield f"{finding.place} has no translation: {finding.what}"
    for finding in report.unmet:
        yield f"{finding.place} does not fulfil {finding.what!r}"
    for finding in report.flags:
        yield f"{finding.place} may be wrong: {finding.what}"


Form = Callable[["Translation"], str]


def as_text(translation: Translation) -> str:
    """Return the text; alternatives stand behind it, with tabs between them."""
    texts = [translation.text, *(other.text for other in translation.alternatives)]
    return one_line(texts[0]) if len(texts) == 1 else "\t".join(map(_cell, texts))


def with_scores(translation: Translation) -> str:
    """Return score and text of the translation and of its alternatives, with tabs between them."""
    every = (translation, *translation.alternatives)
    return "\t".join(f"{each.score:.4f}\t{_cell(each.text)}" for each in every)


def as_json(translation: Translation) -> str:
    """Return an object."""
    return json.dumps(dict(_fields(translation)), ensure_ascii=False)


FORMS: Mapping[str, Form] = {"json": as_json, "scores": with_scores, "text": as_text}
"""What `--json` and `--scores` choose from."""


def _fields(translation: Translation) -> Iterator[tuple[str, Any]]:
    """Give text and scores always, and the rest where there is any."""
    yield "text", translation.text
    yield "score", translation.score
    yield "log_prob", translation.log_prob
    if translation.alternatives:
        yield "alternatives", [dict(_fields(each)) for each in translation.alternatives]
    if translation.tokens:
        yield "tokens", [asdict(token) for token in translation.tokens]
    if translation.alignment:
        yield "alignment", [asdict(link) for link in translation.alignment]
    if translation.flags:
        yield "flags", [str(flag) for flag in translation.flags]
    if translation.unmet:
        yield "unmet", list(translation.unmet)
    if translation.error is not None:
        yield "error", translation.error


def _cell(text: str) -> str:
    return one_line(text).replace("\t", " ")
