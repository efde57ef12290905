"""Errors that the service returns: HTTP status, one-line message and error code.

Both interfaces return `{"error": message}`, with the exceeded `limit` if there is one, and the code
in the header `X-Error-Code`. The messages of LibreTranslate's routes are LibreTranslate's own,
because its clients may compare them.
"""
# ruff: noqa: N818 named after HTTP errors, as in werkzeug

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import BaseModel, ConfigDict

ENGINE_FAILED_MESSAGE = "the engine failed on this text"
INTERNAL_ERROR_MESSAGE = "internal error; see the log of the service"


class ErrorBody(BaseModel):
    """JSON body of an error response."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    error: str
    """One-line message."""
    limit: int | None = None
    """The limit that the request exceeds, if any."""


class ServiceError(Exception):
    """Base class of all errors that a client receives instead of a result.

    `error_code` identifies the kind of error in metrics and logs, which never contain the text of a
    request, and on the web page, which has translated messages for most codes.
    """

    status = 400
    error_code = "bad_request"
    retry_after: float | None = None
    limit: int | None = None
    extra_headers: Mapping[str, str] = MappingProxyType({})

    @property
    def headers(self) -> dict[str, str]:
        """HTTP headers of the response: the error code and, if known, when to retry."""
        headers = {"X-Error-Code": self.error_code}
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, math.ceil(self.retry_after)))
        return {**headers, **self.extra_headers}

    @property
    def body(self) -> bytes:
        """JSON body of the response."""
        body = ErrorBody(error=str(self), limit=self.limit).model_dump(exclude_none=True)
        return json.dumps(body, ensure_ascii=True).encode()  # also with unpaired surrogates


class BadRequest(ServiceError):
    """The request is malformed, or refers to something that does not exist."""


class LimitExceeded(BadRequest):
    """A number in the request exceeds a limit."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(f"Invalid request: {message}")
        self.limit = limit


class TextTooLong(LimitExceeded):
    """The text has too many characters."""

    error_code = "text_too_long"


class TooManyTokens(TextTooLong):
    """The text has more tokens than the model accepts in one sequence."""

    error_code = "too_many_tokens"


class RequestTooExpensive(LimitExceeded):
    """The request may need too much computation or memory."""

    error_code = "too_expensive"


class UnsupportedLanguagePair(BadRequest):
    """A language is unknown, or no route of models connects the two languages."""

    error_code = "unsupported_language"


class DirectModelRequired(BadRequest):
    """The request needs a single model, but the language pair needs a pivot language."""

    error_code = "direct_model_required"


class UnsupportedFileFormat(BadRequest):
    """There is no reader for this file format."""

    error_code = "unsupported_format"


class ConstraintsUnsatisfiable(BadRequest):
    """No translation satisfies the constraints. Reported per text; other texts are translated."""

    error_code = "constraints_unsatisfiable"


class BodyTooLarge(LimitExceeded):
    """The request body has too many bytes."""

    status, error_code = 413, "body_too_large"


class BodyTimeout(ServiceError):
    """The request body did not arrive in time."""

    status, error_code = 408, "request_timeout"


class Unauthorized(ServiceError):
    """The API key must be outside the body, because the body is large."""

    status, error_code = 401, "unauthorized"
    extra_headers = MappingProxyType({"WWW-Authenticate": "Bearer"})

    def __init__(self) -> None:
        super().__init__("Please send the API key of a large request in the header Authorization")


class Forbidden(ServiceError):
    """The API key is missing or wrong, or the operation is not allowed."""

    status, error_code = 403, "forbidden"


class NotFound(ServiceError):
    """The requested resource does not exist."""

    status, error_code = 404, "not_found"


class Overloaded(ServiceError):
    """The request cannot be finished in time; no part of it was started."""

    status, error_code = 429, "overloaded"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimited(Overloaded):
    """This API key or address has exceeded its request rate."""

    error_code = "rate_limited"


class DeadlineExceeded(ServiceError):
    """The deadline passed while the engine was working on the request."""

    status, error_code = 504, "deadline_exceeded"


class ClientDisconnected(ServiceError):
    """The client closed the connection before the response was ready."""

    status, error_code = 499, "client_disconnected"


class ShuttingDown(ServiceError):
    """The service is shutting down and accepts no new work."""

    status, error_code, retry_after = 503, "shutting_down", 1.0


class StorageError(ServiceError):
    """A file cannot be written, for example because the disk is full."""

    status, error_code = 503, "storage_error"


class EngineError(ServiceError):
    """The engine failed on this text; other texts in the same batch are not affected."""

    status, error_code = 500, "engine_error"


class InternalError(ServiceError):
    """A bug in the service; the log contains the traceback."""

    status, error_code = 500, "internal_error"


class HttpError(ServiceError):
    """An error that Starlette found, such as an unknown path or a wrong method."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None) -> None:
        super().__init__(message)
        self.status, self.extra_headers = status, headers or {}
        self.error_code = NotFound.error_code if status == NotFound.status else self.error_code
