"""The page at /docs: both interfaces with examples to copy, made from the OpenAPI document.

Plain HTML without a script: what FastAPI offers instead loads its own from a CDN.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import escape
from typing import Any


def page(document: dict[str, Any], url: str) -> str:
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
