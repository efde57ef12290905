"""Features of Linux that macOS or Windows lack: each is hidden in turn, and everything works."""

from __future__ import annotations

import io
import mmap
import os
import platform
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seq2see
from seq2see import atomic_files, cpu, file_locks, regular_files
from seq2see.cli.standard_streams import configure_output_encoding
from seq2see.engines import loading
from seq2see.errors import InputError
from seq2see.serve import lab
from seq2see.training.run_directory import RunDirectory

Patch = pytest.MonkeyPatch


def hide_onednn(patch: Patch) -> None:
    patch.setattr(torch.backends.mkldnn, "is_available", lambda: False)


def hide_huge_pages(patch: Patch) -> None:
    patch.delattr(mmap, "MADV_HUGEPAGE")


HIDDEN: dict[str, Callable[[Patch], None]] = {
    "sched_getaffinity": lambda patch: patch.delattr(os, "sched_getaffinity"),
    "fcntl": lambda patch: patch.setattr(file_locks, "fcntl", None),
    "glibc": lambda patch: patch.setattr(platform, "libc_ver", lambda: ("", "")),
    "huge pages": hide_huge_pages,
    "signal masks": lambda patch: patch.delattr(signal, "pthread_sigmask"),
    "directories that can be opened": lambda patch: patch.setattr(
        atomic_files, "CAN_OPEN_DIRECTORIES", False
    ),
    "flags of open": lambda patch: patch.setattr(regular_files, "_READ_FLAGS", os.O_RDONLY),
    "oneDNN": hide_onednn,
    "symbolic links": lambda patch: patch.delattr(os, "symlink"),
    "process groups": lambda patch: patch.delattr(os, "killpg"),
    "fork": lambda patch: patch.delattr(os, "fork"),
}


@pytest.mark.parametrize("hide", HIDDEN.values(), ids=HIDDEN)
def test_training_resuming_and_translating(
    train_here, tmp_path: Path, monkeypatch: Patch, hide: Callable[[Patch], None]
) -> None:
    for function in (cpu.tune_malloc, cpu._has_onednn_operators):
        function.cache_clear()
    hide(monkeypatch)
    settings = ("train.max_updates=4", "checkpoints.interval=2", "validation.interval=4")
    run = train_here(tmp_path / "run", *settings)
    train_here(run, *settings, resume=True)
    translator = seq2see.load(run, engine="torch", device="cpu")
    assert translator.translate("1 2 3").text is not None
    for function in (cpu.tune_malloc, cpu._has_onednn_operators):
        function.cache_clear()


@pytest.mark.parametrize("has_fcntl", [True, False])
def test_locked_directory_is_reported(tmp_path: Path, monkeypatch: Patch, has_fcntl: bool) -> None:
    monkeypatch.setattr("seq2see.training.run_directory.LOCK_TIMEOUT", 0.1)
    if not has_fcntl:
        monkeypatch.setattr(file_locks, "fcntl", None)
    directory = RunDirectory(tmp_path)
    with (
        directory.lock(),
        pytest.raises(InputError, match="another run is using"),
        directory.lock(),
    ):
        pass
    with directory.lock():
        pass


def test_open_file_is_replaced_when_it_is_closed(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(atomic_files, "CAN_OPEN_DIRECTORIES", False)
    replace, failures = Path.replace, [PermissionError(13, "in use"), PermissionError(13, "in use")]

    def fail_twice(source: Path, target: Path) -> Path:
        if failures:
            raise failures.pop()
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", fail_twice)
    with atomic_files.atomic_write(tmp_path / "a") as partial:
        partial.write_text("new", "utf-8")
    assert (tmp_path / "a").read_text("utf-8") == "new"
    monkeypatch.setattr(atomic_files, "REPLACE_SECONDS", 0.1)
    failures.extend([PermissionError(13, "in use")] * 100)
    with pytest.raises(PermissionError), atomic_files.atomic_write(tmp_path / "a") as partial:
        partial.write_text("newer", "utf-8")
    assert (tmp_path / "a").read_text("utf-8") == "new"


def test_output_on_windows_is_utf8(monkeypatch: Patch) -> None:
    written = {name: io.BytesIO() for name in ("stdout", "stderr")}
    for name, file in written.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(file, "cp1252", errors="strict"))
    configure_output_encoding(is_windows=True)
    for name, file in written.items():
        getattr(sys, name).write("女孩")
        getattr(sys, name).flush()
        assert file.getvalue().decode("utf-8") == "女孩"


def test_terminal_without_characters_gets_replacements(monkeypatch: Patch) -> None:
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, "cp1252"))
    configure_output_encoding(is_windows=False)
    sys.stdout.write("ü女")
    sys.stdout.flush()
    assert file.getvalue() == b"\xfc?"


@pytest.mark.parametrize(
    ("cuda", "mps", "expected"),
    [(True, False, "cuda"), (False, True, "mps"), (True, True, "cuda"), (False, False, "cpu")],
)
def test_auto_uses_an_accelerator(monkeypatch: Patch, cuda: bool, mps: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert loading._resolve_device("auto").type == expected


def test_process_is_killed_without_process_groups(monkeypatch: Patch) -> None:
    class Process:
        killed = False

        def kill(self) -> None:
            self.killed = True

    monkeypatch.delattr(os, "killpg")
    process = Process()
    lab._kill_group(process)
    assert process.killed
