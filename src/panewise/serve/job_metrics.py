"""What a job on Spark says of its last batches: the lines of its metrics file (`[metrics] file` of the job)."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import msgspec

from panewise.serve.encoding import time_text
from panewise.serve.messages import JobBatch

KEPT = 120
"""So many batches are shown."""
MOST_BYTES = 1 << 20
"""So much of the end of the file is read at once; older lines are not needed."""


class _Line(msgspec.Struct):
    """What is read of a line."""

    batch: int
    triggered_us: int
    duration_ms: int
    rows_in: int
    rows_per_s: float
    watermark_lag_s: float | None = None
    late_events: int | None = None
    fed: int | None = None
    folded: int | None = None
    log_bytes: int | None = None
    state_memory_bytes: int = 0
    state_disk_bytes: int = 0


_DECODER = msgspec.json.Decoder(_Line)


class JobMetrics:
    """Follows a metrics file. It may be missing, grow, and be replaced when it is full."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: tuple[int, int] | None = None
        self._at = 0
        self.batches: deque[JobBatch] = deque(maxlen=KEPT)
        self.problem: str | None = None
        """What keeps the file from being read. Answers do without it."""

    def refresh(self) -> None:
        """Read the lines that are new, if the file can be read. Cost: O(new bytes)."""
        try:
            self._read()
            self.problem = None
        except FileNotFoundError:
            # The job has not written any yet, or has just moved the file.
            self.problem = None
        except OSError as error:
            self.problem = f"--metrics {self._path}: {error.strerror}; batches are shown once the file can be read"

    def _read(self) -> None:
        with self._path.open("rb") as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._file or found.st_size < self._at:
                self._file, self._at = (found.st_dev, found.st_ino), 0
            if found.st_size == self._at:
                return
            begin = max(self._at, found.st_size - MOST_BYTES)
            file.seek(begin)
            content = file.read(MOST_BYTES)
        whole = content.rpartition(b"\n")[0]
        self._at = begin + len(content) - (len(content) - len(whole) - 1 if whole else len(content))
        for line in whole.split(b"\n"):
            try:
                self.batches.append(_batch(_DECODER.decode(line)))
            except (msgspec.DecodeError, msgspec.ValidationError):
                # The first one may be cut off; and a line of another program is not about a batch.
                continue


def _batch(line: _Line) -> JobBatch:
    state_bytes = line.log_bytes or line.state_memory_bytes + line.state_disk_bytes
    return JobBatch(
        batch=line.batch,
        began=time_text(line.triggered_us),
        duration_s=line.duration_ms / 1e3,
        events=line.rows_in,
        events_per_s=line.rows_per_s,
        late_events=line.late_events,
        lag_s=line.watermark_lag_s,
        state_bytes=state_bytes,
        fed=line.fed,
        folded=line.folded,
    )
