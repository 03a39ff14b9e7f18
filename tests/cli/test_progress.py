"""Progress of a stream as people and programs see it."""

from __future__ import annotations

import io
import json

from pyspark.sql import Row
from rich.console import Console
from tests.spark.progresses import COUNTS, progress, touching

from panewise.cli.progress import JsonLines, Lines, LiveTable, Totals, cells_of
from panewise.spark.batch_metrics import BatchMetrics


def test_cells() -> None:
    batch = BatchMetrics.of(progress(3))
    assert cells_of(batch) == ("3", "500,000", "181,235", "2013-01-01 05:30:00", "30.0 min", "12", "4,210", "64.0 kB")
    first = progress(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}, observedMetrics={}, stateOperators=[])
    assert cells_of(BatchMetrics.of(first)) == ("0", "500,000", "181,235", "-", "-", "-", "-", "0 B")


def test_lines() -> None:
    out = io.StringIO()
    totals = Totals()
    with Lines(Console(file=out, width=20)) as lines:
        for number in range(2):
            batch = BatchMetrics.of(progress(number))
            totals.add(batch)
            lines.show(batch, totals)
    rest = (
        "rows in 500,000  rows/s 181,235  watermark 2013-01-01 05:30:00  lag 30.0 min  late 12  answers 4,210  "
        "state 64.0 kB"
    )
    assert out.getvalue().splitlines() == [f"batch 0  {rest}", f"batch 1  {rest}"]
    assert str(totals) == "2 batches, 1,000,000 rows in, 24 late, 8,420 answers"


def test_summary_tells_work_time_and_state() -> None:
    totals = Totals()
    assert totals.summary() == []
    for number in range(2):
        totals.add(BatchMetrics.of(progress(number)))
    assert totals.summary() == [
        "work: 14 events lifted, 10 partials fed to trees, 6 fragments and answers folded",
        "time of the driver: addBatch 80%, walCommit 12%, commitOffsets 8%",
        "time in Panewise's code: combine 60%, close 30%, feed 10%",
        "buckets: 75% were in memory, 2 caught up, 0 were rebuilt",
        "state: 64.0 kB, 1,000 partials in memory; watermark 2013-01-01 05:30:00, 30.0 min behind the clock",
    ]


def test_summary_tells_that_lookups_are_behind() -> None:
    totals = Totals()
    totals.add(BatchMetrics.of(touching(0, bucket_4="[1,4000,100,1,4000]")))
    behind = "lookups are behind: buckets that could not be written to the folder: 1; the state holds 4.0 kB for them"
    assert totals.summary()[-1] == behind
    assert (totals.as_dict()["behind_buckets"], totals.as_dict()["held_bytes"]) == (1, 4_000)


def test_summary_tells_what_was_dropped_only_when_something_was() -> None:
    dropped = Row(**COUNTS | {"untimed_events": 3, "rejected_statements": 1})
    of_sources = {"panewise malformed a": Row(malformed_events=1), "panewise malformed b": Row(malformed_events=1)}
    totals = Totals()
    totals.add(
        BatchMetrics.of(progress(0, observedMetrics={"panewise": dropped, **of_sources, "mine": Row(answers=5)}))
    )
    assert totals.answers == COUNTS["answers"]
    assert totals.summary()[-3:] == [
        "events without a time, dropped: 3",
        "messages among them that could not be decoded: 2",
        "statements of the control stream that were refused: 1",
    ]


def test_json_lines() -> None:
    out = io.StringIO()
    totals = Totals()
    with JsonLines(out) as lines:
        batch = BatchMetrics.of(progress(0))
        totals.add(batch)
        lines.show(batch, totals)
        lines.write("done", totals.as_dict())
    first, last = map(json.loads, out.getvalue().splitlines())
    assert first == {"event": "batch", **batch.as_dict()}
    assert (last["event"], last["batches"], last["rows_in"], last["answers"]) == ("done", 1, 500_000, 4_210)
    assert (last["watermark_lag_s"], last["stages_ns"]["close"]) == (1800.5, 300_000_000)


def test_table_keeps_the_last_batches() -> None:
    out = io.StringIO()
    totals = Totals()
    with LiveTable(Console(file=out, width=100)) as table:
        for number in range(30):
            batch = BatchMetrics.of(progress(number))
            totals.add(batch)
            table.show(batch, totals)
    last = out.getvalue().rpartition("rows/s")[2]
    assert "│    29 │" in last
    assert "│    17 │" not in last
    assert "30 batches" in last
