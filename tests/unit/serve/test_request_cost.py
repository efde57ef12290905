"""Estimates of the cost of a request, and the limits that they are compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

from seq2see.explain.trace_builder import TraceOptions
from seq2see.model import ModelConfig
from seq2see.search import SearchConfig
from seq2see.serve.errors import RequestTooExpensive
from seq2see.serve.request_cost import (
    SearchCost,
    SearchCostEstimator,
    TraceCost,
    check_search_cost,
)

Serving = Callable[..., TestClient]
BEAM_5, BEAM_20 = SearchConfig(beam_size=5), SearchConfig(beam_size=20)
PAIR = {"source": "en", "target": "de"}
SMALL = ModelConfig(vocab_size=8000, d_model=128, heads=4, encoder_layers=4, decoder_layers=4)
BASE = ModelConfig(vocab_size=58_000, d_model=512, heads=8, encoder_layers=6, decoder_layers=6)


def test_steps_are_beams_times_largest_length() -> None:
    cost = SearchCost.estimate(10, 0, [], BEAM_5)
    assert (cost.num_tokens, cost.max_steps) == (11, 5 * (2 * 11 + 20))
    assert SearchCost.estimate(1000, 0, [], BEAM_5).max_steps == 5 * 512
    prefixed = SearchCost.estimate(10, 300, [], BEAM_20)
    assert (prefixed.num_tokens, prefixed.max_steps) == (311, 20 * 301)


def test_long_phrases_cost_more_than_short_ones() -> None:
    plain = SearchCost.estimate(40, 0, [], BEAM_5).max_steps
    usual = SearchCost.estimate(40, 0, [3] * 5, BEAM_5).max_steps
    hostile = SearchCost.estimate(250, 0, [1] * 49 + [60], BEAM_20).max_steps
    assert plain <= usual < 1.5 * plain
    assert hostile > 500_000


def test_only_terms_of_the_sentence_cost() -> None:
    estimator = SearchCostEstimator(len, BEAM_20, {"Dog": "x" * 200, "cat": "y" * 200})
    costs = [estimator.estimate(text, 100, "").max_steps for text in ("a", "a dog", "dog cat")]
    assert costs == sorted(set(costs))


def test_message_states_cost_and_limit() -> None:
    with pytest.raises(RequestTooExpensive, match="up to 210 token-steps for 1 sentences") as error:
        check_search_cost([SearchCost.estimate(10, 0, [], BEAM_5)], BEAM_5, 209)
    assert error.value.limit == 209
    check_search_cost([SearchCost.estimate(10, 0, [], BEAM_5)], BEAM_5, 210)


@pytest.mark.parametrize(
    ("config", "tokens", "search", "options"),
    [
        (SMALL, 150, BEAM_5, {"layers": "last"}),
        (SMALL, 40, BEAM_5, {"layers": "all", "attributions": ("integrated_gradients",)}),
        (BASE, 120, BEAM_5, {"layers": "last"}),
        (BASE, 30, BEAM_5, {"layers": "all", "attributions": ("occlusion", "rollout")}),
    ],
)
def test_usual_traces_are_allowed(
    config: ModelConfig, tokens: int, search: SearchConfig, options: dict[str, Any]
) -> None:
    cost = TraceCost.estimate(config, tokens, None, search, TraceOptions(**options))
    cost.check(300_000_000, 10_000_000)


@pytest.mark.parametrize(
    ("config", "tokens", "search", "options"),
    [
        (BASE, 250, BEAM_20, {"layers": "last"}),
        (SMALL, 250, BEAM_20, {"layers": "all"}),
        (BASE, 120, BEAM_5, {"attributions": ("integrated_gradients",)}),
    ],
)
def test_large_traces_are_rejected(
    config: ModelConfig, tokens: int, search: SearchConfig, options: dict[str, Any]
) -> None:
    cost = TraceCost.estimate(config, tokens, None, search, TraceOptions(**options))
    with pytest.raises(RequestTooExpensive, match="smaller beam size, fewer layers"):
        cost.check(300_000_000, 10_000_000)


def test_forced_translation_has_one_hypothesis() -> None:
    forced = TraceCost.estimate(BASE, 100, 100, BEAM_20, TraceOptions())
    searched = TraceCost.estimate(BASE, 100, None, BEAM_20, TraceOptions())
    assert forced.max_steps == 101
    assert forced.num_bytes < searched.num_bytes


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/translate", {"text": ["a"] * 128, "beam_size": 20, "prefix": "w " * 499}),
        ("/api/v1/translate", {"text": "a " * 90, "glossary": {"a": "w " * 60, "b": "w"}}),
        ("/api/v1/stream", {"text": "a", "beam_size": 20, "prefix": "w " * 499}),
    ],
)
def test_expensive_request_is_rejected_before_it_starts(
    serving: Serving, path: str, body: dict[str, Any]
) -> None:
    client = serving(token_steps=1_100)
    translator = next(iter(client.service.models)).translator  # type: ignore[attr-defined]
    translator.lines.clear()
    response = client.post(path, json={**PAIR, **body})
    assert (response.status_code, response.headers["x-error-code"]) == (400, "too_expensive")
    assert response.json()["limit"] == 1_100
    assert translator.lines == []


def test_usual_requests_are_not_expensive(serving: Serving) -> None:
    client = serving()
    for body in (
        {"text": ["a dog runs"] * 128, "prefix": "w w w"},
        {"text": "word " * 1900, "beam_size": 20},
        {"text": "a dog runs", "glossary": {f"term{n}": "w w" for n in range(200)}},
    ):
        assert client.post("/api/v1/translate", json={**PAIR, **body}).status_code == 200
