"""The log of a run: `log.jsonl`, TensorBoard events and a plot of the curves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seq2see import draw
from seq2see.atomic_files import atomic_write
from seq2see.training.checkpoints import TrainingProgress, UpdateReport

RecordWriter = Callable[[Mapping[str, Any]], None]
"""Writes a record to a file or to the terminal. Its keys `kind` and `update` are always set."""


class JsonlLogWriter:
    """Log file with one JSON object per line.

    Records after the update from which a run is resumed are removed, and so are results, which are
    computed again.
    """

    def __init__(self, path: Path, resume_update: int) -> None:
        records = [
            record
            for record in read_training_log(path)
            if record["update"] <= resume_update and record.get("kind") != "result"
        ]
        with atomic_write(path) as partial:
            partial.write_text("".join(map(_format_line, records)), "utf-8")
        self._path = path
        self._line_prefix = ""

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a line. Errors are ignored: a full disk ends the run at its next checkpoint."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._line_prefix + _format_line(record))
        except OSError:
            self._line_prefix = "\n"  # the last line may be incomplete
        else:
            self._line_prefix = ""


def _format_line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def read_training_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a log; incomplete lines are skipped."""
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    # Not splitlines(): JSON does not escape U+2028 and other characters that it splits at.
    for line in text.split("\n"):
        with suppress(ValueError):  # the run was killed, or the disk was full
            yield json.loads(line)


LOG_INTERVAL = 10
"""Number of updates between two training records."""


class TrainingLog:
    """Writes the records of a run to all writers."""

    def __init__(self, writers: Sequence[RecordWriter]) -> None:
        self._writers = writers

    def write_reports(self, progress: TrainingProgress) -> None:
        """Write the mean of the reports since the last training record, at each interval."""
        if progress.update % LOG_INTERVAL == 0:
            self.write("train", progress, _summarize(progress.unlogged_reports))
            progress.unlogged_reports.clear()

    def write(self, kind: str, progress: TrainingProgress, record: Mapping[str, Any]) -> None:
        """Write a record of this kind to all writers."""
        head = {"kind": kind, "update": progress.update, "epoch": progress.epoch}
        full_record = {**head, "seconds": round(progress.seconds, 3), **record}
        for writer in self._writers:
            writer(full_record)


def _summarize(reports: list[UpdateReport]) -> dict[str, float]:
    """Return the values of a train record: means over tokens, and the speed."""
    seconds = sum(r.seconds for r in reports)
    tokens = sum(r.target_tokens for r in reports)
    return {
        "loss": sum(r.loss * r.target_tokens for r in reports) / tokens,
        "nll": sum(r.nll * r.target_tokens for r in reports) / tokens,
        "gradient_norm": sum(r.gradient_norm for r in reports) / len(reports),
        "learning_rate": reports[-1].learning_rate,
        "tokens_per_second": sum(r.target_tokens + r.source_tokens for r in reports) / seconds,
    }


_SCALARS: Mapping[str, tuple[str, ...]] = {
    "train": ("loss", "nll", "gradient_norm", "learning_rate", "tokens_per_second"),
    "validation": ("nll", "bleu", "chrf"),
}


def is_tensorboard_installed() -> bool:
    """Return whether the optional package tensorboard is installed."""
    return find_spec("tensorboard") is not None


class TensorBoardWriter:
    """Writes TensorBoard events. Events after the update of a resume are hidden."""

    def __init__(self, directory: Path, resume_update: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 optional, slow to import

        self._writer = SummaryWriter(str(directory), purge_step=resume_update + 1)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write a record. Errors are ignored: a full disk ends the run at its next checkpoint."""
        with suppress(OSError):
            self._add(record)

    def _add(self, record: Mapping[str, Any]) -> None:
        """Write the scalars of a record and the examples of a validation."""
        kind, update = record["kind"], record["update"]
        for name in _SCALARS.get(kind, ()):
            if name in record:
                self._writer.add_scalar(f"{kind}/{name}", record[name], update)
        if kind == "validation":
            for number, example in enumerate(record["examples"], 1):
                text = "  \n".join(example)  # Markdown: two spaces end a line
                self._writer.add_text(f"example {number}", text, update)
        self._writer.flush()  # the run may be killed at any time


_SHOWN_QUANTILE = 0.99
"""Quantile of the gradient norms that the chart shows; a single spike would flatten the curve."""


def save_training_curves(records: Iterable[Mapping[str, Any]], path: Path, title: str) -> None:
    """Plot loss, scores, learning rate and gradient norm of a log."""
    records = list(records)
    train = [record for record in records if record["kind"] == "train"]
    validations = [record for record in records if record["kind"] == "validation"]
    nll = {"training": _line(train, "nll"), "validation": _line(validations, "nll")}
    scores = {"BLEU": _line(validations, "bleu"), "chrF": _line(validations, "chrf")}
    rates, norms = ({key: _line(train, key)} for key in ("learning_rate", "gradient_norm"))
    charts = [
        draw.LineChart("Loss: negative log-likelihood per token", "updates", nll),
        draw.LineChart("Scores on the validation set", "updates", scores),
        draw.LineChart("Learning rate", "updates", rates),
        draw.LineChart("Gradient norm before clipping", "updates", norms, _max_shown_norm(train)),
    ]
    draw.save_charts(path, title, charts)


def _line(records: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """Return the updates and the values of a key, in the records that have it."""
    records = [record for record in records if key in record]
    return [record["update"] for record in records], [record[key] for record in records]


def _max_shown_norm(records: Sequence[Mapping[str, Any]]) -> float | None:
    norms = [record["gradient_norm"] for record in records]
    return 1.1 * sorted(norms)[math.ceil(_SHOWN_QUANTILE * (len(norms) - 1))] if norms else None
