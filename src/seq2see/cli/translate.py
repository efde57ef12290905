"""`seq2see translate`: translate lines of text or a document."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from seq2see.cli import inputs, options
from seq2see.errors import Problem
from seq2see.registries import DOCUMENT_EXTENSIONS, PLAIN_TEXT

if TYPE_CHECKING:
    from seq2see.cli.resumable_output import OutputTarget
    from seq2see.documents import DocumentReport
    from seq2see.translator import Translation, TranslationOptions, Translator

_JSON_FIELDS = (
    *("text", "score", "log_prob", "alternatives", "tokens", "alignment"),
    *("flags", "unmet_constraints", "error"),
)
OutputFormat = Literal["json", "scores", "text"]
TranslationFormatter = Callable[["Translation"], str]

_FILE_HELP = (
    "Text file, which is translated line by line, or document "
    f"({', '.join(DOCUMENT_EXTENSIONS[len(PLAIN_TEXT.extensions) :])}), which requires --output. "
    "`-` is standard input."
)


def translate(
    model: options.ModelArgument,
    file: Annotated[str, typer.Argument(metavar="INPUT", help=_FILE_HELP)] = "-",
    *,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="OUTPUT")] = None,
    resume: Annotated[bool, typer.Option("--resume")] = False,
    engine_options: options.EnsembleInferenceOptions,
    beam_search: options.BeamSearchOptions,
    n_best: int | None = None,
    stop_rule: Literal["exact", "beam_full"] | None = None,
    search_settings: options.SearchOption = None,
    sampling: options.SamplingOptions,
    prefix: Annotated[str, typer.Option(metavar="TEXT")] = "",
    forbidden: Annotated[list[str] | None, typer.Option(metavar="TEXT")] = None,
    glossary: Annotated[Path | None, typer.Option(metavar="FILE")] = None,
    split: Literal["auto", "always", "never"] | None = None,
    with_scores: Annotated[bool, typer.Option("--with-scores")] = False,
    alignment: Annotated[bool, typer.Option("--alignment")] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Translate lines of text or a document.

    Args:
        output: Output file; an existing file is replaced. Lines are written to OUTPUT.partial,
            which is renamed to OUTPUT when it is complete. Default: standard output.
        resume: Continue an interrupted run after the last complete line of OUTPUT.partial; without
            this file, start with the first line. Input, model and settings must be the same.
            Requires a text file as INPUT, not a document or standard input, and --output.
        n_best: Number of translations per line, best first, separated by tabs on one output line;
            with --json, all but the best are in `alternatives`. At most the beam size, except with
            --sample. Not for documents. Default: 1.
        sample: Sample each token at random instead of using beam search.
        temperature: Sampling temperature. Values below 1 sharpen the distribution. Requires
            --sample. Default: 1.
        top_k: Sample from the k most likely tokens only. Requires --sample. Default: all tokens.
        top_p: Sample from the smallest set of most likely tokens whose probabilities sum to at
            least p (nucleus sampling). Requires --sample. Default: 1, all tokens.
        seed: Random seed for sampling. Requires --sample. Default: 0.
        prefix: Text that the translation of each line must start with. Default: none.
        forbidden: Word or phrase that must not appear in a translation. It is matched as whole
            words and with case. May be repeated.
        glossary: Glossary file with one source term, a tab and its required translation per line.
            Terms are matched as whole words; terms in lower case are matched in any case. A
            required translation that could not be used is reported on standard error, and with
            --json in `unmet_constraints`.
        split: Which lines are translated sentence by sentence. `auto`: lines with more sentences
            than the lines that the model was trained on, lines that exceed its maximum length, and
            lines whose translation at once has fewer sentences than the line. `always`: all lines.
            `never`: none; a line that is too long gets an empty translation and a message on
            standard error, and the exit status is 1. Default: auto.
        with_scores: Print the score (log-probability / length^α, see --length-penalty) before each
            translation, separated by a tab; with --json, add the log-probability of each token. Not
            for documents.
        alignment: Add word alignments to the output, computed from cross-attention: `alignment` is
            a list of links between a source word and a target word, each with character offsets
            from 0 (the end is exclusive) and a weight from 0 to 1. Requires --json.
        as_json: Print one JSON object per input line. Not for documents.
    """
    inputs.check_model_path_not_file(model, file)
    inputs.check_file_to_translate(file, model)
    output_format: OutputFormat = "json" if as_json else "scores" if with_scores else "text"
    translation_options = options.build_translation_options(
        beam_search,
        search_settings,
        sampling,
        glossary,
        list(_find_conflicts(file, output, resume, output_format, n_best, alignment)),
        search={"n_best": n_best, "stop_rule": stop_rule},
        prefix=prefix,
        forbidden=tuple(forbidden or ()),
        split=split,
        alignment=alignment,
        token_scores=with_scores and as_json,
        check_retokenization=as_json,
    )
    if inputs.is_document(file):
        is_complete = _translate_document(engine_options, model, file, output, translation_options)
    else:
        from seq2see.cli.resumable_output import prepare_resumable_output

        settings = {
            "engine": engine_options.engine,
            "precision": engine_options.precision,
            "ensemble": [str(directory) for directory in engine_options.ensemble or ()],
            "format": output_format,
            **translation_options.model_dump(mode="json"),
        }
        target = prepare_resumable_output(file, output, model, settings, resume)
        translator = engine_options.load_translator(model)
        is_complete = translate_lines(
            translator, file, target, FORMATTERS[output_format], translation_options
        )
    if not is_complete:
        raise typer.Exit(1)


def _find_conflicts(
    file: str,
    output: Path | None,
    resume: bool,
    output_format: OutputFormat,
    n_best: int | None,
    alignment: bool,
) -> Iterator[Problem]:
    """Yield a message for each combination of options that is not allowed."""
    if output and (problem := inputs.output_format_problem(file, output)):
        yield Problem("--output", problem)
    if resume and (output is None or file == inputs.STANDARD_INPUT or inputs.is_document(file)):
        yield Problem("--resume", "needs a text file as INPUT, and --output")
    if alignment and output_format != "json":
        yield Problem("--alignment", "needs --json")
    if inputs.is_document(file) and output is None:
        yield Problem("--output", f"must be given for a document such as {file}")
    if inputs.is_document(file) and (output_format != "text" or n_best):
        names = "`--json`, `--with-scores` and `--n-best`"
        yield Problem("", f"{names} need lines of text, not a document")


def translate_lines(
    translator: Translator,
    file: str,
    target: OutputTarget,
    formatter: TranslationFormatter,
    translation_options: TranslationOptions,
) -> bool:
    """Translate a file line by line and return whether every line has a translation.

    The output has as many lines as the input. Lines that the target already has are skipped.
    """
    from seq2see.cli.corpus_and_translation_progress import show_translation_progress
    from seq2see.cli.resumable_output import ResumableOutput
    from seq2see.data.readers import count_lines, read_lines

    is_interactive = file == inputs.STANDARD_INPUT and sys.stdin.isatty()
    # Translations that appear on the same terminal replace the progress bar.
    show_bar = sys.stderr.isatty() and not (target is None and sys.stdout.isatty())
    num_lines = count_lines(file) if show_bar else None
    resumable = target if isinstance(target, ResumableOutput) else None
    num_done = resumable.num_finished_lines if resumable else 0
    problems: dict[int, str] = {}  # of lines that are not UTF-8, by line number
    lines = read_lines(file, num_done, problems)
    with (
        show_translation_progress(num_done, num_lines, show_bar) as progress,
        _open_target(target, is_interactive) as output,
    ):
        # A user who types a line gets its translation before the next line.
        chunk_size = 1 if is_interactive else None
        translations = translator.stream(lines, translation_options, chunk_size=chunk_size)
        for number, translation in enumerate(translations, num_done + 1):
            if problem := problems.pop(number, None):
                translation = replace(translation, error=problem)  # noqa: PLW2901
            output.write(formatter(translation) + "\n")
            progress.add_line(number, translation)
            if translation.error is not None and resumable:
                resumable.mark_failure()
    return not (progress.has_failed_lines or (resumable and resumable.has_failed_lines))


@contextmanager
def _open_target(target: OutputTarget, is_interactive: bool) -> Iterator[TextIO]:
    """Yield the file that the translations are written to, as UTF-8."""
    if target is None:
        if isinstance(sys.stdout, TextIOWrapper):  # UTF-8 whatever the locale of the terminal
            sys.stdout.reconfigure(encoding="utf-8", newline="\n", line_buffering=is_interactive)
        yield sys.stdout
        sys.stdout.flush()
    elif isinstance(target, Path):
        with target.open("w", encoding="utf-8", newline="\n") as file:
            yield file
    else:
        with target.open() as file:
            yield file


def _translate_document(
    engine_options: options.InferenceOptions,
    model: Path,
    file: str,
    output: Path | None,
    translation_options: TranslationOptions,
) -> bool:
    """Translate a document, print its issues, and return whether everything was translated."""
    from seq2see.cli.corpus_and_translation_progress import show_progress
    from seq2see.documents import read_document, translate_document

    assert output
    path = Path(file)
    document = read_document(path)  # before the model is loaded
    translator = engine_options.load_translator(model)
    with show_progress() as on_progress:
        report = translate_document(
            translator, path, output, translation_options, on_progress, document=document
        )
    for line in _format_issues(report):
        typer.echo(f"seq2see: {line}", err=True)
    return not report.errors


def _format_issues(report: DocumentReport) -> Iterator[str]:
    summary = f"text units: {report.num_units:,}, sentences: {report.num_sentences:,}"
    if report.num_already_translated:
        summary += f"; already translated: {report.num_already_translated:,}"
    yield summary
    for issue in report.errors:
        yield f"{issue.location} has no translation: {issue.message}"
    for issue in report.unmet_constraints:
        yield f"{issue.location} does not satisfy the constraint {issue.message!r}"
    for issue in report.flags:
        yield f"{issue.location} may be wrong: {issue.message}"


def format_translation_text(translation: Translation) -> str:
    """Return the text; alternatives follow it, separated by tabs."""
    from seq2see.data.readers import replace_line_breaks

    texts = [translation.text, *(other.text for other in translation.alternatives)]
    return replace_line_breaks(texts[0]) if len(texts) == 1 else "\t".join(map(_format_cell, texts))


def format_translation_with_scores(translation: Translation) -> str:
    """Return score and text of the translation and of its alternatives, separated by tabs."""
    all_translations = (translation, *translation.alternatives)
    return "\t".join(f"{each.score:.4f}\t{_format_cell(each.text)}" for each in all_translations)


def format_translation_json(translation: Translation) -> str:
    """Return the translation as a JSON object."""
    return json.dumps(translation, default=_select_json_fields, ensure_ascii=False)


FORMATTERS: Mapping[OutputFormat, TranslationFormatter] = {
    "json": format_translation_json,
    "scores": format_translation_with_scores,
    "text": format_translation_text,
}
"""Functions that format a translation: for `--json`, for `--with-scores`, and by default."""


def _format_cell(text: str) -> str:
    from seq2see.data.readers import replace_line_breaks

    return replace_line_breaks(text).replace("\t", " ")


def _select_json_fields(value: Any) -> dict[str, Any]:
    """Return the fields of a translation that are not empty, or all fields of one of its parts."""
    from seq2see.translator import Translation

    if not isinstance(value, Translation):
        return asdict(value)
    fields = {name: getattr(value, name) for name in _JSON_FIELDS}
    return {name: content for name, content in fields.items() if content not in ((), None)}
