"""The folder of a run: its log, and what was decided when it began."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from seq2see.errors import ConfigError, InputError
from seq2see.training import run_directory
from seq2see.training.run_directory import RunFolder, RunPlan
from seq2see.training.training_log import JsonLines, read_log


def test_a_log_is_cut_where_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, 0)
    for update in (10, 20, 30):
        log.write({"kind": "train", "update": update})
    with path.open("a") as file:
        file.write('{"kind": "tra')
    JsonLines(path, 20).write({"kind": "train", "update": 21})
    assert [record["update"] for record in read_log(path)] == [10, 20, 21]


def test_a_result_is_made_anew(tmp_path: Path) -> None:
    path, record = tmp_path / "log.jsonl", {"kind": "result", "update": 30}
    for _ in range(2):
        JsonLines(path, 30).write(record)
    assert list(read_log(path)) == [record]


def test_a_record_with_odd_line_ends_is_one_record(tmp_path: Path) -> None:
    path, odd = tmp_path / "log.jsonl", "a\u2028b\u2029c\u0085d\x0ce"
    JsonLines(path, 0).write({"update": 1, "samples": [odd]})
    with path.open("ab") as file:
        file.write('{"samples": ["é'.encode()[:-1])  # killed inside a letter
    JsonLines(path, 1).write({"update": 2})
    assert list(read_log(path)) == [{"update": 1, "samples": [odd]}, {"update": 2}]


def test_what_a_full_disk_has_cut_hides_nothing_behind_it(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "log.jsonl"
    log = JsonLines(path, 0)
    log.write({"update": 1})

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with path.open("a") as file:
        file.write('{"upd')
    with monkeypatch.context() as patched:
        patched.setattr(type(path), "open", full)
        log.write({"update": 2})
    log.write({"update": 3})
    assert [record["update"] for record in read_log(path)] == [1, 3]


def test_a_folder_has_one_run_at_a_time(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(run_directory, "PATIENCE", 0.1)
    folder, other = RunFolder(tmp_path), RunFolder(tmp_path)
    refused = pytest.raises(InputError, match="another run is at work in .*: wait until it has en")
    with folder.claimed(), refused, other.claimed():
        pass
    with other.claimed():
        pass
    assert not any(tmp_path.iterdir())


def test_who_was_killed_a_moment_ago_is_waited_for(tmp_path: Path) -> None:
    folder, left = RunFolder(tmp_path), threading.Event()

    def leave() -> None:
        with folder.claimed():
            left.set()
            time.sleep(0.2)

    thread = threading.Thread(target=leave)
    thread.start()
    left.wait()
    with folder.claimed():
        pass
    thread.join()


def test_another_recipe_is_refused_with_the_difference(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({"a": {"b": 1, "c": [1, 2]}}, RunPlan(5, 1, 2))
    assert folder.plan({"a": {"b": 1, "c": (1, 2)}}) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="but `a.b` was 1 and is 2: add a.b=1$"):
        folder.plan({"a": {"b": 2, "c": [1, 2]}})


def test_what_was_given_on_the_command_line_is_to_be_given_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({"train": {"updates": 400, "epochs": None, "x": "a"}}, RunPlan(5, 1, 2))
    with pytest.raises(ConfigError) as refused:
        folder.plan({"train": {"updates": None, "epochs": 3, "x": "b"}})
    began = "a run must go on as it began, but `train."
    assert list(refused.value.problems) == [
        f"{began}epochs` was unset and is 3: leave it out",
        f"{began}updates` was 400 and is unset: add train.updates=400",
        f'{began}x` was "a" and is "b": add ' + "'" + 'train.x="a"' + "'",
    ]


def test_a_key_that_came_later_counts_as_its_default(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({"a": {"b": 1}}, RunPlan(5, 1, 2))

    def completed(earlier: dict) -> dict:
        return {"a": {"new": 0, **earlier["a"]}}

    assert folder.plan({"a": {"b": 1, "new": 0}}, completed) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="but `a.new` was 0 and is 7"):
        folder.plan({"a": {"b": 1, "new": 7}}, completed)


def test_another_teacher_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({}, RunPlan(5, 1, 2), {"loss.teacher": "aa"})
    with pytest.raises(ConfigError, match='but `models.loss.teacher` was "aa" and is "bb"'):
        folder.plan({}, models={"loss.teacher": "bb"})


def test_another_text_of_the_same_name_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.begin({}, RunPlan(5, 1, 2), texts={"a.tsv (data.valid)": "aa", "b.tsv (data.test)": "b"})
    with pytest.raises(InputError, match="but the text of a.tsv .data.valid. is another now: put"):
        folder.plan({}, texts={"a.tsv (data.valid)": "bb", "b.tsv (data.test)": "b"})


def test_a_run_of_before_has_neither_models_nor_texts(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        '{"recipe": {}, "plan": {"updates": 5, "processes": 1, "threads": 2}}'
    )
    assert RunFolder(tmp_path).plan({}, texts={"a.tsv": "aa"}) == RunPlan(5, 1, 2)


def test_the_estimate_counts_validations_and_the_end() -> None:
    plan = RunPlan(100, 1, 1, 2.0, 10.0, 7.0)
    assert plan.seconds(0, validation_every=30) == 100 * 2 + 3 * 10 + 7
    assert plan.seconds(61, validation_every=30) == 39 * 2 + 1 * 10 + 7
    assert RunPlan(100, 1, 1).seconds(0, 30) is None
