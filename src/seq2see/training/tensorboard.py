"""The log as TensorBoard shows it: an extra, written where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "train": ("loss", "nll", "gradient_norm", "rate", "tokens_per_second"),
    "validation": ("nll", "bleu", "chrf"),
}


def is_installed() -> bool:
    """Tell if the extra is there."""
    return find_spec("tensorboard") is not None


class TensorBoard:
    """Writes events. What is behind the update to go on from is hidden."""

    def __init__(self, folder: Path, resumed_at: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 an extra, slow to import

        self._writer = SummaryWriter(str(folder), purge_step=resumed_at + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Add what a record has. A full disk ends a run at its next checkpoint, not here."""
        with suppress(OSError):
            self._add(record)

    def _add(self, record: Mapping[str, Any]) -> None:
        """Add a record's numbers, and of a validation its translations."""
        kind, update = record["kind"], record["update"]
        for name in _NUMBERS.get(kind, ()):
            self._writer.add_scalar(f"{kind}/{name}", record[name], update)
        if kind == "validation":
            for number, sample in enumerate(record["samples"], 1):
                text = "  \n".join(sample)  # Markdown: two spaces end a line
                self._writer.add_text(f"sample {number}", text, update)
        self._writer.flush()  # a run may be killed at any moment
