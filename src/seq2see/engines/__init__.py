"""Inference engines: token ids in, hypotheses out."""

from seq2see.engines.base import Engine
from seq2see.engines.ctranslate2_engine import CTranslate2Engine
from seq2see.engines.loading import load_engine
from seq2see.engines.torch_engine import TorchEngine

__all__ = ["CTranslate2Engine", "Engine", "TorchEngine", "load_engine"]
