"""Requests to values: what LibreTranslate's clients send in three ways, and JSON of our own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from seq2see.config import Config
from seq2see.errors import ConfigError
from seq2see.serve.config import LimitsConfig
from seq2see.serve.problems import Invalid, TooLong

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
