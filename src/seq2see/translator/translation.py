"""Options of a translation, and the result types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError
from seq2see.search import SearchConfig

SplitMode = Literal["long", "always", "never"]


class TranslationOptions(Config):
    """How lines are translated."""

    search: SearchConfig = SearchConfig()
    prefix: str = ""
    """How each translation starts."""
    forbidden: tuple[str, ...] = Field(default=(), strict=False)
    """Words and phrases that no translation may hold."""
    glossary: dict[str, str] = Field(default_factory=dict)
    """Source term → target term: where a line has the one, its translation must have the other.
    A source term in lower case is found in any case."""
    alignment: bool = False
    """Tell which source words each target word looks at."""
    token_scores: bool = False
    """Tell the log-probability of each token."""
    split: SplitMode = "long"
    """`long`: lines beyond what the model was trained on are translated sentence by sentence.
    `always`: all lines are. `never`: what is too long is refused."""

    def conflicts(self) -> Iterator[str]:
        """Refuse empty wishes, and terms where no beam could meet them."""
        for name in ("forbidden", "glossary"):
            if not all(phrase.strip() for phrase in getattr(self, name)):
                yield f"`{name}` must be words, but has one without a letter"
        if not all(term.strip() for term in self.glossary.values()):
            yield "`glossary` must lead to words, but has one without a letter"
        if self.glossary and (self.search.sampling or self.search.num_beam_groups > 1):
            yield "`glossary` must be left out with sampling or groups: only a beam meets terms"

    @property
    def has_constraints(self) -> bool:
        """Whether anything is asked of the words themselves."""
        return bool(self.prefix or self.forbidden or self.glossary)

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """Return these with other settings: own ones, and those of the search, side by side."""
        if not settings:
            return self
        fields = SearchConfig.model_fields
        if problems := list(_unknown(settings, [*fields, *type(self).model_fields])):
            raise ConfigError(problems)
        own = {**dict(self), **{k: v for k, v in settings.items() if k not in fields}}
        search = {k: v for k, v in settings.items() if k in fields}
        if isinstance(own["search"], SearchConfig):
            own["search"] = own["search"].replace(**search)
        elif isinstance(own["search"], Mapping):  # a table, checked with the rest
            own["search"] = {**own["search"], **search}
        return type(self)(**own)


def _unknown(settings: Iterable[str], valid: Sequence[str]) -> Iterator[str]:
    """Name each setting that is none, with the nearest of both configs."""
    for name in settings:
        if name not in valid:
            near = get_close_matches(name, valid, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"valid are {', '.join(valid)}"
            yield f"`{name}` is not a setting; {hint}"


class TranslationFlag(StrEnum):
    """What may be wrong with a translation; see `seq2see.translator.results` for the rules."""

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
    RETOKENIZED = "retokenized"
    """Its text is cut into other pieces when it is read again, which would be scored otherwise."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """One piece of a target, and what the model thinks of it."""

    piece: str
    log_prob: float
    start: int
    """Where its characters stand in the text, without the space before them."""
    end: int


@dataclass(frozen=True, slots=True)
class AlignmentLink:
    """A target word and a source word that it looks at."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    weight: float
    """How much of the target word's attention the source word has, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SentenceAlignment:
    """What was translated at once, and what it became."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    log_prob: float
    flags: tuple[TranslationFlag, ...] = ()
    unmet_constraints: tuple[str, ...] = ()
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
    tokens: tuple[ScoredToken, ...] = ()
    """With `token_scores`: every token, the stop symbol too."""
    alignment: tuple[AlignmentLink, ...] = ()
    """With `alignment`: for each target word the source words that it looks at, most first."""
    flags: tuple[TranslationFlag, ...] = ()
    unmet_constraints: tuple[str, ...] = ()
    """Wishes that the text does not fulfil: terms that it lacks, forbidden words that it has."""
    error: str | None = None
    """Why there is no translation; the text is empty then."""
    sentences: tuple[SentenceAlignment, ...] = ()
    """Where each sentence stands, in the source and here; none where that is not known, as of what
    went through another language."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """What the model thinks of a translation that somebody else made."""

    log_prob: float
    """The sum over its tokens."""
    score: float
    """log_prob / length^α."""
    tokens: tuple[ScoredToken, ...]
    """Every token, the stop symbol too."""
