"""What became of a document."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reader should look at, and where it is."""

    place: str
    what: str


@dataclass(slots=True)
class DocumentReport:
    """What was translated, and what should be looked at."""

    units: int = 0
    """Passages that were translated: paragraphs, cues, entries, attributes."""
    sentences: int = 0
    kept: int = 0
    """Units that had a translation already, and keep it."""
    flags: list[Finding] = field(default_factory=list)
    """Translations that look suspicious, and why."""
    unmet: list[Finding] = field(default_factory=list)
    """Terms of the glossary that a translation lacks."""
    errors: list[Finding] = field(default_factory=list)
    """Sentences that could not be translated, and stay as they were."""
