"""Reading workloads: from a file or a text, and statements on top of a workload that runs already."""

from __future__ import annotations

import os
from pathlib import Path

from weft.errors import StatementError, WeftError
from weft.language.binder import bind
from weft.language.model import Workload
from weft.language.parser import parse
from weft.language.source import excerpt

_EMPTY_HINT = "write CREATE STREAM and CREATE QUERY statements, each ended by ;"


def read(source: str | os.PathLike[str]) -> Workload:
    """The workload of a file, or of a text.

    A string with a line break or a semicolon, or that starts with CREATE, is a text; any other is a path.

    >>> list(read("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;").streams)
    ['s']
    """
    if isinstance(source, str) and _is_text(source):
        return apply(Workload(), source)
    return apply(Workload(), _decode(_read_bytes(source)))


def apply(workload: Workload, text: str) -> Workload:
    """A new workload: the given one after the statements of a text. On an error nothing has changed.

    Cost: linear in the text, and a copy of the workload's dictionaries.
    """
    statements = parse(text)
    if not statements:
        raise StatementError("there is no statement here", line=1, column=1, hint=_EMPTY_HINT)
    return bind(statements, text, workload)


def _is_text(source: str) -> bool:
    return "\n" in source or ";" in source or not source.strip() or source.lstrip()[:6].upper() == "CREATE"


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        message = f"no such file: {os.fspath(path)!r}. Text that is no path begins with CREATE or holds a semicolon"
        raise WeftError(message) from None
    except (OSError, ValueError) as error:
        raise WeftError(f"cannot read {os.fspath(path)!r}: {error}") from error


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line_start = before.rfind("\n") + 1
        raise StatementError(
            f"the byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8",
            line=before.count("\n") + 1,
            column=len(before) - line_start + 1,
            text=excerpt(before, len(before)),
            hint="save the file as UTF-8",
        ) from None
    return text.removeprefix("\ufeff")
