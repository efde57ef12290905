"""What each corpus format gets and returns: the request of a corpus, and the opened corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Never

from seq2see.data.readers import SentencePair, SkippedUnitCallback
from seq2see.errors import ConfigError, Problem
from seq2see.text.languages import primary_language

LanguagePair = tuple[str | None, str | None]
"""Language tags of source and target; None if they are unknown."""


@dataclass(frozen=True, slots=True)
class CorpusRequest:
    """The files of a corpus, and what to read from them."""

    paths: tuple[str, ...]
    columns: tuple[int | str, int | str] | None = None
    """Columns of source and target, as configured."""
    languages: tuple[str, str] | None = None
    """Languages of source and target, if they are known."""

    @property
    def path(self) -> str:
        """The only file."""
        return self.paths[0]

    @property
    def name(self) -> str:
        """Name of the first file without its directory, for messages."""
        return Path(self.path).name

    @property
    def is_bilingual(self) -> bool:
        """Whether two different languages are known."""
        return self.languages is not None and self.languages[0] != self.languages[1]

    def raise_columns_unknown(self, what: str, names: list[str]) -> Never:
        """Raise a ConfigError that lists the columns, keys or languages to choose from."""
        known = ", ".join(names) or "none"
        example = ",".join(names[-2:]) if len(names) > 1 else "SOURCE,TARGET"
        raise ConfigError(
            Problem(
                "columns",
                f"must be set for {self.name}, which has the {what} {known}: for example {example}",
            )
        )


@dataclass(frozen=True, slots=True)
class OpenedCorpus:
    """A corpus whose beginning was inspected; the pairs are read when they are needed."""

    read: Callable[[SkippedUnitCallback], Iterator[SentencePair]]
    """Yields all pairs; the callback gets the number of each unit without one of the sides."""
    languages: LanguagePair = (None, None)
    """The languages that the file names."""
    notes: tuple[str, ...] = ()
    """What was detected, one line each: encoding, header, columns."""


def shorten_language_tags(source: str, target: str) -> tuple[str, str]:
    """Return both languages without script and region, or the tags if these are the same."""
    primary = primary_language(source), primary_language(target)
    return primary if primary[0] != primary[1] else (source, target)
