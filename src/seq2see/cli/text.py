"""A text, translated line by line: as many lines come out as go in."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from seq2see.bundle.files import read_config
from seq2see.cli.journal import Journal
from seq2see.cli.lines import Lines, count
from seq2see.cli.records import Form
from seq2see.cli.unfinished import Unfinished, fingerprint
from seq2see.data.readers import STANDARD_INPUT
from seq2see.errors import InputError

if TYPE_CHECKING:
    from seq2see.translator import TranslationOptions, Translator

Target = Unfinished | Path | None
"""A file that gets its name at the end; one that is there and no file, such as a pipe; standard
output."""


@dataclass(frozen=True, slots=True)
class TextJob:
    """What to translate, where to, and how."""

    file: str
    target: Target
    form: Form
    options: TranslationOptions
    done: int = 0
    """Lines that are translated already."""

    def run(self, translator: Translator) -> bool:
        """Translate all lines; return whether each has a translation."""
        lines = Lines(self.file, skip=self.done)
        # Lines on the same terminal are progress enough.
        bar = sys.stderr.isatty() and not (self.target is None and sys.stdout.isatty())
        total = count(self.file) if bar else None
        with Journal(self.done, total, bar) as journal, self._opened() as output:
            at_once = 1 if self._is_typed else None  # who types waits for an answer
            found = translator.stream(lines, self.options, first_line=self.done, at_once=at_once)
            for number, translation in enumerate(found, self.done + 1):
                if problem := lines.problems.pop(number, None):
                    translation = replace(translation, error=problem)  # noqa: PLW2901
                output.write(self.form(translation) + "\n")
                journal.note(number, translation)
                if translation.error is not None and isinstance(self.target, Unfinished):
                    self.target.fail()
        earlier = isinstance(self.target, Unfinished) and self.target.has_failures
        return journal.failed == 0 and not earlier

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        match self.target:
            case Unfinished():
                with self.target.opened() as file:
                    yield file
            case Path():
                with self.target.open("w", encoding="utf-8", newline="\n") as file:
                    yield file
            case None:
                if isinstance(sys.stdout, TextIOWrapper):  # text is UTF-8, whatever the terminal
                    sys.stdout.reconfigure(
                        encoding="utf-8", newline="\n", line_buffering=self._is_typed
                    )
                yield sys.stdout
                sys.stdout.flush()

    @property
    def _is_typed(self) -> bool:
        return self.file == STANDARD_INPUT and sys.stdin.isatty()


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
