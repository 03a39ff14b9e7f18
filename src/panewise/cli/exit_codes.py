"""How the command ends: exit codes that tell whoever started it whether to start it again."""

from __future__ import annotations

import errno
from enum import IntEnum

from panewise.errors import PanewiseError


class ExitCode(IntEnum):
    """What the exit code of a command means."""

    DONE = 0
    """Done, or stopped because somebody asked for it."""
    UNEXPECTED = 1
    """A fault of Panewise itself; Python's own code, with a traceback."""
    PERMANENT = 2
    """The same again would fail again: the command line, the job file, a statement, a folder, the checkpoint."""
    NO_ANSWER = 3
    """A lookup found no answer: no window has closed yet, or the group is idle."""
    DIFFERS = 4
    """An audit found answers that differ from what was served, or files are laid out in another manner."""
    UNKNOWN = 70
    """The job failed in Spark, and its cause does not say whether that is permanent or passing."""
    PASSING = 75
    """Something outside failed that may be well again: a full disk, a broker, a worker, Spark's Java process."""


PASSING_ERRORS = frozenset(
    {
        errno.EADDRINUSE,
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EDQUOT,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.EIO,
        errno.EMFILE,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.EPIPE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
"""What an operating system refuses now and may grant later."""


class JobFailedError(PanewiseError):
    """A job that failed in Spark, and how the command ends for it."""

    def __init__(self, message: str, exit_code: ExitCode) -> None:
        self.exit_code = exit_code
        super().__init__(message)


def exit_code_of(error: BaseException) -> ExitCode:
    """How a command ends that an error has ended.

    >>> exit_code_of(PanewiseError("no such query")), exit_code_of(JobFailedError("gone", ExitCode.PASSING))
    (<ExitCode.PERMANENT: 2>, <ExitCode.PASSING: 75>)
    """
    if isinstance(error, JobFailedError):
        return error.exit_code
    if not isinstance(error, PanewiseError):
        return ExitCode.UNEXPECTED
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in PASSING_ERRORS:
            return ExitCode.PASSING
        cause = cause.__cause__
    return ExitCode.PERMANENT


def failure(error: BaseException) -> dict[str, object]:
    """A failure as plain values, for a line of JSON."""
    code = exit_code_of(error)
    message = str(error) if isinstance(error, PanewiseError) else f"{type(error).__name__}: {error}"
    return {"event": "failed", "exit_code": int(code), "failure": code.name.lower(), "error": message}
