"""Result types of a translation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TranslationFlag(StrEnum):
    """Possible defect of a translation; `seq2see.translator.result_builder` defines the rules."""

    COPIED_SOURCE = "copied_source"
    """The translation is a copy of the source."""
    REPETITION = "repetition"
    """A sequence of tokens is repeated several times in a row."""
    LENGTH_LIMIT = "length_limit"
    """The translation was cut at its maximum length."""
    SHORT = "short"
    """The translation is much shorter than its source."""
    LONG = "long"
    """The translation is much longer than its source."""
    UNKNOWN = "unknown"
    """The source has characters without a piece (they are encoded as bytes or lost), or the
    translation has the unknown token."""
    RETOKENIZED = "retokenized"
    """Tokenizing the text again gives other pieces, so it would get another score."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A target token with its log-probability and character offsets."""

    piece: str
    log_prob: float
    start: int
    """Offset of its first character in the text, without a leading space."""
    end: int


@dataclass(frozen=True, slots=True)
class AlignmentLink:
    """Link between a target word and a source word, with their character offsets."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float
    """Share of the attention of the target word that the source word gets, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SentencePairOffsets:
    """Character offsets of a sentence in the source and of its translation."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    log_prob: float
    flags: tuple[TranslationFlag, ...] = ()
    unmet_constraints: tuple[str, ...] = ()
    """Constraints that the translation of this sentence does not satisfy."""


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of a line. Translations of its sentences are joined."""

    text: str
    score: float
    """Score by which the search ranks: log_prob / length^α, minus penalties. For a line that was
    split, the mean over its sentences, weighted by their number of tokens."""
    log_prob: float
    """Sum of the log-probabilities of all tokens, including the end-of-sentence token."""
    alternatives: tuple[Translation, ...] = ()
    """The next best translations, if `n_best` is above 1."""
    tokens: tuple[ScoredToken, ...] = ()
    """With `token_scores`: all tokens, including the end-of-sentence token."""
    alignment: tuple[AlignmentLink, ...] = ()
    """With `alignment`: links of each target word, strongest first."""
    flags: tuple[TranslationFlag, ...] = ()
    unmet_constraints: tuple[str, ...] = ()
    """Glossary terms that the text lacks, and forbidden phrases that it contains."""
    error: str | None = None
    """Why there is no translation; `text` is empty then."""
    sentences: tuple[SentencePairOffsets, ...] = ()
    """Offsets of each sentence. Empty if they are not known, as after pivot translation."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """Score of a given translation."""

    log_prob: float
    """Sum of the log-probabilities of all tokens."""
    score: float
    """log_prob / length^α."""
    tokens: tuple[ScoredToken, ...]
    """All tokens, including the end-of-sentence token."""
