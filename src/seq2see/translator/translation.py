"""What comes back: a line's translation, with what is known about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Flag(StrEnum):
    """What may be wrong with a translation; see `seq2see.translator.flags` for the rules."""

    COPIED_SOURCE = "copied_source"
    """It is the source again."""
    REPETITION = "repetition"
    """It says the same thing over and over."""
    LENGTH_LIMIT = "length_limit"
    """It was cut at its greatest length."""
    SHORT = "short"
    """It is suspiciously short for its source."""
    LONG = "long"
    """It is suspiciously long for its source."""
    UNKNOWN = "unknown"
    """The source has characters that the model has no piece for, byte by byte or not at all; or
    the translation has a token that stands for none."""
    RETOKENISED = "retokenised"
    """Its text is cut into other pieces when it is read again, which would be scored otherwise."""


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of a target, and what the model thinks of it."""

    piece: str
    log_prob: float
    start: int
    """Where its characters stand in the text, without the space before them."""
    end: int


@dataclass(frozen=True, slots=True)
class Link:
    """A target word and a source word that it looks at."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float
    """How much of the target word's attention the source word has, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """What was translated at once, and what it became."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    log_prob: float
    flags: tuple[Flag, ...] = ()
    unmet: tuple[str, ...] = ()
    """Wishes that it does not fulfil."""


@dataclass(frozen=True, slots=True)
class Translation:
    """What a line became. What was split into sentences is one again."""

    text: str
    score: float
    """What the search ranks by: log_prob / length^α, less its penalties. Of a line that was split,
    the mean over its sentences, weighted by their lengths."""
    log_prob: float
    """The sum of the model's log-probabilities of the tokens, the stop symbol's among them."""
    alternatives: tuple[Translation, ...] = ()
    """The next best, if they were asked for."""
    tokens: tuple[Token, ...] = ()
    """With `token_scores`: every token, the stop symbol too."""
    alignment: tuple[Link, ...] = ()
    """With `alignment`: for each target word the source words that it looks at, most first."""
    flags: tuple[Flag, ...] = ()
    unmet: tuple[str, ...] = ()
    """Wishes that the text does not fulfil: terms that it lacks, forbidden words that it has."""
    error: str | None = None
    """Why there is no translation; the text is empty then."""
    sentences: tuple[Sentence, ...] = ()
    """Where each sentence stands, in the source and here; none where that is not known, as of what
    went through another language."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What the model thinks of a translation that somebody else made."""

    log_prob: float
    """The sum over its tokens."""
    score: float
    """log_prob / length^α."""
    tokens: tuple[Token, ...]
    """Every token, the stop symbol too."""
