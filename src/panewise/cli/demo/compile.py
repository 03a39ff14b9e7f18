"""Compiling Panewise's kernels before the stream needs them, while this process waits for Spark to start.

They are kept on disk, so the workers that Spark starts only load them, and so does the next run of the demo.
"""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from panewise.engine.engine import Engine
from panewise.language.workload import Workload
from panewise.windows.clock import END_OF_STREAM

_EVENTS = 2_000
"""Enough flights that every query has a window to answer."""


class Compilation(threading.Thread):
    """Answers a workload over a few events, which compiles every kernel that it needs."""

    def __init__(self, workload: Workload, events: pa.Table) -> None:
        super().__init__(name="compilation", daemon=True)
        self._workload = workload
        self._events = events.slice(0, _EVENTS)
        self.seconds = 0.0

    def run(self) -> None:
        """Push, and answer everything."""
        began = time.perf_counter()
        engine = Engine(self._workload)
        for stream in self._workload.declared:
            engine.push(stream, self._events)
            engine.advance(stream, END_OF_STREAM)
        self.seconds = time.perf_counter() - began
