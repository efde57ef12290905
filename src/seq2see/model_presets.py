"""The usual sizes of models. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

PresetName = Literal["tiny", "small", "base", "big"]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {"d_model": 128, "d_ff": 256, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"d_model": 256, "d_ff": 1024, "heads": 4},
    "base": {},
    "big": {
        "d_model": 1024,
        "d_ff": 4096,
        "heads": 16,
        "dropout": {"embedding": 0.3, "residual": 0.3},
    },
}
"""Settings of `ModelConfig` by the name of the preset; `base` and `big` are those of the paper."""
