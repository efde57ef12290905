"""What a run says of itself: `log.jsonl` for machines, and whatever else takes records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from seq2see.training.parts import Progress
from seq2see.training.step import StepReport


class Sink(Protocol):
    """Something that takes records: a file, a terminal."""

    def write(self, record: Mapping[str, Any]) -> None:
        """Take a record; `kind` says what it is of, `update` when it was."""
        ...


class JsonLines:
    """A file with one JSON object a line. What is behind the update to go on from is cut off, and
    so is a result, which is made anew."""

    def __init__(self, path: Path, resumed_at: int) -> None:
        kept = [line for line in _lines(path) if _is_before(line, resumed_at)]
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


def read_log(path: Path) -> Iterator[dict[str, Any]]:
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

    def __init__(self, sinks: list[Sink], every: int = 10) -> None:
        self._sinks = sinks
        self._every = every
        self._reports: list[StepReport] = []

    def after_update(self, progress: Progress, report: StepReport) -> None:
        """Take an update in; write when there are enough."""
        self._reports.append(report)
        if progress.update % self._every == 0:
            self.write("train", progress, _mean(self._reports))
            self._reports = []

    def write(self, kind: str, progress: Progress, record: Mapping[str, Any]) -> None:
        """Write a record of any kind."""
        head = {"kind": kind, "update": progress.update, "epoch": progress.epoch}
        whole = {**head, "seconds": round(progress.seconds, 3), **record}
        for sink in self._sinks:
            sink.write(whole)


def _mean(reports: list[StepReport]) -> dict[str, float]:
    """Return means over tokens, and the speed."""
    seconds = sum(r.seconds for r in reports)
    tokens = sum(r.tokens for r in reports)
    return {
        "loss": sum(r.loss * r.tokens for r in reports) / tokens,
        "nll": sum(r.nll * r.tokens for r in reports) / tokens,
        "gradient_norm": sum(r.gradient_norm for r in reports) / len(reports),
        "rate": reports[-1].rate,
        "tokens_per_second": sum(r.tokens + r.source_tokens for r in reports) / seconds,
    }
