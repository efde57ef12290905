"""Sentences with reference translations, used to evaluate a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

from seq2see.data import fables
from seq2see.data.corpus import BUILTIN_PREFIX, Corpus, CorpusConfig
from seq2see.data.fables import Fable, SplitName
from seq2see.errors import InputError
from seq2see.text.languages import is_written_without_spaces

NUM_HEAD_SELECTION_FABLES = 500
"""Fables that are enough to choose a head of attention by."""


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Sentences with one or several translations each."""

    name: str
    references: tuple[Sequence[str], ...]
    """Lists with a line for each sentence."""
    sources: Sequence[str] | None = None
    """None where only translations and references are known."""
    languages: tuple[str | None, str | None] = (None, None)
    """Of sources and references, as far as they are known."""
    fables: Sequence[Fable] = ()
    """Where the sentences come from, if from there: with gold alignments and pronouns."""
    head_selection_fables: Sequence[Fable] = ()
    """Some others of the kind, to choose by."""

    def __post_init__(self) -> None:
        sides = ((self.sources,) if self.sources is not None else ()) + self.references
        counts = [len(side) for side in sides]
        if len(set(counts)) > 1:
            given = " and ".join(map(str, counts))
            raise InputError(f"all sides of {self.name} must be as long, but have {given} lines")
        if not counts[0]:
            raise InputError(f"{self.name} must have at least one sentence")

    @classmethod
    def from_corpus(cls, corpus: Corpus, extra_references: Sequence[Sequence[str]] = ()) -> Self:
        """Read a corpus; its target is the first reference, and there may be more."""
        pairs = list(corpus)
        return cls(
            corpus.name,
            ([pair.target for pair in pairs], *extra_references),
            [pair.source for pair in pairs],
            corpus.languages or (None, None),
            *_fables(corpus.config),
        )

    def __len__(self) -> int:
        return len(self.references[0])

    @property
    def target_language(self) -> str | None:
        """Of the references."""
        return self.languages[1]

    @property
    def sentence_lengths(self) -> list[int]:
        """Of the sources, or else of the references: words, or characters in languages without
        spaces."""
        own = self.sources is not None
        side, language = (self.sources, self.languages[0]) if own else (None, self.languages[1])
        cut = list if is_written_without_spaces(language) else str.split
        return [len(cut(text)) for text in side or self.references[0]]


def _fables(config: CorpusConfig) -> tuple[list[Fable], list[Fable]]:
    """Return the fables that a corpus consists of, and some of another split; or none."""
    name, _, split = config.files[0].removeprefix(BUILTIN_PREFIX).partition("/")
    if config.resolved_format != "builtin" or name not in {"fables", "fables-short"}:
        return [], []
    other: SplitName = "train" if split == "valid" else "valid"
    short = name == "fables-short"
    own = fables.load_fables(cast("SplitName", split or "train"), short)
    return own, fables.load_fables(other, short)[:NUM_HEAD_SELECTION_FABLES]
