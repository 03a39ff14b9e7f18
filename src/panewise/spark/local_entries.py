"""Entries of the log as files on this machine, so that a worker reads quickly what a neighbour wrote.

The state store is the truth: if a file is missing, the entry is read from there, which takes longer. A token always
names the same content, so no file is ever wrong. The files lie in Spark's own scratch folder, which goes with the
executor.
"""

from __future__ import annotations

import os
from pathlib import Path


def put(token: str, content: bytes) -> None:
    """Keep an entry. If the disk refuses, the state store still has it."""
    path = _path(token)
    if path is None:
        return
    unfinished = path.with_suffix(".unfinished")
    try:
        path.parent.mkdir(exist_ok=True)
        unfinished.write_bytes(content)
        unfinished.rename(path)
    except OSError:
        unfinished.unlink(missing_ok=True)


def get(token: str) -> bytes | None:
    """An entry, if it is here."""
    path = _path(token)
    try:
        return None if path is None else path.read_bytes()
    except OSError:
        return None


def drop(token: str) -> None:
    """Forget an entry."""
    path = _path(token)
    if path is not None:
        path.unlink(missing_ok=True)


def _path(token: str) -> Path | None:
    folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return Path(folders[0], "panewise", token) if folders[0] else None
