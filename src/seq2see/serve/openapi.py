"""The OpenAPI document: schemas of bodies and responses, and the page at /docs made from it.

The schemas are written by hand because the routes read requests themselves. The examples use
languages of the loaded models, so that each of them can be sent unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastapi import FastAPI

from seq2see.config import Config

JsonSchema = dict[str, Any]

STRING_SCHEMA: JsonSchema = {"type": "string"}
NUMBER_SCHEMA: JsonSchema = {"type": "number"}
COUNT_SCHEMA: JsonSchema = {"type": "integer", "minimum": 0}
ERROR_SCHEMA: JsonSchema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {**STRING_SCHEMA, "description": "One-line message."}},
}
ENGINE_ERROR_STATUSES = (408, 413, 429, 500, 503, 504)
"""Error statuses of routes that use the engine."""
_ERROR_DESCRIPTIONS = {
    400: "The request is malformed, or refers to something that does not exist.",
    403: "The API key is missing or wrong.",
    404: "The resource does not exist.",
    408: "The request body did not arrive in time.",
    413: "The request body is too large.",
    429: "The service is overloaded or the rate exceeded: retry after Retry-After seconds.",
    500: "The engine failed on this text.",
    503: "The service is shutting down.",
    504: "The deadline passed before the result was ready.",
}


def array_schema(items: JsonSchema) -> JsonSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": items}


def union_schema(*schemas: JsonSchema) -> JsonSchema:
    """Return the schema of a value that matches one of several schemas."""
    return {"anyOf": list(schemas)}


def object_schema(required: Iterable[str] = (), **properties: JsonSchema) -> JsonSchema:
    """Return the schema of an object; if `required` is empty, all properties are required."""
    names = list(required) or list(properties)
    return {"type": "object", "required": names, "properties": properties}


def build_openapi_error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of error responses; 400 and 403 are always included."""
    content = {"application/json": {"schema": ERROR_SCHEMA}}
    return {
        status: {"description": _ERROR_DESCRIPTIONS[status], "content": content}
        for status in sorted({400, 403, *statuses})
    }


def build_openapi_responses(
    schema: JsonSchema | None,
    *statuses: int,
    media_type: str = "application/json",
    description: str = "The result.",
) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of a route's responses: 200 and the given error statuses."""
    content = {media_type: {"schema": schema or {}}}
    return {
        200: {"description": description, "content": content},
        **build_openapi_error_responses(*statuses),
    }


def build_openapi_request_body(
    schema: JsonSchema, media_types: Iterable[str], example: dict[str, Any]
) -> dict[str, Any]:
    """Return the OpenAPI entry of a route's body."""
    content = {media_type: {"schema": schema, "example": example} for media_type in media_types}
    return {"requestBody": {"required": True, "content": content}}


def build_inlined_schema(config: type[Config]) -> JsonSchema:
    """Return the schema of a config, with references replaced by their definitions."""
    schema = config.model_json_schema()
    definitions = schema.pop("$defs", {})
    return _resolve_references(schema, definitions)  # type: ignore[no-any-return]


def _resolve_references(node: Any, definitions: JsonSchema) -> Any:
    if isinstance(node, list):
        return [_resolve_references(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _resolve_references(definitions[node["$ref"].split("/")[-1]], definitions)
    return {key: _resolve_references(value, definitions) for key, value in node.items()}


def build_openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, without FastAPI's status 422: invalid requests return 400."""
    document = app.openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            operation["responses"].pop("422", None)
    return document


def render_docs_page(document: dict[str, Any], url: str) -> str:
    """Return the HTML page at /docs, with a curl example per route.

    It has no script; FastAPI's own pages load scripts from a CDN.

    Args:
        document: The OpenAPI document.
        url: Base URL of the service in the examples.
    """
    routes = "".join(_render_routes(document, url.rstrip("/")))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        '<meta name="color-scheme" content="light dark">'
        '<link rel="icon" href="favicon.svg" type="image/svg+xml">'
        '<link rel="stylesheet" href="css/docs.css">'
        f"<title>{title}</title></head><body><h1>{title}</h1>"
        f"<p>{escape(document['info'].get('summary', ''))} "
        f'Machine-readable: <a href="spec">OpenAPI</a>.</p>{routes}</body></html>'
    )


def _render_routes(document: dict[str, Any], url: str) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            yield f"<p>{escape(operation.get('summary', ''))} "
            yield f"{escape(operation.get('description', ''))}</p>"
            content = operation.get("requestBody", {}).get("content", {})
            if "{" not in path:
                yield f"<pre>{escape(_curl_command(url + path, content))}</pre>"
            for media in list(content.values())[:1]:  # the other media types have the same fields
                yield f"<dl>{''.join(_render_fields(media['schema']))}</dl>"


def _curl_command(url: str, content: dict[str, Any]) -> str:
    if form := content.get("multipart/form-data"):
        fields = {**form["example"], "file": "@letter.txt"}
        return " ".join([f"curl {url}", *(f"-F {name}={value}" for name, value in fields.items())])
    if not content:
        return f"curl {url}"
    example = content["application/json"]["example"]
    body = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
    return f"curl {url} \\\n  -H 'Content-Type: application/json' \\\n  -d '{body}'"


def _render_fields(schema: dict[str, Any]) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        suffix = " (required)" if name in required else ""
        yield f"<dt><code>{escape(name)}</code>{suffix}</dt>"
        yield f"<dd>{escape(field.get('description', ''))}</dd>"
