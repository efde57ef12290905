"""Convert models of other systems to bundles, which are saved as model directories."""

from __future__ import annotations

from seq2see.interop.marian import load_marian_as_bundle

__all__ = ["load_marian_as_bundle"]
