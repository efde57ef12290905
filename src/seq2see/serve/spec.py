"""What the OpenAPI document says of bodies and answers that FastAPI cannot read off a signature.

The examples name languages that are loaded, so each of them can be sent as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seq2see.config import Config

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {**TEXT, "description": "What is wrong, in one line."}},
}
_ERRORS = {
    400: "The request cannot be understood, or asks for what is not there.",
    403: "The key is missing or wrong.",
    404: "Nothing is there.",
    408: "The request did not come in time.",
    413: "The body is too long.",
    429: "Too much at the moment: try again after so many seconds as Retry-After says.",
    500: "The engine failed on this text.",
    503: "The service is about to end.",
    504: "The deadline came before the result.",
}


def listed(items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def either(*schemas: Schema) -> Schema:
    """Return the schema of one of several forms."""
    return {"anyOf": list(schemas)}


def table(required: Iterable[str] = (), **properties: Schema) -> Schema:
    """Return the schema of an object; without `required` names, all must be there."""
    names = list(required) or list(properties)
    return {"type": "object", "required": names, "properties": properties}


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return what a route says of its errors; 400 and 403 are everywhere."""
    content = {"application/json": {"schema": ERROR}}
    return {
        status: {"description": _ERRORS[status], "content": content}
        for status in sorted({400, 403, *statuses})
    }


def answers(
    schema: Schema | None, *statuses: int, kind: str = "application/json", text: str = "The answer."
) -> dict[int | str, dict[str, Any]]:
    """Return what a route says of its answers."""
    content = {kind: {"schema": schema or {}}}
    return {200: {"description": text, "content": content}, **errors(*statuses)}


WORK = (408, 413, 429, 500, 503, 504)
"""What may become of a request that takes the engine."""


def body(schema: Schema, kinds: Iterable[str], example: dict[str, Any]) -> dict[str, Any]:
    """Return what a route says of its body."""
    media = {kind: {"schema": schema, "example": example} for kind in kinds}
    return {"requestBody": {"required": True, "content": media}}


def config_schema(config: type[Config]) -> Schema:
    """Return the schema of a config, with what it refers to inside it."""
    schema = config.model_json_schema()
    definitions = schema.pop("$defs", {})
    return _resolved(schema, definitions)  # type: ignore[no-any-return]


def _resolved(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_resolved(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolved(definitions[node["$ref"].split("/")[-1]], definitions)
    return {key: _resolved(value, definitions) for key, value in node.items()}
