"""Pages and files on their way through a translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, cast

from seq2see.documents import formats, html
from seq2see.documents.formats import format_of
from seq2see.documents.job import Job
from seq2see.documents.report import DocumentReport
from seq2see.errors import Seq2SeeError
from seq2see.serve.problems import Failed, Invalid, UnknownFormat
from seq2see.serve.queued import ENGINE_FAILED
from seq2see.serve.uploads import refuse_bombs
from seq2see.translator import Flag, Translation, TranslationOptions, Translator

_NAMING = ("tmx", "xliff")
"""Formats that say themselves what is in which language."""


def words_of_page(page: str) -> str:
    """Return what would be translated of a page, or much of it: enough to tell its language."""
    return _heard(lambda job: html.translate_page(page, job), "en", "en")


def words_of_file(
    content: bytes, name: str, languages: Sequence[str], target: str
) -> dict[str, str]:
    """Return what would be translated of a file, by the languages that it may be in."""
    kind = format_of(Path(name))
    read = kind.load()
    found: dict[str, str] = {}
    problem: Seq2SeeError | None = None
    for language in languages if kind.name in _NAMING else languages[:1]:
        try:
            found[language] = _heard(lambda job: read(content, name, job), language, target)
        except Seq2SeeError as error:
            problem = error
    if problem and not found:
        raise Invalid(f"Invalid request: {problem}")
    if kind.name not in _NAMING:
        return dict.fromkeys(languages, found[languages[0]])
    return {language: words for language, words in found.items() if words} or found


class _Heard(Exception):  # noqa: N818 it carries an answer
    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines


class _Ear:
    """In the place of a translator: gives up with what it should translate."""

    def __init__(self, *languages: str) -> None:
        self.languages = languages

    def translate(self, lines: Sequence[str], *_: object, **__: object) -> NoReturn:
        raise _Heard(lines)


def _heard(read: Callable[[Job], object], source: str, target: str) -> str:
    try:
        read(Job(cast("Translator", _Ear(source, target))))
    except _Heard as heard:
        return "\n".join(heard.lines)
    return ""


class _Nth:
    """A translator whose best translation is another's n-th. That one sees each line once."""

    def __init__(self, inner: Translator) -> None:
        self._inner = inner
        self._known: dict[tuple[str, str], Translation] = {}
        self.rank = 0

    @property
    def languages(self) -> tuple[str, str]:
        return self._inner.languages

    @property
    def most(self) -> int:
        """The most alternatives that a line has."""
        return max((len(one.alternatives) for one in self._known.values()), default=0)

    def translate(
        self, lines: Sequence[str], options: TranslationOptions, **settings: Any
    ) -> list[Translation]:
        options = options.changed(settings)
        wishes = options.model_dump_json()
        new = [line for line in dict.fromkeys(lines) if (wishes, line) not in self._known]
        if new:
            keys = [(wishes, line) for line in new]
            self._known.update(zip(keys, self._inner.translate(new, options), strict=True))
        return [self._ranked(self._known[wishes, line]) for line in lines]

    def _ranked(self, found: Translation) -> Translation:
        ranks = (replace(found, alternatives=()), *found.alternatives)
        return ranks[min(self.rank, len(ranks) - 1)]


def translate_page(
    translator: Translator, page: str, options: TranslationOptions, numbers: bool
) -> Translation:
    """Translate a piece of HTML; tags go where their words went, in each alternative too."""
    ranked = _Nth(translator)
    best = _page(ranked, page, options, numbers)
    others = []
    for rank in range(1, ranked.most + 1):
        ranked.rank = rank
        others.append(_page(ranked, page, options, numbers))
    return replace(best, alternatives=tuple(others))


def _page(ranked: _Nth, page: str, options: TranslationOptions, numbers: bool) -> Translation:
    job = Job(cast("Translator", ranked), options, numbers=numbers)
    text = html.translate_page(page, job)
    report = job.report
    found = {finding.what for finding in report.flags}
    return Translation(
        text,
        0.0,
        0.0,
        flags=tuple(flag for flag in Flag if flag in found),
        unmet=tuple(dict.fromkeys(finding.what for finding in report.unmet)),
        error=report.errors[0].what if report.errors else None,
    )


def translate_file(
    translator: Translator, content: bytes, name: str, options: TranslationOptions
) -> tuple[bytes, int]:
    """Translate a file, and tell how many sentences could not be; if none could, that is an error.

    What is wrong with it is the sender's to know.
    """
    job = Job(translator, options)
    try:
        translated = format_of(Path(name)).load()(content, name, job)
    except Seq2SeeError as error:
        raise Invalid(f"Invalid request: {error}") from None
    _refuse_failure(job.report)
    return translated, len(job.report.errors)


def _refuse_failure(report: DocumentReport) -> None:
    errors = [finding.what for finding in report.errors]
    if not errors or len(errors) < report.sentences:
        return
    if ENGINE_FAILED in errors:
        raise Failed("Cannot translate file: the engine failed on it")
    raise Invalid(f"Cannot translate file: {errors[0]}")


def refuse_file(content: bytes, name: str, limit: int) -> None:
    """Refuse what is not one of the formats, or unpacks to more than the limit."""
    if Path(name).suffix.lower() not in suffixes():
        endings = ", ".join(suffixes())
        raise UnknownFormat(f"Invalid request: file format not supported; try {endings}")
    refuse_bombs(content, limit)


def suffixes() -> list[str]:
    """Return the kinds of files that can be translated."""
    return [ending for one in formats() for ending in one.endings]
