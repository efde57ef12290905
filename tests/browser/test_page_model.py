"""Positions and architecture views."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import torch

from seq2see.explain.trace_format import decode_tensor
from seq2see.model.positional_encodings import (
    SinusoidFrequencies,
    SinusoidLayout,
    compute_sinusoids,
)


def test_displayed_sinusoids_equal_the_model_package(open_browser: Any) -> None:
    page = open_browser().open("positions")
    page.wait("positions")
    for layout, frequencies in itertools.product(
        get_args(SinusoidLayout), get_args(SinusoidFrequencies)
    ):
        waves = compute_sinusoids(torch.arange(64), 32, layout, frequencies)
        for row, column in [(3, 0), (17, 5), (63, 31)]:
            names = {"variant": f"{layout}.{frequencies}", "size": 32, "row": row, "column": column}
            page.set_state("positions", **names)
            page.wait_until(
                "text => document.querySelector('.readout').textContent.startsWith(text)",
                f"position {row}, dimension {column} ",
            )
            page.assert_shows("position", float(waves[row, column]))


def test_displayed_parameters_and_positions_equal_the_service(
    open_browser: Any, service: Any
) -> None:
    model = service.request("api/v1/models/tiny")
    vectors = decode_tensor(service.request("api/v1/models/tiny/positions")["vectors"])
    view = open_browser()
    page = view.open("architecture")
    page.wait("architecture")
    assert page.read_number("parameters") == model["parameters"]
    page.locator('[data-module="decoder.layers.1.cross_attention"]').click()
    page.wait_until("document.querySelector('.details h2').textContent.endsWith('cross_attention')")
    decoder = next(part for part in model["module_tree"]["children"] if part["name"] == "decoder")
    layers = next(part for part in decoder["children"] if part["name"] == "layers")["children"]
    cross = next(part for part in layers[1]["children"] if part["name"] == "cross_attention")
    assert page.read_number("parameters") == cross["parameters"]
    page = view.open("positions", row=9, column=4)
    page.wait("positions")
    page.assert_shows("position", float(vectors[9, 4]))


LEADS: list[tuple[dict[str, str], str, str]] = [
    ({}, "model", "high frequencies on the left"),
    ({}, "halves.paper", "sines in the left half"),
    ({"layout": "halves"}, "model", "sines in the left half"),
    ({"kind": "learned"}, "model", "a learned vector"),
    ({"kind": "relative"}, "model", "relative positions in its attention"),
    ({"kind": "none"}, "model", "has no positional encodings"),
    ({"kind": "none"}, "interleaved.paper", "high frequencies on the left"),
]


def test_introduction_describes_the_selected_positions(open_browser: Any, service: Any) -> None:
    answer = service.request("api/v1/models/tiny/positions")
    assert (answer["kind"], answer["layout"]) == ("sinusoid", "interleaved")
    view, shown = open_browser(), dict(answer)
    view.context.route("**/positions", lambda route: route.fulfill(json=shown))
    page = view.open("positions")
    for change, variant, lead in LEADS:
        shown.update(kind="sinusoid", layout="interleaved")
        shown.update(change)
        page.set_state("positions", variant=variant)
        page.reload()  # the page caches the response
        page.wait("positions")
        assert lead in page.locator(".lead").inner_text()
