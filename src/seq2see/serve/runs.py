"""The runs of a folder, for live curves: each is a folder with a `log.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from seq2see.serve.problems import NotFound

_LOG = "log.jsonl"
_MOST = 5000
"""Records of one answer; the next ones are asked for by `next`."""


class Runs:
    """Reads logs, also while they grow. A name leads only to what the folder lists."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def names(self) -> list[dict[str, Any]]:
        """Return the runs, those that were written to last first."""
        found = [(path.stat().st_mtime, path.parent.name) for path in self._logs()]
        return [{"name": name, "changed": changed} for changed, name in sorted(found, reverse=True)]

    def records(self, name: str, after: int) -> dict[str, Any]:
        """Return the records of a run from a byte on, whole lines only, and where they end.

        A run that is resumed cuts its log: where no line ends at that byte any more, all records
        come, and `restarted` says that those of before do not count.
        """
        path = next((path for path in self._logs() if path.parent.name == name), None)
        if path is None:
            raise NotFound(f"{name[:40]} is not a run here")
        records: list[Any] = []
        with path.open("rb") as file:
            restarted = after > 0 and not _is_line_end(file, after)
            after = 0 if restarted else after
            file.seek(after)
            for line in file:
                if not line.endswith(b"\n") or len(records) == _MOST:
                    break
                after += len(line)
                records += _record(line)
        return {"name": name, "records": records, "next": after, "restarted": restarted}

    def _logs(self) -> Iterator[Path]:
        if self._folder is None or not self._folder.is_dir():
            return
        for folder in sorted(self._folder.iterdir()):
            if (log := folder / _LOG).is_file():
                yield log


def _is_line_end(file: BinaryIO, place: int) -> bool:
    if place > file.seek(0, SEEK_END):  # files have a greatest place, beyond which `seek` fails
        return False
    file.seek(place - 1)
    return file.read(1) == b"\n"


def _record(line: bytes) -> list[Any]:
    try:
        return [json.loads(line)]
    except ValueError:
        return []
