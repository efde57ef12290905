"""Files and directories that are complete or absent, checksums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from seq2see.atomic_files import (
    MANIFEST_FILE,
    atomic_directory,
    atomic_write,
    compute_sha256,
    read_verified_manifest,
    write_manifest,
)
from seq2see.errors import InputError, reading, writing


def test_file_appears_when_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic_write(path) as partial:
        partial.write_text("new")
        assert partial.name == "a.txt.partial"
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_error_keeps_old_file_and_removes_partial(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write_and_fail() -> None:
        with atomic_write(path) as partial:
            partial.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_file_has_default_permissions(tmp_path: Path) -> None:
    """Some writers replace the file by one that only its owner can read."""
    with atomic_write(tmp_path / "a") as partial:
        partial.unlink()
        partial.touch(0o600)
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "parent" / "a"
    for name in ("old", "new"):
        with atomic_directory(path, replace=True) as directory:
            (directory / name).touch()
    assert [file.name for file in path.iterdir()] == ["new"]
    assert list(path.parent.iterdir()) == [path]


def test_directory_of_another_process_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"

    def write_after_another_process() -> None:
        with atomic_directory(path) as directory:
            (directory / "new").touch()
            path.mkdir()
            (path / "old").touch()

    with pytest.raises(OSError, match="not empty"):
        write_after_another_process()
    assert [file.name for file in path.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [path]


def test_sha256_of_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert compute_sha256(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_os_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="^a cannot be read: No such file"), reading("a"):
        (tmp_path / "a").read_text()
    with pytest.raises(InputError, match="^b cannot be written: No such file"), writing("b"):
        (tmp_path / "missing" / "b").write_text("")


def test_every_altered_byte_of_a_directory_with_a_manifest_is_detected(tmp_path: Path) -> None:
    content = {"source": "a", "scores": {"b": 91.25}}
    (tmp_path / "weights").write_bytes(b"0123")
    write_manifest(tmp_path, content)
    assert read_verified_manifest(tmp_path) == content
    for path in [tmp_path / "weights", tmp_path / MANIFEST_FILE]:
        original = path.read_bytes()
        for index in range(len(original)):
            for mask in (1, 32, 128):
                altered = bytearray(original)
                altered[index] ^= mask
                path.write_bytes(altered)
                assert read_verified_manifest(tmp_path) is None
            path.write_bytes(original[:index])
            assert read_verified_manifest(tmp_path) is None
        path.write_bytes(original)
        assert read_verified_manifest(tmp_path) == content


@pytest.mark.parametrize("text", ["", "[]", "3", '{"content": 3}', '{"content": {}}', "[" * 9999])
def test_invalid_manifest_is_detected(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST_FILE).write_text(text)
    assert read_verified_manifest(tmp_path) is None


def test_added_removed_and_replaced_files_are_detected(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    write_manifest(tmp_path, {})
    (tmp_path / f"{MANIFEST_FILE}.partial").write_text("an interrupted write")
    assert read_verified_manifest(tmp_path) == {}
    (tmp_path / "a").write_text("b")
    assert read_verified_manifest(tmp_path) is None
    (tmp_path / "a").unlink()
    assert read_verified_manifest(tmp_path) is None
    (tmp_path / "a").mkdir()
    assert read_verified_manifest(tmp_path) is None
    (tmp_path / "a").rmdir()
    (tmp_path / "a").write_text("a")
    (tmp_path / "c").write_text("c")
    assert read_verified_manifest(tmp_path) is None


@pytest.mark.parametrize("kind", ["pipe", "device", "large", "directory"])
def test_special_files_do_not_match_a_manifest(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(b"abc")
    write_manifest(tmp_path, {})
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "large":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        path.mkdir()
    assert read_verified_manifest(tmp_path) is None
    with pytest.raises(OSError, match="pipe or a device|at most 5|directory"):
        compute_sha256(path, max_bytes=5)
