"""The OpenAPI document: schemas of bodies and responses, and the page at /docs made from it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastapi import FastAPI

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


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document; our errors are 400, never FastAPI's 422."""
    document = app.openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    return document


def render_docs_page(document: dict[str, Any], url: str) -> str:
    """Return the page; its examples go to the service at this address."""
    parts = "".join(_operations(document, url.rstrip("/")))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="favicon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="css/docs.css">'
        f"<title>{title}</title></head><body><h1>{title}</h1>"
        f"<p>{escape(document['info'].get('summary', ''))} "
        f'The same for machines: <a href="spec">OpenAPI</a>.</p>{parts}</body></html>'
    )


def _operations(document: dict[str, Any], url: str) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))} "
            yield f"{escape(operation.get('description', ''))}</p>"
            content = operation.get("requestBody", {}).get("content", {})
            if "{" not in path:
                yield f"<pre>{escape(_curl(url + path, content))}</pre>"
            for media in list(content.values())[:1]:  # the others are the same in another form
                yield f"<dl>{''.join(_fields(media['schema']))}</dl>"


def _curl(url: str, content: dict[str, Any]) -> str:
    if form := content.get("multipart/form-data"):
        fields = {**form["example"], "file": "@letter.txt"}
        return " ".join([f"curl {url}", *(f"-F {name}={value}" for name, value in fields.items())])
    if not content:
        return f"curl {url}"
    example = content["application/json"]["example"]
    body = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
    return f"curl {url} \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _fields(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        mark = " (needed)" if name in required else ""
        yield f"<dt><code>{escape(name)}</code>{mark}</dt>"
        yield f"<dd>{escape(field.get('description', ''))}</dd>"
