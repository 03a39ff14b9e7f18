"""The Python that runs Spark's workers on this machine: the same interpreter, with PySpark from where it is installed.

Spark puts its own `pyspark.zip` first on the workers' path. Python keeps no compiled code for a zip, so every process
compiles all of PySpark again, and each streaming query starts such a process and waits for it. The zip and the
installed package have the same files; `docs/decisions.md` says what this saves.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable
from importlib.machinery import PathFinder
from pathlib import Path

COMMAND = "panewise-worker-python"
"""The script of this module's `main`, as pyproject.toml installs it."""


TALKATIVE = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""Spark's process that begins a query with state. It prints its steps and the schema of the state, for Spark's makers;
Spark passes that on to the console of the job. What fails there it tells by its socket."""


def choose_worker_python() -> str:
    """Set the Python of the workers unless PYSPARK_PYTHON is set; call it before the first session."""
    script = Path(sysconfig.get_path("scripts"), COMMAND)
    # Without a setting, workers run the first python3 on the PATH, which may not have Panewise.
    return os.environ.setdefault("PYSPARK_PYTHON", str(script) if script.exists() else sys.executable)


def without_zips(python_path: Iterable[str], search_path: list[str]) -> list[str]:
    """The entries of a PYTHONPATH without Spark's zips, where `search_path` has the same PySpark, installed."""
    entries = [Path(entry) for entry in python_path if entry]
    installed = any(
        entry.name == "pyspark.zip"
        and entry.parts[-4:-1] == ("pyspark", "python", "lib")
        and (entry.parents[2] / "__init__.py").exists()
        and str(entry.parents[3]) in search_path
        for entry in entries
    )
    if not installed or PathFinder.find_spec("py4j", search_path) is None:
        return [str(entry) for entry in entries]
    return [
        str(entry) for entry in entries if not (entry.suffix == ".zip" and entry.name.startswith(("pyspark", "py4j")))
    ]


def main() -> None:
    """Become the interpreter and pass the rest of the command line on."""
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    search_path = [entry for entry in sys.path if entry not in entries]
    os.environ["PYTHONPATH"] = os.pathsep.join(without_zips(entries, search_path))
    if sys.argv[1:3] == ["-m", TALKATIVE]:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
