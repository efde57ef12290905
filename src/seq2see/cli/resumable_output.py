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
from typing import Any, TextIO

from seq2see.atomic_files import compute_sha256
from seq2see.bundle.files import read_config_bytes
from seq2see.cli.inputs import STANDARD_INPUT, check_output_path
from seq2see.errors import InputError, reading, writing

OutputSettings = Mapping[str, Any]
"""What the translations depend on: input, model, settings."""

FAILURES_KEY = "failures"
"""Key in the state file: whether a line has no translation."""


class ResumableOutput:
    """File of translations that is written as `.partial` and renamed when it is complete."""

    def __init__(self, path: Path, settings: OutputSettings, resume: bool) -> None:
        """Check that the file can be written.

        Raises InputError if there is a partial file but `resume` is not set, or if it was started
        with another input, model or settings.
        """
        check_output_path(path)
        self.path = path
        self.partial = path.with_name(f"{path.name}.partial")
        self.num_finished_lines = 0
        """Lines that an earlier run has finished."""
        self.has_failed_lines = False
        """Whether a line has no translation, also of an earlier run that this one continues."""
        self._settings = json.loads(json.dumps(settings))  # in the form that is read back
        self._can_resume = "input" in settings
        self._state_file = path.with_name(f"{path.name}.partial.json")
        if not self._can_resume:
            self._remove()
        elif self.partial.exists():
            self._continue_partial(resume)

    @contextmanager
    def open(self) -> Iterator[TextIO]:
        """Yield the partial file, opened for appending; rename it at the end without an error."""
        self._write_state()
        try:
            with self.partial.open("a", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            if self.partial.exists() and not self.partial.stat().st_size:  # nothing to resume
                self._remove()
            elif self._can_resume:
                error.add_note(f"--resume continues {self.partial}")
            raise
        self.partial.replace(self.path)
        self._state_file.unlink(missing_ok=True)

    def mark_failure(self) -> None:
        """Store that a line has no translation, also for a run that resumes."""
        if not self.has_failed_lines:
            self.has_failed_lines = True
            self._write_state()

    def _continue_partial(self, resume: bool) -> None:
        if not resume:
            raise InputError(
                f"{self.partial} exists from an interrupted run: continue it with --resume, "
                "or remove it"
            )
        try:
            state = json.loads(self._state_file.read_text("utf-8"))
        except (OSError, ValueError):
            state = {}
        names = [name for name in self._settings if state.get(name) != self._settings[name]]
        if names:
            others = [f"other {n}" if n.endswith("s") else f"another {n}" for n in names]
            raise InputError(
                f"{self.partial} was started with {' and '.join(others)}: "
                "continue it with the same, or remove it"
            )
        self.has_failed_lines = bool(state.get(FAILURES_KEY))
        self.num_finished_lines = _truncate_to_complete_lines(self.partial)

    def _write_state(self) -> None:
        state = {**self._settings, FAILURES_KEY: self.has_failed_lines}
        text = json.dumps(state, ensure_ascii=False, indent=1) + "\n"
        with writing(self._state_file):
            self._state_file.write_text(text, "utf-8", newline="\n")

    def _remove(self) -> None:
        self.partial.unlink(missing_ok=True)
        self._state_file.unlink(missing_ok=True)


OutputTarget = ResumableOutput | Path | None
"""A file that is renamed when complete; an existing pipe or device; standard output."""


def prepare_resumable_output(
    file: str, output: Path | None, model: Path, settings: dict[str, Any], resume: bool
) -> OutputTarget:
    """Return the target of the translations.

    `settings` are those that influence the translations. Raises InputError if the output cannot be
    written or resumed.
    """
    if output is None or (output.exists() and not output.is_file() and not output.is_dir()):
        return output
    _check_differs_from_input(file, output)
    checksum = hashlib.sha256(read_config_bytes(model)).hexdigest()  # contains those of all files
    dependencies: dict[str, Any] = {"model": checksum, "settings": settings}
    if file != STANDARD_INPUT and Path(file).is_file():
        with reading(file):
            dependencies = {"input": compute_sha256(Path(file)), **dependencies}
    elif resume:
        raise InputError(f"{file} must be a file to resume, but can be read only once")
    return ResumableOutput(output, dependencies, resume)


def _truncate_to_complete_lines(path: Path) -> int:
    """Cut off a last line without line end, and return the number of complete lines."""
    num_lines = length = 0
    with path.open("rb+") as file:
        for line in file:
            if line.endswith(b"\n"):
                num_lines, length = num_lines + 1, length + len(line)
        file.truncate(length)
    return num_lines


def _check_differs_from_input(file: str, output: Path) -> None:
    """Raise InputError if the output would overwrite the text that is translated."""
    is_piped = file == STANDARD_INPUT
    try:
        input_stat = os.fstat(sys.stdin.fileno()) if is_piped else Path(file).stat()
        is_same = os.path.samestat(input_stat, output.stat())
    except OSError:  # the output does not exist yet, or standard input is not a file
        return
    if is_same:
        name = "standard input" if is_piped else file
        raise InputError(f"{output} must be another file than the text to translate, {name}")
