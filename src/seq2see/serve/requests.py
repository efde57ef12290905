"""What our own interface takes; each is refused with every problem at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from seq2see.config import Config
from seq2see.explain.explainer import Detail
from seq2see.explain.interventions import Intervention
from seq2see.serve.config import ServeConfig
from seq2see.translator import TranslationOptions


class Wanted(Config):
    """Which model: by languages or by name."""

    source: str = "auto"
    """A code, or auto."""
    target: str = ""
    """A code; may be left out if a model is named."""
    model: str | None = None
    """The name of a model, where several know a pair."""

    def conflicts(self) -> Iterator[str]:
        """Refuse a request that leads nowhere."""
        if not self.target and not self.model:
            yield "`target` must be given, or `model`"


class SearchWishes(Config):
    """How to search."""

    beam_size: int | None = Field(default=None, ge=1)
    n_best: int = Field(default=1, ge=1)
    """Translations of each text."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)


class TranslateRequest(Wanted, SearchWishes):
    """Texts and wishes."""

    text: str | list[str]
    """A text, or a list."""
    format: Literal["text", "html"] = "text"
    keep_numbers: bool = False
    """Numbers stay as they are, as placeholders always do."""
    prefix: str = Field(default="", max_length=1000)
    """How the translation starts."""
    forbidden: list[str] = Field(default_factory=list, max_length=50)
    """Words that no translation may hold."""
    glossary: dict[str, str] = Field(default_factory=dict, max_length=200)
    """Source term → target term."""
    alignment: bool = False
    """Tell which source words each target word looks at."""
    token_scores: bool = False
    """Tell the log-probability of each token."""

    def conflicts(self) -> Iterator[str]:
        """Refuse places in a page: they would count its words without its tags."""
        yield from super().conflicts()
        if self.format == "html":
            for name in ("alignment", "token_scores"):
                if getattr(self, name):
                    yield f"`{name}` must be left out, since `format` is html"

    @property
    def texts(self) -> list[str]:
        """The texts, one or many."""
        return [self.text] if isinstance(self.text, str) else self.text

    def options(self, config: ServeConfig) -> TranslationOptions:
        """Return them as a translator takes them."""
        fields = {"prefix", "forbidden", "glossary", "alignment", "token_scores"}
        own = {name: getattr(self, name) for name in fields}
        search = {**searched(self, config), "n_best": self.n_best}
        return TranslationOptions(split="always", **own).changed(search)


class ExplainRequest(Wanted, SearchWishes):
    """A sentence, and what to see of its translation."""

    text: str
    translation: str | None = None
    """A translation that is forced instead of searched."""
    interventions: list[Intervention] = Field(default_factory=list, max_length=50)
    """What to change in the model on the way; see the documentation of traces."""
    detail: Detail = Detail()


class HeadsRequest(Wanted):
    """Two translations of a sentence, between which the model has a preference."""

    text: str
    one: str
    """A translation."""
    other: str
    """The same with another word in it."""
    interventions: list[Intervention] = Field(default_factory=list, max_length=50)
    """What is changed in the model before each head is."""


def searched(wishes: SearchWishes, config: ServeConfig) -> dict[str, float]:
    """Return the settings of a search, at least as wide as its results are many."""
    beam_size = wishes.beam_size or max(config.beam_size, wishes.n_best)
    return {"beam_size": beam_size, "length_penalty": wishes.length_penalty}
