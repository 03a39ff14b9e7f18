"""Spark's own programs, from the installed PySpark, as processes that a test starts and stops."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from panewise import spark as panewise_spark

SPARK_HOME = Path(pyspark.__path__[0])

PATIENCE_S = 300
"""How long anything may take to start or to stop; even a busy machine needs far less."""


class SparkProgram:
    """A running program of Spark in a process group of its own, with a log."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._killed = False
        self.log = log

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first match in the log; if the program ends before, an error with the log's end."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            ended = self._process.poll() is not None
            if found := re.search(pattern, self.log.read_text()):
                return found
            if ended or time.monotonic() > limit:
                why = f"ended with {self._process.returncode}" if ended else f"did not say {pattern!r} in time"
                raise AssertionError(f"{self.log.stem} {why}:\n{self.log.read_text()[-4000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in an orderly way, then kill what is left."""
        if self._killed:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE_S)
        self.kill()

    def kill(self) -> None:
        """Kill it and its children at once, as when a machine loses power."""
        # Only once: later the system may give the group's number to another process.
        self._killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def environment(**more: str) -> dict[str, str]:
    """What Spark's programs need to find: Java, the Python with Panewise, Spark itself; none of the user's
    settings.
    """
    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return kept | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1"} | more


@contextmanager
def started(
    name: str, command: list[str], folder: Path, variables: Mapping[str, str] | None = None
) -> Iterator[SparkProgram]:
    """Run a script of Spark's `bin`, with a log in the folder, until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    script, *arguments = command
    # A folder without settings: those of the user's own Spark must not change a test.
    configuration = folder / "conf"
    configuration.mkdir(exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [SPARK_HOME / "bin" / script, *arguments],
            env=environment(SPARK_CONF_DIR=str(configuration), **(variables or {})),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=folder,
        )
    program = SparkProgram(process, log)
    try:
        yield program
    finally:
        program.stop()
