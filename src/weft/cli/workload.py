"""Reading a file of statements for a command, so that an error names the file too."""

from __future__ import annotations

from pathlib import Path

from weft.errors import StatementError, WeftError
from weft.language.model import Workload


def read_workload(file: Path) -> Workload:
    """The workload in a file of statements."""
    from weft.language.reader import read  # lark is loaded only by commands that parse

    try:
        return read(file)
    except StatementError as error:
        raise WeftError(f"{file}: {error}") from error
