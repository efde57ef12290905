"""How long work will take, judged by the batches before it.

A batch takes some time of its own, and more for each token: what one sentence takes says little
about a full batch. The two are told apart by a line through the last batches. While these are all
small, their time counts as the batches' own: better one request too many than one refused that
could have been done.
"""

from __future__ import annotations

_MEMORY = 0.95
"""The weight of a batch, seen from the next one."""
_SPREAD = 0.1
"""The part of a full batch by which sizes must differ before the slope of the line counts for
half: times are noisy, and a full batch is far from small ones."""


class Pace:
    """The speed of one worker."""

    def __init__(self, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._count = self._tokens = self._seconds = self._squares = self._products = 0.0

    def note(self, tokens: int, seconds: float) -> None:
        """Take in how long a batch took."""
        self._count = _MEMORY * self._count + 1
        self._tokens = _MEMORY * self._tokens + tokens
        self._seconds = _MEMORY * self._seconds + seconds
        self._squares = _MEMORY * self._squares + tokens * tokens
        self._products = _MEMORY * self._products + tokens * seconds

    def seconds(self, tokens: int) -> float:
        """Return how long so many tokens will take, in full batches; 0 if nothing is known."""
        if not self._count or not tokens:
            return 0.0
        size, time = self._tokens / self._count, self._seconds / self._count
        spread = self._squares / self._count - size * size
        together = self._products / self._count - size * time
        slope = together / (spread + (_SPREAD * self._batch_tokens) ** 2)
        per_token = min(max(slope, 0.0), time / size)
        per_batch = time - per_token * size
        return per_batch * max(1.0, tokens / self._batch_tokens) + per_token * tokens
