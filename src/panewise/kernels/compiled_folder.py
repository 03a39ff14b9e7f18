"""Where compiled kernels are kept: one folder of the user's, shared by all environments and checkouts.

numba keeps compiled code beside the source, so each fresh checkout or environment would compile everything again. And
it compares a kernel's own file only: compiled code also holds the code of the kernels that it calls, so a change of one
file could leave stale code of it in others. Here the name of a folder has a digest of the kernel's file and of all
kernel files that it imports: equal sources share compiled code wherever they lie, and nothing stale is ever loaded.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl, _CacheLocator

from panewise.cache import cache_folder

_SOURCES = Path(__file__).parent
_IMPORT = re.compile(r"^from panewise\.kernels\.(\w+) import", re.MULTILINE)
_UNUSED_S = 90 * 24 * 3600
"""Compiled code of older sources is removed when it is this old."""


def keep_in_one_folder() -> None:
    """Let numba ask here first where to keep a kernel."""
    locators: list[Any] = CacheImpl._locator_classes
    if _KernelLocator not in locators:
        locators.insert(0, _KernelLocator)


def compiled_folder() -> Path | None:
    """The folder of all compiled kernels; numba reads no code that another version of it compiled."""
    root = cache_folder()
    return None if root is None else root / f"kernels-{numba.__version__}"


class _KernelLocator(_CacheLocator):
    """Tells numba where a kernel's compiled code lies. Its methods have the names that numba calls."""

    def __init__(self, root: Path, source: Path, line: int) -> None:
        self._folder = root / f"{source.stem}-{digest(source.stem)[:20]}"
        self._stamp = digest(source.stem)
        self._line = line

    def get_cache_path(self) -> str:
        """The folder of this version of the kernel's file."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What must be the same for compiled code to be used."""
        return self._stamp

    def get_disambiguator(self) -> str:
        """Tells functions of one name in one file apart."""
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _KernelLocator | None:
        """A locator for a kernel of Panewise; None sends numba to its own, for other functions and unusable folders."""
        source = Path(py_file)
        if source.parent != _SOURCES or not source.exists():
            return None
        root = compiled_folder()
        if root is None:
            return None
        locator = cls(root, source, py_func.__code__.co_firstlineno)
        return locator if _can_be_used(locator._folder) else None


@lru_cache
def digest(kernel_file: str) -> str:
    """Identifies a kernel file together with all kernel files that it imports, directly or through others."""
    found: dict[str, bytes] = {}
    waiting = [kernel_file]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = (_SOURCES / f"{name}.py").read_bytes()
            waiting += _IMPORT.findall(found[name].decode())
    whole = hashlib.sha256()
    for name in sorted(found):
        whole.update(f"{name} {len(found[name])}\n".encode())
        whole.update(found[name])
    return whole.hexdigest()


@lru_cache
def _can_be_used(folder: Path) -> bool:
    """Whether compiled code can be kept in a folder, which is made if it is missing."""
    try:
        if not folder.exists():
            folder.parent.mkdir(mode=0o700, exist_ok=True)
            _remove_unused(folder.parent, folder.name.rpartition("-")[0])
            folder.mkdir(mode=0o700, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _remove_unused(root: Path, kernel_file: str) -> None:
    """Remove what older sources of a kernel file left behind long ago."""
    oldest = time.time() - _UNUSED_S
    for folder in root.glob(f"{kernel_file}-*"):
        if folder.stat().st_mtime < oldest:
            shutil.rmtree(folder, ignore_errors=True)
