"""What a running stream has done, batch by batch, for people to watch."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

BATCHES_SHOWN = 12
_NO_WATERMARK = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True)
class Batch:
    """One micro-batch. `late_events` and `answers` are None when the query does not count them.

    `work` is what was done for it: events lifted into partials, partials fed to trees, fragments folded to answers.
    """

    number: int
    rows_in: int
    rows_per_s: float
    watermark: str | None
    late_events: int | None
    answers: int | None
    work: tuple[int, int, int] = (0, 0, 0)

    @classmethod
    def of(cls, progress: Mapping[str, Any]) -> Batch:
        """The batch that Spark reports as one progress."""
        counts = progress["observedMetrics"].get("weft")
        counted = counts.asDict() if counts is not None else {}
        watermark = progress["eventTime"].get("watermark", _NO_WATERMARK)
        return cls(
            number=progress["batchId"],
            rows_in=progress["numInputRows"] or 0,
            rows_per_s=progress["processedRowsPerSecond"] or 0.0,
            # Spark has the epoch as the watermark until the first event was seen.
            watermark=None if watermark == _NO_WATERMARK else watermark.replace("T", " ").removesuffix(".000Z"),
            late_events=counted.get("late_events"),
            answers=counted.get("answers"),
            work=(counted.get("lifted", 0), counted.get("fed", 0), counted.get("folded", 0)),
        )

    def cells(self) -> tuple[str, ...]:
        """As text, in the order of `COLUMNS`."""
        late, answers = ("-" if count is None else f"{count:,}" for count in (self.late_events, self.answers))
        return (
            str(self.number),
            f"{self.rows_in:,}",
            f"{self.rows_per_s:,.0f}",
            self.watermark or "-",
            late,
            answers,
        )


COLUMNS = ("batch", "rows in", "rows/s", "watermark", "late", "answers")


@dataclass
class Totals:
    """What all batches add up to."""

    batches: int = 0
    rows_in: int = 0
    late_events: int = 0
    answers: int = 0
    work: tuple[int, int, int] = (0, 0, 0)

    def add(self, batch: Batch) -> None:
        """Count one batch more."""
        self.batches += 1
        self.rows_in += batch.rows_in
        self.late_events += batch.late_events or 0
        self.answers += batch.answers or 0
        lifted, fed, folded = (total + more for total, more in zip(self.work, batch.work))
        self.work = lifted, fed, folded

    @property
    def work_text(self) -> str:
        """What was done, in the words of `weft plan`."""
        lifted, fed, folded = self.work
        return f"{lifted:,} events lifted, {fed:,} partials fed to trees, {folded:,} fragments and answers folded"

    def __str__(self) -> str:
        batches = "1 batch" if self.batches == 1 else f"{self.batches:,} batches"
        return f"{batches}, {self.rows_in:,} rows in, {self.late_events:,} late, {self.answers:,} answers"


class Display(Protocol):
    """Something that shows batches as they end. It is a context manager: what it draws ends with it."""

    def __enter__(self) -> object: ...

    def __exit__(self, *exception: Any) -> object: ...

    def show(self, batch: Batch, totals: Totals) -> None:
        """Show one batch more."""


@dataclass
class Lines:
    """A line a batch: for logs, and for terminals that something else writes to as well."""

    console: Console

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None

    def show(self, batch: Batch, totals: Totals) -> None:
        """Print the batch."""
        line = "  ".join(f"{name} {cell}" for name, cell in zip(COLUMNS, batch.cells()))
        self.console.print(line, highlight=False, soft_wrap=True)


@dataclass
class LiveTable:
    """A table of the last batches, drawn over itself."""

    console: Console
    latest: deque[Batch] = field(default_factory=lambda: deque(maxlen=BATCHES_SHOWN))
    totals: Totals = field(default_factory=Totals)

    def __post_init__(self) -> None:
        self._live = Live(self._table(), console=self.console, auto_refresh=False)

    def __enter__(self) -> LiveTable:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._live.stop()

    def show(self, batch: Batch, totals: Totals) -> None:
        """Draw the table with the batch as its last row."""
        self.latest.append(batch)
        self.totals = totals
        self._live.update(self._table(), refresh=True)

    def _table(self) -> Table:
        table = Table(caption=f"{self.totals} so far. Ctrl-C stops", caption_justify="left")
        for name in COLUMNS:
            table.add_column(name, justify="left" if name == "watermark" else "right", no_wrap=True)
        for batch in self.latest:
            table.add_row(*batch.cells())
        return table
