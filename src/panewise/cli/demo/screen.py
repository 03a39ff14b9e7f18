"""What the demo shows: a heading, a bar, answers, and the comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from panewise.cli.demo.compare import Compared
from panewise.cli.progress import Totals, Undrawn
from panewise.engine.answers import wide
from panewise.language.workload import Workload
from panewise.spark.batch_metrics import BatchMetrics
from panewise.windows import TimeWindow

HOURS_SHOWN = 12
_WORST = "bad_hour_at_airport"


def heading(console: Console, workload: Workload, events: pa.Table, cancelled: int, queries: Path) -> None:
    """What is about to happen."""
    scheduled = np.asarray(events.column("scheduled").cast(pa.int64()))
    behind = np.maximum.accumulate(scheduled) - scheduled
    worst = timedelta(microseconds=int(behind.max()))
    console.rule("[bold]Panewise demo")
    console.print(
        f"{len(workload.queries)} sliding-window queries over {events.num_rows:,} flights that left New York City in "
        f"2013, on Spark.\n"
        f"The flights stream in as they left; an event's time is when it should have left. So "
        f"{100 * np.mean(behind > 0):.0f} % come out of order, by up to {_hours(worst)}.\n"
        f"{cancelled:,} cancelled flights never left and are not in the stream.",
        highlight=False,
    )
    note(console, f"The queries: {queries}")


def note(console: Console, text: str) -> None:
    """A minor line."""
    console.print(text, style="dim", highlight=False, soft_wrap=True)


class Nothing(Undrawn):
    """A display that shows nothing."""

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Keep quiet."""


@dataclass
class ReplayBar:
    """A bar over the events of the replay, and below it the numbers so far."""

    console: Console
    events: int

    def __post_init__(self) -> None:
        self._progress = Progress(
            SpinnerColumn(), TextColumn("replaying"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
        )
        self._task = self._progress.add_task("replaying", total=self.events)
        self._live = Live(self._progress, console=self.console, refresh_per_second=8)
        self._began = time.perf_counter()

    def __enter__(self) -> ReplayBar:
        self._live.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._live.stop()

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        """Move the bar to where the batch ended."""
        self._progress.update(self._task, completed=totals.rows_in)
        per_s = totals.rows_in / (time.perf_counter() - self._began)
        state = Text(
            f"  {totals.rows_in:,} events, {per_s:,.0f}/s, {totals.answers:,} answers, {totals.late_events:,} late, "
            f"watermark {batch.watermark or '-'}"
        )
        self._live.update(Group(self._progress, state))


def worst_hours(console: Console, answers: pa.Table, workload: Workload) -> None:
    """The hours with the longest delays, from the answers to one of the queries."""
    hours = wide(answers, workload, _WORST).sort_by([("AVG(delay)", "descending")]).to_pylist()
    table = Table(title=f"The worst hours of the year (query {_WORST})", title_justify="left")
    for name in ("airport", "from", "to"):
        table.add_column(name, no_wrap=True)
    for name in ("flights", "average delay", "longest"):
        table.add_column(name, justify="right", no_wrap=True)
    for hour in _apart(hours)[:HOURS_SHOWN]:
        table.add_row(
            hour["origin"],
            f"{hour['window_start']:%a %d %b %H:%M}",
            f"{hour['window_end']:%H:%M}",
            str(hour["COUNT(*)"]),
            _hours(timedelta(minutes=hour["AVG(delay)"])),
            _hours(timedelta(minutes=hour["MAX(delay)"])),
        )
    console.print(table)


def _apart(windows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The windows without those that overlap an earlier one: these show the same bad hour, some minutes later."""
    apart: list[dict[str, Any]] = []
    for window in windows:
        if not any(_overlap(window, other) for other in apart):
            apart.append(window)
    return apart


def _overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    first, second = sorted((one, other), key=lambda window: window["window_start"])
    return bool(first["origin"] == second["origin"] and second["window_start"] < first["window_end"])


def summary(console: Console, workload: Workload, totals: Totals, seconds: float) -> None:
    """What Panewise did, in numbers."""
    console.print(
        f"[bold]Panewise: {len(workload.queries)} queries, {totals.rows_in:,} events, {totals.answers:,} answers in "
        f"{seconds:.1f} s[/bold]: a stream of {totals.batches} batches with state and checkpoints, answers on disk. "
        f"{totals.late_events:,} events were late.",
        highlight=False,
    )


def comparison(console: Console, workload: Workload, compared: Sequence[Compared], panewise_s: float) -> None:
    """Plain Spark's queries one by one, and both sides per query."""
    table = Table(
        title="Every twelfth query by plain Spark: GROUP BY window(...), as a batch",
        caption="overlap: how many windows an event falls into",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("query", no_wrap=True)
    for name in ("overlap", "seconds", "answers"):
        table.add_column(name, justify="right")
    table.add_column("equal to Panewise's")
    for query in compared:
        table.add_row(
            query.name,
            f"{_overlap_of(workload, query.name):.3g}",
            f"{query.seconds:.2f}",
            f"{query.answers:,}",
            "yes" if query.difference is None else "[red]no",
        )
    plain_s = sum(query.seconds for query in compared)
    table.add_section()
    table.add_row("together", "", f"{plain_s:.2f}", f"{sum(query.answers for query in compared):,}", "")
    console.print(table)
    every = len(workload.queries)
    ratio = (plain_s / len(compared)) / (panewise_s / every)
    console.print(
        f"[bold]Panewise: {every} queries in {panewise_s:.1f} s, {panewise_s / every:.2f} s each. Plain Spark: "
        f"{len(compared)} queries in {plain_s:.1f} s, {plain_s / len(compared):.2f} s each: "
        f"{ratio:.1f} times as long.[/bold] Both ran after a warm-up.",
        highlight=False,
    )


def _overlap_of(workload: Workload, query: str) -> float:
    """How many windows of a query an event falls into; plain Spark makes as many copies of it."""
    window = workload.queries[query].window
    assert isinstance(window, TimeWindow)
    return window.overlap


def _hours(delay: timedelta) -> str:
    minutes = round(delay.total_seconds() / 60)
    return f"{minutes // 60} h {minutes % 60:02} min"
