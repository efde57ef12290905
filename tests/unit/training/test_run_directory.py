"""The folder of a run: its log, and what was decided when it began."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from seq2see.errors import ConfigError, InputError
from seq2see.training import run_directory
from seq2see.training.run_directory import RunDirectory, RunPlan
from seq2see.training.training_log import JsonlLogWriter, read_training_log


def test_a_log_is_cut_where_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLogWriter(path, 0)
    for update in (10, 20, 30):
        log.write({"kind": "train", "update": update})
    with path.open("a") as file:
        file.write('{"kind": "tra')
    JsonlLogWriter(path, 20).write({"kind": "train", "update": 21})
    assert [record["update"] for record in read_training_log(path)] == [10, 20, 21]


def test_a_result_is_made_anew(tmp_path: Path) -> None:
    path, record = tmp_path / "log.jsonl", {"kind": "result", "update": 30}
    for _ in range(2):
        JsonlLogWriter(path, 30).write(record)
    assert list(read_training_log(path)) == [record]


def test_a_record_with_odd_line_ends_is_one_record(tmp_path: Path) -> None:
    path, odd = tmp_path / "log.jsonl", "a\u2028b\u2029c\u0085d\x0ce"
    JsonlLogWriter(path, 0).write({"update": 1, "examples": [odd]})
    with path.open("ab") as file:
        file.write('{"examples": ["é'.encode()[:-1])  # killed inside a letter
    JsonlLogWriter(path, 1).write({"update": 2})
    assert list(read_training_log(path)) == [{"update": 1, "examples": [odd]}, {"update": 2}]


def test_what_a_full_disk_has_cut_hides_nothing_behind_it(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonlLogWriter(path, 0)
    log.write({"update": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with path.open("a") as file:
        file.write('{"upd')
    with monkeypatch.context() as patched:
        patched.setattr(type(path), "open", full)
        log.write({"update": 2})
    log.write({"update": 3})
    assert [record["update"] for record in read_training_log(path)] == [1, 3]


def test_a_folder_has_one_run_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_directory, "LOCK_TIMEOUT", 0.1)
    folder, other = RunDirectory(tmp_path), RunDirectory(tmp_path)
    refused = pytest.raises(InputError, match="another run is at work in .*: wait until it has en")
    with folder.lock(), refused, other.lock():
        pass
    with other.lock():
        pass
    assert not any(tmp_path.iterdir())


def test_who_was_killed_a_moment_ago_is_waited_for(tmp_path: Path) -> None:
    folder, left = RunDirectory(tmp_path), threading.Event()

    def leave() -> None:
        with folder.lock():
            left.set()
            time.sleep(0.2)

    thread = threading.Thread(target=leave)
    thread.start()
    left.wait()
    with folder.lock():
        pass
    thread.join()


def test_another_recipe_is_refused_with_the_difference(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.write_start({"a": {"b": 1, "c": [1, 2]}}, RunPlan(5, 1, 2))
    assert folder.load_plan({"a": {"b": 1, "c": (1, 2)}}) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="but `a.b` was 1 and is 2: add a.b=1$"):
        folder.load_plan({"a": {"b": 2, "c": [1, 2]}})


def test_what_was_given_on_the_command_line_is_to_be_given_again(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.write_start(
        {"train": {"max_updates": 400, "max_epochs": None, "x": "a"}}, RunPlan(5, 1, 2)
    )
    with pytest.raises(ConfigError) as refused:
        folder.load_plan({"train": {"max_updates": None, "max_epochs": 3, "x": "b"}})
    began = "a run must go on as it began, but `train."
    assert list(refused.value.problems) == [
        f"{began}max_epochs` was unset and is 3: leave it out",
        f"{began}max_updates` was 400 and is unset: add train.max_updates=400",
        f'{began}x` was "a" and is "b": add ' + "'" + 'train.x="a"' + "'",
    ]


def test_a_key_that_came_later_counts_as_its_default(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.write_start({"a": {"b": 1}}, RunPlan(5, 1, 2))

    def completed(earlier: dict) -> dict:
        return {"a": {"new": 0, **earlier["a"]}}

    assert folder.load_plan({"a": {"b": 1, "new": 0}}, completed) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="but `a.new` was 0 and is 7"):
        folder.load_plan({"a": {"b": 1, "new": 7}}, completed)


def test_another_teacher_is_refused(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.write_start({}, RunPlan(5, 1, 2), {"loss.teacher": "aa"})
    with pytest.raises(ConfigError, match='but `models.loss.teacher` was "aa" and is "bb"'):
        folder.load_plan({}, model_checksums={"loss.teacher": "bb"})


def test_another_text_of_the_same_name_is_refused(tmp_path: Path) -> None:
    folder = RunDirectory(tmp_path)
    folder.write_start(
        {},
        RunPlan(5, 1, 2),
        corpus_fingerprints={"a.tsv (data.valid)": "aa", "b.tsv (data.test)": "b"},
    )
    with pytest.raises(InputError, match="but the text of a.tsv .data.valid. is another now: put"):
        folder.load_plan(
            {}, corpus_fingerprints={"a.tsv (data.valid)": "bb", "b.tsv (data.test)": "b"}
        )


def test_a_run_of_before_has_neither_models_nor_texts(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        '{"recipe": {}, "plan": {"num_updates": 5, "processes": 1, "threads": 2}}'
    )
    assert RunDirectory(tmp_path).load_plan({}, corpus_fingerprints={"a.tsv": "aa"}) == RunPlan(
        5, 1, 2
    )


def test_the_estimate_counts_validations_and_the_end() -> None:
    plan = RunPlan(100, 1, 1, 2.0, 10.0, 7.0)
    assert plan.remaining_seconds(0, validation_interval=30) == 100 * 2 + 3 * 10 + 7
    assert plan.remaining_seconds(61, validation_interval=30) == 39 * 2 + 1 * 10 + 7
    assert RunPlan(100, 1, 1).remaining_seconds(0, 30) is None
