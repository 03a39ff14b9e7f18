"""The folder of the user's cache where Panewise keeps what takes long to make: compiled kernels, the parser's tables.

What lies there is code: it is loaded and run. A folder in which other users may write is refused.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import lru_cache
from pathlib import Path

from panewise.errors import CacheWarning

VARIABLE = "PANEWISE_CACHE"
"""The environment variable that names the folder; without it, Panewise has one in the user's cache."""


def cache_folder() -> Path | None:
    """The folder, which is made if it is missing; None if it cannot be used."""
    return _private(Path(os.environ.get(VARIABLE) or _users_cache() / "panewise"))


def _users_cache() -> Path:
    """Where the system keeps caches of a user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@lru_cache
def _private(folder: Path) -> Path | None:
    """The folder if nobody else may write in it; if somebody may, a warning says so."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError:
        return None
    # Windows has no such modes, and keeps others out of the user's folders by itself.
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        warnings.warn(
            f"compiled kernels are code, and others may write in {folder}: it is not used. "
            f"Run `chmod go-w` on it, or name another folder in {VARIABLE}",
            CacheWarning,
            stacklevel=2,
        )
        return None
    return folder
