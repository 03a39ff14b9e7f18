"""Streams that bring nothing: no event comes, or all events are late or have no time. Nobody would see why no window
closes.

The watermark of a job with several streams is that of the slowest. A stream without events so holds back all windows; a
control stream does not.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

from panewise.errors import SilentStreamWarning
from panewise.spark.batch_metrics import BatchMetrics

QUIET_BATCHES = 3
"""A source without events is told of after this many batches in which others had some."""


class Silence:
    """Watches the progress of one run, and tells each kind of silence once until it has ended."""

    def __init__(self) -> None:
        self._batches = 0
        self._rows = 0
        self._batches_with_rows = 0
        self._rows_of: Counter[str] = Counter()
        self._told: set[str] = set()
        self._watermark_us: int | None = None
        self._has_moved = False
        """Whether the watermark did."""

    def see(self, progress: Mapping[str, Any]) -> list[str]:
        """What there is to tell after one more batch."""
        batch = BatchMetrics.of(progress)
        self._has_moved |= self._batches > 0 and batch.watermark_us != self._watermark_us
        self._watermark_us = batch.watermark_us
        self._batches += 1
        self._rows += batch.rows_in
        self._batches_with_rows += batch.rows_in > 0
        told = self._useless(batch) if batch.rows_in and batch.is_counted else []
        return told + self._quiet_sources(progress)

    def idle(self) -> list[str]:
        """What there is to tell when a trigger found nothing to do."""
        if self._rows:
            return []
        return self._tell("no events", "no event has come yet: is it the right path or topic, and does anybody write?")

    def _useless(self, batch: BatchMetrics) -> list[str]:
        untimed, future = batch.counts["untimed_events"], batch.counts["future_events"]
        if untimed + future + batch.counts["late_events"] < batch.rows_in:
            self._told -= {"untimed", "future", "late"}
            return []
        if future and untimed + future >= batch.rows_in:
            return self._tell(
                "future",
                f"all {batch.rows_in:,} events of batch {batch.number} are too far ahead of the clock, or without a "
                f"time, and were set aside. Look at the unit and the zone of their times; FUTURE BOUND NONE takes "
                f"events of any time",
            )
        if untimed >= batch.rows_in:
            return self._tell(
                "untimed",
                f"none of the {batch.rows_in:,} events of batch {batch.number} has a time: their timestamps are "
                f"NULL or outside the years 1 to 9999. Declare the unit of integers, as in TIMESTAMP(ms), or look at "
                f"how the source writes times",
            )
        return self._tell(
            "late",
            f"all {batch.rows_in:,} events of batch {batch.number} are late or without a time, and were dropped: the "
            f"watermark stands at {batch.watermark}. An event from the future moved it, or WATERMARK is too short",
        )

    def _quiet_sources(self, progress: Mapping[str, Any]) -> list[str]:
        """The sources that had no event so far, while others had some and the watermark stood still."""
        sources = progress.get("sources") or []
        for place, source in enumerate(sources):
            self._rows_of[f"{place} {source['description']}"] += source["numInputRows"] or 0
        if self._batches_with_rows < QUIET_BATCHES or len(sources) < 2 or self._has_moved:
            return []
        return [
            message
            for place, source in enumerate(sources)
            if not self._rows_of[f"{place} {source['description']}"]
            for message in self._tell(
                f"source {place}",
                f"no event has come from {source['description']}, while other sources have events. The watermark is "
                f"that of the slowest source, so no window closes before it brings some",
            )
        ]

    def _tell(self, kind: str, message: str) -> list[str]:
        if kind in self._told:
            return []
        self._told.add(kind)
        return [message]


def warn_of_silence(message: str) -> None:
    """Tell of a silent stream as a warning of Python."""
    warnings.warn(message, SilentStreamWarning, stacklevel=2)
