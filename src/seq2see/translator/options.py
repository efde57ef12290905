"""Options of a translation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

from pydantic import Field

from seq2see.config import Config, unknown_setting_problem
from seq2see.errors import ConfigError, Problem
from seq2see.search import SearchConfig

SplitMode = Literal["long", "always", "never"]


class TranslationOptions(Config):
    """Options of a translation."""

    search: SearchConfig = SearchConfig()
    prefix: str = ""
    """Text with which each translation starts."""
    forbidden: tuple[str, ...] = Field(default=(), strict=False)
    """Words and phrases that must not occur in a translation."""
    glossary: dict[str, str] = Field(default_factory=dict)
    """Maps source terms to target terms. If a line contains a source term, its translation must
    contain the target term. A source term in lower case matches any case."""
    alignment: bool = False
    """Return links between target words and source words."""
    token_scores: bool = False
    """Return the log-probability of each token."""
    split: SplitMode = "long"
    """Which lines are split into sentences. `long`: lines with more tokens than the longest
    training sentence. `always`: all lines. `never`: none; lines that are too long are errors."""

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

    @property
    def has_constraints(self) -> bool:
        """Whether the options have lexical constraints."""
        return bool(self.prefix or self.forbidden or self.glossary)

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
