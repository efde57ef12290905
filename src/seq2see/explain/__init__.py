"""Explanation of translations: traces, attributions, interventions, head importance.

`explain(translator, "…")` returns a `Trace`, which notebooks display as a page; `Trace.save` writes
JSON, a self-contained HTML page, or a figure. See `docs/explaining.md`.
"""

import sys
from types import ModuleType
from typing import Any

from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.head_ablation import HeadImportanceReport, measure_head_importance
from seq2see.explain.intervention_types import (
    AblateHeads,
    AblateLayer,
    AblatePositions,
    AblateSublayer,
    ForceContinuation,
    Intervention,
    MaskKeys,
    ScaleAttentionScores,
    ShiftPositions,
    list_head_ablations,
)
from seq2see.explain.patched_model import copy_model_with_interventions
from seq2see.explain.pronoun_test import PronounReport, run_pronoun_test
from seq2see.explain.trace_format import (
    AttentionModuleTrace,
    BeamNode,
    DecodingStep,
    SourceAttribution,
    Trace,
)
from seq2see.explain.tracing import TraceOptions, explain, trace_translation


class _Callable(ModuleType):
    """A module that can be called as a function: `seq2see.explain(translator, "…")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Trace:
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "AblateHeads",
    "AblateLayer",
    "AblatePositions",
    "AblateSublayer",
    "AttentionModuleTrace",
    "BeamNode",
    "DecodingStep",
    "ExplainedModel",
    "ForceContinuation",
    "HeadImportanceReport",
    "Intervention",
    "MaskKeys",
    "PronounReport",
    "ScaleAttentionScores",
    "ShiftPositions",
    "SourceAttribution",
    "Trace",
    "TraceOptions",
    "copy_model_with_interventions",
    "explain",
    "list_head_ablations",
    "measure_head_importance",
    "run_pronoun_test",
    "trace_translation",
]
