"""Types of the callbacks that report the progress of a task."""

from __future__ import annotations

from collections.abc import Callable

ProgressCallback = Callable[[int, int], None]
"""Called with the number of finished items and the total number of items."""
MessageCallback = Callable[[str], None]
"""Called with one line of text for the user."""
StageCallback = Callable[[str, int], None]
"""Called with the name of the current stage and the number of items finished in it."""
