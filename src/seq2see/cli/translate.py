"""`seq2see translate`: text in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from seq2see.cli.translating import (
    BeamSize,
    Device,
    Engine,
    LengthPenalty,
    Model,
    Stop,
    Threads,
    dying_of_interrupts,
    loaded,
    translation_options,
    wrong_use,
)


def translate(
    model: Model,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Text, a sentence or a paragraph a line; or with -o a document: "
            ".html, .srt, .po, .docx, .tmx, …. By default standard input.",
        ),
    ] = "-",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Written aside, and named when whole. By default standard output.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with -o at the line where it stopped.")
    ] = False,
    engine: Engine = "auto",
    device: Device = "auto",
    threads: Threads = None,
    beam_size: BeamSize = None,
    n_best: Annotated[
        int | None, typer.Option(help="So many translations of each line, the best first.")
    ] = None,
    length_penalty: LengthPenalty = None,
    stop: Stop = None,
    sample: Annotated[bool, typer.Option("--sample", help="Draw each token.")] = False,
    temperature: Annotated[
        float | None, typer.Option(help="Below 1 the likely is likelier.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Draw from the so many likeliest.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Draw from the likeliest with this share.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Another seed, other draws.")] = None,
    prefix: Annotated[str, typer.Option(help="How each translation starts.")] = "",
    forbid: Annotated[
        list[str] | None, typer.Option(help="What no translation has; may be given again.")
    ] = None,
    glossary: Annotated[
        Path | None, typer.Option(help="A term and its translation a line, with a tab between.")
    ] = None,
    split: Annotated[
        Literal["long", "always", "never"] | None,
        typer.Option(help="Lines into sentences: where too long for the model, always, never."),
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores", help="The score before each text; with --json also of each token."
        ),
    ] = False,
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Which words translate which; with --json.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="An object a line.")] = False,
) -> None:
    """Translate text, line by line, or a document."""
    from seq2see.cli.document import is_document, translate_file
    from seq2see.cli.records import as_json as as_json_line, as_text, with_scores
    from seq2see.cli.text import TextJob, opened_target

    with wrong_use():
        options = translation_options(
            {
                "beam_size": beam_size,
                "n_best": n_best,
                "length_penalty": length_penalty,
                "stop": stop,
            },
            {
                "sample": sample,
                "temperature": temperature,
                "top_k": top_k,
                "top_p": top_p,
                "seed": seed,
            },
            glossary,
            _conflicts(file, output, resume, bool(as_json or scores or n_best), alignment, as_json),
            prefix=prefix or None,
            forbidden=tuple(forbid) if forbid else None,
            split=split,
            alignment=alignment,
            token_scores=scores and as_json,
        )
    partial = Path(f"{output}.partial") if output and file != "-" else None
    with dying_of_interrupts(partial):
        if is_document(file):
            assert output
            whole = translate_file(loaded(model, engine, device, threads), file, output, options)
        else:
            form = as_json_line if as_json else with_scores if scores else as_text
            how = {"form": form.__name__, "engine": engine, **options.model_dump(mode="json")}
            target, done = opened_target(file, output, model, how, resume)
            translator = loaded(model, engine, device, threads)
            whole = TextJob(file, target, form, options, done).run(translator)
    if not whole:
        raise typer.Exit(1)


def _conflicts(
    file: str, output: Path | None, resume: bool, lines_only: bool, alignment: bool, as_json: bool
) -> Iterator[str]:
    from seq2see.cli.document import is_document

    document = is_document(file)
    if resume and (output is None or file == "-" or document):
        yield "`--resume` needs lines of a file, and -o, to know what is done"
    if alignment and not as_json:
        yield "`--alignment` needs --json"
    if document and output is None:
        yield f"`--output` must be given for a document such as {file}"
    if document and lines_only:
        yield "`--json`, `--scores` and `--n-best` need lines of text, not a document"
