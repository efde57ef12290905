"""The log of a run: `log.jsonl`, TensorBoard events and a plot of the curves."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from seq2see import draw
from seq2see.training.trainer import TrainingProgress, UpdateReport


class LogWriter(Protocol):
    """Something that takes records: a file, a terminal."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Take a record; `kind` says what it is of, `update` when it was."""
        ...


class JsonlLogWriter:
    """A file with one JSON object a line. What is behind the update to go on from is cut off, and
    so is a result, which is made anew."""

    def __init__(self, path: Path, resume_update: int) -> None:
        kept = [line for line in _lines(path) if _is_before(line, resume_update)]
        aside = path.with_suffix(".partial")
        aside.write_text("".join(kept), "utf-8")
        aside.replace(path)
        self._path = path
        self._before = ""

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a line. A full disk ends a run at its next checkpoint, in good order, not here."""
        line = json.dumps(record, ensure_ascii=False) + "\n"
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._before + line)
        except OSError:
            self._before = "\n"  # there may be half a line
        else:
            self._before = ""


def read_training_log(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a log, whole lines only."""
    for line in _lines(path):
        try:
            yield json.loads(line)
        except ValueError:  # a run was killed here, or its disk was full
            continue


def _lines(path: Path) -> list[str]:
    # Not by splitlines(): JSON leaves U+2028 and others of its line ends as they are.
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    return [f"{line}\n" for line in text.split("\n") if line]


def _is_before(line: str, update: int) -> bool:
    """Whether a record stays when the run goes on from an update."""
    try:
        record = json.loads(line)
        return bool(record["update"] <= update and record.get("kind") != "result")
    except (ValueError, KeyError):
        return False


class TrainingLog:
    """Writes the mean of some updates into every sink."""

    def __init__(self, writers: list[LogWriter], interval: int = 10) -> None:
        self._sinks = writers
        self._every = interval
        self._reports: list[UpdateReport] = []

    def after_update(self, progress: TrainingProgress, report: UpdateReport) -> None:
        """Take an update in; write when there are enough."""
        self._reports.append(report)
        if progress.update % self._every == 0:
            self.write("train", progress, _mean(self._reports))
            self._reports = []

    def write(self, kind: str, progress: TrainingProgress, record: Mapping[str, Any]) -> None:
        """Write a record of any kind."""
        head = {"kind": kind, "update": progress.update, "epoch": progress.epoch}
        whole = {**head, "seconds": round(progress.seconds, 3), **record}
        for sink in self._sinks:
            sink.write(whole)


def _mean(reports: list[UpdateReport]) -> dict[str, float]:
    """Return means over tokens, and the speed."""
    seconds = sum(r.seconds for r in reports)
    tokens = sum(r.target_tokens for r in reports)
    return {
        "loss": sum(r.loss * r.target_tokens for r in reports) / tokens,
        "nll": sum(r.nll * r.target_tokens for r in reports) / tokens,
        "gradient_norm": sum(r.gradient_norm for r in reports) / len(reports),
        "learning_rate": reports[-1].learning_rate,
        "tokens_per_second": sum(r.target_tokens + r.source_tokens for r in reports) / seconds,
    }


_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "train": ("loss", "nll", "gradient_norm", "learning_rate", "tokens_per_second"),
    "validation": ("nll", "bleu", "chrf"),
}


def is_tensorboard_installed() -> bool:
    """Tell if the extra is there."""
    return find_spec("tensorboard") is not None


class TensorBoardWriter:
    """Writes events. What is behind the update to go on from is hidden."""

    def __init__(self, directory: Path, resume_update: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 an extra, slow to import

        self._writer = SummaryWriter(str(directory), purge_step=resume_update + 1)

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
            for number, sample in enumerate(record["examples"], 1):
                text = "  \n".join(sample)  # Markdown: two spaces end a line
                self._writer.add_text(f"sample {number}", text, update)
        self._writer.flush()  # a run may be killed at any moment


_USUAL = 0.99
"""The share of the norms that their panel is high enough for: one spike would flatten the rest."""


def draw_training_curves(records: Iterable[Mapping[str, Any]], path: Path, title: str) -> None:
    """Draw what a log has."""
    known = list(records)
    train = [record for record in known if record["kind"] == "train"]
    looks = [record for record in known if record["kind"] == "validation"]
    nll = {"training": _line(train, "nll"), "validation": _line(looks, "nll")}
    scores = {"BLEU": _line(looks, "bleu"), "chrF": _line(looks, "chrf")}
    norm = draw.LineChart(
        "Norm of the gradient, before clipping",
        "updates",
        {"norm": _line(train, "gradient_norm")},
        y_max=_usual([record["gradient_norm"] for record in train]),
    )
    panels = [
        draw.LineChart("Loss: −log p of a token", "updates", nll),
        draw.LineChart("Scores on the validation set", "updates", scores),
        draw.LineChart(
            "Learning rate", "updates", {"learning rate": _line(train, "learning_rate")}
        ),
        norm,
    ]
    draw.draw_charts(path, title, panels)


def _line(records: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    return [record["update"] for record in records], [record[key] for record in records]


def _usual(norms: Sequence[float]) -> float | None:
    return 1.1 * sorted(norms)[math.ceil(_USUAL * (len(norms) - 1))] if norms else None
