"""Attention view: displayed numbers equal those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seq2see.explain.trace_format import decode_tensor


@pytest.fixture(scope="module")
def trace(service: Any) -> Any:
    return service.explain(trace_options={"layers": "all", "top_k": 10})


@pytest.mark.parametrize("stage", ["weights", "scores"])
def test_displayed_weights_and_scores_equal_the_trace(
    open_browser: Any, trace: Any, stage: str
) -> None:
    page = open_browser().open("attention", stage=stage)
    for each in trace["attention"]:
        kind = f"{each['stack']}.{each['kind']}"
        numbers = decode_tensor(each[stage])
        head, row, column = 1, min(4, numbers.shape[1] - 1), 2
        names = {"kind": kind, "layer": each["layer"], "head": head, "row": row, "column": column}
        page.set_state("attention", stage=stage, **names)
        page.wait_until(
            "name => document.querySelector('.thumb[aria-pressed=true]')?.ariaLabel === name",
            arg=f"{each['stack']}.{each['layer']}.{each['kind']}.{head}",
        )
        page.assert_shows("cell", float(numbers[head, row, column]))


def test_computation_table_equals_the_trace(open_browser: Any, trace: Any) -> None:
    each = next(m for m in trace["attention"] if (m["layer"], m["kind"]) == (1, "cross"))
    query = decode_tensor(each["weights"]).shape[1] - 1
    page = open_browser().open("attention", layer=1, head=1, row=query)
    page.wait("attention")
    cells = "row => [...row.cells].map(cell => cell.textContent.replaceAll('−', '-'))"
    table = page.locator(".attention .card:last-child table")
    *rows, total = table.locator("tbody tr").evaluate_all(f"rows => rows.map({cells})")
    products = decode_tensor(each["keys"])[1] @ decode_tensor(each["queries"])[1, query]
    for (
        _,
        _,
        product,
        score,
        _,
        weight,
        _,
    ), expected_product, expected_score, expected_weight in zip(
        rows,
        products,
        decode_tensor(each["scores"])[1, query],
        decode_tensor(each["weights"])[1, query],
        strict=True,
    ):
        assert float(product) == pytest.approx(expected_product, abs=1e-3)
        assert float(score) == pytest.approx(expected_product * each["scale"], abs=1e-3)
        assert float(score) == pytest.approx(expected_score, abs=1e-3)
        assert float(weight) == pytest.approx(expected_weight, abs=1e-6)
    assert float(total[5]) == pytest.approx(1.0, abs=1e-6)


def test_computation_table_notes_missing_relative_position_values(open_browser: Any) -> None:
    def with_relative_positions(route: Any) -> None:
        answer = route.fetch().json()
        route.fulfill(json={**answer, "model": {**answer["model"], "positions": "relative"}})

    view = open_browser()
    view.context.route("**/api/v1/explain", with_relative_positions)
    for kind, label in (
        ("decoder.self", "sum, without the relative position values"),
        ("decoder.cross", "z"),
    ):
        page = view.open("attention", kind=kind, layer=1, head=1, row=1)
        page.wait("attention")
        total = page.locator(".attention .card:last-child tbody tr").last
        assert total.locator("td").first.inner_text() == label


def test_word_weights_are_means_of_sums(open_browser: Any, trace: Any) -> None:
    each = next(m for m in trace["attention"] if (m["stack"], m["layer"]) == ("encoder", 1))
    words = [token["word"] for token in trace["source"]["tokens"]]
    query, key = 4, 1
    rows = [i for i, word in enumerate(words) if word == query]
    columns = [i for i, word in enumerate(words) if word == key]
    expected = decode_tensor(each["weights"])[0][np.ix_(rows, columns)].sum(1).mean()
    names = {"unit": "words", "kind": "encoder.self", "layer": 1, "row": query, "column": key}
    page = open_browser().open("attention", **names)
    page.wait("attention")
    page.assert_shows("cell", float(expected))


def test_error_of_the_service_is_shown(open_browser: Any) -> None:
    view = open_browser()
    page = view.open("attention", text="x" * 600)
    page.wait_for_selector(".status.error")
    assert "500" in page.locator(".status.error").inner_text()
    view.errors.clear()  # browsers log responses with an error status
