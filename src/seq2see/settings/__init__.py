"""A recipe: all settings of a training run in one TOML file."""

from seq2see.settings.recipe import Recipe as Recipe
