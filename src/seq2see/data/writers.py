"""Pairs to files: all of them whole, or none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from seq2see.data.readers import Pair
from seq2see.errors import InputError

_LINE_ENDS = re.compile(r"[\r\n]+")


@contextmanager
def written_aside(paths: Sequence[Path]) -> Iterator[list[TextIO]]:
    """Open new files to be written, which get their names when all is done, and vanish if not."""
    refuse_existing(paths)
    asides = [path.with_name(f"{path.name}.partial") for path in paths]
    with ExitStack() as stack:
        files = [stack.enter_context(_created(aside)) for aside in asides]
        yield files
        for file, aside, path in zip(files, asides, paths, strict=True):
            file.close()
            aside.replace(path)


@contextmanager
def _created(path: Path) -> Iterator[TextIO]:
    """Open a file that vanishes at the end, unless it was renamed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from None
    try:
        with file:
            yield file
    finally:
        path.unlink(missing_ok=True)


def refuse_existing(paths: Iterable[Path]) -> None:
    """Raise an error if one of these is there already: nothing is written over."""
    for path in paths:
        if path.exists():
            raise InputError(f"{path} exists already: remove it, or name another folder")


def write_pair(files: Sequence[TextIO], pair: Pair) -> None:
    """Write a line to each of two files. A line end inside a text would shift all that follow."""
    for file, text in zip(files, pair, strict=True):
        file.write(one_line(text) + "\n")


def one_line(text: str) -> str:
    """Return the text with spaces for line ends."""
    return _LINE_ENDS.sub(" ", text) if "\n" in text or "\r" in text else text
