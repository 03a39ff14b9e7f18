"""Reading a file of statements for a command, so that an error names the file too."""

from __future__ import annotations

from pathlib import Path

from panewise.errors import StatementError
from panewise.language.workload import Workload


def read_workload(file: Path) -> Workload:
    """The workload in a file of statements."""
    from panewise.language.reader import read  # lark is loaded only by commands that parse

    try:
        return read(file)
    except StatementError as error:
        raise StatementError(
            error.message, line=error.line, column=error.column, text=error.text, hint=error.hint, file=str(file)
        ) from error
