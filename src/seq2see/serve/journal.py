"""The log: one JSON object a line, on standard error. What people send is never in it.

An error's own words may hold such text ("… but is 'my secret' instead"), so of an exception only
its class and the places in the code are written.
"""

from __future__ import annotations

import json
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO


class Journal:
    """Writes what happens; without a stream, to nobody."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    @classmethod
    def standard(cls) -> Journal:
        """Return one that writes to standard error."""
        return cls(sys.stderr)

    def write(self, event: str, **fields: Any) -> None:
        """Add a line."""
        if self._stream is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        # Escapes keep a field from starting a line of its own.
        line = json.dumps({"time": time, "event": event, **fields}, ensure_ascii=True)
        self._stream.write(line + "\n")
        self._stream.flush()

    def error(self, event: str, error: BaseException, **fields: Any) -> None:
        """Add a line on something that should not have been."""
        frames = traceback.extract_tb(error.__traceback__)[-8:]
        places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames]
        self.write(event, **fields, error=type(error).__name__, places=places)
