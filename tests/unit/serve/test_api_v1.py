"""/api/v1 over HTTP."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.serve.errors import Overloaded

Serving = Callable[..., TestClient]
PAIR = {"translation": "a", "contrastive_translation": "b"}
EXTRA_FIELDS = {"head-ablation": PAIR, "contrast": {**PAIR, "contrastive_text": "a cat"}}


def test_translation_has_all_fields(serving: Serving) -> None:
    body = {"text": "hello", "source": "en", "target": "de", "n_best": 2, "alignment": True}
    response = serving().post("/api/v1/translate", json={**body, "token_scores": True})
    (translation,) = response.json()["translations"]
    assert translation["text"] == "HELLO"
    assert translation["alternatives"][0]["text"] == "HELLO1"
    assert translation["alignment"] == [
        {"source_start": 0, "source_end": 5, "target_start": 0, "target_end": 5, "weight": 1.0}
    ]
    assert translation["tokens"][0]["log_prob"] == -0.5
    route = translation["source"], translation["target"], translation["models"]
    assert route == ("en", "de", ["en-de"])
    assert (translation["via"], translation["detected"], translation["error"]) == ([], None, None)


def test_prefix_applies_to_its_sentence(serving: Serving) -> None:
    body = {"text": "hello there. who is it?\nme.", "source": "en", "target": "de"}
    body |= {"prefix": "so ", "prefixes": {"13": "und "}}
    (translation,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert translation["text"] == "SO HELLO THERE. UND WHO IS IT?\nME."


def test_translation_names_models_and_pivot(serving: Serving) -> None:
    body = {"text": "bonjour", "source": "fr", "target": "de", "prefix": "ja "}
    (translation,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert translation["text"] == "JA BONJOUR"
    assert (translation["via"], translation["models"]) == (["en"], ["fr-en", "en-de"])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"target": ""}, "`target` must be given, or `model`"),
        ({"tarket": "de"}, "`tarket` is not a setting; did you mean `target`?"),
        ({"text": 3}, "`text` must be a string, but is 3 instead"),
        ({"beam_size": 21}, "`beam_size` must be at most 20"),
        ({"n_best": 7}, "`n_best` must be at most 6"),
        ({"model": "nobody"}, "model nobody not found"),
        ({"glossary": {" ": "x"}}, "`glossary` must contain words, but has an empty phrase"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
        ({"format": "html", "alignment": True}, "`alignment` must be left out"),
        ({"format": "html", "token_scores": True}, "`token_scores` must be left out"),
        ({"format": "html", "prefixes": {"0": "a"}}, "`prefixes` must be left out"),
        ({"prefixes": {"-1": "a"}}, "`prefixes.-1"),
    ],
)
def test_invalid_translate_request_is_400(
    serving: Serving, change: dict[str, Any], error: str
) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    response = serving().post("/api/v1/translate", json=body)
    assert response.status_code == 400
    assert error in response.json()["error"]


@pytest.mark.parametrize("path", ["translate", "stream", "explain", *EXTRA_FIELDS])
@pytest.mark.parametrize("pair", [{"source": "de", "target": "en"}, {"target": "en"}])
def test_model_and_languages_must_agree(serving: Serving, path: str, pair: dict[str, str]) -> None:
    body = {"text": "Ein Hund", "model": "en-de", **pair}
    response = serving().post(f"/api/v1/{path}", json={**body, **EXTRA_FIELDS.get(path, {})})
    code = response.headers["x-error-code"]
    assert (response.status_code, code) == (400, "unsupported_language"), response.text
    assert "en-de translates from en to de" in response.json()["error"]


@pytest.mark.parametrize("pair", [{}, {"source": "EN-gb", "target": "de"}, {"source": " Auto"}])
def test_model_can_be_given_without_languages(serving: Serving, pair: dict[str, str]) -> None:
    body = {"text": "a dog", "model": "en-de", **pair}
    (translation,) = serving().post("/api/v1/translate", json=body).json()["translations"]
    assert translation["text"] == "A DOG"


def test_search_limits_are_listed_with_models(serving: Serving) -> None:
    search = serving().get("/api/v1/models").json()["search"]
    assert search == {"beam_size": 5, "max_beam_size": 20, "max_n_best": 6}


SHIFT = {"kind": "shift_positions", "stack": "encoder"}


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"interventions": [{**SHIFT, "offset": 10**9}]}, "at most 10000"),
        ({"trace_options": {"attributions": ["occlusion"] * 400}}, "a list of at most 5"),
        (
            {"trace_options": {"attributions": ["occlusion"] * 2}},
            "occlusion is repeated",
        ),
        ({"trace_options": {"top_k": 101}}, "at most 100"),
        (
            {"interventions": [{"kind": "nope"}]},
            "`interventions.0.kind` must be one of ablate_heads, ",
        ),
        ({"interventions": [{"kind": "nope"}]}, "force_continuation, but is 'nope' instead"),
        ({"interventions": [{"stack": "x"}]}, "`interventions.0.kind` must be given"),
        ({"interventions": [3]}, "`interventions.0` must be a table of settings, but is 3 instead"),
        ({"n_best": 3, "beam_size": 2}, "`n_best` must be at most beam_size = 2"),
    ],
)
def test_invalid_explain_request_is_400(
    serving: Serving, change: dict[str, Any], error: str
) -> None:
    body = {"text": "hello", "source": "en", "target": "de", **change}
    response = serving().post("/api/v1/explain", json=body)
    assert (response.status_code, error in response.json()["error"]) == (400, True), response.text


@pytest.mark.parametrize("path", ["explain", "head-ablation"])
def test_explained_text_with_too_many_tokens_is_400(serving: Serving, path: str) -> None:
    body = {"text": "a " * 101, "source": "en", "target": "de"}
    response = serving().post(f"/api/v1/{path}", json={**body, **EXTRA_FIELDS.get(path, {})})
    assert response.status_code == 400
    assert response.headers["x-error-code"] == "too_many_tokens"
    assert response.json()["error"].endswith("must be at most 100")


def test_pivot_route_is_rejected_if_direct_model_is_required(serving: Serving) -> None:
    body = {"text": "bonjour", "source": "fr", "target": "de"}
    for path, extra in (("translate", {"glossary": {"a": "b"}}), ("explain", {}), ("stream", {})):
        response = serving().post(f"/api/v1/{path}", json={**body, **extra})
        code = response.headers["x-error-code"]
        assert (response.status_code, code) == (400, "direct_model_required"), path


def test_body_must_have_json_content_type(serving: Serving) -> None:
    body = json.dumps({"text": "hello", "target": "de"})
    response = serving().post(
        "/api/v1/translate", content=body, headers={"content-type": "text/plain"}
    )
    assert response.status_code == 400


@pytest.mark.parametrize(
    "body", ['{"text": "\\ud800"}', '{"text": "a", "glossary": {"\\udc00": "b"}}']
)
def test_unpaired_surrogates_are_rejected(serving: Serving, body: str) -> None:
    headers = {"content-type": "application/json"}
    response = serving().post("/api/v1/translate", content=body, headers=headers)
    assert (response.status_code, "valid Unicode" in response.json()["error"]) == (400, True)


def stream_events(client: TestClient, text: str) -> list[tuple[str, Any]]:
    body = {"text": text, "source": "en", "target": "de"}
    response = client.post("/api/v1/stream", json=body)
    assert response.status_code == 200, response.text
    pairs = [block.split("\n") for block in response.text.strip().split("\n\n")]
    return [(e.removeprefix("event: "), json.loads(d.removeprefix("data: "))) for e, d in pairs]


def test_stream_ends_with_the_full_text(serving: Serving) -> None:
    *texts, (kind, last) = stream_events(serving(), "Hello there. Who is it?")
    assert {kind for kind, _ in texts} == {"text"}
    assert (kind, last["translations"][0]["text"]) == ("done", "HELLO THERE. WHO IS IT?")
    assert texts[-1][1] == {"text": "HELLO THERE. WHO IS IT?"}


def test_engine_error_ends_stream_with_error_event(serving: Serving) -> None:
    kind, data = stream_events(serving(), "Hello there. A poison.")[-1]
    assert (kind, data["error_code"]) == ("error", "engine_error")


def test_internal_error_ends_stream_with_error_event(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    client = serving(log=log)
    stream = client.service.stream  # type: ignore[attr-defined]

    def fail_at_the_end(*arguments: Any) -> Any:
        stream(*arguments)
        return 1 / 0

    monkeypatch.setattr(client.service, "stream", fail_at_the_end)  # type: ignore[attr-defined]
    kind, data = stream_events(client, "Hello there.")[-1]
    assert (kind, data["error_code"]) == ("error", "internal_error")
    assert "ZeroDivisionError" in log.getvalue()


def test_rejected_stream_has_an_error_status(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serving()
    queue = client.service.queue  # type: ignore[attr-defined]

    def reject(*_: Any) -> None:
        raise Overloaded("Slowdown: too many requests at the moment", 7.0)

    monkeypatch.setattr(queue, "submit", reject)
    body = {"text": "hello", "source": "en", "target": "de"}
    response = client.post("/api/v1/stream", json=body)
    assert (response.status_code, response.headers["retry-after"]) == (429, "7")
    assert set(response.json()) == {"error"}


@pytest.mark.parametrize(
    ("settings", "status"),
    [({}, 404), ({"public_url": "https://a.example"}, 403), ({"host": "0.0.0.0"}, 403)],  # noqa: S104
)
def test_only_local_service_runs_experiments(
    serving: Serving, settings: dict[str, Any], status: int
) -> None:
    """There is no experiment 0, so 404 means that it could run."""
    client = serving(settings=settings)
    assert client.post("/api/v1/lab/0", json={}).status_code == status
    assert client.get("/api/v1/lab").json()["can_run"] == (status == 404)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded"])
def test_experiments_need_json(serving: Serving, content_type: str) -> None:
    """A browser sends these content types to other sites without asking the service first."""
    headers = {"content-type": content_type}
    response = serving().post("/api/v1/lab/0", content="{}", headers=headers)
    assert (response.status_code, "application/json" in response.json()["error"]) == (400, True)


def test_lab_lists_the_sources_of_all_experiments(serving: Serving) -> None:
    lab = serving().get("/api/v1/lab").json()
    used = {name for experiment in lab["experiments"] for name in experiment["sources"]}
    assert used == set(lab["sources"])
    assert all(set(title) == {"en", "zh"} for title in lab["sources"].values())


def test_log_of_training_run_is_read_from_offset(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "log.jsonl").write_text('{"update": 1}\n', "utf-8")
    client = serving(runs=tmp_path)
    assert [run["name"] for run in client.get("/api/v1/runs").json()["runs"]] == ["one"]
    full = client.get("/api/v1/runs/one").json()
    assert full == {
        "name": "one",
        "records": [{"update": 1}],
        "next_offset": 14,
        "truncated": False,
    }
    assert client.get("/api/v1/runs/one", params={"offset": 14}).json()["records"] == []
    assert client.get("/api/v1/runs/one", params={"offset": "x"}).status_code == 400
    beyond = client.get("/api/v1/runs/one", params={"offset": 2**62}).json()
    assert (beyond["truncated"], beyond["records"]) == (True, full["records"])
    assert client.get("/api/v1/runs/..%2fone").status_code == 404
    assert client.get("/api/v1/runs/two").status_code == 404


def test_models_are_listed(serving: Serving) -> None:
    (first, second) = serving().get("/api/v1/models").json()["models"]
    assert (first["name"], first["source"], first["target"]) == ("en-de", "en", "de")
    assert (second["name"], second["reload_error"]) == ("fr-en", None)


def test_nan_and_infinity_become_null(serving: Serving, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    log = '{"loss": [1.5, NaN], "best": -Infinity, "name": "é"}\n'
    (tmp_path / "one" / "log.jsonl").write_text(log, "utf-8")
    (record,) = serving(runs=tmp_path).get("/api/v1/runs/one").json()["records"]
    assert record == {"loss": [1.5, None], "best": None, "name": "é"}
