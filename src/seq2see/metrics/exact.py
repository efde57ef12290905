"""How many translations are word for word as expected, counted the way of sacrebleu's metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score, Signature

NAME = "exact match"


class _Signature(Signature):
    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__(args)
        self._abbr["case"] = "c"
        self.info["case"] = "lc" if args["lowercase"] else "mixed"


class ExactMatch(Metric):
    """The share of lines that equal one of their references, but for white space around them."""

    _SIGNATURE_TYPE = _Signature

    def __init__(self, lowercase: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lowercase = lowercase

    def _preprocess_segment(self, sent: str) -> str:
        return sent.strip().lower() if self.lowercase else sent.strip()

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"refs": set(refs)}

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: Mapping[str, Any]
    ) -> list[int]:
        return [int(hypothesis in ref_kwargs["refs"]), 1]

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        equal, lines = stats
        return Score(NAME, 100.0 * equal / lines)

    def _aggregate_and_compute(self, stats: Sequence[Sequence[int]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))
