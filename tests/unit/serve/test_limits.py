"""Keys, rates, limits and deadlines over HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient

from seq2see.serve.authentication import add_api_key

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
Serving = Callable[..., TestClient]
Upload = Callable[[TestClient, str, bytes], Any]


def test_routes_require_key(serving: Serving, upload: Upload, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    client = serving(keys=path)
    assert client.post("/translate", json=HELLO).status_code == 403
    wrong = client.post("/translate", json={**HELLO, "api_key": "x"})
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    bearer = {"authorization": f"Bearer {key}"}
    accepted = [
        client.post("/translate", json={**HELLO, "api_key": key}),
        client.post("/translate", data={**HELLO, "api_key": key}),
        client.post("/translate", params={**HELLO, "api_key": key}),
        client.post("/translate", json=HELLO, headers=bearer),
        client.post("/api/v1/translate", json={"text": "a", "target": "de"}, headers=bearer),
        client.get("/api/v1/models", headers=bearer),
        client.get("/metrics", headers=bearer),
    ]
    assert [response.status_code for response in accepted] == [200] * 7
    protected = [
        "/metrics",
        "/api/v1/models",
        "/api/v1/models/en-de",
        "/api/v1/runs",
        "/api/v1/runs/x",
        "/api/v1/lab",
    ]
    assert [client.get(path).status_code for path in protected] == [403] * 6
    assert client.post("/detect", json={"q": "x"}).status_code == 403
    assert client.post("/api/v1/explain", json={}).status_code == 403
    assert client.post("/api/v1/stream", json={}).status_code == 403
    assert client.post("/api/v1/translate", json={}).status_code == 403
    assert client.post("/api/v1/head-ablation", json={}).status_code == 403
    assert client.post("/api/v1/lab/0", json={}).status_code == 403
    assert upload(client, "a.txt", b"x").status_code == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


@pytest.mark.parametrize(
    ("path", "query", "authorization"),
    [
        ("/api/v1/translate", "", ""),
        ("/api/v1/translate", "", "Bearer wrong"),
        ("/api/v1/lab/0", "", ""),
        ("/translate", "", "Bearer wrong"),
        ("/translate", "api_key=wrong", ""),
        ("/translate_file", "", "Bearer wrong"),
    ],
)
def test_request_without_valid_key_is_rejected_before_its_body_is_read(
    serving: Serving, tmp_path: Path, path: str, query: str, authorization: str
) -> None:
    """Except on LibreTranslate's routes without a key outside the body, which may contain it."""
    log, keys = io.StringIO(), tmp_path / "keys.toml"
    add_api_key(keys, "alice")
    app = serving(keys=keys, log=log).app
    headers = {"host": "localhost", "content-type": "application/json", "content-length": "9"}
    headers |= {"authorization": authorization} if authorization else {}
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("192.0.2.1", 5),
    }
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the body was read")

    async def send(message: Any) -> None:
        sent.append(message)

    # In a thread, because the browser tests leave a running event loop in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, app(scope, receive, send)).result()
    assert sent[0]["status"] == 403
    (line,) = map(json.loads, log.getvalue().splitlines())
    assert line["route"].removesuffix("{number}") == path.removesuffix("0")


def test_exceeded_rate_is_429_with_retry_after(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    responses = [client.post("/translate", json=HELLO) for _ in range(3)]
    assert [response.status_code for response in responses] == [200, 200, 429]
    assert 1 <= int(responses[2].headers["retry-after"]) <= 30
    assert responses[2].json() == {"error": "Slowdown: 2 per 1 minute"}


def test_every_key_has_its_own_rate(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    keys = [add_api_key(path, name) for name in ("alice", "bob", "carol")]
    table = path.read_text("utf-8").replace("[carol]", "[carol]\nrequests_per_minute = 2")
    path.write_text(table, "utf-8")
    client = serving(fresh=True, keys=path, requests_per_minute=1)
    for key, statuses in zip(
        keys, ([200, 429, 429], [200, 429, 429], [200, 200, 429]), strict=True
    ):
        bodies = [{**HELLO, "api_key": key}] * 3
        assert [client.post("/translate", json=body).status_code for body in bodies] == statuses


def test_requests_with_wrong_keys_are_rate_limited(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    client = serving(fresh=True, keys=path, requests_per_minute=2)
    responses = [client.post("/translate", json={**HELLO, "api_key": "guess"}) for _ in range(3)]
    assert [response.status_code for response in responses] == [403, 403, 429]
    in_body = client.post("/translate", json={**HELLO, "api_key": key})
    bearer = {"authorization": f"Bearer {key}"}
    in_header = client.post("/translate", json=HELLO, headers=bearer)
    # The rate of the address is checked before the body is read.
    assert (in_body.status_code, in_header.status_code) == (429, 200)


def test_every_address_has_its_own_rate(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=1)
    other = TestClient(client.app, base_url="http://localhost", client=("192.0.2.1", 5))
    responses = [each.post("/translate", json=HELLO) for each in (client, other, client, other)]
    assert [response.status_code for response in responses] == [200, 200, 429, 429]


@pytest.mark.parametrize("is_chunked", [False, True])
def test_large_body_is_rejected(serving: Serving, is_chunked: bool) -> None:
    client = serving(body_bytes=1000)
    body = json.dumps({**HELLO, "q": "x" * 2000}).encode()

    def chunks() -> Iterator[bytes]:
        yield from (body[i : i + 100] for i in range(0, len(body), 100))

    response = client.post("/translate", content=chunks() if is_chunked else body, headers=JSON)
    assert response.status_code == 413
    assert "1000 bytes" in response.json()["error"]
    assert client.post("/translate", json=HELLO).status_code == 200


def test_large_body_is_rejected_on_route_without_body(serving: Serving) -> None:
    chunks = iter([b"x" * 600] * 2)
    response = serving(body_bytes=1000).post("/api/v1/lab/0", content=chunks, headers=JSON)
    assert (response.status_code, response.json()["limit"]) == (413, 1000)


def test_exceeded_limit_is_reported_as_a_number(serving: Serving) -> None:
    client = serving(characters=100, explain_characters=10)
    texts = {"text": "x" * 101, "target": "de"}
    for path, limit in (("translate", 100), ("explain", 10)):
        response = client.post(f"/api/v1/{path}", json=texts)
        assert response.headers["x-error-code"] == "text_too_long"
        assert response.json()["limit"] == limit


@pytest.mark.parametrize("length", ["1001", "-1", "x", ""])
def test_body_with_large_content_length_is_not_read(serving: Serving, length: str) -> None:
    """The body itself is short: only its Content-Length is wrong."""
    response = serving(body_bytes=1000).post(
        "/translate", json=HELLO, headers={"content-length": length}
    )
    error_code = response.headers.get("x-error-code")
    assert (response.status_code, error_code) == (413, "body_too_large")


def test_files_may_be_larger_than_other_bodies(serving: Serving, upload: Upload) -> None:
    client = serving(body_bytes=1000, file_bytes=5000)
    assert upload(client, "a.txt", b"word " * 900).status_code == 200
    assert upload(client, "a.txt", b"word " * 2000).status_code == 413


def test_concurrent_requests_are_limited(serving: Serving) -> None:
    client = serving(fresh=True, concurrent_requests=2)
    model = next(iter(client.service.models))  # type: ignore[attr-defined]
    model.translator.seconds = 0.5
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda _: client.post("/translate", json=HELLO), range(6)))
    assert {response.status_code for response in responses} == {200, 429}
    rejected = [response for response in responses if response.status_code == 429]
    assert all(int(response.headers["retry-after"]) >= 1 for response in rejected)
    assert client.post("/translate", json=HELLO).status_code == 200


def test_exceeded_deadline_is_504_in_time(serving: Serving) -> None:
    client = serving(fresh=True, request_seconds=0.3)
    model = next(iter(client.service.models))  # type: ignore[attr-defined]
    model.translator.seconds = 1.0
    start = time.monotonic()
    response = client.post("/translate", json=HELLO)
    assert response.status_code == 504
    assert time.monotonic() - start < 0.8


def test_request_is_no_longer_active_when_its_response_is_sent(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise clients that read slowly would keep others out."""
    client, send, num_active = serving(), Response.__call__, []

    async def send_and_record(response: Response, *arguments: Any) -> None:
        num_active.append(len(client.service.active_requests))  # type: ignore[attr-defined]
        await send(response, *arguments)

    monkeypatch.setattr(Response, "__call__", send_and_record)
    assert client.post("/translate", json=HELLO).status_code == 200
    assert num_active == [0]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/detect", {"q": "x" * 101}),
        ("/api/v1/stream", {"text": "x" * 101, "target": "de"}),
        ("/api/v1/translate", {"text": ["x" * 60] * 2, "target": "de"}),
        ("/api/v1/translate", {"text": ["x"] * 6, "target": "de"}),
    ],
)
def test_texts_and_characters_are_limited(
    serving: Serving, path: str, body: dict[str, Any]
) -> None:
    response = serving(characters=100, texts_per_request=5).post(path, json=body)
    assert response.status_code == 400
    assert "exceeds text limit" in response.json()["error"]


def test_draining_service_is_alive_but_rejects_requests(serving: Serving) -> None:
    client = serving(fresh=True)
    client.service.drain()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    response = client.post("/translate", json=HELLO)
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_draining_limits_the_time_of_running_requests(serving: Serving) -> None:
    client = serving(fresh=True, settings={"shutdown_seconds": 1.0})
    service = client.service  # type: ignore[attr-defined]
    next(iter(service.models)).translator.seconds = 3.0
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(client.post, "/translate", json=HELLO)
        while not service.queue.running_tokens:
            time.sleep(0.01)
        start = time.monotonic()
        service.drain()
        assert running.result().status_code == 504
        assert time.monotonic() - start < 2
