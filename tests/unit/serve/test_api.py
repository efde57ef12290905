"""Our own interface over HTTP."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve import api
from seq2see.serve.errors import Busy

HELLO = {"q": "hello world", "source": "en", "target": "de"}
Serving = Callable[..., TestClient]


def test_all_that_is_known_about_a_translation(serving: Serving) -> None:
    wanted = {"text": "hello", "source": "en", "target": "de", "n_best": 2, "alignment": True}
    answer = serving().post("/api/v1/translate", json={**wanted, "token_scores": True})
    (found,) = answer.json()["translations"]
    assert found["text"] == "HELLO"
    assert found["alternatives"][0]["text"] == "HELLO1"
    assert found["alignment"] == [
        {"source_start": 0, "source_end": 5, "target_start": 0, "target_end": 5, "weight": 1.0}
    ]
    assert found["tokens"][0]["log_prob"] == -0.5
    assert (found["source"], found["target"], found["models"]) == ("en", "de", ["en-de"])
    assert (found["via"], found["detected"], found["error"]) == ([], None, None)


def test_the_answer_says_which_way_it_went(serving: Serving) -> None:
    body = {"text": "bonjour", "source": "fr", "target": "de", "prefix": "ja "}
    (found,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert (found["text"], found["via"], found["models"]) == (
        "JA BONJOUR",
        ["en"],
        ["fr-en", "en-de"],
    )


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"target": ""}, "`target` must be given, or `model`"),
        ({"tarket": "de"}, "`tarket` is not a setting; did you mean `target`?"),
        ({"text": 3}, "`text` must be a text, but is 3 instead"),
        ({"beam_size": 21}, "`beam_size` must be at most 20"),
        ({"n_best": 7}, "`n_best` must be at most 6"),
        ({"model": "nobody"}, "nobody is not a model here"),
        ({"glossary": {" ": "x"}}, "`glossary` must be words, but has one without a letter"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
        ({"format": "html", "alignment": True}, "`alignment` must be left out"),
        ({"format": "html", "token_scores": True}, "`token_scores` must be left out"),
    ],
)
def test_own_mistakes(serving: Serving, change: dict[str, Any], error: str) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    answer = serving().post("/api/v1/translate", json=body)
    assert answer.status_code == 400
    assert error in answer.json()["error"]


@pytest.mark.parametrize("path", ["translate", "stream", "explain", "heads"])
@pytest.mark.parametrize("pair", [{"source": "de", "target": "en"}, {"target": "en"}])
def test_a_named_model_does_not_overrule_the_languages(
    serving: Serving, path: str, pair: dict[str, str]
) -> None:
    body = {"text": "Ein Hund", "model": "en-de", **pair}
    more = {"one": "a", "other": "b"} if path == "heads" else {}
    answer = serving().post(f"/api/v1/{path}", json={**body, **more})
    assert (answer.status_code, answer.headers["x-reason"]) == (400, "language"), answer.text
    assert "en-de translates from en to de" in answer.json()["error"]


@pytest.mark.parametrize("pair", [{}, {"source": "EN-gb", "target": "de"}, {"source": " Auto"}])
def test_a_named_model_with_its_languages_or_none(serving: Serving, pair: dict[str, str]) -> None:
    body = {"text": "a dog", "model": "en-de", **pair}
    (found,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert found["text"] == "A DOG"


def test_the_page_can_know_what_may_be_asked_for(serving: Serving) -> None:
    search = serving().get("/api/v1/models").json()["search"]
    assert search == {"beam_size": 5, "most_beam_size": 20, "most_n_best": 6}


SHIFT = {"kind": "positions_shift", "stack": "encoder"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"interventions": [{**SHIFT, "by": 10**9}]}, "at most 10000"),
        ({"detail": {"methods": ["occlusion"] * 400}}, "a list of at most 5"),
        ({"detail": {"methods": ["occlusion"] * 2}}, "occlusion is there more than once"),
        ({"detail": {"top": 101}}, "at most 100"),
        (
            {"interventions": [{"kind": "nope"}]},
            "`interventions.0.kind` must be one of heads_off, ",
        ),
        ({"interventions": [{"kind": "nope"}]}, "force, but is 'nope' instead"),
        ({"interventions": [{"stack": "x"}]}, "`interventions.0.kind` must be given"),
        ({"interventions": [3]}, "`interventions.0` must be a table of settings, but is 3 instead"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
    ],
)
def test_a_trace_has_its_bounds(serving: Serving, change: dict[str, Any], error: str) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    answer = serving().post("/api/v1/explain", json=body)
    assert (answer.status_code, error in answer.json()["error"]) == (400, True), answer.text


@pytest.mark.parametrize("path", ["explain", "heads"])
def test_more_tokens_than_a_model_takes_at_once_are_refused(serving: Serving, path: str) -> None:
    body = {"text": "a " * 101, "source": "en", "target": "de"}
    more = {"one": "a", "other": "b"} if path == "heads" else {}
    answer = serving().post(f"/api/v1/{path}", json={**body, **more})
    assert (answer.status_code, answer.headers["x-reason"]) == (400, "too_many_tokens")
    assert answer.json()["error"].endswith("must be at most 100")


def test_what_needs_a_direct_model_says_so(serving: Serving) -> None:
    body = {"text": "bonjour", "source": "fr", "target": "de"}
    for path, more in (("translate", {"glossary": {"a": "b"}}), ("explain", {}), ("stream", {})):
        answer = serving().post(f"/api/v1/{path}", json={**body, **more})
        assert (answer.status_code, answer.headers["x-reason"]) == (400, "indirect"), path


def test_forms_of_other_sites_are_no_requests(serving: Serving) -> None:
    body = json.dumps({"text": "hello", "target": "de"})
    answer = serving().post(
        "/api/v1/translate", content=body, headers={"content-type": "text/plain"}
    )
    assert answer.status_code == 400


def heard(client: TestClient, text: str) -> list[tuple[str, Any]]:
    body = {"text": text, "source": "en", "target": "de"}
    answer = client.post("/api/v1/stream", json=body)
    assert answer.status_code == 200, answer.text
    pairs = [block.split("\n") for block in answer.text.strip().split("\n\n")]
    return [(e.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for e, d in pairs]


def test_a_stream_ends_with_the_whole_text(serving: Serving) -> None:
    *texts, (kind, last) = heard(serving(), "Hello there. Who is it?")
    assert {kind for kind, _ in texts} == {"text"}
    assert (kind, last["translations"][0]["text"]) == ("done", "HELLO THERE. WHO IS IT?")
    assert texts[-1][1] == {"text": "HELLO THERE. WHO IS IT?"}


def test_a_stream_that_breaks_says_so(serving: Serving) -> None:
    kind, data = heard(serving(), "Hello there. A poison.")[-1]
    assert (kind, data["reason"]) == ("error", "failed")


def test_a_stream_that_meets_a_bug_says_so_too(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "described", lambda _: 1 / 0)
    log = io.StringIO()
    kind, data = heard(serving(journal=log), "Hello there.")[-1]
    assert (kind, data["reason"]) == ("error", "bug")
    assert "ZeroDivisionError" in log.getvalue()


def test_a_stream_that_is_refused_has_the_status_of_any_refusal(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serving()
    queue = client.service.queue  # type: ignore[attr-defined]

    def refuse(*_: Any) -> None:
        raise Busy("Slowdown: too many requests at the moment", 7.0)

    monkeypatch.setattr(queue, "_refuse_overload", refuse)
    body = {"text": "hello", "source": "en", "target": "de"}
    answer = client.post("/api/v1/stream", json=body)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize(
    ("settings", "status"),
    [({}, 404), ({"public_url": "https://a.example"}, 403), ({"host": "0.0.0.0"}, 403)],  # noqa: S104
)
def test_the_lab_is_for_this_machine(
    serving: Serving, settings: dict[str, Any], status: int
) -> None:
    """Of a number that no experiment has."""
    client = serving(settings=settings)
    assert client.post("/api/v1/lab/0").status_code == status
    assert client.get("/api/v1/lab").json()["may_run"] == (status == 404)


def test_the_lab_tells_what_its_notes_are_about(serving: Serving) -> None:
    answer = serving().get("/api/v1/lab").json()
    used = {name for each in answer["experiments"] for name in each["notes"]}
    assert used == set(answer["notes"])
    assert all(set(about) == {"en", "zh"} for about in answer["notes"].values())


def test_runs(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log.jsonl").write_text('{"update": 1}\n', "utf-8")
    client = serving(runs=tmp_path)
    assert [run["name"] for run in client.get("/api/v1/runs").json()["runs"]] == ["one"]
    answer = client.get("/api/v1/runs/one").json()
    assert answer == {"name": "one", "records": [{"update": 1}], "next": 14, "restarted": False}
    assert client.get("/api/v1/runs/one", params={"after": 14}).json()["records"] == []
    assert client.get("/api/v1/runs/one", params={"after": "x"}).status_code == 400
    beyond = client.get("/api/v1/runs/one", params={"after": 2**62}).json()
    assert (beyond["restarted"], beyond["records"]) == (True, answer["records"])
    assert client.get("/api/v1/runs/..%2fone").status_code == 404
    assert client.get("/api/v1/runs/two").status_code == 404


def test_models(serving: Serving) -> None:
    (first, second) = serving().get("/api/v1/models").json()["models"]
    assert (first["name"], first["source"], first["target"]) == ("en-de", "en", "de")
    assert (second["name"], second["problem"]) == ("fr-en", None)
