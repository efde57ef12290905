"""Request models of /api/v1, and readers for the parameters of LibreTranslate's routes.

The models report all problems of a request at once. LibreTranslate's clients send parameters as
JSON, as a form or in the query.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from seq2see.config import Config
from seq2see.errors import ConfigError, Problem
from seq2see.explain.interventions import Intervention
from seq2see.explain.tracing import TraceOptions
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.errors import BadRequest, TextTooLong
from seq2see.translator import TranslationOptions

ConfigType = TypeVar("ConfigType", bound=Config)

_MAX_FIELDS = 20
"""Largest number of fields in a form or a query."""


class ModelSelectionParameters(Config):
    """Selection of a model by languages or by name."""

    source: str = "auto"
    """Language code of the text, or "auto" to detect it."""
    target: str = ""
    """Language code of the translation. Can be left out if `model` is given."""
    model: str | None = None
    """Name of a model, if several models translate the same language pair."""

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
    forbidden: list[str] = Field(default_factory=list, max_length=50)
    """Phrases that must not occur in the translation."""
    glossary: dict[str, str] = Field(default_factory=dict, max_length=200)
    """Target terms by source terms."""
    alignment: bool = False
    """Whether to return the source words that each target word attends to."""
    token_scores: bool = False
    """Whether to return the log-probability of each token."""

    def conflicts(self) -> Iterator[Problem]:
        """Yield problems; offsets in HTML would refer to the text without its tags."""
        yield from super().conflicts()
        if self.format == "html":
            for name in ("alignment", "token_scores"):
                if getattr(self, name):
                    yield Problem(name, "must be left out, since `format` is html")

    @property
    def texts(self) -> list[str]:
        """The texts as a list."""
        return [self.text] if isinstance(self.text, str) else self.text

    def to_options(self, config: ServeConfig) -> TranslationOptions:
        """Return the options of the translator."""
        fields = {"prefix", "forbidden", "glossary", "alignment", "token_scores"}
        options = {name: getattr(self, name) for name in fields}
        search = {**build_search_settings(self, config), "n_best": self.n_best}
        settings = {**search, "split": "always", "check_retokenization": True}
        return TranslationOptions(**options).with_settings(settings)


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


def build_search_settings(parameters: SearchParameters, config: ServeConfig) -> dict[str, float]:
    """Return the settings of the search; the default beam size is at least `n_best`."""
    beam_size = parameters.beam_size or max(config.beam_size, parameters.n_best)
    return {"beam_size": beam_size, "length_penalty": parameters.length_penalty}


async def parse_body(request: Request, config_type: type[ConfigType]) -> ConfigType:
    """Return the JSON body of a request as a config.

    Raises:
        BadRequest: The content type is not application/json, or the body is invalid.
    """
    # The check of the content type also rejects forms of other sites.
    if read_media_type(request) != "application/json":
        raise BadRequest("Invalid request: the body must be application/json")
    try:
        return config_type.model_validate_json(await request.body())
    except ConfigError as error:
        raise BadRequest(f"Invalid request: {error}") from None


def read_media_type(request: Request) -> str:
    """Return the media type of the body without its parameters."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


def check_text_limits(texts: list[str] | tuple[str, ...], limits: LimitsConfig) -> None:
    """Raise an error if there are too many texts or characters.

    Raises:
        BadRequest: Too many texts.
        TextTooLong: Too many characters.
    """
    if len(texts) > limits.texts_per_request:
        raise BadRequest(
            f"Invalid request: request ({len(texts)}) exceeds text limit "
            f"({limits.texts_per_request})"
        )
    num_characters = sum(map(len, texts))
    if num_characters > limits.characters:
        raise TextTooLong(
            f"Invalid request: request ({num_characters}) exceeds text limit ({limits.characters})"
        )


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file of a form. The name is what the client sent and must not be used as a path."""

    name: str
    content: bytes


async def read_parameters(request: Request, limits: LimitsConfig) -> dict[str, Any]:
    """Return the parameters of the query and the body; the body takes precedence.

    Raises:
        BadRequest: The query, the form or the JSON is malformed.
    """
    parameters: dict[str, Any] = dict(_parse_query(request.scope["query_string"]))
    media_type = read_media_type(request)
    if media_type == "application/json":
        parameters |= await _read_json(request)
    elif media_type == "application/x-www-form-urlencoded":
        parameters |= _parse_query(await request.body())
    elif media_type == "multipart/form-data":
        parameters |= await _read_form(request, limits)
    return parameters


async def _read_json(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await request.body(), parse_int=_parse_integer)
    except (ValueError, RecursionError):
        raise BadRequest("Invalid request: the body is not JSON") from None
    if not isinstance(data, dict):
        raise BadRequest("Invalid request: the JSON must be an object")
    return data


def _parse_integer(digits: str) -> int | float:
    """Return an integer; infinity if it has more digits than Python converts (4,300)."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _parse_query(encoded: bytes) -> dict[str, str]:
    """Return the fields of a query or of a URL-encoded form."""
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS
        )
    except UnicodeDecodeError:
        raise BadRequest("Invalid request: the form or the query must be UTF-8") from None
    except ValueError:
        raise BadRequest("Invalid request: the form or the query cannot be read") from None
    return dict(pairs)


async def _read_form(request: Request, limits: LimitsConfig) -> dict[str, Any]:
    try:
        form = await request.form(
            max_files=1, max_fields=_MAX_FIELDS, max_part_size=limits.body_bytes
        )
    except (HTTPException, ValueError):  # a field is too long, or the boundary is invalid
        raise BadRequest("Invalid request: the form cannot be read") from None
    try:
        return {name: await _read_field(value) for name, value in form.items()}
    finally:
        await form.close()


async def _read_field(value: str | UploadFile) -> str | UploadedFile:
    if isinstance(value, str):
        return value
    return UploadedFile(value.filename or "", await value.read())


def get_required_string(parameters: Mapping[str, Any], name: str) -> str:
    """Return a required parameter that must be a non-empty string.

    Raises:
        BadRequest: It is missing, empty or not a string.
    """
    value = parameters.get(name)
    if value is None or value == "":
        raise BadRequest(f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise BadRequest(f"Invalid request: {name} must be a string")
    return check_unicode(value, name)


def get_texts_to_translate(
    parameters: Mapping[str, Any], limits: LimitsConfig
) -> tuple[list[str], bool]:
    """Return the texts of the parameter `q`, and whether it was a list.

    Raises:
        BadRequest: It is missing, not a string or list of strings, or exceeds the limits.
    """
    q = parameters.get("q")
    if not q and not isinstance(q, bool | int | float):
        raise BadRequest("Invalid request: missing q parameter")
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest("Invalid request: q must be a string or a list of strings")
    check_text_limits(texts, limits)
    return [check_unicode(text, "q") for text in texts], isinstance(q, list)


def parse_count_parameter(parameters: Mapping[str, Any], name: str, max_value: int) -> int:
    """Return an integer from 0 to `max_value`, also from a string; 0 if it is missing.

    Raises:
        BadRequest: The value is not such a number.
    """
    value = parameters.get(name)
    if value is None or value == "":
        return 0
    digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise BadRequest(f"Invalid request: {name} must be a number from 0 to {max_value}")
    if int(digits) > max_value:
        raise BadRequest(f"Invalid request: {name} ({digits}) exceeds limit ({max_value})")
    return int(digits)


def get_choice(parameters: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed values; the first one if the parameter is missing.

    Raises:
        BadRequest: The value is not allowed.
    """
    value = parameters.get(name) or allowed[0]
    if value not in allowed:
        shown = check_unicode(value, name)[:40] if isinstance(value, str) else "this"
        raise BadRequest(f"{shown} {name} is not supported")
    return str(value)


def get_api_key_parameter(parameters: Mapping[str, Any]) -> str | None:
    """Return the parameter `api_key`, or None."""
    value = parameters.get("api_key")
    return value if isinstance(value, str) else None


def get_uploaded_file(parameters: Mapping[str, Any]) -> UploadedFile:
    """Return the file of a form.

    Raises:
        BadRequest: The file is missing, unnamed or empty.
    """
    value = parameters.get("file")
    if not isinstance(value, UploadedFile):
        raise BadRequest("Invalid request: missing file parameter")
    if not value.name or not value.content:
        raise BadRequest("Invalid request: empty file")
    return value


def check_unicode(value: str, name: str) -> str:
    """Return a string unchanged.

    Raises:
        BadRequest: It contains an unpaired surrogate.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"Invalid request: {name} is not valid Unicode") from None
    return value
