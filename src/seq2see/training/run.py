"""A run's folder, and what was decided when it began.

`run.json` holds the recipe and the plan: the number of updates, of processes and of threads, which
may have been chosen by measuring. Going on takes them from there, so that nothing changes midway.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from seq2see.errors import ConfigError, InputError

RUN = "run.json"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What was decided at the start."""

    updates: int
    processes: int
    threads: int
    """Of each process."""
    seconds_per_update: float | None = None
    """As measured, if it was."""


class RunFolder:
    """Where everything of a run is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log.jsonl"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"
        self.cache = path / "cache"
        self.curves = path / "curves.png"

    @property
    def begun(self) -> bool:
        """Whether there is a run in it."""
        return (self.path / RUN).exists()

    def begin(self, recipe: Mapping[str, Any], plan: RunPlan) -> None:
        """Write down what was decided."""
        aside = self.path / f"{RUN}.partial"
        aside.write_text(json.dumps({"recipe": recipe, "plan": asdict(plan)}, indent=1), "utf-8")
        aside.replace(self.path / RUN)

    def plan(self, recipe: Mapping[str, Any]) -> RunPlan:
        """Return what was decided; refuse another recipe than that of the start."""
        try:
            content = json.loads((self.path / RUN).read_text("utf-8"))
            before, plan = content["recipe"], RunPlan(**content["plan"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path / RUN} is damaged: {error}") from None
        if differences := list(_differences(before, json.loads(json.dumps(recipe)))):
            raise ConfigError(
                [
                    f"the recipe must be the one that the run began with, but {d}"
                    for d in differences
                ]
            )
        return plan


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yield each key that is another."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in before.keys() | now.keys():
            inner = f"{path}.{key}" if path else str(key)
            yield from _differences(before.get(key), now.get(key), inner)
    elif before != now:
        yield f"`{path}` was {json.dumps(before)} and is {json.dumps(now)}"
