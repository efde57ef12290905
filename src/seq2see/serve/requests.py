"""Request models of /api/v1. They report all problems of a request at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import to_json

from seq2see.config import Config
from seq2see.errors import ConfigError, Problem
from seq2see.explain.interventions import Intervention
from seq2see.explain.trace_builder import TraceOptions
from seq2see.serve.config import ServeConfig
from seq2see.serve.request_translation import TextTranslationOptions
from seq2see.translator import TranslationOptions


class ModelSelectionParameters(Config):
    """Selection of a model by languages or by name."""

    source: str = "auto"
    """Language code of the text, or "auto" to detect it."""
    target: str = ""
    """Language code of the translation. Can be left out if `model` is given."""
    model: str | None = None
    """Name of a model, if several models translate the same language pair."""

    @model_validator(mode="before")
    @classmethod
    def _check_unicode(cls, data: Any) -> Any:
        try:
            to_json(data)
        except ValueError:  # JSON can contain unpaired surrogates
            raise ConfigError("strings must be valid Unicode") from None
        return data

    def conflicts(self) -> Iterator[Problem]:
        """Yield a problem if neither target nor model is given."""
        if not self.target and not self.model:
            yield Problem("target", "must be given, or `model`")


class SearchParameters(Config):
    """Parameters of the beam search."""

    beam_size: int | None = Field(default=None, ge=1)
    """Beam size; by default that of the service."""
    n_best: int = Field(default=1, ge=1)
    """Number of translations per text."""
    length_penalty: float = Field(default=1.0, ge=0, le=10)
    """Exponent of the length in the score of a hypothesis."""

    def search_settings(self, config: ServeConfig) -> dict[str, float]:
        """Return the settings of the search; the default beam size is at least `n_best`."""
        return {
            "beam_size": self.beam_size or max(config.beam_size, self.n_best),
            "n_best": self.n_best,
            "length_penalty": self.length_penalty,
        }


class TranslateRequest(ModelSelectionParameters, SearchParameters):
    """Body of /api/v1/translate and /api/v1/stream."""

    text: str | list[str]
    """A text, or a list of texts."""
    format: Literal["text", "html"] = "text"
    """Format of the texts."""
    keep_numbers: bool = False
    """Whether numbers are protected like placeholders."""
    prefix: str = Field(default="", max_length=1000)
    """Text that the translation must start with."""
    prefixes: dict[
        Annotated[int, Field(ge=0, strict=False)], Annotated[str, Field(max_length=1000)]
    ] = Field(default_factory=dict, max_length=50)
    """Texts that the translations of sentences must start with, by their `source_start`."""
    forbidden: list[str] = Field(default_factory=list, max_length=50)
    """Phrases that must not occur in the translation."""
    glossary: dict[str, str] = Field(default_factory=dict, max_length=200)
    """Target terms by source terms."""
    alignment: bool = False
    """Whether to return the source words that each target word attends to."""
    token_scores: bool = False
    """Whether to return the log-probability of each token."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield problems; offsets and indices in HTML would refer to the text without its tags."""
        yield from super().conflicts()
        if self.format == "html":
            for name in ("alignment", "prefixes", "token_scores"):
                if getattr(self, name):
                    yield Problem(name, "must be left out, since `format` is html")

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.text] if isinstance(self.text, str) else self.text

    def to_options(self, config: ServeConfig) -> TextTranslationOptions:
        """Return the options of the translation."""
        names = ("prefix", "forbidden", "glossary", "keep_numbers", "alignment", "token_scores")
        options = TranslationOptions(
            check_retokenization=True,
            **{name: getattr(self, name) for name in names},
        )
        return TextTranslationOptions(
            options.with_settings(self.search_settings(config)),
            self.format == "html",
            self.prefixes,
        )


class ExplainRequest(ModelSelectionParameters, SearchParameters):
    """Body of /api/v1/explain."""

    text: str
    """The text, translated as one sequence."""
    translation: str | None = None
    """Translation to force-decode instead of searching for one."""
    interventions: list[Intervention] = Field(default_factory=list, max_length=50)
    """Changes to the model during the computation; see the documentation of traces."""
    trace_options: TraceOptions = TraceOptions()
    """What the trace contains."""


class HeadEffectsRequest(ModelSelectionParameters):
    """Body of /api/v1/head-ablation: a text and a contrastive pair of translations."""

    text: str
    """The text, translated as one sequence."""
    translation: str
    """A translation."""
    contrastive_translation: str
    """The same translation with a different word."""
    interventions: list[Intervention] = Field(default_factory=list, max_length=50)
    """Changes to the model that stay in place while each head is ablated."""


class ContrastRequest(ModelSelectionParameters):
    """Body of /api/v1/contrast: two texts, and two translations of the first that differ."""

    text: str
    contrastive_text: str
    """A similar text, in which other words decide."""
    translation: str
    """A translation of `text`."""
    contrastive_translation: str
    """The same translation with a different word."""
    word: str = "it"
    """Source word whose attention is measured."""
