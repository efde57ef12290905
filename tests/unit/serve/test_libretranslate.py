"""LibreTranslate's interface over HTTP: shapes, words, mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

HELLO = {"q": "hello world", "source": "en", "target": "de"}
JSON = {"content-type": "application/json"}
HUGE = 10**4299
"""With one digit more, which the body then has, Python reads no number."""
Serving = Callable[..., TestClient]


def test_json_form_and_query_say_the_same(serving: Serving) -> None:
    client = serving()
    answers = [
        client.post("/translate", json=HELLO),
        client.post("/translate", data=HELLO),
        client.post("/translate", params=HELLO),
        client.post("/translate", files={name: (None, value) for name, value in HELLO.items()}),
        client.post("/translate", params={"q": "other"}, data=HELLO),
    ]
    assert [answer.status_code for answer in answers] == [200] * 5
    assert [answer.json() for answer in answers] == [{"translatedText": "HELLO WORLD"}] * 5


def test_a_list_gives_lists(serving: Serving) -> None:
    body = {"q": ["Good morning, my friends.", "a  b"], "source": "auto", "target": "de"}
    answer = serving().post("/translate", json={**body, "alternatives": 2}).json()
    assert answer["translatedText"] == ["GOOD MORNING, MY FRIENDS.", "A  B"]
    assert answer["alternatives"][1] == ["A  B1", "A  B2"]
    assert answer["detectedLanguage"][0]["language"] == "en"
    assert 0 <= answer["detectedLanguage"][0]["confidence"] <= 100


def test_only_what_was_asked_for_is_there(serving: Serving) -> None:
    client = serving()
    one = client.post("/translate", json={**HELLO, "alternatives": "1"}).json()
    assert one == {"translatedText": "HELLO WORLD", "alternatives": ["HELLO WORLD1"]}
    auto = client.post("/translate", json={**HELLO, "q": "Where are you?", "source": "auto"})
    assert set(auto.json()) == {"translatedText", "detectedLanguage"}
    chained = client.post("/translate", json={**HELLO, "source": "fr"}).json()
    assert chained == {"translatedText": "HELLO WORLD", "via": ["en"]}
    same = client.post("/translate", json={**HELLO, "target": "EN-gb"}).json()
    assert same == {"translatedText": "hello world"}


def test_html_keeps_its_tags(serving: Serving) -> None:
    page = "<p class='x'>hello <b>world</b> &amp; all</p><script>var hello = 1 < 2;</script>"
    answer = serving().post("/translate", json={**HELLO, "q": page, "format": "html"}).json()
    text = answer["translatedText"]
    assert "<script>var hello = 1 < 2;</script>" in text
    assert "<p class='x'>" in text
    assert "<b>" in text
    assert "HELLO" in text
    assert "&amp;" in text


def test_html_has_alternatives_with_tags(serving: Serving) -> None:
    client = serving()
    page = "<p>hello <b>world</b></p><p>&lt;again&gt;</p>"
    body = {**HELLO, "q": page, "format": "html", "alternatives": 2}
    answer = client.post("/translate", json=body).json()
    best, others = answer["translatedText"], answer["alternatives"]
    assert [other.count("<b>") for other in others] == [1, 1]
    assert [other.count("&lt;AGAIN&gt;") for other in (best, *others)] == [1, 1, 1]
    assert len({best, *others}) == 3
    own = {"text": page, "source": "en", "target": "de", "format": "html", "n_best": 2}
    (found,) = client.post("/api/v1/translate", json=own).json()["translations"]
    assert [found["text"], *(o["text"] for o in found["alternatives"])] == [best, others[0]]
    empty = client.post("/translate", json={**body, "q": "<hr>"}).json()
    assert empty == {"translatedText": "<hr>", "alternatives": []}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"q": None}, "Invalid request: missing q parameter"),
        ({"q": ""}, "Invalid request: missing q parameter"),
        ({"q": []}, "Invalid request: missing q parameter"),
        ({"q": 5}, "Invalid request: q must be a text or a list of texts"),
        ({"q": ["a", None]}, "Invalid request: q must be a text or a list of texts"),
        ({"q": "\ud800"}, "Invalid request: q is not valid Unicode"),
        ({"source": None}, "Invalid request: missing source parameter"),
        ({"target": ""}, "Invalid request: missing target parameter"),
        ({"target": ["de"]}, "Invalid request: target must be a text"),
        ({"target": "zz"}, "zz is not supported"),
        ({"source": "zz"}, "zz is not supported"),
        ({"source": "de"}, None),
        ({"format": "pdf"}, "pdf format is not supported"),
        ({"alternatives": 99}, "Invalid request: alternatives (99) exceeds limit (5)"),
        ({"alternatives": -1}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"alternatives": "x"}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"alternatives": HUGE}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"q": HUGE}, "Invalid request: q must be a text or a list of texts"),
        ({"alternatives": 1.5}, "Invalid request: alternatives must be a number from 0 to 5"),
        ({"q": "x" * 101}, "Invalid request: request (101) exceeds text limit (100)"),
        ({"q": ["x"] * 6}, "Invalid request: request (6) exceeds text limit (5)"),
    ],
)
def test_mistakes_are_400_with_their_reason(
    serving: Serving, change: dict[str, Any], error: str | None
) -> None:
    client = serving(characters=100, texts=5)
    body = json.dumps({k: v for k, v in {**HELLO, **change}.items() if v is not None})
    body = body.replace(str(HUGE), f"{HUGE}0")
    answer = client.post("/translate", content=body, headers=JSON)
    if error is None:
        assert answer.status_code == 200  # from German to German
    else:
        assert (answer.status_code, answer.json()) == (400, {"error": error})


def test_no_way_between_two_languages(serving: Serving) -> None:
    answer = serving("en-de fr-en").post("/translate", json={**HELLO, "target": "fr"})
    assert answer.json() == {
        "error": "French (fr) is not available as a target language from English (en)"
    }


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"x"', b"\xff", b"[" * 100_000],
)
def test_bodies_that_are_no_json(serving: Serving, body: bytes) -> None:
    answer = serving().post("/translate", content=body, headers=JSON)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("Invalid request")


FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize("q", ["café", "caf%C3%A9", "caf%c3%a9"])
def test_a_form_and_a_query_are_utf_8(serving: Serving, q: str) -> None:
    client = serving()
    body = f"q={q}+1&source=en&target=de".encode()
    answers = [
        client.post("/translate", content=body, headers=FORM),
        client.post("/translate?" + body.decode()),
    ]
    assert [answer.json() for answer in answers] == [{"translatedText": "CAFÉ 1"}] * 2


@pytest.mark.parametrize("q", [b"caf%E9", b"caf\xe9", b"%ED%A0%80"])
def test_a_form_and_a_query_in_another_encoding_are_refused(serving: Serving, q: bytes) -> None:
    client = serving()
    body = b"q=" + q + b"+dog&source=en&target=de"
    answers = [client.post("/translate", content=body, headers=FORM)]
    if q.isascii():
        answers.append(client.post("/translate?" + body.decode()))
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert "must be UTF-8" in answer.json()["error"]


def test_a_form_of_many_fields(serving: Serving) -> None:
    body = "&".join(f"x{n}=1" for n in range(200))
    answer = serving().post("/translate", content=body, headers=FORM)
    assert (answer.status_code, "cannot be read" in answer.json()["error"]) == (400, True)


def test_a_form_that_cannot_be_read(serving: Serving) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    answer = serving().post("/translate", content=b"--y\r\nnonsense", headers=headers)
    assert answer.status_code == 400


def test_detect_languages_settings_health(serving: Serving) -> None:
    client = serving()
    guesses = client.post("/detect", data={"q": "Where is the station, please?"}).json()
    assert guesses[0]["language"] == "en"
    assert guesses[0]["confidence"] > 50
    languages = client.request("GET", "/languages", data={"api_key": "x"}).json()
    assert languages[0] == {"code": "en", "name": "English", "targets": ["en", "de"]}
    assert {one["code"]: one["targets"] for one in languages}["fr"] == ["en", "fr", "de"]
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 10_000
    assert settings["keyRequired"] is False
    assert ".docx" in settings["supportedFilesFormat"]
    assert client.get("/health").json() == {"status": "ok"}
    assert client.get("/ready").json() == {"status": "ready"}


def test_poison_is_the_request_s_own_error(serving: Serving) -> None:
    client = serving()
    answer = client.post("/translate", json={**HELLO, "q": ["good", "poison"]})
    assert (answer.status_code, set(answer.json())) == (500, {"error"})
    found = client.post(
        "/api/v1/translate", json={"text": ["good", "poison"], "source": "en", "target": "de"}
    )
    first, second = found.json()["translations"]
    assert (first["text"], second["text"]) == ("GOOD", "")
    assert second["error"]
    assert (first["reason"], second["reason"]) == (None, "failed")
    assert found.status_code == 200
