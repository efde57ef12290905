"""LibreTranslate's routes over HTTP: formats of requests and responses, error messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
HUGE = 10**4299
"""The request has one digit more, which is more than Python converts to an integer."""
Serving = Callable[..., TestClient]


def test_json_form_and_query_are_equivalent(serving: Serving) -> None:
    client = serving()
    responses = [
        client.post("/translate", json=HELLO),
        client.post("/translate", data=HELLO),
        client.post("/translate", params=HELLO),
        client.post("/translate", files={name: (None, value) for name, value in HELLO.items()}),
        client.post("/translate", params={"q": "other"}, data=HELLO),
    ]
    assert [response.status_code for response in responses] == [200] * 5
    assert [response.json() for response in responses] == [{"translatedText": "HELLO WORLD"}] * 5


def test_list_of_texts_returns_lists(serving: Serving) -> None:
    body = {"q": ["Good morning, my friends.", "a  b"], "source": "auto", "target": "de"}
    result = serving().post("/translate", json={**body, "alternatives": 2}).json()
    assert result["translatedText"] == ["GOOD MORNING, MY FRIENDS.", "A  B"]
    assert result["alternatives"][1] == ["A  B1", "A  B2"]
    assert result["detectedLanguage"][0]["language"] == "en"
    assert 0 <= result["detectedLanguage"][0]["confidence"] <= 100


def test_optional_fields_are_returned_only_on_request(serving: Serving) -> None:
    client = serving()
    one = client.post("/translate", json={**HELLO, "alternatives": "1"}).json()
    assert one == {"translatedText": "HELLO WORLD", "alternatives": ["HELLO WORLD1"]}
    auto = client.post("/translate", json={**HELLO, "q": "Where are you?", "source": "auto"})
    assert set(auto.json()) == {"translatedText", "detectedLanguage"}
    pivot = client.post("/translate", json={**HELLO, "source": "fr"}).json()
    assert pivot == {"translatedText": "HELLO WORLD", "via": ["en"]}
    same = client.post("/translate", json={**HELLO, "target": "EN-gb"}).json()
    assert same == {"translatedText": "hello world"}


def test_html_tags_are_preserved(serving: Serving) -> None:
    page = "<p class='x'>hello <b>world</b> &amp; all</p><script>var hello = 1 < 2;</script>"
    result = serving().post("/translate", json={**HELLO, "q": page, "format": "html"}).json()
    text = result["translatedText"]
    assert "<script>var hello = 1 < 2;</script>" in text
    assert "<p class='x'>" in text
    assert "<b>" in text
    assert "HELLO" in text
    assert "&amp;" in text


def test_html_alternatives_have_tags(serving: Serving) -> None:
    client = serving()
    page = "<p>hello <b>world</b></p><p>&lt;again&gt;</p>"
    body = {**HELLO, "q": page, "format": "html", "alternatives": 2}
    result = client.post("/translate", json=body).json()
    best, others = result["translatedText"], result["alternatives"]
    assert [other.count("<b>") for other in others] == [1, 1]
    assert [other.count("&lt;AGAIN&gt;") for other in (best, *others)] == [1, 1, 1]
    assert len({best, *others}) == 3
    api_body = {"text": page, "source": "en", "target": "de", "format": "html", "n_best": 2}
    (translation,) = client.post("/api/v1/translate", json=api_body).json()["translations"]
    texts = [translation["text"], *(other["text"] for other in translation["alternatives"])]
    assert texts == [best, others[0]]
    empty = client.post("/translate", json={**body, "q": "<hr>"}).json()
    assert empty == {"translatedText": "<hr>", "alternatives": []}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q must be a string or a list of strings"),
        ({"q": ["a", None]}, "Invalid request: q must be a string or a list of strings"),
        ({"q": "\ud800"}, "Invalid request: q is not valid Unicode"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": ["de"]}, "Invalid request: target must be a string"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "de"}, None),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": 99}, "Invalid request: alternatives (99) exceeds limit (5)"),
        ({"alternatives": -1}, "Invalid request: alternatives must be a number of at least 0"),
        ({"alternatives": "x"}, "Invalid request: alternatives must be a number of at least 0"),
        ({"alternatives": HUGE}, "Invalid request: alternatives must be a number of at least 0"),
        ({"q": HUGE}, "Invalid request: q must be a string or a list of strings"),
        ({"alternatives": 1.5}, "Invalid request: alternatives must be a number of at least 0"),
        ({"q": "x" * 101}, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["x"] * 6}, "Invalid request: request (6) exceeds text limit (5)"),
    ],
)
def test_invalid_request_is_400_with_message(
    serving: Serving, change: dict[str, Any], error: str | None
) -> None:
    client = serving(characters=100, texts_per_request=5)
    body = json.dumps({k: v for k, v in {**HELLO, **change}.items() if v is not None})
    body = body.replace(str(HUGE), f"{HUGE}0")
    response = client.post("/translate", content=body, headers=JSON)
    if error is None:
        assert response.status_code == 200  # from German to German
    else:
        assert (response.status_code, response.json()["error"]) == (400, error)


def test_language_pair_without_route_is_rejected(serving: Serving) -> None:
    response = serving(pairs="en-de fr-en").post("/translate", json={**HELLO, "target": "fr"})
    assert response.json() == {
        "error": "French (fr) is not available as a target language from English (en)"
    }


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000],
)
def test_malformed_json_is_rejected(serving: Serving, body: bytes) -> None:
    response = serving().post("/translate", content=body, headers=JSON)
    assert response.status_code == 400
    assert response.json()["error"].startswith("Invalid request")


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("q", ["café", "caf%C3%A9", "caf%c3%a9"])
def test_forms_and_queries_are_utf_8(serving: Serving, q: str) -> None:
    client = serving()
    body = f"q={q}+1&source=en&target=de".encode()
    responses = [
        client.post("/translate", content=body, headers=FORM),
        client.post("/translate?" + body.decode()),
    ]
    assert [response.json() for response in responses] == [{"translatedText": "CAFÉ 1"}] * 2


@pytest.mark.parametrize("q", [b"caf%E9", b"caf\xe9", b"%ED%A0%80"])
def test_forms_and_queries_in_other_encodings_are_rejected(serving: Serving, q: bytes) -> None:
    client = serving()
    body = b"q=" + q + b"+dog&source=en&target=de"
    responses = [client.post("/translate", content=body, headers=FORM)]
    if q.isascii():
        responses.append(client.post("/translate?" + body.decode()))
    for response in responses:
        assert response.status_code == 400, response.text
        assert "must be UTF-8" in response.json()["error"]


def test_form_with_too_many_fields_is_rejected(serving: Serving) -> None:
    body = "&".join(f"x{n}=1" for n in range(200))
    response = serving().post("/translate", content=body, headers=FORM)
    assert (response.status_code, "cannot be read" in response.json()["error"]) == (400, True)


@pytest.mark.parametrize("charset", ["punycode", "PUNYCODE", "utf-7", "x", '"utf-16"'])
def test_multipart_form_with_other_charset_is_rejected(serving: Serving, charset: str) -> None:
    """Also before the key is checked: punycode is decoded in quadratic time."""
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    fields = {**HELLO, "q-": "b" * 100}
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    content = "".join([*parts, "--x--\r\n"]).encode()
    response = serving().post("/translate", content=content, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"].endswith("must be UTF-8")
    headers = {"content-type": "multipart/form-data; boundary=x; charset=UTF-8"}
    assert serving().post("/translate", content=content, headers=headers).status_code == 200


def test_malformed_multipart_form_is_rejected(serving: Serving) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    response = serving().post("/translate", content=b"--y\r\nnonsense", headers=headers)
    assert response.status_code == 400


def test_detection_languages_settings_and_health(serving: Serving) -> None:
    client = serving()
    detected = client.post("/detect", data={"q": "Where is the station, please?"}).json()
    assert detected[0]["language"] == "en"
    assert detected[0]["confidence"] > 50
    languages = client.request("GET", "/languages", data={"api_key": "x"}).json()
    assert languages[0] == {"code": "en", "name": "English", "targets": ["en", "de"]}
    assert {each["code"]: each["targets"] for each in languages}["fr"] == ["en", "fr", "de"]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["keyRequired"] is False
    assert ".docx" in settings["supportedFilesFormat"]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_engine_failure_is_reported_per_text(serving: Serving) -> None:
    client = serving()
    failed = client.post("/translate", json={**HELLO, "q": ["good", "poison"]})
    assert (failed.status_code, set(failed.json())) == (500, {"error"})
    response = client.post(
        "/api/v1/translate", json={"text": ["good", "poison"], "source": "en", "target": "de"}
    )
    first, second = response.json()["translations"]
    assert (first["text"], second["text"]) == ("GOOD", "")
    assert second["error"]
    assert (first["error_code"], second["error_code"]) == (None, "engine_error")
    assert response.status_code == 200
