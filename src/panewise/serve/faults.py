"""What a client is told about an error: a status, a kind and a message. Never where in the code it happened."""

from __future__ import annotations

import logging
from secrets import token_hex
from typing import TypeVar

import msgspec

from panewise.errors import (
    AnswerOverflowError,
    CommandError,
    EventsError,
    FolderError,
    HistoryError,
    MemoryBudgetError,
    PanewiseError,
    QueryKindError,
    QuotaError,
    StatementError,
    UnknownNameError,
    WatermarkError,
)
from panewise.serve.asking import OverloadedError
from panewise.serve.messages import Failure, Fault

T = TypeVar("T")

LOG = logging.getLogger("panewise.serve")

_STATUS: list[tuple[type[Exception], int]] = [
    (StatementError, 422),
    (UnknownNameError, 404),
    (HistoryError, 410),
    (WatermarkError, 409),
    (CommandError, 409),
    (QueryKindError, 409),
    (MemoryBudgetError, 422),
    (QuotaError, 422),
    (AnswerOverflowError, 422),
    (EventsError, 400),
    (FolderError, 503),
    (PanewiseError, 400),
    (OverloadedError, 503),
]
"""The first that fits counts. What Panewise refuses is the request's fault, unless a folder cannot be read."""


class RequestError(Exception):
    """A request that cannot be answered, with its status."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)


def decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """What a body says in JSON."""
    try:
        return decoder.decode(body)
    except UnicodeDecodeError as error:
        raise RequestError(400, f"the body is not UTF-8: {error}") from None


def failure_of(error: Exception) -> tuple[int, Failure]:
    """The status and the body of an error that was foreseen."""
    if isinstance(error, RequestError):
        return error.status, Failure(Fault("RequestError", str(error)))
    if isinstance(error, StatementError):
        fault = Fault("StatementError", error.message, error.line, error.column, error.text or None, error.hint or None)
        return 422, Failure(fault)
    if isinstance(error, msgspec.ValidationError | msgspec.DecodeError):
        return 400, Failure(Fault("RequestError", f"the request does not fit the interface: {error}"))
    for kind, status in _STATUS:
        if isinstance(error, kind):
            return status, Failure(Fault(type(error).__name__, str(error)))
    raise error


def told(error: Exception) -> tuple[int, bytes, dict[str, str]]:
    """The answer to any error: status, body and headers. The log gets what was not foreseen, under a number."""
    try:
        status, failure = failure_of(error)
    except Exception:
        number = token_hex(4)
        LOG.exception("unforeseen error %s", number, exc_info=error)
        status, failure = 500, Failure(Fault("ServerError", f"the server failed; its log tells more under {number}"))
    headers = {"cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 503:
        headers["retry-after"] = "1"
    if status in (401, 403, 408, 413):
        # The body was not read, so the connection cannot be used again.
        headers["connection"] = "close"
    return status, msgspec.json.encode(failure), headers
