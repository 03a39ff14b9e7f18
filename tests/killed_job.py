"""A job of `panewise run` in its own processes, which are killed without a warning and started again.

A job consists of the first Python process, the JVM, and the workers of Spark, which have a process group of their own.
All inherit a mark in their environment, which shows that they belong to it; only processes with the mark are killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

MARK = "PANEWISE_TEST_JOB"
GONE_WITHIN_S = 30
POLL_S = 0.02
HASTY_POLL_S = 0.002


@dataclass(frozen=True)
class Batches:
    """How far a stream is by its checkpoint; -1 stands for the batch before the first."""

    logged: int
    """The newest batch whose offsets are fixed."""
    written: int
    """The newest batch whose answers the sink has."""
    committed: int
    """The newest batch that is done."""
    listed: dict[str, int]
    """By the number of a file source, how many times it has listed files for a batch."""

    @property
    def is_in_flight(self) -> bool:
        """Whether a batch has begun and is not done: it will be repeated."""
        return self.logged > self.committed

    @property
    def is_only_written(self) -> bool:
        """Whether the sink has the answers of a batch that is not done."""
        return self.written > self.committed

    @property
    def is_only_listed(self) -> bool:
        """Whether a file source has chosen files for a batch whose offsets are not fixed yet."""
        return any(count > self.logged + 1 for count in self.listed.values())


class KilledJob:
    """A job file, its checkpoint, the log of its sink, and the processes that run it at a time.

    The sink's log has an entry for each batch: the folder `_spark_metadata` of files, `_delta_log` of a Delta table.
    """

    def __init__(self, file: Path, checkpoint: Path, sink_log: Path, scratch: Path) -> None:
        self._file = file
        self._checkpoint = checkpoint
        self._sink_log = sink_log
        self._scratch = scratch
        self._mark = uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self._log = file.with_suffix(".log")

    def start(self) -> None:
        """Start the job; no process of the run before may be left."""
        assert not self._processes()
        self._scratch.mkdir(exist_ok=True)
        environment = os.environ | {MARK: self._mark, "SPARK_LOCAL_DIRS": str(self._scratch)}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", "from panewise.cli.main import app; app()", "run", str(self._file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def wait(self, within_s: float) -> None:
        """Wait until the job ends by itself, as it should."""
        assert self._process is not None
        assert self._process.wait(within_s) == 0, self._output()
        self._wait_until_gone()

    def batches(self) -> Batches:
        """How far the stream is."""
        sources = self._checkpoint / "sources"
        # The source of a topic keeps one file of its own there for ever.
        listed = {path.name: _newest(path) + 1 for path in sources.iterdir()} if sources.is_dir() else {}
        return Batches(
            logged=_newest(self._checkpoint / "offsets"),
            written=_newest(self._sink_log),
            committed=_newest(self._checkpoint / "commits"),
            listed=listed,
        )

    def wait_for_batch(self, number: int, within_s: float) -> None:
        """Wait until the offsets of a batch are fixed."""
        until_s = time.monotonic() + within_s
        while self.batches().logged < number:
            self.expect_running()
            assert time.monotonic() < until_s, f"batch {number} does not begin within {within_s} s\n{self._output()}"
            time.sleep(POLL_S)

    def go_on(self, seconds: float, up_to_batch: int) -> None:
        """Let it run for a time, but not beyond a given batch."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and self.batches().logged < up_to_batch:
            time.sleep(POLL_S)

    def wait_for_write(self, number: int, within_s: float) -> None:
        """Wait until the sink has the answers of a batch, and hold the job there: a moment later Spark commits it."""
        until_s = time.monotonic() + within_s
        while self.batches().written < number:
            self.expect_running()
            assert time.monotonic() < until_s, f"batch {number} is not written within {within_s} s\n{self._output()}"
            time.sleep(HASTY_POLL_S)
        self._stop()

    @property
    def is_running(self) -> bool:
        """Whether the first process of the job has not ended."""
        return self._process is not None and self._process.poll() is None

    def expect_running(self) -> None:
        """Fail when the job has ended by itself."""
        assert self._process is not None
        assert self._process.poll() is None, f"the job ended with {self._process.returncode}\n{self._output()}"

    def kill(self, may_hit: Callable[[Batches], bool]) -> Batches:
        """Kill all processes of the job as soon as possible, and wait until they are gone; returns how far it was."""
        self._stop()
        while not may_hit(self.batches()):
            self.expect_running()
            self._signal(signal.SIGCONT)
            time.sleep(POLL_S)
            self._stop()
        self._end()
        return self.batches()

    def close(self) -> None:
        """End what still runs."""
        if self._process is not None:
            self._end()

    def _end(self) -> None:
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._wait_until_gone()

    def _stop(self) -> None:
        """Stop all processes where they are, so that a test can read the checkpoint."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            # The JVM is in this group. Stop it at once: finding the others takes a while.
            os.killpg(self._process.pid, signal.SIGSTOP)
        self._signal(signal.SIGSTOP)
        time.sleep(POLL_S)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes():
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _wait_until_gone(self) -> None:
        until_s = time.monotonic() + GONE_WITHIN_S
        while left := self._processes():
            assert time.monotonic() < until_s, f"processes {left} of the job do not end"
            time.sleep(POLL_S)

    def _processes(self) -> list[int]:
        """The processes that have the mark; a process that has ended and waits for its parent has no environment."""
        entry = f"{MARK}={self._mark}".encode()
        found = []
        for process in (path for path in Path("/proc").iterdir() if path.name.isdecimal()):
            with suppress(OSError):
                if entry in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return found

    def _output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


def _newest(log: Path) -> int:
    """The newest entry of Spark's log, or Delta's; -1 where there is none. Some call a tenth one `9.compact`."""
    try:
        names = os.listdir(log)
    except FileNotFoundError:
        return -1
    numbers = (name.removesuffix(".compact").removesuffix(".json") for name in names)
    return max((int(number) for number in numbers if number.isdecimal()), default=-1)
