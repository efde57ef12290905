"""Inference engines: token ids in, hypotheses out."""

from seq2see.engines.base import BatchResult, Engine, TargetScores
from seq2see.engines.batching import collect_in_order
from seq2see.engines.ctranslate2_engine import CTranslate2Engine
from seq2see.engines.loading import (
    EngineWithNotes,
    FallbackEngine,
    load_engine,
    load_torch_engine,
)
from seq2see.engines.torch_decoder import AlignmentConfig, TorchDecoder
from seq2see.engines.torch_engine import TorchEngine

__all__ = [
    "AlignmentConfig",
    "BatchResult",
    "CTranslate2Engine",
    "Engine",
    "EngineWithNotes",
    "FallbackEngine",
    "TargetScores",
    "TorchDecoder",
    "TorchEngine",
    "collect_in_order",
    "load_engine",
    "load_torch_engine",
]
