"""Rows of different lengths in two files, read where they lie: memory does not grow with them."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seq2see.errors import InputError

Ints = NDArray[np.int64]


class Rows:
    """Rows of numbers, mapped from disk."""

    def __init__(self, values: NDArray[Any], ends: Ints) -> None:
        self._values = values
        self._ends = ends

    @classmethod
    def open(cls, path: Path, dtype: DTypeLike) -> Self:
        """Map what a `RowsWriter` has written."""
        return cls(_mapped(path.with_suffix(".values"), dtype), _mapped(ends_of(path), np.int64))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> NDArray[Any]:
        start, end = self._ends[row], self._ends[row + 1]
        return self._values[start:end]

    def lengths(self, rows: Ints) -> Ints:
        """Return how long these rows are."""
        return self._ends[rows + 1] - self._ends[rows]

    def gather(self, rows: Ints) -> tuple[NDArray[Any], Ints]:
        """Return the numbers of these rows, one row behind the other, and the rows' lengths."""
        starts, lengths = self._ends[rows], self.lengths(rows)
        before = np.cumsum(lengths) - lengths
        places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
        return self._values[places], lengths


class RowsWriter:
    """Writes rows, some at a time."""

    def __init__(self, path: Path) -> None:
        self._values = path.with_suffix(".values").open("wb")
        self._ends = ends_of(path).open("wb")
        self._written = 0
        self._ends.write(np.zeros(1, dtype=np.int64).tobytes())

    def append(self, values: NDArray[Any], lengths: Ints) -> None:
        """Add rows of these lengths, given one behind the other."""
        self._values.write(values.tobytes())
        self._ends.write((self._written + np.cumsum(lengths, dtype=np.int64)).tobytes())
        self._written += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._values.close()
        self._ends.close()


def files_of(path: Path) -> tuple[Path, Path]:
    """Return the files of these rows: their values, and where each of them ends."""
    return path.with_suffix(".values"), ends_of(path)


def ends_of(path: Path) -> Path:
    """Return the file that says where each row ends, 0 first."""
    return path.with_suffix(".ends")


def _mapped(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file; an empty one cannot be."""
    try:
        size = path.stat().st_size
        return np.asarray(np.memmap(path, dtype, "r")) if size else np.empty(0, dtype)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}") from None
