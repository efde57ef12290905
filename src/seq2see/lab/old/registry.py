"""Finds the experiments: each file of this folder may have some."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import walk_packages

from seq2see.errors import ConfigError
from seq2see.lab import old as lab
from seq2see.lab.old.experiment import EXPERIMENTS, Experiment


@cache
def experiments() -> tuple[Experiment, ...]:
    """Return all of them by their numbers."""
    for module in walk_packages(lab.__path__, f"{lab.__name__}."):
        import_module(module.name)
    return tuple(EXPERIMENTS[number] for number in sorted(EXPERIMENTS))


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments with these numbers, or those of `all`."""
    known = {str(each.number): each for each in experiments()}
    if list(names) == ["all"]:
        return tuple(known.values())
    if wrong := [name for name in names if name not in known]:
        numbers = f"{min(map(int, known))} to {max(map(int, known))}"
        raise ConfigError(f"an experiment must be a number ({numbers}) or all, but is {wrong[0]}")
    return tuple(known[name] for name in dict.fromkeys(names))
