"""The result of parsing a document: its text units, and how their translations are rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from seq2see.markup.text_units import MarkupNode, TextUnit
from seq2see.translator import Translation

ContentT = TypeVar("ContentT", bytes, str)


class DocumentLanguages(NamedTuple):
    """Source and target language of the translation of a document."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class UnitTranslation:
    """The nodes of a translated unit."""

    nodes: list[MarkupNode]
    sentences: tuple[Translation, ...] = ()
    """Translations of its sentences. A sentence that could not be translated is copied."""

    @property
    def text(self) -> str:
        """The text without tags."""
        return "".join(node for node in self.nodes if isinstance(node, str))

    @property
    def has_failed(self) -> bool:
        """Whether a sentence of the unit could not be translated."""
        return any(sentence.error is not None for sentence in self.sentences)


@dataclass(frozen=True, slots=True)
class ParsedDocument(Generic[ContentT]):
    """A document, separated into the text units to translate and everything else.

    A file is rendered as bytes, and a document in a string as a string.
    """

    units: Sequence[TextUnit]
    render: Callable[[Sequence[UnitTranslation], DocumentLanguages], ContentT]
    """Returns the document with the translations of its units, which are in the same order."""
    num_already_translated: int = 0
    """Number of units that are not translated because they have a translation."""


@dataclass(frozen=True, slots=True)
class BilingualUnit:
    """A part of a bilingual document with one translation, such as a message."""

    text_units: Sequence[TextUnit]
    has_translation: bool
    write: Callable[[Sequence[UnitTranslation]], None]
    """Writes the translations of the text units into the document."""


@dataclass(frozen=True, slots=True)
class BilingualDocument:
    """A document that can contain translations, so that its units depend on the languages."""

    read_units: Callable[[DocumentLanguages], Sequence[BilingualUnit]]
    """Returns the units. Raises InputError if the document is in other languages."""
    render: Callable[[DocumentLanguages], bytes]
    """Returns the document with the translations that were written into its units."""


Document = ParsedDocument[bytes] | BilingualDocument
ParseFunction = Callable[[bytes, str], Document]
"""Parses the content of a file. The second argument is its name, for error messages."""


def select_units(
    document: Document, languages: DocumentLanguages, *, overwrite: bool = False
) -> ParsedDocument[bytes]:
    """Return a document with the units that need a translation, or all units with `overwrite`.

    A bilingual unit stays as it is if one of its sentences cannot be translated. Raises InputError
    if the document is in other languages.
    """
    if isinstance(document, ParsedDocument):
        return document
    units = document.read_units(languages)
    selected = [unit for unit in units if overwrite or not unit.has_translation]

    def render(translations: Sequence[UnitTranslation], languages: DocumentLanguages) -> bytes:
        remaining = iter(translations)
        for unit in selected:
            results = [next(remaining) for _ in unit.text_units]
            if not any(result.has_failed for result in results):
                unit.write(results)
        return document.render(languages)

    text_units = [text_unit for unit in selected for text_unit in unit.text_units]
    return ParsedDocument(text_units, render, len(units) - len(selected))


@dataclass(frozen=True, slots=True)
class UnitIssue:
    """A remark on a unit of a document, with the location of the unit."""

    location: str
    message: str


@dataclass(slots=True)
class DocumentReport:
    """Counts and issues of a translated document."""

    num_units: int = 0
    """Number of translated units: paragraphs, cues, messages, attributes."""
    num_sentences: int = 0
    num_already_translated: int = 0
    """Number of units that were skipped because they have a translation."""
    flags: list[UnitIssue] = field(default_factory=list)
    """Translations that may be wrong, with the flag as message."""
    unmet_constraints: list[UnitIssue] = field(default_factory=list)
    """Glossary terms that are missing in a translation."""
    errors: list[UnitIssue] = field(default_factory=list)
    """Sentences that could not be translated and were copied."""

    @classmethod
    def from_translations(
        cls, document: ParsedDocument[ContentT], translations: Iterable[UnitTranslation]
    ) -> DocumentReport:
        """Return the report of a document with the translations of its units."""
        report = cls(num_already_translated=document.num_already_translated)
        for unit, translated in zip(document.units, translations, strict=True):
            report.num_units += bool(translated.sentences)
            report.num_sentences += len(translated.sentences)
            for sentence in translated.sentences:
                messages = [sentence.error] if sentence.error is not None else []
                for issues, texts in (
                    (report.errors, messages),
                    (report.flags, map(str, sentence.flags)),
                    (report.unmet_constraints, sentence.unmet_constraints),
                ):
                    issues.extend(UnitIssue(unit.location, text) for text in texts)
        return report
