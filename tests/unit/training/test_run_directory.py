"""The directory of a run: log, lock, `run.json` and the comparison on resume."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from seq2see.errors import ConfigError, InputError
from seq2see.training import run_directory
from seq2see.training.config import RunConfig
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


def build_config(**sections: dict[str, Any]) -> RunConfig:
    data = {"languages": ["xx", "yy"], "train": [{"files": ["builtin:copy"]}]}
    settings = {
        "data": {**data, "valid": {"files": ["builtin:copy/valid"]}},
        "train": {"max_updates": 400},
    }
    return RunConfig(**(settings | sections))


def test_changed_settings_are_reported_as_overrides_to_add(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start(build_config(validation={"metric": "loss"}), RunPlan(5, 1, 2))
    config = build_config(validation={"metric": "chrf"}, train={"max_epochs": 3.0})
    with pytest.raises(ConfigError) as error:
        directory.load_plan(config)
    prefix = "cannot resume with changed settings: `"
    assert list(map(str, error.value.problems)) == [
        f"{prefix}train.max_epochs` was unset, but is 3.0 instead: leave it out",
        f"{prefix}train.max_updates` was 400, but is unset instead: add train.max_updates=400",
        f'{prefix}validation.metric` was "loss", but is "chrf" instead: add '
        "'validation.metric=\"loss\"'",
    ]


def test_missing_key_in_stored_recipe_has_its_default(tmp_path: Path) -> None:
    directory, path = RunDirectory(tmp_path), tmp_path / "run.json"
    directory.write_start(build_config(), RunPlan(5, 1, 2))
    content = json.loads(path.read_text("utf-8"))
    assert content["recipe"]["train"].pop("fsdp") is False
    path.write_text(json.dumps(content), "utf-8")
    assert directory.load_plan(build_config()) == RunPlan(5, 1, 2)
    with pytest.raises(ConfigError, match="`train.fsdp` was false, but is true instead"):
        directory.load_plan(build_config(train={"max_updates": 400, "fsdp": True}))


def test_changed_teacher_is_rejected(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write_start(build_config(), RunPlan(5, 1, 2), {"loss.teacher": "aa"})
    with pytest.raises(ConfigError, match='`models.loss.teacher` was "aa", but is "bb" instead'):
        directory.load_plan(build_config(), model_checksums={"loss.teacher": "bb"})


def test_changed_corpus_is_rejected(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    old = {"a.tsv (data.valid)": "aa", "b.tsv (data.test)": "b"}
    directory.write_start(build_config(), RunPlan(5, 1, 2), corpus_fingerprints=old)
    new = {**old, "a.tsv (data.valid)": "bb"}
    with pytest.raises(
        InputError, match="cannot resume: a.tsv .data.valid. has changed since .*; restore"
    ):
        directory.load_plan(build_config(), corpus_fingerprints=new)


def test_remaining_time_includes_validations_and_final_scores() -> None:
    plan = RunPlan(100, 1, 1, 2.0, 10.0, 7.0)
    assert plan.remaining_seconds(0, validation_interval=30) == 100 * 2 + 3 * 10 + 7
    assert plan.remaining_seconds(61, validation_interval=30) == 39 * 2 + 1 * 10 + 7
    assert RunPlan(100, 1, 1).remaining_seconds(0, 30) is None


def test_run_stores_settings_and_directory(tmp_path: Path) -> None:
    base, run = tmp_path / "corpus", tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    RunDirectory(run).write_start(build_config(), RunPlan(5, 1, 2), base_directory=base)
    assert str(tmp_path) not in (run / "run.json").read_text("utf-8")
    config, found = RunDirectory(run).read_run_config(RunConfig)
    assert config == build_config()
    assert found == base
    with pytest.raises(InputError, match=r"run.json cannot be read: No such file"):
        RunDirectory(base).read_run_config(RunConfig)
    (run / "run.json").write_text("{}", "utf-8")
    with pytest.raises(InputError, match=r"run.json is damaged: .*`base_directory` must be given"):
        RunDirectory(run).read_run_config(RunConfig)


def test_test_set_of_run_must_be_unchanged(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text("a\tb\n", "utf-8")
    data = build_config().data.model_dump() | {"test": {"files": ["test.tsv"]}}
    config, directory = build_config(data=data), RunDirectory(tmp_path)
    corpus = config.data.build_corpus(config.data.test, tmp_path)
    fingerprints = {"test.tsv (data.test)": corpus.fingerprint}
    directory.write_start(config, RunPlan(5, 1, 2), {}, fingerprints, tmp_path)
    assert list(directory.read_test_set()) == [("a", "b")]
    (tmp_path / "test.tsv").write_text("a\tc\n", "utf-8")
    with pytest.raises(InputError, match="has changed since the start of the run: name a test set"):
        directory.read_test_set()
    directory.write_start(build_config(), RunPlan(5, 1, 2))
    with pytest.raises(InputError, match="has no test set: name one with --test-set"):
        directory.read_test_set()


@pytest.mark.parametrize("name", ["run.json", "cache/index.json", "training_text.json"])
@pytest.mark.parametrize(
    "content", ["{", "[]", "3", '{"a": 3}', "[" * 100_000, '"\\ud800"', "\xff"]
)
def test_damaged_file_of_a_run_is_named(name: str, content: str, tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.cache.mkdir()
    directory.write_start(build_config(), RunPlan(2, 1, 1))
    directory.write_corpus_records({})
    directory.write_training_text(None)
    read(directory)
    (tmp_path / name).write_text(content, "latin-1")
    with pytest.raises(InputError, match=f"{name} is damaged: "):
        read(directory)


def read(directory: RunDirectory) -> None:
    directory.load_plan(build_config())
    directory.read_corpus_records()
    directory.read_training_text()
