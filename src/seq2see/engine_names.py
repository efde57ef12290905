"""Names of inference backends and their number formats. Does not import torch."""

from __future__ import annotations

from typing import Literal

EngineName = Literal["auto", "torch", "ctranslate2"]
Precision = Literal["float32", "int8"]
