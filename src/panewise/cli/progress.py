"""What a running stream has done, batch by batch, for people to watch."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.counts import Sizes

BATCHES_SHOWN = 12
COLUMNS = ("batch", "rows in", "rows/s", "watermark", "lag", "late", "answers", "state")


def cells_of(batch: BatchMetrics) -> tuple[str, ...]:
    """A batch as text, in the order of `COLUMNS`."""
    late, answers = (f"{batch.counts[name]:,}" if batch.is_counted else "-" for name in ("late_events", "answers"))
    return (
        str(batch.number),
        f"{batch.rows_in:,}",
        f"{batch.rows_per_s:,.0f}",
        batch.watermark or "-",
        "-" if batch.watermark_lag_s is None else duration_text(batch.watermark_lag_s),
        late,
        answers,
        bytes_text(batch.state_bytes),
    )


@dataclass
class Totals:
    """The totals of all batches, and the state after the last one."""

    batches: int = 0
    rows_in: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    stages_ns: Counter[str] = field(default_factory=Counter)
    steps_ms: Counter[str] = field(default_factory=Counter)
    overflown: Counter[str] = field(default_factory=Counter)
    last: BatchMetrics | None = None

    def add(self, batch: BatchMetrics) -> None:
        """Count one more batch."""
        self.batches += 1
        self.rows_in += batch.rows_in
        self.counts.update(batch.counts)
        self.stages_ns.update(batch.stages_ns)
        self.steps_ms.update(batch.steps_ms)
        self.overflown.update(batch.overflown)
        self.last = batch

    @property
    def late_events(self) -> int:
        """Events dropped because they came behind the watermark."""
        return self.counts["late_events"]

    @property
    def answers(self) -> int:
        """Answers written."""
        return self.counts["answers"]

    def summary(self) -> list[str]:
        """Lines that tell what was done, where the time went, and how large the state is."""
        if self.last is None:
            return []
        counts = self.counts
        lines = [
            f"work: {counts['lifted']:,} events lifted, {counts['fed']:,} partials fed to trees, "
            f"{counts['folded']:,} fragments and answers folded"
        ]
        if any(self.steps_ms.values()):
            lines.append(f"time of the driver: {_shares(self.steps_ms)}")
        if any(self.stages_ns.values()):
            lines.append(f"time in Panewise's code: {_shares(self.stages_ns)}")
        if touched := counts["cache_hits"] + counts["catch_ups"] + counts["rebuilds"]:
            lines.append(
                f"buckets: {counts['cache_hits'] / touched:.0%} were in memory, {counts['catch_ups']:,} caught up, "
                f"{counts['rebuilds']:,} were rebuilt"
            )
        lines.append(self._state_text(self.last))
        lines += [
            f"{what}: {counts[name]:,}"
            for name, what in (
                ("untimed_events", "events without a time, dropped"),
                ("malformed_events", "messages among them that could not be decoded"),
                ("future_events", "events too far ahead of the clock, set aside (FUTURE BOUND)"),
                ("corrected_events", "events behind the watermark that corrected answers"),
                ("rejected_statements", "statements of the control stream that were refused"),
            )
            if counts[name]
        ]
        if self.overflown:
            named = ", ".join(f"{query} {count:,}" for query, count in self.overflown.most_common(10))
            lines.append(
                f"answers that are NULL because a sum does not fit in a BIGINT or a list in its bound: {named}"
            )
        if self.last.sizes is not None and self.last.sizes.behind_buckets:
            lines.append(
                f"lookups are behind: buckets that could not be written to the folder: "
                f"{self.last.sizes.behind_buckets:,}; the state holds {bytes_text(self.last.sizes.held_bytes)} for them"
            )
        return lines

    @staticmethod
    def _state_text(last: BatchMetrics) -> str:
        state = f"state: {bytes_text(last.state_bytes)}"
        if last.sizes is not None and last.sizes.live_rows:
            state += f", {last.sizes.live_rows:,} partials in memory"
        if last.watermark_lag_s is None:
            return state
        return f"{state}; watermark {last.watermark}, {duration_text(last.watermark_lag_s)} behind the clock"

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        last = self.last.as_dict() if self.last is not None else {}
        standing = ("watermark_us", "watermark_lag_s", *Sizes._fields, "state_rows")
        return {
            "batches": self.batches,
            "rows_in": self.rows_in,
            **self.counts,
            "overflown": dict(self.overflown),
            **{name: last.get(name) for name in standing},
            "stages_ns": dict(self.stages_ns),
            "steps_ms": dict(self.steps_ms),
        }

    def __str__(self) -> str:
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{batches}, {self.rows_in:,} rows in, {self.late_events:,} late, {self.answers:,} answers"


def _shares(parts: Mapping[str, int]) -> str:
    whole = sum(parts.values())
    largest_first = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {amount / whole:.0%}" for name, amount in largest_first if amount)


def bytes_text(size: int) -> str:
    """A size for people.

    >>> bytes_text(812), bytes_text(1_234_567)
    ('812 B', '1.2 MB')
    """
    if size < 1000:
        return f"{size} B"
    units = ("kB", "MB", "GB", "TB")
    scaled = float(size)
    for unit in units:
        scaled /= 1000
        if scaled < 999.95 or unit == units[-1]:
            break
    return f"{scaled:,.1f} {unit}"


def duration_text(seconds: float) -> str:
    """A length of time for people, in the largest unit that it fills.

    >>> duration_text(0.25), duration_text(90), duration_text(-7200), duration_text(86_400 * 400)
    ('0.2 s', '1.5 min', '-2.0 h', '400.0 d')
    """
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if abs(seconds) >= size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


class Display(Protocol):
    """Something that shows batches as they end. It is a context manager and stops drawing when it ends."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exception: Any) -> object: ...

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Show one more batch."""


class Undrawn:
    """What displays have that draw nothing that would have to end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None


@dataclass
class Lines(Undrawn):
    """A line a batch: for logs, and for terminals that something else also writes to."""

    console: Console

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Print the batch."""
        line = "  ".join(f"{name} {cell}" for name, cell in zip(COLUMNS, cells_of(batch)))
        self.console.print(line, highlight=False, soft_wrap=True)


@dataclass
class JsonLines(Undrawn):
    """A line of JSON a batch: for programs."""

    out: TextIO

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Write the batch."""
        self.write("batch", batch.as_dict())

    def write(self, event: str, values: Mapping[str, Any]) -> None:
        """Write what happened. Each line is flushed at once: a reader may wait for it."""
        print(json.dumps({"event": event, **values}), file=self.out, flush=True)


@dataclass
class LiveTable:
    """A table of the last batches, drawn over itself."""

    console: Console
    latest: deque[BatchMetrics] = field(default_factory=lambda: deque(maxlen=BATCHES_SHOWN))
    totals: Totals = field(default_factory=Totals)

    def __post_init__(self) -> None:
        self._live = Live(self._table(), console=self.console, auto_refresh=False)

    def __enter__(self) -> LiveTable:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._live.stop()

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Draw the table with the batch as its last row."""
        self.latest.append(batch)
        self.totals = totals
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(caption=f"{self.totals} so far. Ctrl-C stops", caption_justify="left")
        for name in COLUMNS:
            table.add_column(name, justify="left" if name == "watermark" else "right", no_wrap=True)
        for batch in self.latest:
            table.add_row(*cells_of(batch))
        return table
