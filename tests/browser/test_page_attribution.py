"""Attribution view: displayed numbers equal those of the service."""

from __future__ import annotations

from typing import Any

import pytest

from seq2see.explain.trace_format import decode_tensor

METHODS = ("attention", "rollout", "gradient_x_input", "integrated_gradients", "occlusion")


@pytest.fixture(scope="module")
def trace(service: Any) -> Any:
    return service.explain(trace_options={"layers": "none", "attributions": METHODS})


def test_displayed_attributions_equal_the_trace(open_browser: Any, trace: Any) -> None:
    page = open_browser().open("attribution")
    for attribution in trace["attributions"]:
        scores = decode_tensor(attribution["word_scores"])
        page.set_state("attribution", method=attribution["method"], row=1, column=2)
        selector = f'[data-key="Method:{attribution["method"]}"][aria-pressed="true"]'
        page.wait_for_selector(selector)
        page.wait_until("!document.querySelector('.busy')")
        page.wait_for_selector("svg.matrix")
        page.assert_shows("cell", float(scores[1, 2]))


def test_comparison_shows_the_rank_correlations(open_browser: Any, trace: Any) -> None:
    page = open_browser().open("attribution", method="compare")
    page.wait_for_selector("table")
    cells = "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    rows = page.locator("tbody tr").evaluate_all(cells)
    expected = decode_tensor(trace["rank_correlation"]["correlation"])
    for row, values in zip(rows, expected, strict=True):
        shown = [float(text.replace("−", "-")) for text in row[1:]]
        assert shown == pytest.approx(values.tolist(), abs=0.006)
