"""Pairs to files: all of them whole, or none."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import TextIO

from seq2see.data.readers import Pair
from seq2see.errors import InputError

_LINE_ENDS = re.compile(r"\r*\n|\r+\Z")


@contextmanager
def new_files(folder: Path, names: Sequence[str]) -> Iterator[list[TextIO]]:
    """Open files to be written. They get their names when all are whole, and vanish if not."""
    assert len(set(names)) == len(names)
    refuse_existing(folder / name for name in names)
    with _aside(folder) as aside:
        with ExitStack() as stack:
            yield [stack.enter_context(_created(aside / name)) for name in names]
        refuse_existing(folder / name for name in names)  # nobody else was faster
        for name in names:
            (aside / name).rename(folder / name)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a folder to be filled. It gets its name when all is done, and vanishes if not."""
    if path.exists():
        raise InputError(f"{path} exists already: remove it, or name another folder")
    with _aside(path.parent) as aside:
        filled = aside / path.name
        filled.mkdir()
        yield filled
        filled.rename(path)


@contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """Give a folder of our own inside another, on the same disk."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(mkdtemp(prefix=".partial-", dir=folder))
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror or error}") from None
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _created(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")


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
