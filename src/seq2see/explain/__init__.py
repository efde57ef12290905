"""See through a translation: the trace, attributions, interventions, and their pictures.

`explain(translator, "…")` gives a `Trace`, which shows itself in a notebook; `Trace.save` writes
JSON, one self-contained page, or a picture. `docs/explaining.md` shows the rest.
"""

import sys
from types import ModuleType
from typing import Any

from seq2see.explain.explained_model import Subject
from seq2see.explain.explainer import Detail, explain, trace
from seq2see.explain.interventions import (
    Force,
    HeadsOff,
    Hide,
    Intervention,
    LayerOff,
    PositionsOff,
    PositionsShift,
    Scale,
    SublayerOff,
    every_head,
)
from seq2see.explain.patched import altered
from seq2see.explain.trace import AttentionMap, Attribution, BeamNode, Step, Trace


class _Callable(ModuleType):
    """A package that is a function as well: `seq2see.explain(translator, "…")`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Trace:
        return explain(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

__all__ = [
    "AttentionMap",
    "Attribution",
    "BeamNode",
    "Detail",
    "Force",
    "HeadsOff",
    "Hide",
    "Intervention",
    "LayerOff",
    "PositionsOff",
    "PositionsShift",
    "Scale",
    "Step",
    "Subject",
    "SublayerOff",
    "Trace",
    "altered",
    "every_head",
    "explain",
    "trace",
]
