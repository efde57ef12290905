"""See through a translation: the trace, attributions, interventions, and their pictures.

`explain(translator, "…")` gives a `Trace`, which shows itself in a notebook; `Trace.save` writes
JSON, one self-contained page, or a picture. `docs/explaining.md` shows the rest.
"""

import sys
from types import ModuleType
from typing import Any

from seq2see.explain.explained_model import ExplainedModel
from seq2see.explain.explainer import TraceOptions, explain, trace_translation
from seq2see.explain.interventions import (
    AblateHeads,
    AblateLayer,
    AblatePositions,
    AblateSublayer,
    ForceContinuation,
    Intervention,
    MaskKeys,
    ScaleScores,
    ShiftPositions,
    list_head_ablations,
)
from seq2see.explain.patched import patch_model
from seq2see.explain.trace import AttentionMap, Attribution, BeamNode, DecodingStep, Trace


class _Callable(ModuleType):
    """A package that is a function as well: `seq2see.explain(translator, "…")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Trace:
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "AblateHeads",
    "AblateLayer",
    "AblatePositions",
    "AblateSublayer",
    "AttentionMap",
    "Attribution",
    "BeamNode",
    "DecodingStep",
    "ExplainedModel",
    "ForceContinuation",
    "Intervention",
    "MaskKeys",
    "ScaleScores",
    "ShiftPositions",
    "Trace",
    "TraceOptions",
    "explain",
    "list_head_ablations",
    "patch_model",
    "trace_translation",
]
