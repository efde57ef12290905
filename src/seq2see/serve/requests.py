"""Request models of /api/v1, and readers for the parameters of LibreTranslate's routes."""

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
from seq2see.errors import ConfigError
from seq2see.explain.explainer import Detail
from seq2see.explain.interventions import Intervention
from seq2see.serve.config import LimitsConfig, ServeConfig
from seq2see.serve.errors import Invalid, TooLong
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


C = TypeVar("C", bound=Config)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form; its name is what somebody says it is."""

    name: str
    content: bytes


_FIELDS = 20
"""Of a form or a query."""


async def parameters(request: Request, limits: LimitsConfig) -> dict[str, Any]:
    """Return what a request says, in its query, its form or its JSON; the latter goes first."""
    values: dict[str, Any] = dict(_pairs(request.scope["query_string"]))
    kind = media_type(request)
    if kind == "application/json":
        values |= await _json(request)
    elif kind == "application/x-www-form-urlencoded":
        values |= _pairs(await request.body())
    elif kind == "multipart/form-data":
        values |= await _form(request, limits)
    return values


def media_type(request: Request) -> str:
    """Return what the body is said to be, without its parameters."""
    return request.headers.get("content-type", "").split(";")[0].strip().lower()


async def _json(request: Request) -> dict[str, Any]:
    try:
        data = json.loads(await request.body(), parse_int=_number)
    except (ValueError, RecursionError):
        raise Invalid("Invalid request: the body is not JSON") from None
    if not isinstance(data, dict):
        raise Invalid("Invalid request: the JSON must be an object")
    return data


def _number(digits: str) -> int | float:
    """Return a whole number, or infinity: Python reads no more than some thousand digits."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _pairs(encoded: bytes) -> dict[str, str]:
    """Return the fields of a query or of a form that is written like one."""
    try:
        pairs = parse_qsl(
            encoded.decode(), keep_blank_values=True, errors="strict", max_num_fields=_FIELDS
        )
    except UnicodeDecodeError:
        raise Invalid("Invalid request: the form or the query must be UTF-8") from None
    except ValueError:
        raise Invalid("Invalid request: the form or the query cannot be read") from None
    return dict(pairs)


async def _form(request: Request, limits: LimitsConfig) -> dict[str, Any]:
    try:
        form = await request.form(max_files=1, max_fields=_FIELDS, max_part_size=limits.body_bytes)
    except (HTTPException, ValueError):  # a field that is too long, a boundary that is none
        raise Invalid("Invalid request: the form cannot be read") from None
    try:
        return {name: await _value(value) for name, value in form.items()}
    finally:
        await form.close()


async def _value(value: str | UploadFile) -> str | Upload:
    return value if isinstance(value, str) else Upload(value.filename or "", await value.read())


async def config(request: Request, kind: type[C]) -> C:
    """Return the body as a config, or say what is wrong with it."""
    if media_type(request) != "application/json":  # also keeps other sites' forms out
        raise Invalid("Invalid request: the body must be application/json")
    try:
        return kind.model_validate_json(await request.body())
    except ConfigError as error:
        raise Invalid(f"Invalid request: {error}") from None


def text(values: Mapping[str, Any], name: str) -> str:
    """Return a text that must be there, and not be empty."""
    value = values.get(name)
    if value is None or value == "":
        raise Invalid(f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise Invalid(f"Invalid request: {name} must be a text")
    return plain(value, name)


def texts(values: Mapping[str, Any], limits: LimitsConfig) -> tuple[list[str], bool]:
    """Return `q`, and whether it was a list."""
    q = values.get("q")
    if not q and not isinstance(q, bool | int | float):
        raise Invalid("Invalid request: missing q parameter")
    lines = q if isinstance(q, list) else [q]
    if not all(isinstance(line, str) for line in lines):
        raise Invalid("Invalid request: q must be a text or a list of texts")
    refuse_excess(lines, limits)
    return [plain(line, "q") for line in lines], isinstance(q, list)


def refuse_excess(lines: list[str] | tuple[str, ...], limits: LimitsConfig) -> None:
    """Refuse more texts or characters than a request may have."""
    if len(lines) > limits.texts:
        raise Invalid(
            f"Invalid request: request ({len(lines)}) exceeds text limit ({limits.texts})"
        )
    size = sum(map(len, lines))
    if size > limits.characters:
        raise TooLong(f"Invalid request: request ({size}) exceeds text limit ({limits.characters})")


def count(values: Mapping[str, Any], name: str, most: int) -> int:
    """Return a number from 0 on, which forms send as a text; 0 if it is left out."""
    value = values.get(name)
    if value is None or value == "":
        return 0
    digits = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    if not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        raise Invalid(f"Invalid request: {name} must be a number from 0 to {most}")
    if int(digits) > most:
        raise Invalid(f"Invalid request: {name} ({digits}) exceeds limit ({most})")
    return int(digits)


def choice(values: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    """Return one of the allowed values, the first if it is left out."""
    value = values.get(name) or allowed[0]
    if value not in allowed:
        shown = plain(value, name)[:40] if isinstance(value, str) else "this"
        raise Invalid(f"{shown} {name} is not supported")
    return str(value)


def key(values: Mapping[str, Any]) -> str | None:
    """Return the key of a request, if it has one."""
    value = values.get("api_key")
    return value if isinstance(value, str) else None


def upload(values: Mapping[str, Any]) -> Upload:
    """Return the file of a request."""
    value = values.get("file")
    if not isinstance(value, Upload):
        raise Invalid("Invalid request: missing file parameter")
    if not value.name or not value.content:
        raise Invalid("Invalid request: empty file")
    return value


def plain(value: str, name: str) -> str:
    """Return a text if it is one: half of a surrogate pair is not."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"Invalid request: {name} is not valid Unicode") from None
    return value
