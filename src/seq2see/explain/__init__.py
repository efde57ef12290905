"""Explanation of translations: traces, attributions, interventions, head importance.

`explain(translator, "…")` returns a `Trace`, which notebooks display as a page; `Trace.save` writes
JSON, a self-contained HTML page, or a figure. See `docs/explaining.md`.
"""

import sys
from types import ModuleType
from typing import Any

from seq2see.explain.explained_model import ExplainedModel as ExplainedModel
from seq2see.explain.interventions import (
    AblateHeads as AblateHeads,
    AblateLayer as AblateLayer,
    AblatePositions as AblatePositions,
    AblateSublayer as AblateSublayer,
    ForceContinuation as ForceContinuation,
    Intervention as Intervention,
    MaskKeys as MaskKeys,
    ScaleAttentionScores as ScaleAttentionScores,
    ShiftPositions as ShiftPositions,
    copy_model_with_interventions as copy_model_with_interventions,
    list_head_ablations as list_head_ablations,
)
from seq2see.explain.pronoun_test import run_pronoun_test as run_pronoun_test
from seq2see.explain.trace_builder import TraceOptions as TraceOptions
from seq2see.explain.trace_format import Trace as Trace
from seq2see.explain.tracing import explain as explain, trace_translation as trace_translation


class _Callable(ModuleType):
    """A module that can be called as a function: `seq2see.explain(translator, "…")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Trace:
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
