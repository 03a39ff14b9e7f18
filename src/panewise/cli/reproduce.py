"""`panewise reproduce`: the papers' figures, from the folder `experiments` of a source checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from panewise.cli.checkout import folder_of_checkout


def experiments() -> Path:
    """The folder of the figures."""
    return folder_of_checkout("experiments", "make env && .venv/bin/panewise reproduce")


def run_experiments(arguments: list[str]) -> int:
    """Run the program of the experiments in a process of its own, and give its exit code.

    The checkout comes first on its path, and the current folder is not on it: it may have an `experiments` too.
    """
    root = str(experiments().parent)
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([root, inherited]) if inherited else root
    command = [sys.executable, "-P", "-m", "experiments", *arguments]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=False).returncode
