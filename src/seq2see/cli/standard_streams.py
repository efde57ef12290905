"""Replaces standard streams that were closed when the process started."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper

_STREAMS = (
    # A descriptor opened for the other direction fails as a closed one does: EBADF.
    ("stdin", os.O_WRONLY, "r"),
    ("stdout", os.O_RDONLY, "w"),
    ("stderr", os.O_WRONLY, "w"),
)


def reopen_closed_streams() -> None:
    """Make `sys.stdin`, `sys.stdout` and `sys.stderr` files, also if they are closed (`<&-`).

    Reading a closed standard input and writing to a closed standard output raise an OSError;
    messages to a closed standard error are discarded. Without this, the next file that is opened
    would get the number of the closed stream.
    """
    for number, (name, flags, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, flags)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            os.set_inheritable(number, True)
            stream = open(number, mode, encoding="utf-8", errors="replace")  # noqa: PTH123, SIM115
            setattr(sys, name, stream)


def configure_output_encoding(*, is_windows: bool = os.name == "nt") -> None:
    """Replace characters that the terminal lacks.

    On Windows, files and pipes are written in UTF-8; by default, they would be in the encoding of
    the region, which lacks most characters.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and is_windows and not stream.isatty():
            stream.reconfigure(encoding="utf-8")
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
