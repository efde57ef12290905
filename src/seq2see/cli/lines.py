"""Lines to be translated: read one by one; one that is no text does not stop the others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2see.data.readers import BLOCK, BOM, STANDARD_INPUT, open_bytes


class Lines:
    """The lines of a file or of standard input, without their ends.

    A line ends at \\n (or \\r\\n) and nowhere else. One that is not UTF-8 is given as an empty
    line,
    and `problems` says why, by its number.
    """

    def __init__(self, path: str, skip: int = 0) -> None:
        self.path = path
        self.problems: dict[int, str] = {}
        """By the number of the line, from 1 on; whoever has told of one takes it out."""
        self._skip = skip

    def __iter__(self) -> Iterator[str]:
        with open_bytes(self.path) as file:
            for number, raw in enumerate(file, 1):
                if number > self._skip:
                    yield self._text(raw.removeprefix(BOM) if number == 1 else raw, number)

    def _text(self, raw: bytes, number: int) -> str:
        try:
            return raw.removesuffix(b"\n").removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            column = error.start + 1
            self.problems[number] = f"must be UTF-8, but has the byte 0x{byte:02x} at {column}"
            return ""


def count(path: str) -> int | None:
    """Return how many lines a file has; None for what can be read only once."""
    if path == STANDARD_INPUT or not Path(path).is_file():
        return None
    newlines, last = 0, b"\n"
    with open_bytes(path) as file:
        while block := file.read(BLOCK):
            newlines, last = newlines + block.count(b"\n"), block[-1:]
    return newlines + (last != b"\n")
