"""The OpenAPI document, and the page at /docs made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any

from fastapi import FastAPI


def build_openapi(app: FastAPI, source: str, target: str) -> dict[str, Any]:
    """Return the OpenAPI document; its examples use the given languages, so that they succeed."""
    document = app.openapi()
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                if "source" in _resolve(document, media["schema"])["properties"]:
                    media["example"] |= {"source": source, "target": target}
    return document


def _resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema, or the one that it refers to."""
    name = schema.get("$ref", "").rsplit("/", 1)[-1]
    return document["components"]["schemas"][name] if name else schema


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
                fields = _render_fields(_resolve(document, media["schema"]))
                yield f"<dl>{''.join(fields)}</dl>"


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
