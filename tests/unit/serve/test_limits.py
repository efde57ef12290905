"""Keys, rates, limits, deadlines over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.errors import InputError
from seq2see.serve.auth import ApiKeys, add_key

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
Serving = Callable[..., TestClient]
Sender = Callable[[TestClient, str, bytes], Any]


def test_a_key_lets_in(serving: Serving, sent: Sender, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(keys=path)
    assert client.post("/translate", json=HELLO).status_code == 403
    wrong = client.post("/translate", json={**HELLO, "api_key": "x"})
    assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
    bearer = {"authorization": f"Bearer {key}"}
    right = [
        client.post("/translate", json={**HELLO, "api_key": key}),
        client.post("/translate", data={**HELLO, "api_key": key}),
        client.post("/translate", params={**HELLO, "api_key": key}),
        client.post("/translate", json=HELLO, headers=bearer),
        client.post("/api/v1/translate", json={"text": "a", "target": "de"}, headers=bearer),
        client.get("/api/v1/models", headers=bearer),
        client.get("/metrics", headers=bearer),
    ]
    assert [answer.status_code for answer in right] == [200] * 7
    closed = [
        "/metrics",
        "/api/v1/models",
        "/api/v1/models/en-de",
        "/api/v1/runs",
        "/api/v1/runs/x",
        "/api/v1/lab",
    ]
    assert [client.get(path).status_code for path in closed] == [403] * 6
    assert client.post("/detect", json={"q": "x"}).status_code == 403
    assert client.post("/api/v1/explain", json={}).status_code == 403
    assert client.post("/api/v1/stream", json={}).status_code == 403
    assert client.post("/api/v1/translate", json={}).status_code == 403
    assert client.post("/api/v1/heads", json={}).status_code == 403
    assert client.post("/api/v1/lab/0").status_code == 403
    assert sent(client, "a.txt", b"x").status_code == 403
    assert client.get("/languages").status_code == 200
    assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_rates_are_429_with_a_time(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    answers = [client.post("/translate", json=HELLO) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["retry-after"]) <= 30
    assert answers[2].json() == {"error": "Slowdown: 2 per 1 minute"}


def test_every_key_has_a_rate_of_its_own(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    keys = [add_key(path, name) for name in ("alice", "bob", "carol")]
    table = path.read_text("utf-8").replace("[carol]", "[carol]\nrequests_per_minute = 2")
    path.write_text(table, "utf-8")
    client = serving(fresh=True, keys=path, requests_per_minute=1)
    for key, statuses in zip(
        keys, ([200, 429, 429], [200, 429, 429], [200, 200, 429]), strict=True
    ):
        bodies = [{**HELLO, "api_key": key}] * 3
        assert [client.post("/translate", json=body).status_code for body in bodies] == statuses


def test_who_tries_keys_out_has_a_rate(serving: Serving, tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(fresh=True, keys=path, requests_per_minute=2)
    tries = [client.post("/translate", json={**HELLO, "api_key": "guess"}) for _ in range(3)]
    assert [answer.status_code for answer in tries] == [403, 403, 429]
    assert client.post("/translate", json={**HELLO, "api_key": key}).status_code == 200


def test_a_key_in_the_place_of_its_hash_is_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('[alice]\nsha256 = "my-secret-key"\n', "utf-8")
    with pytest.raises(
        InputError, match=r"must be a file of keys: \[alice\] `sha256` must"
    ) as told:
        ApiKeys(path)
    assert "my-secret-key" not in str(told.value)


def test_every_address_has_a_rate_of_its_own(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=1)
    other = TestClient(client.app, base_url="http://localhost", client=("192.0.2.1", 5))
    answers = [one.post("/translate", json=HELLO) for one in (client, other, client, other)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_an_end(serving: Serving, chunked: bool) -> None:
    client = serving(body_bytes=1000)
    body = json.dumps({**HELLO, "q": "x" * 2000}).encode()

    def chunks() -> Iterator[bytes]:
        yield from (body[i : i + 100] for i in range(0, len(body), 100))

    answer = client.post("/translate", content=chunks() if chunked else body, headers=JSON)
    assert answer.status_code == 413
    assert "1000 bytes" in answer.json()["error"]
    assert client.post("/translate", json=HELLO).status_code == 200


@pytest.mark.parametrize("length", ["1001", "-1", "x", ""])
def test_a_body_that_says_that_it_is_too_long_is_not_read(serving: Serving, length: str) -> None:
    """It is short, so whoever counts what comes would take it."""
    answer = serving(body_bytes=1000).post(
        "/translate", json=HELLO, headers={"content-length": length}
    )
    assert (answer.status_code, answer.headers.get("x-reason")) == (413, "too_large")


def test_files_may_be_longer_than_other_bodies(serving: Serving, sent: Sender) -> None:
    client = serving(body_bytes=1000, file_bytes=5000)
    assert sent(client, "a.txt", b"word " * 900).status_code == 200
    assert sent(client, "a.txt", b"word " * 2000).status_code == 413


def test_requests_in_work_are_counted(serving: Serving) -> None:
    client = serving(fresh=True, requests=2)
    first = next(iter(client.service.models))  # type: ignore[attr-defined]
    first.translator.seconds = 0.5
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/translate", json=HELLO), range(6)))
    assert {answer.status_code for answer in answers} == {200, 429}
    refused = [answer for answer in answers if answer.status_code == 429]
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert client.post("/translate", json=HELLO).status_code == 200


def test_a_deadline_gives_an_error_in_time(serving: Serving) -> None:
    client = serving(fresh=True, seconds=0.3)
    first = next(iter(client.service.models))  # type: ignore[attr-defined]
    first.translator.seconds = 1.0
    start = time.monotonic()
    answer = client.post("/translate", json=HELLO)
    assert answer.status_code == 504
    assert time.monotonic() - start < 0.8


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/detect", {"q": "x" * 101}),
        ("/api/v1/stream", {"text": "x" * 101, "target": "de"}),
        ("/api/v1/translate", {"text": ["x" * 60] * 2, "target": "de"}),
        ("/api/v1/translate", {"text": ["x"] * 6, "target": "de"}),
    ],
)
def test_texts_have_an_end(serving: Serving, path: str, body: dict[str, Any]) -> None:
    answer = serving(characters=100, texts=5).post(path, json=body)
    assert answer.status_code == 400
    assert "exceeds text limit" in answer.json()["error"]


def test_draining_refuses_and_says_so(serving: Serving) -> None:
    client = serving(fresh=True)
    client.service.drain()  # type: ignore[attr-defined]
    assert client.get("/health").status_code == 200
    assert client.get("/ready").status_code == 503
    answer = client.post("/translate", json=HELLO)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
