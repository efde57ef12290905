"""Sentences with reference translations, used to evaluate a system."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

from seq2see.data import fables
from seq2see.data.corpus_config_and_reading import Corpus, CorpusConfig
from seq2see.data.fables import FableSentencePair, SplitName
from seq2see.errors import InputError
from seq2see.text.languages import is_written_without_spaces

NUM_HEAD_SELECTION_FABLES = 500
"""Number of fables on which the best attention head is selected."""


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """A test set or validation set: sentences with one or more references.

    Raises InputError if it is empty or if its parts differ in length.
    """

    name: str
    references: tuple[Sequence[str], ...]
    """One or more lists with one reference per sentence."""
    sources: Sequence[str] | None = None
    """Source sentences; not needed to score existing translations."""
    languages: tuple[str | None, str | None] = (None, None)
    """Languages of sources and references, or None if unknown."""
    fables: Sequence[FableSentencePair] = ()
    """The fables of a built-in set, with gold alignments and pronouns."""
    head_selection_fables: Sequence[FableSentencePair] = ()
    """Fables of another split, on which an attention head is selected."""

    def __post_init__(self) -> None:
        sides = ((self.sources,) if self.sources is not None else ()) + self.references
        num_lines = [len(side) for side in sides]
        if len(set(num_lines)) > 1:
            counts = " and ".join(map(str, num_lines))
            raise InputError(
                f"all files of {self.name} must have the same number of lines, but have {counts}"
            )
        if not num_lines[0]:
            raise InputError(f"{self.name} must have at least one sentence, but is empty")

    @classmethod
    def from_corpus(cls, corpus: Corpus, extra_references: Sequence[Sequence[str]] = ()) -> Self:
        """Read a corpus, whose targets are the first references."""
        pairs = list(corpus)
        return cls(
            corpus.name,
            ([pair.target for pair in pairs], *extra_references),
            [pair.source for pair in pairs],
            corpus.languages or (None, None),
            *_load_fables(corpus.config),
        )

    def __len__(self) -> int:
        return len(self.references[0])

    @property
    def target_language(self) -> str | None:
        """Language of the references."""
        return self.languages[1]

    @property
    def sentence_lengths(self) -> list[int]:
        """Lengths of the sources or, if there are none, of the first references.

        Lengths are in words, or in characters for languages without spaces between words.
        """
        has_sources = self.sources is not None
        language = self.languages[0] if has_sources else self.languages[1]
        split = list if is_written_without_spaces(language) else str.split
        return [len(split(text)) for text in self.sources or self.references[0]]


def _load_fables(config: CorpusConfig) -> tuple[list[FableSentencePair], list[FableSentencePair]]:
    """Return the fables of a built-in corpus and some of another split; both empty for others."""
    builtin = config.builtin
    if builtin is None or not builtin.is_fables:
        return [], []
    other: SplitName = "train" if builtin.split == "valid" else "valid"
    short = builtin.corpus == "fables-short"
    own = fables.load_fables_split(cast("SplitName", builtin.split), short)
    return own, fables.load_fables_split(other, short)[:NUM_HEAD_SELECTION_FABLES]
