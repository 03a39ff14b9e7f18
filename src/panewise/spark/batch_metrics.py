"""The metrics of one micro-batch, as one value: what Spark reports as its progress, and what Panewise counted in it.

Spark's part is public API: rows, durations, event time, state operators. Panewise's part is the observed metrics
`panewise` that `panewise.spark.answers` adds to every query (see `panewise.spark.counts`), and those of sources, such
as `panewise malformed` and the name of a stream. A count that a query lacks is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from panewise.spark.counts import BUCKET, METRICS, NO_TIME, OVERFLOWN, Sizes, overflown_of, whole
from panewise.spark.source_backlog import SourceBacklog

STAGES = ("combine", "feed", "close", "pack")
"""What Panewise's own code does in a batch, in the order in which data passes it. Summed over all tasks."""

_COUNTED = (
    "answers",
    "late_events",
    "untimed_events",
    "future_events",
    "malformed_events",
    "corrected_events",
    "rejected_statements",
    "overflown_answers",
    "lifted",
    "fed",
    "folded",
    "cache_hits",
    "catch_ups",
    "rebuilds",
)
"""Counts that add up over batches."""


@dataclass(frozen=True)
class BatchMetrics:
    """What one micro-batch did. Times are microseconds since the epoch, UTC."""

    query: str
    """The query's name, or its id if it has no name."""
    run: str
    """The id of this run: another one after each restart."""
    number: int
    triggered_us: int
    """When the batch began, by the driver's clock."""
    rows_in: int
    rows_per_s: float
    watermark_us: int | None = None
    """The watermark that the batch saw; None before the first event."""
    newest_us: int | None = None
    """The newest event of the batch."""
    is_counted: bool = True
    """Whether the progress had Panewise's counts. A query that Panewise does not answer has none."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Panewise's counts that add up over batches, by name."""
    overflown: Mapping[str, int] = field(default_factory=dict)
    """By query, the answers that are NULL because they do not fit in 64 bits."""
    stages_ns: Mapping[str, int] = field(default_factory=dict)
    """Time in Panewise's own code by stage, summed over tasks."""
    steps_ms: Mapping[str, int] = field(default_factory=dict)
    """Time of the driver's steps, by Spark's names: they follow one another and make up `duration_ms`."""
    duration_ms: int = 0
    state_rows: int = 0
    state_memory_bytes: int = 0
    """Memory of RocksDB, as Spark reports it."""
    state_disk_bytes: int = 0
    """Files of RocksDB."""
    buckets: Mapping[str, Sizes | None] = field(default_factory=dict)
    """What each bucket that the batch touched holds; None for the others."""
    sizes: Sizes | None = None
    """What all buckets hold together; None as long as that is not known (see `panewise.spark.whole_job`)."""
    backlog: tuple[SourceBacklog, ...] = ()
    """What waits in each source."""

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> BatchMetrics:
        """The batch that Spark reports as one progress."""
        counted = _counted(progress["observedMetrics"])
        durations = dict(progress.get("durationMs") or {})
        operators = progress.get("stateOperators") or []
        times = progress["eventTime"]
        buckets = _buckets(progress["observedMetrics"])
        touched = [sizes for sizes in buckets.values() if sizes is not None]
        return cls(
            query=progress.get("name") or str(progress.get("id", "")),
            run=str(progress.get("runId", "")),
            number=progress["batchId"],
            triggered_us=_micros(progress["timestamp"]),
            rows_in=progress["numInputRows"] or 0,
            rows_per_s=progress["processedRowsPerSecond"] or 0.0,
            # Spark's watermark is the epoch until it has seen the first event.
            watermark_us=_time(times.get("watermark"), none=0),
            newest_us=_time(times.get("max"), none=NO_TIME),
            is_counted=METRICS in progress["observedMetrics"],
            counts={name: counted[name] for name in _COUNTED},
            overflown=_overflown(progress["observedMetrics"]),
            stages_ns={stage: counted[f"{stage}_ns"] for stage in STAGES},
            duration_ms=durations.pop("triggerExecution", 0),
            steps_ms=durations,
            state_rows=_total(operator["numRowsTotal"] for operator in operators),
            state_memory_bytes=_total(operator["memoryUsedBytes"] for operator in operators),
            state_disk_bytes=_total(operator["customMetrics"].get("rocksdbSstFileSize", 0) for operator in operators),
            buckets=buckets,
            sizes=whole(touched) if len(touched) == len(buckets) else None,
            backlog=tuple(map(SourceBacklog.of, progress.get("sources") or ())),
        )

    @property
    def watermark(self) -> str | None:
        """The watermark as text."""
        if self.watermark_us is None:
            return None
        return datetime.fromtimestamp(self.watermark_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")

    @property
    def watermark_lag_s(self) -> float | None:
        """How far the watermark was behind the clock when the batch began."""
        return None if self.watermark_us is None else (self.triggered_us - self.watermark_us) / 1e6

    @property
    def state_bytes(self) -> int:
        """The size of the state: of Panewise's log if it is counted, else what RocksDB holds in memory and files."""
        if self.sizes is not None and self.sizes.log_bytes:
            return self.sizes.log_bytes
        return self.state_memory_bytes + self.state_disk_bytes

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON. Names carry their units; an unknown value is None."""
        return {
            "query": self.query,
            "run": self.run,
            "batch": self.number,
            "triggered_us": self.triggered_us,
            "duration_ms": self.duration_ms,
            "rows_in": self.rows_in,
            "rows_per_s": round(self.rows_per_s, 3),
            "watermark_us": self.watermark_us,
            "watermark_lag_s": self.watermark_lag_s,
            "newest_us": self.newest_us,
            **{name: count if self.is_counted else None for name, count in self.counts.items()},
            "overflown": dict(self.overflown),
            **(dict.fromkeys(Sizes._fields) if self.sizes is None else self.sizes._asdict()),
            "state_rows": self.state_rows,
            "state_memory_bytes": self.state_memory_bytes,
            "state_disk_bytes": self.state_disk_bytes,
            "stages_ns": dict(self.stages_ns),
            "steps_ms": dict(self.steps_ms),
            "backlog": [source.as_dict() for source in self.backlog],
        }


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Whether a progress is of a batch that ended; else its trigger failed or found nothing to do."""
    return "commitOffsets" in progress["durationMs"]


def _counted(observed: Mapping[str, Any]) -> Counter[str]:
    """All of Panewise's counts: those of the pipeline, and those of its sources, whose names begin in the same way."""
    counted: Counter[str] = Counter()
    for name, row in observed.items():
        if name == METRICS or name.startswith(f"{METRICS} "):
            columns = _columns(row)
            numbers = [count for count in columns if count != OVERFLOWN and not count.startswith(BUCKET)]
            counted.update({count: columns[count] or 0 for count in numbers})
    return counted


def _overflown(observed: Mapping[str, Any]) -> dict[str, int]:
    return overflown_of(_columns(observed[METRICS]).get(OVERFLOWN)) if METRICS in observed else {}


def _buckets(observed: Mapping[str, Any]) -> dict[str, Sizes | None]:
    """The sizes of each bucket; None for one that the batch did not touch."""
    columns = _columns(observed[METRICS]) if METRICS in observed else {}
    return {
        name.removeprefix(BUCKET): None if text is None else Sizes.of(text)
        for name, text in columns.items()
        if name.startswith(BUCKET)
    }


def _time(text: str | None, *, none: int) -> int | None:
    us = none if text is None else _micros(text)
    return None if us <= none else us


def _micros(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime.fromtimestamp(0, UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _total(parts: Iterable[int]) -> int:
    # Spark reports -1 for what it does not know.
    return sum(max(0, part) for part in parts)


def _columns(row: Any) -> dict[str, Any]:
    """A row of observed metrics by name. Spark Connect passes its values and its schema side by side."""
    found: dict[str, Any] = row.asDict()
    if found.keys() == {"values", "schema"}:
        return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"]))
    return found
