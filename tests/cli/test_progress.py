"""Progress of a stream, as Spark reports it and as people see it."""

from __future__ import annotations

import io
from typing import Any

from pyspark.sql import Row
from rich.console import Console

from weft.cli.progress import Batch, Lines, LiveTable, Totals


def progress(number: int, **changed: Any) -> dict[str, Any]:
    return {
        "batchId": number,
        "numInputRows": 500_000,
        "processedRowsPerSecond": 181_234.6,
        "eventTime": {"watermark": "2013-01-01T05:30:00.000Z"},
        "observedMetrics": {"weft": Row(late_events=12, answers=4_210, lifted=7, fed=5, folded=3)},
    } | changed


def test_batch_of_a_progress() -> None:
    assert Batch.of(progress(3)) == Batch(3, 500_000, 181_234.6, "2013-01-01 05:30:00", 12, 4_210, (7, 5, 3))


def test_batch_before_any_event_and_without_counts() -> None:
    first = progress(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}, observedMetrics={})
    assert Batch.of(first).cells() == ("0", "500,000", "181,235", "-", "-", "-")
    assert Batch.of(progress(0, eventTime={}, numInputRows=None, processedRowsPerSecond=None)).rows_in == 0


def test_lines() -> None:
    out = io.StringIO()
    totals = Totals()
    with Lines(Console(file=out, width=20)) as lines:
        for number in range(2):
            batch = Batch.of(progress(number))
            totals.add(batch)
            lines.show(batch, totals)
    rest = "rows in 500,000  rows/s 181,235  watermark 2013-01-01 05:30:00  late 12  answers 4,210"
    assert out.getvalue().splitlines() == [f"batch 0  {rest}", f"batch 1  {rest}"]
    assert str(totals) == "2 batches, 1,000,000 rows in, 24 late, 8,420 answers"
    assert totals.work_text == "14 events lifted, 10 partials fed to trees, 6 fragments and answers folded"


def test_table_keeps_the_last_batches() -> None:
    out = io.StringIO()
    totals = Totals()
    with LiveTable(Console(file=out, width=100)) as table:
        for number in range(30):
            batch = Batch.of(progress(number))
            totals.add(batch)
            table.show(batch, totals)
    last = out.getvalue().rpartition("rows/s")[2]
    assert "│    29 │" in last
    assert "│    17 │" not in last
    assert "30 batches" in last
