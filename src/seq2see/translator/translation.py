"""Input, options and result of a translation, and joining of the translations of parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import Field

from seq2see.config import Config, unknown_setting_problem
from seq2see.errors import ConfigError, Problem
from seq2see.search import SearchConfig
from seq2see.text import TextSpan

SplitMode = Literal["auto", "always", "never"]


class TranslationOptions(Config):
    """Options of a translation."""

    search: SearchConfig = SearchConfig()
    prefix: str = ""
    """Text with which the translation of each text starts."""
    forbidden: tuple[str, ...] = Field(default=(), strict=False)
    """Words and phrases that must not occur in a translation."""
    glossary: dict[str, str] = Field(default_factory=dict)
    """Maps source terms to target terms. If a line contains a source term, its translation must
    contain the target term. A source term in lower case matches any case."""
    alignment: bool = False
    """Return links between target words and source words."""
    token_scores: bool = False
    """Return the log-probability of each token."""
    check_retokenization: bool = False
    """Tokenize each translation again, and flag it `retokenized` if its tokens change."""
    split: SplitMode = "auto"
    """Which lines are translated sentence by sentence. `auto`: lines with more sentences than the
    lines that the model was trained on, with too many tokens, or whose translation at once has
    fewer sentences. `always`: all lines. `never`: none; lines that are too long are errors."""
    keep_numbers: bool = False
    """Keep numbers like placeholders: none of the source is missing in the translation."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield a message for each empty phrase, and for a glossary without plain beam search."""
        for name in ("forbidden", "glossary"):
            if not all(phrase.strip() for phrase in getattr(self, name)):
                yield Problem(name, "must contain words, but has an empty phrase")
        if not all(term.strip() for term in self.glossary.values()):
            yield Problem("glossary", "must map to words, but has an empty target term")
        if self.glossary and (self.search.sampling or self.search.num_beam_groups > 1):
            yield Problem(
                "glossary", "must be empty with sampling or beam groups: it needs beam search"
            )

    def with_settings(self, settings: Mapping[str, Any]) -> Self:
        """Return a copy with other settings: fields of this config and of `search`.

        Raises:
            ConfigError: If a setting does not exist or has an invalid value.
        """
        if not settings:
            return self
        fields = SearchConfig.model_fields
        valid = [*fields, *type(self).model_fields]
        if problems := [
            unknown_setting_problem(name, valid) for name in settings if name not in valid
        ]:
            raise ConfigError(*problems)
        values = {**dict(self), **{k: v for k, v in settings.items() if k not in fields}}
        search = {k: v for k, v in settings.items() if k in fields}
        if isinstance(values["search"], SearchConfig):
            values["search"] = values["search"].replace(**search)
        elif isinstance(values["search"], Mapping):  # validated with the other settings
            values["search"] = {**values["search"], **search}
        return type(self)(**values)


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
    """Tokenizing the text again gives other pieces, so it would get another score. Only with the
    option `check_retokenization`."""


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A target token with its log-probability and character offsets."""

    piece: str
    log_prob: float
    start: int
    """Offset of its first character in the text, without a leading space."""
    end: int


@dataclass(frozen=True, slots=True)
class OffsetsPair:
    """Character offsets of a part of the source and of its translation."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int

    def shift(self, source: int, target: int) -> Self:
        """Return a copy with the offsets shifted by `source` and `target` characters."""
        return replace(
            self,
            source_start=self.source_start + source,
            source_end=self.source_end + source,
            target_start=self.target_start + target,
            target_end=self.target_end + target,
        )


@dataclass(frozen=True, slots=True)
class AlignmentLink(OffsetsPair):
    """Link between a target word and a source word, with their character offsets."""

    weight: float
    """Share of the attention of the target word that the source word gets, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SentencePairOffsets(OffsetsPair):
    """Character offsets of a sentence in the source and of its translation."""

    log_prob: float
    flags: tuple[TranslationFlag, ...] = ()
    unmet_constraints: tuple[str, ...] = ()
    """Constraints that the translation of this sentence does not satisfy."""


@dataclass(frozen=True, slots=True)
class Translation:
    """Translation of a line. Translations of its sentences are joined."""

    text: str
    score: float
    """Score by which the search ranks: log_prob / length^α, minus penalties. For a text that was
    split, the mean over its parts, weighted by their number of tokens."""
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
    error_code: str | None = None
    """Kind of the error, for programs: `constraints_unsatisfiable`, or a code of the service."""
    sentences: tuple[SentencePairOffsets, ...] = ()
    """Offsets of each sentence. Empty if they are not known, as after pivot translation."""
    num_tokens: int = 0
    """Number of tokens of the translation, including the end-of-sentence token of each part."""


@dataclass(frozen=True, slots=True)
class PairScore:
    """Score of a given translation."""

    log_prob: float
    """Sum of the log-probabilities of all tokens."""
    score: float
    """log_prob / length^α."""
    tokens: tuple[ScoredToken, ...]
    """All tokens, including the end-of-sentence token."""


@dataclass(frozen=True, slots=True)
class Block:
    """Text that is translated at once if it is not too long: a line, or a sentence."""

    text: str
    prefix: str = ""
    """Text that the translation starts with."""


BlockTranslationFunction = Callable[[Sequence[Block], TranslationOptions], list[Translation]]
"""Translates blocks in order. It ignores `prefix` of the options; each block has its own."""


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """Text that the model gets, with its ids: a block, or a part of one that is too long."""

    span: TextSpan
    ids: list[int]
    prefix: str = ""
    """Text that its translation starts with."""


@dataclass(frozen=True, slots=True)
class SegmentedBlock:
    """A block with its segments: one, several if it is too long, or none if it has no tokens."""

    block: Block
    segments: list[SourceSegment] = field(default_factory=list)
    error: str | None = None
    """Why the block cannot be translated."""


def join_translations(
    text: str, spans: Sequence[TextSpan], parts: Sequence[Translation], *, separator: str = ""
) -> Translation:
    """Return the translation of a text from the translations of its spans, with alternatives.

    The text around the spans is copied. All offsets in the result refer to the whole texts. If a
    part has an error, the result has this error. An alternative consists of the alternatives of
    the parts with its rank; a part with fewer alternatives contributes its best translation.

    Args:
        text: The source text.
        spans: The spans of the text that were translated, in order.
        parts: One translation per span.
        separator: Inserted between two spans without text between them, for example a space from
            Chinese to English.
    """
    if len(spans) == 1 and spans[0].text == text:  # most texts: all offsets are right already
        return parts[0]
    num_alternatives = max((len(part.alternatives) for part in parts), default=0)
    best, *others = (
        _join_rank(text, spans, [_select_rank(part, rank) for part in parts], separator)
        for rank in range(num_alternatives + 1)
    )
    return replace(best, alternatives=tuple(others))


def _select_rank(part: Translation, rank: int) -> Translation:
    """Return the alternative with this rank, or the best translation if there is none."""
    return part.alternatives[rank - 1] if 0 < rank <= len(part.alternatives) else part


def _join_rank(
    text: str, spans: Sequence[TextSpan], parts: Sequence[Translation], separator: str
) -> Translation:
    if failed := next((part for part in parts if part.error), None):
        return Translation("", 0.0, 0.0, error=failed.error, error_code=failed.error_code)
    pieces: list[str] = []
    tokens: list[ScoredToken] = []
    links: list[AlignmentLink] = []
    sentences: list[SentencePairOffsets] = []
    start = target_end = 0
    for span, part in zip(spans, parts, strict=True):
        gap = text[start : span.start] or (separator if pieces else "")
        target_start = target_end + len(gap)
        pieces += [gap, part.text]
        tokens += [
            replace(token, start=token.start + target_start, end=token.end + target_start)
            for token in part.tokens
        ]
        links += [link.shift(span.start, target_start) for link in part.alignment]
        sentences += [each.shift(span.start, target_start) for each in part.sentences]
        start, target_end = span.end, target_start + len(part.text)
    return Translation(
        "".join([*pieces, text[start:]]),
        _mean_score(parts),
        sum((part.log_prob for part in parts), 0.0),
        tokens=tuple(tokens),
        alignment=tuple(links),
        flags=tuple(flag for flag in TranslationFlag if any(flag in part.flags for part in parts)),
        unmet_constraints=tuple(
            dict.fromkeys(unmet for part in parts for unmet in part.unmet_constraints)
        ),
        sentences=tuple(sentences),
        num_tokens=sum(part.num_tokens for part in parts),
    )


def _mean_score(parts: Sequence[Translation]) -> float:
    """Return the mean score of the parts, weighted by their number of tokens."""
    if len(parts) == 1:
        return parts[0].score  # bit-exact
    total = sum(part.score * part.num_tokens for part in parts)
    return total / (sum(part.num_tokens for part in parts) or 1)
