"""`seq2see translate`: text in, text out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from seq2see.cli.translating import (
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

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

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
    from seq2see.cli.input import refuse_input, refuse_swapped

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
        from seq2see.cli.document import misnamed

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
        from seq2see.cli.document import translate_file
        from seq2see.cli.records import FORMS
        from seq2see.cli.text import TextJob, opened_target

        with dying_of_interrupts(self._partial):
            if self._is_document:
                assert self.output
                return translate_file(load(), self.file, self.output, options)
            how |= {"form": FORMS[self.form].__name__, **options.model_dump(mode="json")}
            target, done = opened_target(self.file, self.output, self.model, how, self.resume)
            return TextJob(self.file, target, FORMS[self.form], options, done).run(load())

    @property
    def _is_document(self) -> bool:
        from seq2see.cli.document import is_document

        return is_document(self.file)

    @property
    def _partial(self) -> Path | None:
        return Path(f"{self.output}.partial") if self.output and self.file != "-" else None
