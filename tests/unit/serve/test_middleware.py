"""Response headers, Host check, log, metrics, error codes and the documentation page."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.authentication import add_api_key
from seq2see.serve.errors import ServiceError
from seq2see.serve.middleware import CONTENT_SECURITY_POLICY
from seq2see.web import STATIC_DIRECTORY

HELLO = {"q": "hello world", "source": "en", "target": "de"}
Serving = Callable[..., TestClient]
Upload = Callable[[TestClient, str, bytes], Any]


@pytest.mark.parametrize("path", ["/", "/docs", "/health", "/api/v1/models", "/nothing", "/spec"])
def test_every_response_has_security_headers(serving: Serving, path: str) -> None:
    headers = serving().get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == "same-origin"
    assert "camera=()" in headers["permissions-policy"]
    allows_cors = path in {"/health", "/spec"}  # routes of LibreTranslate
    expected = "cross-origin" if allows_cors else "same-origin"
    assert headers["cross-origin-resource-policy"] == expected
    assert headers["cache-control"] == ("no-cache" if path == "/" else "no-store")
    assert "server" not in headers


def test_content_policy_allows_only_own_resources() -> None:
    policy = dict(rule.split(" ", 1) for rule in CONTENT_SECURITY_POLICY.split("; "))
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy.pop(name) == "'none'"
    assert policy.pop("img-src") == "'self' data: blob:"
    assert set(policy.values()) == {"'self'"}


def test_error_responses_have_security_headers(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    client = serving(log=log)
    monkeypatch.setattr(client.service, "translate", lambda *_, **__: 1 / 0)  # type: ignore[attr-defined]
    response = client.post("/translate", json=HELLO)
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; see the log of the service"}
    assert response.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert response.headers["x-error-code"] == "internal_error"
    assert "ZeroDivisionError" in log.getvalue()
    early = client.get("/health", headers={"host": "evil.example"})  # rejected before the routes
    assert early.status_code == 400
    assert early.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


def test_only_libretranslate_routes_allow_other_origins(serving: Serving) -> None:
    client = serving()
    origin = {"origin": "https://example.org"}
    for path in ("/translate", "/detect", "/languages"):
        preflight = client.options(path, headers=origin)
        allowed = preflight.headers["access-control-allow-origin"]
        assert (preflight.status_code, allowed) == (204, "*")
        assert "Content-Type" in preflight.headers["access-control-allow-headers"]
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
def test_local_service_accepts_only_local_hosts(serving: Serving, host: str, status: int) -> None:
    assert serving().get("/health", headers={"host": host}).status_code == status


def test_ipv6_host_of_public_url_is_accepted(serving: Serving) -> None:
    client = serving(settings={"public_url": "http://[2001:db8::1]:8080"})
    host = {"host": "[2001:db8::1]:8080"}
    assert client.get("/health", headers=host).status_code == 200


def test_host_of_public_url_is_accepted(serving: Serving, upload: Upload) -> None:
    client = serving(settings={"public_url": "https://translate.example.org"})
    host = {"host": "translate.example.org"}
    assert client.get("/health", headers=host).status_code == 200
    url = upload(client, "a.txt", b"hello").json()["translatedFileUrl"]
    assert url.startswith("https://translate.example.org/download_file/")


def test_public_service_accepts_any_host(serving: Serving) -> None:
    client = serving(settings={"host": "0.0.0.0"})  # noqa: S104
    assert client.get("/health", headers={"host": "any.example"}).status_code == 200


@pytest.mark.parametrize("path", ["/../__init__.py", "/%2e%2e/__init__.py", "/..%2f__init__.py"])
def test_only_files_of_the_page_directory_are_served(serving: Serving, path: str) -> None:
    assert (STATIC_DIRECTORY.parent / "__init__.py").exists()
    assert serving().get(path).status_code in {400, 404}


def test_log_has_sizes_but_no_texts(serving: Serving, upload: Upload, tmp_path: Path) -> None:
    log, path = io.StringIO(), tmp_path / "keys.toml"
    key = add_api_key(path, "alice")
    client = serving(log=log, keys=path)
    secret = {**HELLO, "q": "my secret poison"}
    client.post("/translate", params={**secret, "api_key": key})
    client.post("/translate", json={**secret, "target": "secret", "api_key": key})
    client.post("/secret/path")
    upload(client, "secret.txt", b"secret")
    bearer = {"authorization": f"Bearer {key}"}
    body = {"text": "my secret poison", "source": "en", "target": "de"}
    for route in ("translate", "stream", "explain"):
        client.post(f"/api/v1/{route}", json=body, headers=bearer)
        client.post(f"/api/v1/{route}", json={**body, "model": "secret"}, headers=bearer)
    client.post("/detect", json={"q": "my secret", "api_key": key})
    form = {"source": "en", "target": "de", "api_key": key}
    client.post("/translate_file", data=form, files={"file": ("secret.txt", b"secret poison")})
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert "secret" not in log.getvalue()
    assert key not in log.getvalue()
    (first, *_) = (line for line in lines if line["event"] == "request")
    assert first["route"] == "/translate"
    assert (first["characters"], first["key"], first["status"]) == (16, "alice", 500)


def test_metrics_have_few_labels(serving: Serving) -> None:
    client = serving(fresh=True, requests_per_minute=2)
    for path in ("/health", "/a", "/b", "/c"):
        client.get(path)
    for _ in range(3):
        client.post("/translate", json=HELLO)
    text = client.get("/metrics").text
    assert 'seq2see_requests_total{route="/translate",status="200"} 2.0' in text
    assert 'seq2see_requests_total{route="/translate",status="429"} 1.0' in text
    assert 'seq2see_errors_total{error_code="rate_limited"} 1.0' in text
    assert "seq2see_tokens_total 6.0" in text
    assert "/a" not in text
    assert "testclient" not in text


def test_docs_page_loads_no_external_resources(serving: Serving) -> None:
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
def test_docs_examples_use_url_of_service(
    serving: Serving, settings: dict[str, Any], url: str
) -> None:
    page = serving(settings=settings).get("/docs", headers={"host": "localhost:8080"}).text
    assert f"curl {url} " in page
    assert f"curl {url}_file -F file=@letter.txt -F source=" in page
    assert f"curl {url.removesuffix('translate')}languages</pre>" in page


def test_docs_page_escapes_public_url(serving: Serving) -> None:
    page = serving(settings={"public_url": "https://a.example/<img>"}).get("/docs").text
    assert "<img" not in page
    assert "curl https://a.example/&lt;img&gt;/translate " in page


@pytest.mark.parametrize("path", ["/", "/health", "/docs", "/spec", "/api/v1/models", "/nothing"])
def test_head_is_get_without_body(serving: Serving, path: str) -> None:
    client = serving()
    get, head = client.get(path), client.head(path)
    assert head.status_code == get.status_code
    assert head.content == b""
    assert head.headers == get.headers


def test_head_is_logged_as_head(serving: Serving) -> None:
    log = io.StringIO()
    client = serving(log=log)
    assert client.head("/health").status_code == 200
    assert client.head("/translate").status_code == 405
    first = json.loads(log.getvalue().splitlines()[0])
    assert (first["method"], first["route"], first["status"]) == ("HEAD", "/health", 200)


@pytest.mark.parametrize(
    ("path", "status", "error_code"),
    [
        ("/nothing", 404, "not_found"),
        ("/download_file/nothing", 404, "not_found"),
        ("/translate", 405, "bad_request"),
        ("/api/v1/runs/x?offset=y", 400, "bad_request"),
    ],
)
def test_every_error_has_a_counted_error_code(
    serving: Serving, path: str, status: int, error_code: str
) -> None:
    client = serving(fresh=True)
    response = client.get(path)
    assert (response.status_code, response.headers.get("x-error-code")) == (status, error_code)
    metrics = client.get("/metrics").text
    assert f'seq2see_errors_total{{error_code="{error_code}"}} 1.0' in metrics


def error_codes(error_class: type[ServiceError] = ServiceError) -> set[str]:
    subclasses = error_class.__subclasses__()
    return {error_class.error_code}.union(*(error_codes(each) for each in subclasses))


def test_error_codes_are_documented_and_translated() -> None:
    """The page shows codes without a message of its own in English."""
    codes = error_codes() - {"client_disconnected"}  # no client receives it
    documentation = (Path(__file__).parents[3] / "docs/http-api.md").read_text("utf-8")
    assert {code for code in codes if f"`{code}`" not in documentation} == set()
    for language in ("en", "zh"):
        locale = (STATIC_DIRECTORY / f"js/locale/{language}.js").read_text("utf-8")
        page_codes = re.findall(r'"error_code\.(\w+)": ', locale)
        assert set(page_codes) == codes - {"bad_request", "not_found"}


def test_wrong_method_is_405(serving: Serving) -> None:
    client = serving()
    responses = [client.get("/translate"), client.post("/health"), client.delete("/api/v1/models")]
    assert [response.status_code for response in responses] == [405] * 3
    assert responses[0].headers["allow"] == "POST"
    assert set(responses[0].json()) == {"error"}
    assert client.get("/nothing").status_code == 404
    assert client.get("/").status_code == 200


def test_every_openapi_example_succeeds(serving: Serving) -> None:
    client = serving()
    document = client.get("/spec").json()
    num_examples = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert "422" not in operation["responses"]
            content = operation.get("requestBody", {}).get("content", {})
            for media_type, media in content.items():
                if path.rpartition("/")[2] in {"explain", "head-ablation", "contrast", "stream"}:
                    continue  # these need a real model; see tests/system
                response = _send_example(client, method, path, media_type, media["example"])
                assert response.status_code == 200, (path, media_type, response.text)
                num_examples += 1
    assert num_examples == 6


def _send_example(
    client: TestClient, method: str, path: str, media_type: str, body: dict[str, Any]
) -> Any:
    if media_type == "application/json":
        return client.request(method, path, json=body)
    if media_type == "multipart/form-data":
        files = {"file": ("a.txt", body.pop("file").encode())}
        return client.request(method, path, data=body, files=files)
    return client.request(method, path, data=body)
