"""Processes that share the files of compiled kernels never run each other's code for their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from numba.core.caching import IndexDataCacheFile

import panewise.kernels  # noqa: F401 - it draws the numbers

KERNELS = """
import sys
import numpy as np
from numba import njit
import panewise.kernels

@njit(cache=True)
def least(values):
    return values[np.argsort(values)[0]]

@njit(cache=True)
def greatest(values):
    return np.sort(values)[-1]

KERNELS = {"least": least, "greatest": greatest}
print([int(KERNELS[name](np.array([7.0, 1.0, 3.0, 5.0]))) for name in sys.argv[1:]])
"""


def answers(folder: Path, *kernels: str) -> str:
    """What a new process answers, with compiled kernels in the folder."""
    program = folder / "program.py"
    program.write_text(KERNELS, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(program), *kernels],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout.strip()


def test_kernels_that_two_processes_compiled_are_told_apart_by_a_third(tmp_path: Path) -> None:
    # One sorts doubles and one finds their order; with numba's own numbers both would have the same name.
    assert answers(tmp_path, "least") == "[1]"
    assert answers(tmp_path, "greatest") == "[7]"
    assert answers(tmp_path, "least", "greatest") == "[1, 7]"
    assert answers(tmp_path, "greatest", "least") == "[7, 1]"


def test_two_processes_that_save_at_the_same_moment_lose_a_file_at_worst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = (IndexDataCacheFile(str(tmp_path), "kernel", "stamp") for _ in range(2))
    save_index = mine._save_index

    def after_the_other(overloads: dict[str, Any]) -> None:
        other.save("doubles", "code for doubles")
        save_index(overloads)

    monkeypatch.setattr(mine, "_save_index", after_the_other)
    monkeypatch.setattr(mine, "_save_data", lambda name, data: None)
    mine.save("integers", "code for integers")
    assert mine.load("integers") is None
    assert mine.load("doubles") in (None, "code for doubles")
