"""The views of the model itself: its positions and its parts."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import torch

from seq2see.explain.trace import decode_tensor
from seq2see.model.embeddings import SinusoidFrequencies, SinusoidLayout, compute_sinusoids


def test_numbers_of_positions(watched: Any) -> None:
    page = watched().open("positions")
    page.wait("positions")
    for layout, frequencies in itertools.product(
        get_args(SinusoidLayout), get_args(SinusoidFrequencies)
    ):
        waves = compute_sinusoids(torch.arange(64), 32, layout, frequencies)
        for row, column in [(3, 0), (17, 5), (63, 31)]:
            names = {"variant": f"{layout}.{frequencies}", "size": 32, "row": row, "column": column}
            page.go("positions", **names)
            page.until(
                "text => document.querySelector('.readout').textContent.startsWith(text)",
                f"position {row}, dimension {column} ",
            )
            page.assert_shows("position", float(waves[row, column]))


def test_numbers_of_the_model_itself(watched: Any, site: Any) -> None:
    model = site.ask("api/v1/models/tiny")
    vectors = decode_tensor(site.ask("api/v1/models/tiny/positions")["vectors"])
    view = watched()
    page = view.open("architecture")
    page.wait("architecture")
    assert page.shown("parameters") == model["parameters"]
    page.locator('[data-module="decoder.layers.1.cross_attention"]').click()
    page.until("document.querySelector('.details h2').textContent.endsWith('cross_attention')")
    decoder = next(part for part in model["module_tree"]["children"] if part["name"] == "decoder")
    layers = next(part for part in decoder["children"] if part["name"] == "layers")["children"]
    cross = next(part for part in layers[1]["children"] if part["name"] == "cross_attention")
    assert page.shown("parameters") == cross["parameters"]
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


def test_what_is_told_of_positions_is_true_of_those_shown(watched: Any, site: Any) -> None:
    answer = site.ask("api/v1/models/tiny/positions")
    assert (answer["kind"], answer["layout"]) == ("sinusoid", "interleaved")
    view, shown = watched(), dict(answer)
    view.context.route("**/positions", lambda route: route.fulfill(json=shown))
    page = view.open("positions")
    for change, variant, lead in LEADS:
        shown.update(kind="sinusoid", layout="interleaved")
        shown.update(change)
        page.go("positions", variant=variant)
        page.reload()  # the page keeps what it was told
        page.wait("positions")
        assert lead in page.locator(".lead").inner_text()
