"""What browsers are told, what is written down, and the documentation."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.app import PAGE
from seq2see.serve.auth import add_key
from seq2see.serve.errors import Problem
from seq2see.serve.middleware import POLICY

HELLO = {"q": "hello world", "source": "en", "target": "de"}
Serving = Callable[..., TestClient]
Sender = Callable[[TestClient, str, bytes], Any]


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/api/v1/models", "/nothing", "/spec"])
def test_every_answer_is_sealed(serving: Serving, path: str) -> None:
    headers = serving().get(path).headers
    assert headers["content-security-policy"] == POLICY
    assert "unsafe" not in POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    others = path in {"/health", "/spec"}  # LibreTranslate's, for the pages of others
    assert headers["cross-origin-resource-policy"] == ("cross-origin" if others else "same-origin")
    assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
    assert "server" not in headers


def test_the_policy_lets_nothing_in_but_the_page_s_own() -> None:
    policy = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy.pop(name) == "'none'"
    assert policy.pop("img-src") == "'self' data: blob:"
    assert set(policy.values()) == {"'self'"}


def test_errors_are_sealed_too(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = io.StringIO()
    client = serving(journal=journal)
    monkeypatch.setattr(client.service, "translate", lambda *_, **__: 1 / 0)  # type: ignore[attr-defined]
    answer = client.post("/translate", json=HELLO)
    assert answer.status_code == 500
    assert answer.json() == {"error": "the service has a bug, which its log shows"}
    assert answer.headers["content-security-policy"] == POLICY
    assert answer.headers["x-reason"] == "bug"
    assert "ZeroDivisionError" in journal.getvalue()
    early = client.get("/health", headers={"host": "evil.example"})  # before there are routes
    assert early.status_code == 400
    assert early.headers["content-security-policy"] == POLICY


def test_pages_of_others_may_use_the_one_interface_and_not_the_other(serving: Serving) -> None:
    client = serving()
    origin = {"origin": "https://example.org"}
    for path in ("/translate", "/detect", "/languages"):
        asked = client.options(path, headers=origin)
        assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
        assert "Content-Type" in asked.headers["access-control-allow-headers"]
    assert client.post("/translate", json=HELLO).headers["access-control-allow-origin"] == "*"
    for path in ("/api/v1/models", "/metrics", "/"):
        assert "access-control-allow-origin" not in client.get(path, headers=origin).headers
        assert "access-control-allow-origin" not in client.options(path, headers=origin).headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:5000", 200),
        ("127.0.0.1:5000", 200),
        ("[::1]:5000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("local/host", 400),
        ("localhost\t", 400),
    ],
)
def test_a_local_service_answers_to_local_names(serving: Serving, host: str, status: int) -> None:
    assert serving().get("/health", headers={"host": host}).status_code == status


def test_the_public_name_is_another_name(serving: Serving, sent: Sender) -> None:
    client = serving(settings={"public_url": "https://translate.example.org"})
    host = {"host": "translate.example.org"}
    assert client.get("/health", headers=host).status_code == 200
    url = sent(client, "a.txt", b"hello").json()["translatedFileUrl"]
    assert url.startswith("https://translate.example.org/download_file/")


def test_open_services_answer_to_any_name_that_is_one(serving: Serving) -> None:
    client = serving(settings={"host": "0.0.0.0"})  # noqa: S104
    assert client.get("/health", headers={"host": "any.example"}).status_code == 200
    assert client.get("/health", headers={"host": "a b"}).status_code == 400


@pytest.mark.parametrize("path", ["/../config.py", "/%2e%2e/config.py", "/..%2f..%2fconfig.py"])
def test_the_page_s_folder_is_all_that_is_served(serving: Serving, path: str) -> None:
    assert (PAGE.parent / "config.py").exists()
    assert serving().get(path).status_code in {400, 404}


def test_the_log_knows_how_much_and_not_what(
    serving: Serving, sent: Sender, tmp_path: Path
) -> None:
    journal, path = io.StringIO(), tmp_path / "keys.toml"
    key = add_key(path, "alice")
    client = serving(journal=journal, keys=path)
    secret = {**HELLO, "q": "my secret poison"}
    client.post("/translate", params={**secret, "api_key": key})
    client.post("/translate", json={**secret, "target": "secret", "api_key": key})
    client.post("/secret/path")
    sent(client, "secret.txt", b"secret")
    bearer = {"authorization": f"Bearer {key}"}
    own = {"text": "my secret poison", "source": "en", "target": "de"}
    for verb in ("translate", "stream", "explain"):
        client.post(f"/api/v1/{verb}", json=own, headers=bearer)
        client.post(f"/api/v1/{verb}", json={**own, "model": "secret"}, headers=bearer)
    client.post("/detect", json={"q": "my secret", "api_key": key})
    form = {"source": "en", "target": "de", "api_key": key}
    client.post("/translate_file", data=form, files={"file": ("secret.txt", b"secret poison")})
    lines = [json.loads(line) for line in journal.getvalue().splitlines()]
    assert "secret" not in journal.getvalue()
    assert key not in journal.getvalue()
    (first, *_) = (line for line in lines if line["event"] == "request")
    assert first["route"] == "/translate"
    assert (first["characters"], first["key"], first["status"]) == (16, "alice", 500)


def test_metrics_count_with_few_labels(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    for path in ("/health", "/a", "/b", "/c"):
        client.get(path)
    for _ in range(3):
        client.post("/translate", json=HELLO)
    text = client.get("/metrics").text
    assert 'seq2see_requests_total{route="/translate",status="200"} 2.0' in text
    assert 'seq2see_requests_total{route="/translate",status="429"} 1.0' in text
    assert 'seq2see_refusals_total{reason="rate"} 1.0' in text
    assert "seq2see_tokens_total 6.0" in text
    assert "/a" not in text
    assert "testclient" not in text


def test_the_docs_page_loads_nothing_from_elsewhere(serving: Serving) -> None:
    page = serving().get("/docs").text
    assert "<script" not in page
    assert "/api/v1/translate" in page
    assert 'src="http' not in page


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "http://localhost:8080/translate"),
        ({"public_url": "https://a.example/t/"}, "https://a.example/t/translate"),
    ],
)
def test_the_examples_of_the_docs_name_the_service(
    serving: Serving, settings: dict[str, Any], url: str
) -> None:
    page = serving(settings=settings).get("/docs", headers={"host": "localhost:8080"}).text
    assert f"curl {url} " in page
    assert f"curl {url}_file -F file=@letter.txt -F source=" in page
    assert f"curl {url.removesuffix('translate')}languages</pre>" in page


def test_no_address_brings_a_tag_into_the_docs(serving: Serving) -> None:
    page = serving(settings={"public_url": "https://a.example/<img>"}).get("/docs").text
    assert "<img" not in page
    assert "curl https://a.example/&lt;img&gt;/translate " in page


@pytest.mark.parametrize("path", ["/", "/health", "/docs", "/spec", "/api/v1/models", "/nothing"])
def test_head_is_get_without_a_body(serving: Serving, path: str) -> None:
    client = serving()
    get, head = client.get(path), client.head(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers == get.headers


def test_head_is_logged_as_what_it_is(serving: Serving) -> None:
    journal = io.StringIO()
    client = serving(journal=journal)
    assert client.head("/health").status_code == 200
    assert client.head("/translate").status_code == 405
    first = json.loads(journal.getvalue().splitlines()[0])
    assert (first["method"], first["route"], first["status"]) == ("HEAD", "/health", 200)


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/nothing", 404, "not_found"),
        ("/download_file/nothing", 404, "not_found"),
        ("/translate", 405, "invalid"),
        ("/api/v1/runs/x?after=y", 400, "invalid"),
    ],
)
def test_every_refusal_has_its_reason(
    serving: Serving, path: str, status: int, reason: str
) -> None:
    client = serving(fresh=True)
    answer = client.get(path)
    assert (answer.status_code, answer.headers.get("x-reason")) == (status, reason)
    assert f'seq2see_refusals_total{{reason="{reason}"}} 1.0' in client.get("/metrics").text


def reasons(kind: type[Problem] = Problem) -> set[str]:
    return {kind.reason}.union(*(reasons(each) for each in kind.__subclasses__()))


def test_every_reason_has_its_words() -> None:
    """In the documentation, and on the page, which shows the others in English."""
    told = reasons() - {"gone"}  # nobody is there to read it
    documentation = (Path(__file__).parents[3] / "docs/serving.md").read_text("utf-8")
    assert {reason for reason in told if f"`{reason}`" not in documentation} == set()
    page = (PAGE / "js/sentence.js").read_text("utf-8")
    listed = re.search(r"REASONS = new Set\((\[.*?\])\)", page, re.DOTALL)
    assert listed
    assert set(json.loads(listed[1])) == told - {"invalid", "not_found"}
    for language in ("en", "zh"):
        words = (PAGE / f"js/locale/{language}.js").read_text("utf-8")
        assert {
            reason for reason in json.loads(listed[1]) if f'"reason.{reason}": ' not in words
        } == set()


def test_another_method_is_405(serving: Serving) -> None:
    client = serving()
    answers = [client.get("/translate"), client.post("/health"), client.delete("/api/v1/models")]
    assert [answer.status_code for answer in answers] == [405] * 3
    assert answers[0].headers["allow"] == "POST"
    assert set(answers[0].json()) == {"error"}
    assert client.get("/nothing").status_code == 404
    assert client.get("/").status_code == 200


def test_every_example_of_the_spec_runs(serving: Serving) -> None:
    client = serving()
    document = client.get("/spec").json()
    tried = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"]
            for kind, media in operation.get("requestBody", {}).get("content", {}).items():
                if path in {"/api/v1/explain", "/api/v1/heads", "/api/v1/stream"}:
                    continue  # with a real model, in tests/system
                answer = _example(client, method, path, kind, media["example"])
                assert answer.status_code == 200, (path, kind, answer.text)
                tried += 1
    assert tried == 6


def _example(client: TestClient, method: str, path: str, kind: str, body: dict[str, Any]) -> Any:
    if kind == "application/json":
        return client.request(method, path, json=body)
    if kind == "multipart/form-data":
        files = {"file": ("a.txt", body.pop("file").encode())}
        return client.request(method, path, data=body, files=files)
    return client.request(method, path, data=body)
