"""Checks of a request before its body is read."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.admission import MAX_JSON_VALUES, BufferedBodies
from seq2see.serve.authentication import add_api_key
from seq2see.serve.errors import Overloaded

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
Serving = Callable[..., TestClient]


def send_messages(
    client: TestClient, path: str, messages: list[dict[str, Any]], **headers: str
) -> list[Any]:
    """Send the messages of a request to the application and return those of the response.

    A request for a further message fails: the application must not read the body.
    """
    sent: list[Any] = []
    remaining = iter(messages)

    async def receive() -> Any:
        message = next(remaining, None)
        assert message, "the body was read"
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    fields = {"host": "localhost", **JSON} | {k.replace("_", "-"): v for k, v in headers.items()}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        "client": ("192.0.2.1", 5),
    }
    # In a thread, because the browser tests leave a running event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, client.app(scope, receive, send)).result()  # type: ignore[arg-type]
    return sent


@pytest.mark.parametrize("path", ["/translate", "/translate_file", "/api/v1/translate"])
def test_contradicting_sizes_of_a_body_are_rejected(serving: Serving, path: str) -> None:
    chunked = {"content_length": "5", "transfer_encoding": "chunked"}
    assert send_messages(serving(), path, [], **chunked)[0]["status"] == 400


@pytest.mark.parametrize("path", ["/translate", "/api/v1/translate", "/translate_file"])
def test_disconnect_inside_a_body_is_logged_as_disconnect(serving: Serving, path: str) -> None:
    log = io.StringIO()
    messages = [
        {"type": "http.request", "body": b'{"q', "more_body": True},
        {"type": "http.disconnect"},
    ]
    send_messages(serving(log=log), path, messages, transfer_encoding="chunked")
    (line,) = map(json.loads, log.getvalue().splitlines())
    assert (line["status"], line["error_code"]) == (499, "client_disconnected")


def test_disconnect_inside_an_upload_is_logged_as_disconnect(serving: Serving) -> None:
    log = io.StringIO()
    part = b'--B\r\ncontent-disposition: form-data; name="source"\r\n\r\nen'
    messages = [
        {"type": "http.request", "body": part, "more_body": True},
        {"type": "http.disconnect"},
    ]
    form = {"content-type": "multipart/form-data; boundary=B", "transfer_encoding": "chunked"}
    send_messages(serving(log=log), "/translate_file", messages, **form)
    (line,) = map(json.loads, log.getvalue().splitlines())
    assert (line["status"], line["error_code"]) == (499, "client_disconnected")


def test_large_body_needs_key_outside_body(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    client = serving(keys=path, characters=200_000)
    body = json.dumps({**HELLO, "q": "x" * 100_000, "api_key": key}).encode()
    assert (
        send_messages(client, "/translate", [], content_length=str(len(body)))[0]["status"] == 401
    )
    response = client.post("/translate", content=body, headers=JSON)
    assert response.headers["www-authenticate"] == "Bearer"
    chunked = client.post("/translate", content=iter([body[:65_000], body[65_000:]]), headers=JSON)
    assert chunked.status_code == 401
    bearer = {**JSON, "authorization": f"Bearer {key}"}
    assert client.post("/translate", content=body, headers=bearer).status_code == 200
    small = {**HELLO, "q": "x" * 10_000, "api_key": key}
    assert client.post("/translate", json=small).status_code == 200


def test_bodies_with_key_inside_share_limited_memory(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    client = serving(fresh=True, keys=path)
    with client.service.keyless_bodies.reserve(15_990_000):  # type: ignore[attr-defined]
        assert send_messages(client, "/translate", [], content_length="50")[0]["status"] == 429
        bearer = {"authorization": f"Bearer {key}"}
        assert client.post("/translate", json=HELLO, headers=bearer).status_code == 200
    assert client.post("/translate", json={**HELLO, "api_key": key}).status_code == 200


def test_uploads_share_limited_memory(serving: Serving) -> None:
    client = serving(fresh=True)
    with client.service.bodies.reserve(63_990_000):  # type: ignore[attr-defined]
        for path in ("/translate", "/translate_file", "/api/v1/translate"):
            response = send_messages(client, path, [], content_length="50")
            assert response[0]["status"] == 429
    assert client.post("/translate", json=HELLO).status_code == 200


def test_reserved_memory_is_released() -> None:
    bodies = BufferedBodies(1_000_000)
    for _ in range(3):
        with bodies.reserve(900_000), pytest.raises(Overloaded), bodies.reserve(200_000):
            pass
    with bodies.reserve(2_000_000):  # a single body may be larger
        pass


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("content_type", ["text/plain", "application/json", ""])
def test_pages_of_other_sites_cannot_start_work(
    serving: Serving, headers: dict[str, str], content_type: str
) -> None:
    client = serving()
    headers = {**headers, "content-type": content_type}
    for path in ("lab/0", "translate", "stream", "explain", "head-ablation", "contrast"):
        response = client.post(f"/api/v1/{path}", content=b"{}", headers=headers)
        assert (response.status_code, response.headers["x-error-code"]) == (403, "forbidden")


@pytest.mark.parametrize("public_url", [None, "https://translate.example.org/t"])
def test_own_page_can_start_work(serving: Serving, public_url: str | None) -> None:
    client = serving(settings={"public_url": public_url})
    origin = public_url.removesuffix("/t") if public_url else "http://localhost"
    headers = {"origin": origin, "sec-fetch-site": "same-origin"}
    body = {"text": "hello", "target": "de", "source": "en"}
    assert client.post("/api/v1/translate", json=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (path, body)
        for path in ("/translate", "/api/v1/translate", "/api/v1/explain", "/translate_file")
        for body in (
            b'{"q": [' + b",".join([b"[]"] * 300_000) + b"]}",
            b"{" + b",".join(b'"%d":1' % number for number in range(90_000)) + b"}",
            b'{"text": ' + b"[" * 490_000,
            b'{"text": "' + b'\\"' * 400_000,
            b'{"a": "' + b'","' * 200_000,
        )
    ],
)
def test_json_with_many_values_is_rejected_quickly(
    serving: Serving, path: str, body: bytes
) -> None:
    client = serving()
    start = time.process_time()
    json.loads(b"[" + b",".join([b"[]"] * 300_000) + b"]")
    parsed = time.process_time()
    response = client.post(path, content=body, headers=JSON)
    # Relative to the parser of the standard library, because the CPU may be busy.
    assert time.process_time() - parsed < 10 * (parsed - start)
    assert response.status_code == 400
    assert len(response.content) < 20_000


def test_values_inside_strings_do_not_count(serving: Serving) -> None:
    client = serving(characters=100_000)
    commas = "a,{[:" * (MAX_JSON_VALUES // 2)
    assert client.post("/translate", json={**HELLO, "q": commas}).status_code == 200
    many = {str(number): 1 for number in range(MAX_JSON_VALUES // 2 - 10)}
    start = time.process_time()
    response = client.post("/api/v1/translate", json=many)
    assert time.process_time() - start < 0.3
    assert response.status_code == 400
