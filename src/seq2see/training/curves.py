"""The course of a run as a picture: loss, scores, rate and gradient norm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2see import draw

_USUAL = 0.99
"""The share of the norms that their panel is high enough for: one spike would flatten the rest."""


def draw_curves(records: Iterable[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw what a log has."""
    known = list(records)
    train = [record for record in known if record["kind"] == "train"]
    looks = [record for record in known if record["kind"] == "validation"]
    nll = {"training": _line(train, "nll"), "validation": _line(looks, "nll")}
    scores = {"BLEU": _line(looks, "bleu"), "chrF": _line(looks, "chrf")}
    norm = draw.Curves(
        "Norm of the gradient, before clipping",
        "updates",
        {"norm": _line(train, "gradient_norm")},
        top=_usual([record["gradient_norm"] for record in train]),
    )
    panels = [
        draw.Curves("Loss: −log p of a token", "updates", nll),
        draw.Curves("Scores on the validation set", "updates", scores),
        draw.Curves("Learning rate", "updates", {"rate": _line(train, "rate")}),
        norm,
    ]
    draw.panels(path, title, panels)


def _line(records: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    return [record["update"] for record in records], [record[key] for record in records]


def _usual(norms: Sequence[float]) -> float | None:
    return 1.1 * sorted(norms)[math.ceil(_USUAL * (len(norms) - 1))] if norms else None
