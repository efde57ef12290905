"""Decoding view: steps, beam tree and length penalty."""

from __future__ import annotations

from typing import Any


def test_displayed_steps_and_scores_equal_the_trace(open_browser: Any, service: Any) -> None:
    options = {"layers": "none", "top_k": 10}
    trace = service.explain(beam_size=3, length_penalty=0.5, trace_options=options)
    last = len(trace["steps"]) - 1
    page = open_browser().open("decoding", step=last, beam_size=3, length_penalty=0.5)
    page.wait("decoding")
    step = trace["steps"][last]
    for name in ("probability", "log_prob", "entropy"):
        page.assert_shows(name, step[name])
    for candidate in step["top_candidates"]:
        page.assert_shows(f"candidate:{candidate['id']}", candidate["probability"])
    assert page.locator("svg.beam .node").count() == len(trace["beam"]["nodes"])
    assert page.locator("svg.beam .node.pruned").count() > 0
    finished = [node for node in trace["beam"]["nodes"] if node["status"] == "finished"][:8]
    for node in sorted(finished, key=lambda node: -node["score"])[:3]:
        page.assert_shows(f"score:{node['id']}", node["score"])


def test_displayed_ranks_start_at_one(open_browser: Any, service: Any) -> None:
    trace = service.explain(beam_size=3, trace_options={"layers": "none"})
    nodes, path = trace["beam"]["nodes"], trace["beam"]["best_path"]
    page = open_browser().open("decoding", beam_size=3, node=path[0])
    page.wait("decoding")
    text = f"rank {nodes[path[0]]['rank'] + 1} of its step"
    page.wait_until("text => document.querySelector('main').innerText.includes(text)", text)
    rank = page.locator(".facts dt", has_text="rank").locator("+ dd").inner_text()
    assert int(rank) == trace["steps"][0]["rank"] + 1


def test_ranking_changes_while_length_penalty_is_dragged(open_browser: Any) -> None:
    page = open_browser().open("decoding")
    page.wait("decoding")
    slider = page.locator("input[type=range]").nth(1)
    slider.evaluate("input => { input.value = 0; input.dispatchEvent(new Event('input')); }")
    assert "α = 0.00" in page.locator("table").last.inner_text()
    assert "length_penalty" not in page.url
    slider.dispatch_event("change")
    page.wait_until("location.hash.includes('length_penalty=0')")
