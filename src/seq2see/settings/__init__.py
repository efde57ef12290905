"""A recipe: everything a training run is made of, in one TOML file."""

from __future__ import annotations

from seq2see.settings.recipe import Recipe

__all__ = ["Recipe"]
