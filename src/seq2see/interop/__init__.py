"""Convert models of other systems to bundles, which are saved as model directories."""

from __future__ import annotations

from seq2see.interop.huggingface_marian import import_marian

__all__ = ["import_marian"]
