"""`panewise bench`: the programs in the folder `benchmarks` of a source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from panewise.cli.checkout import folder_of_checkout
from panewise.cli.nearest import did_you_mean
from panewise.errors import UnknownNameError


def benchmarks() -> dict[str, Path]:
    """The benchmarks by name."""
    folder = folder_of_checkout("benchmarks", "make bench")
    return {file.stem.replace("_", "-"): file for file in sorted(folder.glob("*.py")) if not file.stem.startswith("_")}


def run_benchmark(name: str, arguments: list[str]) -> int:
    """Run one benchmark as a program of its own, and give its exit code."""
    programs = benchmarks()
    if name not in programs:
        raise UnknownNameError(f"there is no benchmark {name}{did_you_mean(name, programs)}")
    return subprocess.run([sys.executable, programs[name], *arguments], check=False).returncode
