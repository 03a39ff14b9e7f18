"""Running a way's program under a time limit, in a session of its own.

The limit is for each point, from the moment when the program says that it began. A program that misses it is ended
with everything it started: all processes of its session. Spark's workers leave the process group but stay in the
session.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STARTING_LIMIT_S = 600.0
"""The limit for starting and warming up, which are not measured."""
SAMPLE_S = 0.25
PROC = Path("/proc")


class NotFinishedError(Exception):
    """A program missed its time limit."""


class FailedError(Exception):
    """A program ended before it was done."""


class Program:
    """A running program: its lines as they come, and the most memory that its processes held together."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._log = log
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                env=environment, start_new_session=True,
            )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.peak_bytes = 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def next_line(self, state: str, limit_s: float) -> dict[str, Any]:
        """The next line, which must come within a time and have this state."""
        until = time.monotonic() + limit_s
        while True:
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, _session(self._process.pid))))
            with contextlib.suppress(queue.Empty):
                text = self._lines.get(timeout=SAMPLE_S)
                if text is None:
                    raise FailedError(self._last_words())
                line: dict[str, Any] = json.loads(text)
                if line["state"] != state:
                    raise FailedError(f"the program said {line['state']!r} instead of {state!r}")
                return line
            if time.monotonic() > until:
                raise NotFinishedError

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log.read_text(errors="replace").splitlines() if line.strip()]
        told = [line for line in lines if "Error" in line or "Exception" in line or "Killed" in line]
        return ((told or lines or ["it said nothing"])[-1])[:300]

    def end(self) -> None:
        """End it and everything it started."""
        # Spark's JVM ends its workers itself; what is left after a moment is ended here.
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in _session(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)
            until = time.monotonic() + 5
            while time.monotonic() < until and any(_session(self._process.pid)):
                time.sleep(0.1)
        self._reader.join(timeout=5)


def _session(leader: int) -> Iterator[int]:
    """The processes of a session that are still running."""
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    yield int(entry.name)


def _resident_bytes(process: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int((PROC / str(process) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
