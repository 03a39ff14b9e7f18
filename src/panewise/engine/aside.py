"""Events that are set aside: no window and no watermark sees them, and they are counted by their reason.

A reason is `untimed` (the time is NULL, or outside the years 1 to 9999), `future` (the time is further ahead of the
clock than FUTURE BOUND allows) or `late` (behind the watermark, and it corrects no answer).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from panewise.engine.ingest import outside_span
from panewise.errors import ArgumentError
from panewise.language.model import Stream

LATE, UNTIMED, FUTURE = "late", "untimed", "future"

Receiver = Callable[[str, str, pa.Table], None]
"""Takes events that are set aside: the stream's name, the reason, and the events with times in int64 microseconds, as a
time outside the years 1 to 9999 is no timestamp."""
Clock = Callable[[], float]
"""The time now, in seconds since 1970."""


def check_callables(set_aside: object, clock: object) -> None:
    """Refuse what cannot be called, before events come."""
    if set_aside is not None and not callable(set_aside):
        raise ArgumentError(
            f"set_aside is a function of a stream's name, a reason and a table, or None; got {set_aside!r}"
        )
    if not callable(clock):
        raise ArgumentError(f"clock is a function that gives seconds since 1970, such as time.time; got {clock!r}")


@dataclass
class Aside:
    """Sets the events of one stream aside: counts them, and hands them to whoever takes them."""

    stream: Stream
    clock: Clock = time.time
    receiver: Receiver | None = None
    counts: Counter[str] = field(default_factory=Counter)

    def separate(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[tuple[str, pa.RecordBatch]]]:
        """The events whose time can be used, and those to `put` aside with their reason. Nothing changes yet."""
        if self.receiver is None and self.stream.future_bound_us is None:
            # Nothing can be wrong with times that a push did not refuse.
            return batch, []
        times = batch.column(self.stream.timestamp)
        values = np.asarray(times.fill_null(0))
        is_untimed = np.asarray(times.is_null()) | outside_span(values)
        is_ahead = np.zeros(len(values), np.bool_)
        if self.stream.future_bound_us is not None:
            now_us = int(self.clock() * 1_000_000)
            # Python's integers: the bound NONE is the largest there is.
            is_ahead = ~is_untimed & (values > min(now_us + self.stream.future_bound_us, 2**63 - 1))
        unusable = [
            (reason, batch.filter(pa.array(is_one)))
            for reason, is_one in ((UNTIMED, is_untimed), (FUTURE, is_ahead))
            if is_one.any()
        ]
        return (batch.filter(pa.array(~(is_untimed | is_ahead))) if unusable else batch), unusable

    def put(self, reason: str, batch: pa.RecordBatch) -> None:
        """Set events aside."""
        if not batch.num_rows:
            return
        if self.receiver is not None:
            self.receiver(self.stream.name, reason, pa.Table.from_batches([batch]))
        self.counts[reason] += batch.num_rows
