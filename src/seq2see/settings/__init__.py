"""A recipe: all settings of a training run in one TOML file."""

from __future__ import annotations

from seq2see.settings.recipe import Recipe

__all__ = ["Recipe"]
