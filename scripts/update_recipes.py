#!/usr/bin/env python
"""Write the comments and defaults in recipes/*.toml again, after a setting has changed.

    .venv/bin/python scripts/update_recipes.py

The values and the description at the top of each file are kept.
"""

from __future__ import annotations

from pathlib import Path

from seq2see.settings import Recipe

RECIPES = Path(__file__).resolve().parents[1] / "recipes"


def format_recipe(path: Path) -> str:
    """Return a recipe with its description and the current comments."""
    description = path.read_text("utf-8").partition("\n\n")[0]
    return f"{description}\n\n{Recipe.read(path).to_toml()}"


def main() -> None:
    """Update all recipes."""
    for path in sorted(RECIPES.glob("*.toml")):
        path.write_text(format_recipe(path), "utf-8")


if __name__ == "__main__":
    main()
