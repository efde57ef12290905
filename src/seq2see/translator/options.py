"""What may be asked of a translation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, Self

from pydantic import Field

from seq2see.config import Config
from seq2see.errors import ConfigError
from seq2see.search import SearchConfig

Split = Literal["long", "always", "never"]


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
    split: Split = "long"
    """`long`: lines beyond what the model was trained on are translated sentence by sentence.
    `always`: all lines are. `never`: what is too long is refused."""

    def conflicts(self) -> Iterator[str]:
        """Refuse empty wishes, and terms where no beam could meet them."""
        for name in ("forbidden", "glossary"):
            if not all(phrase.strip() for phrase in getattr(self, name)):
                yield f"`{name}` must be words, but has one without a letter"
        if not all(term.strip() for term in self.glossary.values()):
            yield "`glossary` must lead to words, but has one without a letter"
        if self.glossary and (self.search.sampling or self.search.groups > 1):
            yield "`glossary` must be left out with sampling or groups: only a beam meets terms"

    @property
    def wishes(self) -> bool:
        """Whether anything is asked of the words themselves."""
        return bool(self.prefix or self.forbidden or self.glossary)

    def changed(self, settings: Mapping[str, Any]) -> Self:
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
