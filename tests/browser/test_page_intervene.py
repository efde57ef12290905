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


def test_what_each_head_is_good_for(watched: Any, site: Any, sentence: str) -> None:
    detail = {"layers": "none", "top": 60}
    before = site.explained(detail=detail)
    words = before["target"]["tokens"][0]["text"], before["steps"][0]["top"][-1]["text"]

    def preference(trace: Any) -> float:
        likeliest_last = reversed(trace["steps"][0]["top"])  # other pieces may read the same
        found = {each["text"].lower(): each["log_prob"] for each in likeliest_last}
        one, other = (found[word.strip().lower()] for word in words)
        return float(one - other)

    def change(site_: Any, head: int) -> float:
        place = {name: site_[name] for name in ("stack", "layer")}
        off = {"kind": "heads_off", **place, "attention": site_["kind"], "heads": [head]}
        same = {"translation": before["translation"]["text"], "interventions": [off]}
        return preference(site.explained(**same, detail=detail)) - preference(before)

    changes = [abs(change(each, head)) for each in before["attention"] for head in range(2)]
    page = watched().open("intervene", a=sentence, b=sentence, he=words[0], she=words[1])
    page.locator('[data-key="removals:0"]').click()
    page.wait_for_selector('[data-key="matrix:removals:0"]')
    page.assert_shows("removals:0", max(changes))
