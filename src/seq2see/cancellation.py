"""Cancellation of long computations from outside.

The caller of a computation sets a check for all that runs inside a `with` block, in the same thread
or in threads that get its context. Long loops call `check_cancelled` in each step. Like the context
of `decimal`, the check belongs to a context: it passes through parsers and models without being an
argument of all their functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_check: ContextVar[Callable[[], None] | None] = ContextVar("check_cancelled", default=None)


def check_cancelled() -> None:
    """Raise the error of the innermost `cancellable_by` if the computation is cancelled."""
    if check := _check.get():
        check()


@contextmanager
def cancellable_by(check: Callable[[], None]) -> Iterator[None]:
    """Let computations in the `with` block call `check`, which raises an error to end them."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)
