"""Errors that the service returns: HTTP status, one-line message and error code.

Both interfaces return `{"error": message}`; LibreTranslate's clients know some of its messages.
"""

from __future__ import annotations

import json
import math


class Problem(Exception):  # noqa: N818 an answer, not an accident
    """A request that ends without a result. `reason` is a word for metrics and logs, which never
    see the text, and for the page, which has its own words for some."""

    status = 400
    reason = "invalid"
    retry_after: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What a client may need to know beyond the body."""
        found = {"X-Reason": self.reason}
        if self.retry_after is not None:
            found["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return found


class Invalid(Problem):
    """The request cannot be understood, or asks for what is not there."""


class TooLong(Invalid):
    """The text has more characters than are taken; the limit is the message's last number."""

    reason = "too_long"


class TooManyTokens(TooLong):
    """The text has more tokens than the model takes at once."""

    reason = "too_many_tokens"


class UnknownLanguage(Invalid):
    """No model leads from the one language to the other."""

    reason = "language"


class Indirect(Invalid):
    """What is asked for needs one model, and the pair goes through another language."""

    reason = "indirect"


class UnknownFormat(Invalid):
    """No reader knows this kind of file."""

    reason = "format"


class Impossible(Invalid):
    """The wishes leave no translation; told of a text, whose neighbours have theirs."""

    reason = "impossible"


class TooLarge(Problem):
    """The body is longer than the service reads."""

    status, reason = 413, "too_large"


class Slow(Problem):
    """The body did not come in time."""

    status, reason = 408, "slow"


class Forbidden(Problem):
    """The key is missing or wrong."""

    status, reason = 403, "forbidden"


class NotFound(Problem):
    """Nothing is there."""

    status, reason = 404, "not_found"


class Busy(Problem):
    """There is more to do than can be done in time; nothing of the request was begun."""

    status, reason = 429, "busy"

    def __init__(self, text: str, retry_after: float) -> None:
        super().__init__(text)
        self.retry_after = retry_after


class SlowDown(Busy):
    """This key or address has sent more than its rate."""

    reason = "rate"


class Late(Problem):
    """The deadline came while the engine was at it."""

    status, reason = 504, "deadline"


class Gone(Problem):
    """The client has left; nobody reads the answer."""

    status, reason = 499, "gone"


class Draining(Problem):
    """The service is about to end."""

    status, reason, retry_after = 503, "draining", 1.0


class Failed(Problem):
    """The engine could not do it: this text alone, not those beside it."""

    status, reason = 500, "failed"


class Bug(Problem):
    """The service is at fault; its log shows where."""

    status, reason = 500, "bug"


BUG = "the service has a bug, which its log shows"


def error_body(problem: Problem) -> bytes:
    """Return an error as both interfaces give it."""
    return json.dumps({"error": str(problem)}, ensure_ascii=True).encode()
