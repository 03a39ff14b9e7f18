"""Keeping what child processes print off the screen.

Java, and the Python workers that it starts, write to the streams that they inherit, whatever Spark's log level is.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError

_LINES_TOLD = 20


@contextmanager
def quiet_children(log: Path) -> Iterator[None]:
    """Processes that are started in this block write to a file for as long as they live; this one does not.

    When the block fails, the end of the file tells why.
    """
    kept = {stream: os.dup(stream) for stream in (1, 2)}
    _flush()
    with log.open("ab") as file:
        for stream in kept:
            os.dup2(file.fileno(), stream)
    try:
        yield
    except Exception as error:
        last = log.read_text(errors="replace").splitlines()[-_LINES_TOLD:]
        raise WeftError("\n  ".join([f"Spark did not start: {error}", *last])) from error
    finally:
        _flush()
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
