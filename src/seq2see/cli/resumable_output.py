"""Output file that an interrupted translation can continue with `--resume`.

Lines are written to `de.txt.partial`, which is renamed to `de.txt` when it is complete. Beside it,
`de.txt.partial.json` stores what the lines depend on (input, model, settings), which must be the
same in the run that resumes. The number of finished lines is that of complete lines in the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from seq2see.bundle.files import read_config
from seq2see.data.readers import BLOCK, STANDARD_INPUT
from seq2see.errors import InputError

if TYPE_CHECKING:
    pass

Job = Mapping[str, Any]
"""What decides the translations: input, model, options."""


FAILURES = "failures"
"""Beside what decides the translations: whether any line has none."""


class Unfinished:
    """The output of a job."""

    def __init__(self, target: Path, job: Job) -> None:
        self.target = target
        self.partial = target.with_name(f"{target.name}.partial")
        self._state = target.with_name(f"{target.name}.partial.json")
        self._job = json.loads(json.dumps(job))  # as it will be read
        self.has_failures = False
        """Whether some line has no translation, of an earlier run's too."""

    def begin(self, resume: bool) -> int:
        """Return how many lines are done, after looking whether they are ours."""
        self._refuse_place()
        if not self.partial.exists():
            return 0
        if not resume:
            raise InputError(
                f"{self.partial} is there from a run that was stopped: go on with --resume, "
                "or remove it"
            )
        begun = self._begun()
        self._refuse_others(begun)
        self.has_failures = bool(begun.get(FAILURES))
        return _trimmed(self.partial)

    def forget(self) -> None:
        """Remove what is there from a run that was stopped."""
        self._refuse_place()
        self._remove()

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """Give the file to write to; it gets its name at the end, if nothing happens before."""
        self._write_state()
        try:
            with self.partial.open("a", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            if self.partial.exists() and not self.partial.stat().st_size:  # nothing to go on from
                self._remove()
            raise
        self.partial.replace(self.target)
        self._state.unlink(missing_ok=True)

    def fail(self) -> None:
        """Remember that a line has no translation, whoever goes on."""
        if not self.has_failures:
            self.has_failures = True
            self._write_state()

    def _write_state(self) -> None:
        state = {**self._job, FAILURES: self.has_failures}
        _write(self._state, json.dumps(state, ensure_ascii=False, indent=1) + "\n")

    def _refuse_place(self) -> None:
        if self.target.is_dir():
            raise InputError(f"{self.target} cannot be written: it is a folder")
        if not (folder := self.target.absolute().parent).is_dir():
            raise InputError(f"{self.target} cannot be written: there is no folder {folder}")

    def _remove(self) -> None:
        self.partial.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def _begun(self) -> Job:
        try:
            begun: Job = json.loads(self._state.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return begun

    def _refuse_others(self, begun: Job) -> None:
        names = [name for name in self._job if begun.get(name) != self._job[name]]
        if names:
            others = [f"other {n}" if n.endswith("s") else f"another {n}" for n in names]
            raise InputError(
                f"{self.partial} was begun with {' and '.join(others)}: "
                "go on with the same, or remove it"
            )


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None


def _trimmed(path: Path) -> int:
    """Cut off a last line that was not finished, and return how many are."""
    lines = whole = read = 0
    with path.open("rb+") as file:
        while block := file.read(BLOCK):
            lines += block.count(b"\n")
            end = block.rfind(b"\n") + 1
            whole = read + end if end else whole
            read += len(block)
        file.truncate(whole)
    return lines


Target = Unfinished | Path | None
"""A file that gets its name at the end; one that is there and no file, such as a pipe; standard
output."""


def opened_target(
    file: str, output: Path | None, model: Path, how: dict[str, Any], resume: bool
) -> tuple[Target, int]:
    """Return where the lines go, and how many are there; refuse what cannot be written.

    `how` are the settings that decide what the lines are.
    """
    if output is None or (output.exists() and not output.is_file() and not output.is_dir()):
        return output, 0
    _refuse_same(file, output)
    checksums = hashlib.sha256(read_config(model)).hexdigest()  # has those of all files
    job = {"model": checksums, "settings": how}
    if file != STANDARD_INPUT and Path(file).is_file():
        target = Unfinished(output, {"input": fingerprint(Path(file)), **job})
        return target, target.begin(resume)
    if resume:
        raise InputError(f"{file} must be a file to go on from, but can be read only once")
    target = Unfinished(output, job)
    target.forget()
    return target, 0


def _refuse_same(file: str, output: Path) -> None:
    """Raise an error if the translation would take the place of its text."""
    piped = file == STANDARD_INPUT
    try:
        read = os.fstat(sys.stdin.fileno()) if piped else Path(file).stat()
        same = os.path.samestat(read, output.stat())
    except OSError:  # there is no such output yet, or no file behind standard input
        return
    if same:
        name = "standard input" if piped else file
        raise InputError(f"{output} must be another file than the text, {name}")
