"""The view of interventions."""

from __future__ import annotations

from typing import Any


def test_numbers_of_an_intervention(watched: Any, site: Any) -> None:
    off = {"kind": "heads_off", "stack": "decoder", "layer": 1, "attention": "cross", "heads": [0]}
    hide = {"kind": "hide", "stack": "encoder", "attention": "self", "keys": [1, 2]}
    change = site.explained(interventions=[off, hide], detail={"layers": "none"})["change"]
    page = watched().open("intervene", off="decoder.1.cross.0", hide="encoder.self:1,2")
    page.wait_for_selector('[data-number="now"]')
    page.assert_shows("before", change["baseline"]["log_prob"])
    page.assert_shows("now", change["baseline_now"])
    page.locator('[data-key="reset"]').click()
    page.until("!document.querySelector('[data-number=now]')")
