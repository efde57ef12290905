"""The view of decoding: steps, the beam, and the length penalty."""

from __future__ import annotations

from typing import Any


def test_numbers_of_decoding(watched: Any, site: Any) -> None:
    options = {"layers": "none", "top_k": 10}
    trace = site.explained(beam_size=3, length_penalty=0.5, trace_options=options)
    last = len(trace["steps"]) - 1
    page = watched().open("decoding", step=last, beam_size=3, length_penalty=0.5)
    page.wait("decoding")
    step = trace["steps"][last]
    for name in ("probability", "log_prob", "entropy"):
        page.assert_shows(name, step[name])
    for candidate in step["top_candidates"]:
        page.assert_shows(f"candidate:{candidate['id']}", candidate["probability"])
    assert page.locator("svg.beam .node").count() == len(trace["beam"]["nodes"])
    assert page.locator("svg.beam .node.pruned").count() > 0
    done = [node for node in trace["beam"]["nodes"] if node["status"] == "finished"][:8]
    for node in sorted(done, key=lambda node: -node["score"])[:3]:
        page.assert_shows(f"score:{node['id']}", node["score"])


def test_ranks_count_from_one_as_people_do(watched: Any, site: Any) -> None:
    trace = site.explained(beam_size=3, trace_options={"layers": "none"})
    nodes, path = trace["beam"]["nodes"], trace["beam"]["best_path"]
    page = watched().open("decoding", beam_size=3, node=path[0])
    page.wait("decoding")
    said = f"rank {nodes[path[0]]['rank'] + 1} of its step"
    page.until("said => document.querySelector('main').innerText.includes(said)", said)
    place = page.locator(".facts dt", has_text="rank").locator("+ dd").inner_text()
    assert int(place) == trace["steps"][0]["rank"] + 1


def test_the_length_penalty_is_felt_while_it_is_dragged(watched: Any) -> None:
    page = watched().open("decoding")
    page.wait("decoding")
    slider = page.locator("input[type=range]").nth(1)
    slider.evaluate("input => { input.value = 0; input.dispatchEvent(new Event('input')); }")
    assert "α = 0.00" in page.locator("table").last.inner_text()
    assert "length_penalty" not in page.url
    slider.dispatch_event("change")
    page.until("location.hash.includes('length_penalty=0')")
