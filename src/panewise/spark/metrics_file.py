"""Metrics as a file of JSON lines, one for each batch.

Each line is written whole by one append, so no reader or second writer ever sees a part of one. When the file would
grow beyond its limit, it becomes `<name>.1` and replaces the earlier one: the disk holds at most twice the limit.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from panewise.errors import FileAccessError
from panewise.spark.batch_metrics import BatchMetrics

MAX_BYTES = 64 << 20
"""About 50,000 batches: a day of batches every two seconds."""


class MetricsFile:
    """A sink of metrics. It opens the file for each line, so you may move or delete the file at any time."""

    def __init__(self, path: str | Path, max_bytes: int = MAX_BYTES) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append(b"")
        except OSError as error:
            raise FileAccessError(
                f"cannot write metrics to {self.path}: {error.strerror}; choose another file, or make this one writable"
            ) from error

    def put(self, metrics: BatchMetrics, /) -> None:
        """Append a line."""
        line = json.dumps(metrics.as_dict(), separators=(",", ":")).encode() + b"\n"
        if self.path.exists() and self.path.stat().st_size + len(line) > self._max_bytes:
            os.replace(self.path, self.path.with_name(self.path.name + ".1"))
        self._append(line)

    def __str__(self) -> str:
        return f"the metrics file {self.path}"

    def _append(self, line: bytes) -> None:
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            size = os.fstat(handle).st_size
            # A line that a full disk cut short must not swallow the next one.
            if size and line and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            if os.write(handle, line) != len(line):
                raise OSError(f"the disk took only a part of a line of {len(line)} bytes")
        finally:
            os.close(handle)
