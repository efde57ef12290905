"""The directory of a run: log, lock, `run.json` and the comparison on resume."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from seq2see.errors import ConfigError, InputError
from seq2see.training import run_directory
from seq2see.training.run_directory import RunDirectory, RunPlan
from seq2see.training.training_log import JsonlLogWriter, read_training_log


def test_log_is_truncated_at_resume_update(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLogWriter(path, 0)
    for update in (10, 20, 30):
        log.write({"kind": "train", "update": update})
    with path.open("a") as file:
        file.write('{"kind": "tra')
    JsonlLogWriter(path, 20).write({"kind": "train", "update": 21})
    assert [record["update"] for record in read_training_log(path)] == [10, 20, 21]


def test_resume_replaces_result_record(tmp_path: Path) -> None:
    path, record = tmp_path / "log.jsonl", {"kind": "result", "update": 30}
    for _ in range(2):
        JsonlLogWriter(path, 30).write(record)
    assert list(read_training_log(path)) == [record]


def test_record_with_unicode_line_separators_is_one_record(tmp_path: Path) -> None:
    path, text = tmp_path / "log.jsonl", "a\u2028b\u2029c\u0085d\x0ce"
    JsonlLogWriter(path, 0).write({"update": 1, "examples": [text]})
    with path.open("ab") as file:
        file.write('{"examples": ["é'.encode()[:-1])  # killed in the middle of a character
    JsonlLogWriter(path, 1).write({"update": 2})
    assert list(read_training_log(path)) == [{"update": 1, "examples": [text]}, {"update": 2}]


def test_line_cut_by_full_disk_does_not_hide_next_record(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLogWriter(path, 0)
    log.write({"update": 1})

    def raise_no_space(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with path.open("a") as file:
        file.write('{"upd')
    with monkeypatch.context() as patched:
        patched.setattr(type(path), "open", raise_no_space)
        log.write({"update": 2})
    log.write({"update": 3})
    assert [record["update"] for record in read_training_log(path)] == [1, 3]


def test_directory_is_locked_by_running_training(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_directory, "LOCK_TIMEOUT", 0.1)
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    rejected = pytest.raises(InputError, match="another run is using .*: wait until it has en")
    with first.lock(), rejected, second.lock():
        pass
    with second.lock():
        pass
    assert not any(tmp_path.iterdir())


def test_lock_waits_for_process_that_is_ending(tmp_path: Path) -> None:
    directory, locked = RunDirectory(tmp_path), threading.Event()

    def hold_lock() -> None:
        with directory.lock():
            locked.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold_lock)
    thread.start()
    locked.wait()
    with directory.lock():
        pass
    thread.join()


def test_changed_recipe_is_rejected_with_difference(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start({"a": {"b": 1, "c": [1, 2]}}, RunPlan(5, 1, 2))
    assert directory.load_plan({"a": {"b": 1, "c": (1, 2)}}) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="`a.b` was 1, but is 2 instead: add a.b=1$"):
        directory.load_plan({"a": {"b": 2, "c": [1, 2]}})


def test_changed_settings_are_reported_as_overrides_to_add(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start(
        {"train": {"max_updates": 400, "max_epochs": None, "x": "a"}}, RunPlan(5, 1, 2)
    )
    with pytest.raises(ConfigError) as error:
        directory.load_plan({"train": {"max_updates": None, "max_epochs": 3, "x": "b"}})
    prefix = "cannot resume with changed settings: `train."
    assert list(error.value.problems) == [
        f"{prefix}max_epochs` was unset, but is 3 instead: leave it out",
        f"{prefix}max_updates` was 400, but is unset instead: add train.max_updates=400",
        f'{prefix}x` was "a", but is "b" instead: add ' + "'" + 'train.x="a"' + "'",
    ]


def test_missing_key_in_stored_recipe_has_its_default(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start({"a": {"b": 1}}, RunPlan(5, 1, 2))

    def completed(earlier: dict) -> dict:
        return {"a": {"new": 0, **earlier["a"]}}

    assert directory.load_plan({"a": {"b": 1, "new": 0}}, completed) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="`a.new` was 0, but is 7 instead"):
        directory.load_plan({"a": {"b": 1, "new": 7}}, completed)


def test_changed_teacher_is_rejected(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start({}, RunPlan(5, 1, 2), {"loss.teacher": "aa"})
    with pytest.raises(ConfigError, match='`models.loss.teacher` was "aa", but is "bb" instead'):
        directory.load_plan({}, model_checksums={"loss.teacher": "bb"})


def test_changed_corpus_is_rejected(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start(
        {},
        RunPlan(5, 1, 2),
        corpus_fingerprints={"a.tsv (data.valid)": "aa", "b.tsv (data.test)": "b"},
    )
    with pytest.raises(
        InputError, match="cannot resume: a.tsv .data.valid. has changed since .*; restore"
    ):
        directory.load_plan(
            {}, corpus_fingerprints={"a.tsv (data.valid)": "bb", "b.tsv (data.test)": "b"}
        )


def test_run_file_without_checksums_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        '{"recipe": {}, "plan": {"num_updates": 5, "processes": 1, "threads": 2}}'
    )
    assert RunDirectory(tmp_path).load_plan({}, corpus_fingerprints={"a.tsv": "aa"}) == RunPlan(
        5, 1, 2
    )


def test_remaining_time_includes_validations_and_final_scores() -> None:
    plan = RunPlan(100, 1, 1, 2.0, 10.0, 7.0)
    assert plan.remaining_seconds(0, validation_interval=30) == 100 * 2 + 3 * 10 + 7
    assert plan.remaining_seconds(61, validation_interval=30) == 39 * 2 + 1 * 10 + 7
    assert RunPlan(100, 1, 1).remaining_seconds(0, 30) is None
