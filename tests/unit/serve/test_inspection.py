"""Logs of training runs, as /api/v1/runs reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from seq2see.serve.errors import NotFound
from seq2see.serve.inspection import list_training_runs, read_training_log


def test_growing_log_is_read_by_complete_lines(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "no-run").mkdir()
    (tmp_path / "secret.txt").write_text("x", "utf-8")
    log = tmp_path / "one" / "log.jsonl"
    log.write_bytes(b'{"update": 1}\nbroken\n{"update": 2}\n{"upd')
    assert [run["name"] for run in list_training_runs(tmp_path)] == ["one"]
    first = read_training_log(tmp_path, "one", 0)
    assert first["records"] == [{"update": 1}, {"update": 2}]
    with log.open("ab") as file:
        file.write(b'ate": 3}\n')
    second = read_training_log(tmp_path, "one", first["next_offset"])
    assert (second["records"], second["truncated"]) == ([{"update": 3}], False)
    for wrong in ("no-run", "..", "../one", "secret.txt", ""):
        with pytest.raises(NotFound):
            read_training_log(tmp_path, wrong, 0)
    assert list_training_runs(None) == []


def test_run_name_cannot_leave_the_directory(tmp_path: Path) -> None:
    runs, other = tmp_path / "runs", tmp_path / "other"
    for directory in (tmp_path, runs, other):
        directory.mkdir(exist_ok=True)
        (directory / "log.jsonl").write_text('{"update": 1}\n', "utf-8")
    for wrong in ("", ".", "..", "../other", str(other)):
        with pytest.raises(NotFound):
            read_training_log(runs, wrong, 0)


@pytest.mark.parametrize(
    "log", [b"", b'{"update": 1}\n', b'{"update": 1}\n{"update": 2, "new": 1}\n']
)
def test_truncated_log_is_read_from_its_start(tmp_path: Path, log: bytes) -> None:
    """Also if it has grown past the offset again."""
    path = tmp_path / "one" / "log.jsonl"
    path.parent.mkdir()
    path.write_bytes(b'{"update": 1}\n{"update": 2}\n')
    offset = read_training_log(tmp_path, "one", 0)["next_offset"]
    path.write_bytes(log)
    result = read_training_log(tmp_path, "one", offset)
    assert (result["truncated"], result["next_offset"]) == (True, len(log))
    assert len(result["records"]) == log.count(b"\n")
