"""Keeps the output of child processes off the screen.

Java, and the Python workers that it starts, write to the streams that they inherit, at any log level of Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from panewise.errors import CommandError

_LINES_TOLD = 20


@contextmanager
def quiet_children(log: Path) -> Iterator[None]:
    """Processes started in this block write to a file for as long as they live; this process does not.

    If the block fails, the end of the file tells why.
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
        raise CommandError("\n  ".join([f"Spark did not start: {error}", *last])) from error
    finally:
        _flush()
        for stream, copy in kept.items():
            os.dup2(copy, stream)
            os.close(copy)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
