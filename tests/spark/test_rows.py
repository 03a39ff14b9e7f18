"""Row queries on Spark agree with their oracle: as a stream cut into random batches, and as a batch.

Random programs run over `tests.spark.simulated`; at the end is Spark itself.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests import windowed_oracle as oracle
from tests.engine.windowed.test_conformance import DOUBLES, EVERY_OPERATOR, as_rows, events, expected
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import Event, public_table, read_stream, write_batches
from tests.thoroughness import examples

import panewise
from panewise import spark as panewise_spark
from panewise.errors import ArgumentError, NotOnSparkError, TooManyRowsError
from panewise.language.expressions import attributes_of
from panewise.language.model import Stream
from panewise.language.row_queries import Evaluation, RowQuery, SortedQuery
from panewise.language.workload import Workload
from panewise.spark import FileSink, TableBatch, tuple_bucket, tuple_plan
from panewise.spark.identity import identity_of
from panewise.spark.job import Job
from panewise.spark.lookup_client import LookupClient
from panewise.spark.statement_log import StatementLog
from panewise.spark.table_frames import BATCH_COLUMN
from panewise.spark.tuple_bases import TupleBase
from panewise.spark.tuple_plan import TuplePlan, over_stream

STREAMS = """
CREATE STREAM a (t TIMESTAMP, k BIGINT, x DOUBLE, s STRING, b BOOLEAN) TIMESTAMP BY t WATERMARK 10 MILLISECONDS;
CREATE STREAM c (u TIMESTAMP, k BIGINT, x DOUBLE, s STRING) TIMESTAMP BY u WATERMARK 5 MILLISECONDS;
"""
ORIGIN_US = 1_000_000_000
MS = 1_000
LONGEST_SLOT_US = 8 * MS

EVERY_QUERY = {
    "histogram": "SELECT HISTOGRAM(s) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "ranges": "SELECT HISTOGRAM(x, 0.75) FROM a [RANGE 6 MILLISECONDS SLIDE 3 MILLISECONDS] WHERE k > 0",
    "top": "SELECT TOP_K(k, 2) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "grouped": "SELECT s, TOP_K(k, 1) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS] GROUP BY s",
    "different": "SELECT DISTINCT x FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "lacking": "SELECT s FROM a [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS] EXCEPT "
    "SELECT s FROM c [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "shared": "SELECT s FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS] INTERSECT "
    "SELECT s FROM c [RANGE 4 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "head": "SELECT s, x, k * 2 AS twice FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS] ORDER BY x DESC LIMIT 3",
    "heads": "SELECT b, x FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS] GROUP BY b ORDER BY x LIMIT 2",
    "whole": "SELECT s, t AS at FROM a [RANGE 6 MILLISECONDS SLIDE 4 MILLISECONDS] ORDER BY k",
    "pairs": "SELECT l.k, r.x, l.s FROM a [RANGE 7 MILLISECONDS] AS l JOIN c [RANGE 3 MILLISECONDS] AS r ON l.k = r.k "
    "WHERE r.x > 0",
    "two_keys": "SELECT l.t, r.u FROM a [RANGE 7 MILLISECONDS] AS l JOIN c [RANGE 9 MILLISECONDS] AS r "
    "ON l.k = r.k AND r.s = l.s",
    "some": "SELECT k, x * 2 AS double, t AS at FROM a WHERE s = 'a' OR b",
}
# Where Spark runs itself, windows over rows stand for some of the others.
ON_SPARK = EVERY_QUERY | {
    "lacking": "SELECT s FROM a [ROWS 9 SLIDE 3] EXCEPT SELECT s FROM c [ROWS 4 SLIDE 3]",
    "two_keys": "SELECT l.t, r.u FROM a [ROWS 9] AS l JOIN c [RANGE 9 MILLISECONDS] AS r ON l.k = r.k AND r.s = l.s",
}
EVERY_TEXT = STREAMS.replace("WATERMARK", "GRANULARITY 1 MILLISECOND WATERMARK")
EVERY_TEXT += "".join(f"CREATE QUERY {name} AS {select};\n" for name, select in ON_SPARK.items())


def on_spark(select: str) -> str:
    """A random query of the engine's tests, whose rows go to a table."""
    return re.sub(r"INTO \[[^]]*\]", "", select).replace("MICROSECOND", "MILLISECOND")


QUERIES = st.one_of(*EVERY_OPERATOR.values()).map(on_spark)


def short_slots() -> Any:
    """Rows get their order in slots that are shorter than what the programs here last."""
    return patch.object(tuple_plan, "ORDER_SLOT_US", 3 * MS)


@st.composite
def batches_of(draw: st.DrawFn, streams: dict[str, Stream]) -> list[dict[str, list[Event]]]:
    """Batches of events, some of them far ahead and some far behind."""
    found, around = [], ORIGIN_US // MS
    for _ in range(draw(st.integers(1, 5))):
        batch = {}
        for name, stream in streams.items():
            rows = draw(st.lists(events(stream, around, DOUBLES), min_size=1, max_size=6))
            for row in rows:
                is_late = draw(st.integers(0, 9)) == 0
                row[stream.timestamp] = row[stream.timestamp] * MS + draw(st.integers(0, 2)) - is_late * 900 * MS
            batch[name] = rows
        found.append(batch)
        around += draw(st.integers(0, 25))
    return found


def in_order_of_content(query: RowQuery, stream: Stream, rows: list[Event]) -> list[Event]:
    """Events as ORDER BY sees them on Spark: those of one time by what the query reads."""
    if not isinstance(query, SortedQuery):
        return rows
    read = {name for column in query.columns for name in attributes_of(column.expression)}
    read |= {query.by, *query.group_by}
    names = [name for name in stream.attributes if name in read]
    return sorted(rows, key=lambda row: (row[stream.timestamp], *(_place(row[name]) for name in names)))


def _place(value: Any) -> tuple[int, Any]:
    if value is None:
        return 2, 0
    if isinstance(value, float) and math.isnan(value):
        return 1, 0
    return 0, value.encode() if isinstance(value, str) else value


def check(workload: Workload, found: dict[str, list[Event]], accepted: dict[str, list[Event]], until: int) -> None:
    """The rows so far are those of the oracle, each once."""
    for name in workload.row_queries:
        assert _counted(found[name]) == _counted(expected(wanted_of(workload, name, accepted, until))), name


def wanted_of(workload: Workload, name: str, accepted: dict[str, list[Event]], until: int) -> list[Event]:
    """The rows of a query by the oracle, which sees events of one time as Spark orders them."""
    query, streams = workload.row_queries[name], workload.streams
    stamps = {each: stream.timestamp for each, stream in streams.items()}
    ordered = {each: in_order_of_content(query, streams[each], rows) for each, rows in accepted.items()}
    if over_stream({name: query}):
        plan = TuplePlan.of(workload.row_queries, streams, 0)
        for base in (plan.bases[number] for number in plan.reads[name]):
            ordered[base.stream.name] = _in_order(base, base.stream, accepted[base.stream.name])
            until = base.final_us(until)
    return oracle.rows_of(query, oracle.Input(stamps, ordered, dict.fromkeys(stamps, until), {}))


def _counted(rows: list[Event]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.items()) for row in rows)


def on_time(stream: Stream, rows: list[Event], watermark_us: int | None) -> tuple[list[Event], list[Event]]:
    """The events that are late for no query, and those that are late for all; others are left out."""
    if watermark_us is None:
        return rows, []
    times = [(row, row[stream.timestamp]) for row in rows]
    late = [row for row, time_us in times if time_us < watermark_us - LONGEST_SLOT_US]
    return [row for row, time_us in times if time_us >= watermark_us], late


@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_random_programs(data: st.DataObject) -> None:
    selects = data.draw(st.lists(QUERIES, min_size=1, max_size=4))
    text = STREAMS + "".join(f"CREATE QUERY q{place} AS {select};\n" for place, select in enumerate(selects))
    workload = panewise.read(text)
    accepted: dict[str, list[Event]] = {name: [] for name in workload.streams}
    found: dict[str, list[Event]] = {name: [] for name in workload.row_queries}
    with TemporaryDirectory() as folder, short_slots():
        spark = SimulatedSpark(workload, Path(folder), wide_by="query", most_rows=1000)
        for batch in [*data.draw(batches_of(dict(workload.streams))), {}]:
            watermark_us = spark.watermark_of_spark_us
            arriving = {}
            for name, rows in batch.items():
                timely, late = on_time(workload.streams[name], rows, watermark_us)
                accepted[name] += timely
                arriving[name] = [*timely, *late]
            arriving = {name: rows for name, rows in arriving.items() if rows}
            spark.run_batch(arriving, attempts=data.draw(st.integers(1, 2)), shift=data.draw(st.integers(0, 1)))
            for name in found:
                found[name] += as_rows(spark.brought[name])
            if data.draw(st.integers(0, 3)) == 0:
                spark.start()
        check(workload, found, accepted, spark.watermark_of_spark_us or 0)


@settings(max_examples=examples(15), deadline=None)
@given(data=st.data())
def test_random_batch_jobs(data: st.DataObject) -> None:
    selects = data.draw(st.lists(QUERIES, min_size=1, max_size=4))
    text = STREAMS + "".join(f"CREATE QUERY q{place} AS {select};\n" for place, select in enumerate(selects))
    workload = panewise.read(text)
    batches = data.draw(batches_of(dict(workload.streams)))
    rows = {name: [row for batch in batches for row in batch[name]] for name in workload.streams}
    with TemporaryDirectory() as folder, short_slots():
        spark = SimulatedSpark(workload, Path(folder), wide_by="query", most_rows=1000)
        # A bucket takes in a long past piece by piece, and each in pieces of its own.
        with patch.object(tuple_bucket, "EVENTS_AT_ONCE", data.draw(st.sampled_from([5, 100_000]))):
            spark.run_as_batch_job(rows)
        check(workload, {name: as_rows(spark.brought[name]) for name in workload.row_queries}, rows, oracle.END)


def drawn_batches(seed: int, workload: Workload, count: int) -> tuple[list[dict[str, list[Event]]], int]:
    """Batches of every stream, whose late events are late for all queries; and the watermark after them."""
    dice = random.Random(seed)
    newest: dict[str, int] = {}
    found = []
    watermark_us = None
    for number in range(count):
        batch = {}
        for name, stream in workload.streams.items():
            rows = [_event(dice, stream, ORIGIN_US + 20 * MS * number) for _ in range(30)]
            timely, late = on_time(stream, rows, watermark_us)
            batch[name] = [*timely, *late]
            newest[name] = max([row[stream.timestamp] for row in rows] + [newest.get(name, 0)])
        found.append(batch)
        watermark_us = min((newest[name] - stream.watermark_us) // MS * MS for name, stream in workload.streams.items())
    assert watermark_us is not None
    return found, watermark_us


def _event(dice: random.Random, stream: Stream, around_us: int) -> Event:
    late = dice.random() < 0.05
    values: dict[str, Any] = {
        stream.timestamp: around_us + dice.randrange(20 * MS) - 500 * MS * late,
        "k": dice.choice([None, 0, 1, 2, 3]),
        "x": dice.choice([None, math.nan, -0.0, 0.5, 1.25, 2.0]),
        "s": dice.choice([None, "", "a", "b", "é"]),
        "b": dice.choice([None, True, False]),
    }
    return {name: values[name] for name in stream.attributes}


def accepted_of(workload: Workload, batches: list[dict[str, list[Event]]]) -> dict[str, list[Event]]:
    """The events that are not late; before the first watermark none is."""
    return {
        name: [
            row
            for number, batch in enumerate(batches)
            for row in batch[name]
            if number == 0 or row[stream.timestamp] >= ORIGIN_US
        ]
        for name, stream in workload.streams.items()
    }


@pytest.mark.spark
def test_a_batch_on_spark(spark: SparkSession) -> None:
    workload = panewise.read(EVERY_TEXT)
    (batch,), _ = drawn_batches(1, workload, 1)
    frames = {name: spark.createDataFrame(public_table(workload.streams[name], rows)) for name, rows in batch.items()}
    with panewise_spark.rows(frames, workload, most_rows=1000) as rows:
        assert list(rows) == list(ON_SPARK)
        found = {name: as_rows(frame.toArrow()) for name, frame in rows.items()}
        assert all(found.values())
        check(workload, found, batch, oracle.END)
        engine = panewise.Engine(workload)
        assert {name: engine.rows(name).schema.names for name in rows} == {n: f.columns for n, f in rows.items()}


@pytest.mark.spark
def test_joins_of_a_batch_that_spark_makes(spark: SparkSession) -> None:
    """Keys of two types, NaN, -0.0 and NULL as keys, a stream with itself, times before 1970, windows of any length."""
    selects = {
        "kinds": "l.k, r.x AS x, l.t AS at FROM a [RANGE 9 MILLISECONDS] AS l JOIN c [RANGE 4 MILLISECONDS] AS r "
        "ON l.k = r.x",
        "doubles": "l.t AS left_at, r.u AS right_at FROM a [RANGE 1 MICROSECOND] AS l JOIN c [RANGE 1 SECOND] AS r "
        "ON l.x = r.x AND l.s = r.s",
        "itself": "x.b, y.t AS later, x.k * 2 AS twice FROM a [RANGE 3 MILLISECONDS] AS x "
        "JOIN a [RANGE 1 MILLISECOND] AS y ON x.b = y.b WHERE x.k < y.k OR y.x IS NULL",
        "top": "TOP_K(k, 1) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]",
    }
    workload = panewise.read(STREAMS + "".join(f"CREATE QUERY {name} AS SELECT {s};" for name, s in selects.items()))
    (batch,), _ = drawn_batches(7, workload, 1)
    batch = {
        name: [{**row, stamp: row[stamp] - ORIGIN_US - 10 * MS} for row in batch[name]]
        for name, stamp in (("a", "t"), ("c", "u"))
    }
    frames = {name: spark.createDataFrame(public_table(workload.streams[name], rows)) for name, rows in batch.items()}
    with panewise_spark.rows(frames, workload) as rows:
        check(workload, {name: as_rows(frame.toArrow()) for name, frame in rows.items()}, batch, oracle.END)
        engine = panewise.Engine(workload)
        for name in selects:
            assert rows[name].columns == engine.rows(name).schema.names
        assert rows["itself"].count() > 5
    with panewise_spark.rows(frames, workload, until=2 * MS) as rows:
        early = as_rows(rows["itself"].toArrow())
        assert early
        assert max(row["time"] for row in early) < 2 * MS


@pytest.mark.spark
def test_a_stream_on_spark_that_is_started_again(spark: SparkSession, tmp_path: Path) -> None:
    workload = panewise.read(EVERY_TEXT)
    batches, watermark_us = drawn_batches(2, workload, 4)
    sinks = {name: FileSink(tmp_path / "rows" / name) for name in ON_SPARK}
    fails = {"once": False}

    def write_top(batch: TableBatch) -> None:
        """Fails once after it has written: the batch is then repeated."""
        sinks["top"](batch)
        if fails.pop("once", False):
            raise ValueError("the sink failed")

    for first, last, is_cut in ((0, 2, False), (2, 4, True), (4, 4, False)):
        for name, stream in workload.streams.items():
            some = [batch[name] for batch in batches[first:last]]
            write_batches(tmp_path / name, stream, some, first)
        frames = {name: read_stream(spark, tmp_path / name, stream) for name, stream in workload.streams.items()}
        rows = panewise_spark.rows(frames, workload, most_rows=1000)
        fails["once"] = is_cut
        writer = rows.write_stream({**sinks, "top": write_top}).option("checkpointLocation", str(tmp_path / "progress"))
        query = writer.trigger(availableNow=True).start()
        if is_cut:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
        else:
            query.awaitTermination()
    found = {}
    for name, frame in rows.items():
        written = spark.read.schema(frame.schema).parquet(str(tmp_path / "rows" / name))
        found[name] = as_rows(written.drop(BATCH_COLUMN).toArrow())
    assert all(found.values())
    check(workload, found, accepted_of(workload, batches), watermark_us)


@pytest.mark.spark
def test_one_query_of_a_stream_by_itself(spark: SparkSession, tmp_path: Path) -> None:
    """A streaming DataFrame of merged rows can go to any sink of Spark."""
    workload = panewise.read(STREAMS + f"CREATE QUERY head AS {EVERY_QUERY['head']};")
    batches, _ = drawn_batches(3, workload, 3)
    stream = workload.streams["a"]
    write_batches(tmp_path / "a", stream, [batch["a"] for batch in batches])
    rows = panewise_spark.rows(read_stream(spark, tmp_path / "a", stream), workload)
    query = rows["head"].writeStream.format("memory").queryName("head").trigger(availableNow=True).start()
    query.awaitTermination()
    newest_us = max(row["t"] for batch in batches for row in batch["a"])
    accepted = accepted_of(workload, batches)
    until = (newest_us - stream.watermark_us) // MS * MS
    check(workload, {"head": as_rows(spark.table("head").toArrow())}, accepted, until)


def test_events_that_share_tuples_travel_once() -> None:
    text = STREAMS + (
        "CREATE QUERY a1 AS SELECT HISTOGRAM(k) FROM a [RANGE 9 SECONDS SLIDE 3 SECONDS];"
        "CREATE QUERY a2 AS SELECT TOP_K(k, 3) FROM a [RANGE 8 SECONDS SLIDE 2 SECONDS];"
        "CREATE QUERY a3 AS SELECT k FROM a [RANGE 8 SECONDS SLIDE 2 SECONDS] INTERSECT "
        "SELECT k FROM a [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 0;"
        "CREATE QUERY h1 AS SELECT s FROM a [RANGE 8 SECONDS SLIDE 2 SECONDS] ORDER BY x LIMIT 3;"
        "CREATE QUERY h2 AS SELECT s FROM a [RANGE 9 SECONDS SLIDE 3 SECONDS] ORDER BY x LIMIT 5;"
        "CREATE QUERY j1 AS SELECT l.k, r.x FROM a [RANGE 1 SECOND] AS l JOIN a [RANGE 9 SECONDS] AS r ON l.k = r.k;"
    )
    workload = panewise.read(text)
    plan = TuplePlan.of(workload.row_queries, workload.streams, 7)
    kinds = [(type(base).__name__, base.slot_us, base.kept_us) for base in plan.bases.values()]
    second = 1_000_000
    assert kinds == [
        ("ValueBase", second, 9 * second),
        ("ValueBase", 2 * second, 4 * second),
        ("HeadBase", second, 9 * second),
        ("KeyBase", 1, 9 * second),
    ]
    assert list(plan.bases) == [7, 8, 9, 10]
    assert len(plan.cells_of("a")) == 4


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT k FROM a INTO [RANGE 1 SECOND]", "give folder=.*leave out INTO"),
        ("SELECT k FROM a [RANGE 1 SECOND SLIDE 1 SECOND] ORDER BY k", "write LIMIT, or give most_rows="),
    ],
)
def test_what_spark_cannot_answer(select: str, message: str) -> None:
    workload = panewise.read(f"{STREAMS} CREATE QUERY q AS {select};")
    with pytest.raises(NotOnSparkError, match=message):
        panewise_spark.check_workload(workload, rows=True)


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("SELECT DISTINCT k FROM a [RANGE 1 SECOND SLIDE 1 SECOND] INTO [ROWS 3]", "counts answers.*INTO .RANGE"),
        ("SELECT DISTINCT k FROM a [ROWS 9 SLIDE 3] INTO [RANGE 1 SECOND]", "all rows since the beginning"),
    ],
)
def test_what_cannot_be_held_for_lookups(select: str, message: str) -> None:
    workload = panewise.read(f"{STREAMS} CREATE QUERY q AS {select};")
    with pytest.raises(NotOnSparkError, match=message):
        panewise_spark.check_workload(workload, lookups=True)


def test_wrong_arguments() -> None:
    workload = panewise.read(EVERY_TEXT)
    with pytest.raises(NotOnSparkError, match=r"read them with panewise\.spark\.rows"):
        panewise_spark.check_workload(workload)
    with pytest.raises(ArgumentError, match="most_rows must be at least 1"):
        panewise_spark.rows({}, workload, most_rows=0)
    with pytest.raises(ArgumentError, match="no query of the workload answers with rows"):
        panewise_spark.rows({}, panewise.read(STREAMS))


def test_more_rows_than_allowed_is_an_error(tmp_path: Path) -> None:
    workload = panewise.read(STREAMS + f"CREATE QUERY whole AS {EVERY_QUERY['whole']};")
    (batch,), _ = drawn_batches(1, workload, 1)
    spark = SimulatedSpark(workload, tmp_path, wide_by="query", most_rows=2)
    with pytest.raises(TooManyRowsError, match=r"query whole: the window that ends at .* write LIMIT"):
        spark.run_as_batch_job(batch)


def test_aggregates_are_looked_up_beside_rows_and_the_log_stays_short(tmp_path: Path) -> None:
    text = """CREATE STREAM a (t TIMESTAMP, k BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;
        CREATE QUERY counted AS SELECT k, COUNT(*) FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY k;
        CREATE QUERY top AS SELECT TOP_K(k, 1) FROM a [RANGE 10 SECONDS SLIDE 5 SECONDS];
        CREATE QUERY pairs AS SELECT l.t FROM a [RANGE 2 SECONDS] AS l JOIN a [RANGE 1 SECOND] AS r ON l.k = r.k;"""
    spark = SimulatedSpark(panewise.read(text), tmp_path, lookups=True, wide_by="query")
    entries = []
    for number in range(9):
        spark.run_batch({"a": [{"t": ORIGIN_US + (number * 7 + i) * 1000 * MS, "k": i % 2} for i in range(7)]})
        entries.append(sum(len(state["log"]) for state in spark.committed.values()))
    assert entries[-1] <= max(entries[:4])
    looked_up = LookupClient(tmp_path).lookup("counted").to_pylist()
    newest = max(spark.brought["top"].to_pylist(), key=lambda row: row["window_end"])
    assert newest["window_end"] == looked_up[0]["window_end"]
    assert newest["count"] == max(row["COUNT(*)"] for row in looked_up)


def test_a_checkpoint_fits_the_same_job_in_another_process() -> None:
    """The order of a set differs from process to process, and a bound of the future may be changed."""
    workload = panewise.read(EVERY_TEXT)
    job = Job.of(workload, [0, 1])
    assert "set(" not in str([base.identity for base in job.tuples.bases.values()])
    streams = {name: replace(stream, future_bound_us=7) for name, stream in workload.streams.items()}
    assert identity_of(job) == identity_of(Job.of(replace(workload, streams=streams), [0, 1]))


OVER_ROWS = {
    "values": "SELECT HISTOGRAM(k) FROM a [ROWS 6 SLIDE 2] WHERE x > 0 OR x IS NULL",
    "ranges": "SELECT HISTOGRAM(x, 0.75) FROM a [ROWS 5 SLIDE 3]",
    "most": "SELECT TOP_K(s, 2) FROM a [ROWS 7 SLIDE 4]",
    "each": "SELECT b, TOP_K(k, 1) FROM a [ROWS 8 SLIDE 4] GROUP BY b",
    "first": "SELECT s, x FROM a [ROWS 4 SLIDE 6] ORDER BY x DESC LIMIT 2",
    "every": "SELECT k, t AS at FROM a [ROWS 3 SLIDE 3] ORDER BY k",
    "shared": "SELECT k FROM a [ROWS 6 SLIDE 2] WHERE x > 0 INTERSECT SELECT k FROM c [ROWS 9 SLIDE 2]",
    "either": "SELECT x FROM a [ROWS 4 SLIDE 3] UNION SELECT x FROM c [ROWS 2 SLIDE 3] BY RANGES OF 0.75",
    "lacking": "SELECT s FROM a [ROWS 3 SLIDE 5] EXCEPT SELECT s FROM a [ROWS 8 SLIDE 5] WHERE b",
    "pairs": "SELECT l.t AS at, r.u, l.x FROM a [ROWS 5] AS l JOIN c [ROWS 3] AS r ON l.k = r.x WHERE l.b OR r.k > 1",
    "mixed": "SELECT l.k, r.u FROM a [ROWS 2] AS l JOIN c [RANGE 12 MILLISECONDS] AS r ON l.k = r.k AND r.s = l.s",
    "itself": "SELECT x.t AS at, y.t AS later FROM a [RANGE 4 MILLISECONDS] AS x JOIN a [ROWS 4] AS y ON x.s = y.s",
}


def test_windows_over_the_rows_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a stream that starts again, and as a batch; rows of one time are in the order of their values."""
    monkeypatch.setattr(tuple_bucket, "EVENTS_AT_ONCE", 7)
    text = STREAMS.replace("WATERMARK 10", "GRANULARITY 4 MILLISECONDS WATERMARK 10")
    text = text.replace("WATERMARK 5", "GRANULARITY 6 MILLISECONDS WATERMARK 5")
    workload = panewise.read(text + "".join(f"CREATE QUERY {n} AS {select};" for n, select in OVER_ROWS.items()))
    batches, _ = drawn_batches(6, workload, 6)
    # One stream has far more rows than the other.
    batches = [{**batch, "c": batch["c"][: 12 - number]} for number, batch in enumerate(batches)]
    spark = SimulatedSpark(workload, tmp_path / "stream", wide_by="query", most_rows=1000)
    found: dict[str, list[Event]] = {name: [] for name in OVER_ROWS}
    for number, batch in enumerate([*batches, {}]):
        spark.run_batch(batch, attempts=1 + number % 2, shift=number)
        for name in found:
            found[name] += as_rows(spark.brought[name])
        if number % 3 == 2:
            spark.start()
    assert {base.slot_us for base in spark.packed.open().tuples.bases.values()} == {2 * MS}
    until_us = spark.watermark_of_spark_us
    assert until_us is not None
    assert all(found.values())
    check(workload, found, accepted_of(workload, batches), until_us)
    # What no window to come needs has left the state.
    assert sum(len(state["log"]) for state in spark.committed.values()) < 7 * len(spark.committed)
    job = SimulatedSpark(workload, tmp_path / "batch", wide_by="query", most_rows=1000)
    rows = {name: [row for batch in batches for row in batch[name]] for name in workload.streams}
    job.run_as_batch_job(rows)
    check(workload, {name: as_rows(job.brought[name]) for name in OVER_ROWS}, rows, oracle.END)


def _in_order(base: TupleBase, stream: Stream, rows: list[Event]) -> list[Event]:
    names = [name for name in base.attributes if name != stream.timestamp]
    return sorted(rows, key=lambda row: (row[stream.timestamp], *(_place(row[name]) for name in names)))


LATER = {
    "h": "HISTOGRAM(k) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "t": "TOP_K(s, 2) FROM a [RANGE 6 MILLISECONDS SLIDE 2 MILLISECONDS]",
    "o": "k, x FROM a [RANGE 8 MILLISECONDS SLIDE 4 MILLISECONDS] ORDER BY x LIMIT 2",
    "j": "l.k, r.x FROM a [RANGE 9 MILLISECONDS] AS l JOIN c [RANGE 5 MILLISECONDS] AS r ON l.k = r.k",
    "p": "k, t AS at FROM a WHERE x > 0",
}


def test_queries_that_come_and_go(tmp_path: Path) -> None:
    """Row queries come and go through the control stream; each sees the events from the next batch on."""
    for seed in range(3):
        _come_and_go(seed, tmp_path / str(seed))


def _come_and_go(seed: int, folder: Path) -> None:
    dice = random.Random(seed)
    workload = panewise.read(STREAMS + f"CREATE QUERY top AS {EVERY_QUERY['top']};")
    spark = SimulatedSpark(workload, folder, live=True, wide_by="query", most_rows=1000)
    assert list(spark.schemas) == ["long", "top", "later_rows"]
    batches, _ = drawn_batches(seed, workload, 9)
    for batch in batches:
        # A live job gives its watermark by the newest events alone: nothing is late here.
        for name, rows in batch.items():
            time = workload.streams[name].timestamp
            batch[name] = [row for row in rows if row[time] >= ORIGIN_US]
    waiting, alive = dict(LATER), {}
    came: dict[str, dict[str, int]] = {}
    gone: dict[str, int] = {}
    found: dict[str, list[Any]] = {name: [] for name in LATER}
    top: list[Event] = []
    selected: list[Event] = []
    accepted: dict[str, list[Event]] = {name: [] for name in workload.streams}
    for batch in [*batches, {}]:
        watermark_us = spark.watermark_ms * 1000 or None
        arriving = {name: on_time(workload.streams[name], rows, watermark_us)[0] for name, rows in batch.items()}
        for name, rows in arriving.items():
            accepted[name] += rows
        statements = []
        if batch and waiting and dice.random() < 0.7:
            name, select = waiting.popitem()
            statements.append(f"CREATE QUERY {name} AS SELECT {select};")
            alive[name] = select
            came[name] = {
                stream: max([row[workload.streams[stream].timestamp] for row in rows], default=0) + 1
                for stream, rows in accepted.items()
            }
        elif batch and len(alive) > 3 and dice.random() < 0.5:
            name = dice.choice(list(alive))
            del alive[name]
            gone[name] = watermark_us or 0
            statements.append(f"DROP QUERY {name};")
        is_new = any(statement.startswith("CREATE QUERY p ") for statement in statements)
        if "p" in came and not is_new and not gone_before(gone, "p", statements):
            passing = (row for row in arriving.get("a", ()) if row["t"] >= came["p"]["a"])
            selected += [row for row in passing if row["x"] is not None and not row["x"] <= 0]
        spark.run_batch(arriving, statements, attempts=dice.randint(1, 2), shift=dice.randint(0, 1))
        top += as_rows(spark.brought["top"])
        for row in spark.brought["later_rows"].to_pylist():
            found[row["query"]].append(json.loads(row["row"]))
        if dice.random() < 0.3:
            spark.start()
    assert spark.counts["rejected_statements"] == 0
    until_us = spark.watermark_ms * 1000
    check(workload, {"top": top}, accepted, until_us)
    for name, starts in came.items():
        later = panewise.read(f"{STREAMS} CREATE QUERY {name} AS SELECT {LATER[name]};")
        query = later.row_queries[name]
        seen = {
            stream: in_order_of_content(
                query,
                workload.streams[stream],
                [row for row in rows if row[workload.streams[stream].timestamp] >= starts[stream]],
            )
            for stream, rows in accepted.items()
        }
        stamps = {stream: workload.streams[stream].timestamp for stream in workload.streams}
        end_us = gone.get(name, until_us)
        wanted = expected(oracle.rows_of(query, oracle.Input(stamps, seen, dict.fromkeys(stamps, end_us), {})))
        if name == "p":
            wanted = [{"time": row["t"], "k": row["k"], "at": row["t"]} for row in selected]
        if name not in ("j", "p"):
            wanted = [row for row in wanted if row["window_start"] >= starts["a"]]
        assert _texts(found[name]) == _texts(wanted), name
    assert any(found.values())


def gone_before(gone: dict[str, int], name: str, statements: list[str]) -> bool:
    """Whether an earlier batch dropped a query; it still answers in the batch that brings the statement."""
    return name in gone and f"DROP QUERY {name};" not in statements


@pytest.mark.spark
def test_a_query_that_comes_later_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    workload = panewise.read(STREAMS + f"CREATE QUERY top AS {EVERY_QUERY['top']};")
    stream = workload.streams["a"]
    batches, _ = drawn_batches(4, workload, 4)
    (tmp_path / "control").mkdir()
    found: dict[str, list[Event]] = {"top": [], "later_rows": []}

    def write(batch: TableBatch) -> None:
        found[batch.table] += as_rows(batch.rows.toArrow())

    for number, batch in enumerate(batches):
        # Statements of a batch hold from the next one on, and only a batch with files is a batch.
        write_batches(tmp_path / "a", stream, [batch["a"]], number)
        for name, rows in batch.items():
            if name != "a":
                write_batches(tmp_path / name, workload.streams[name], [rows], number)
        if number == 1:
            text = f"CREATE QUERY t AS SELECT {LATER['t']};"
            (tmp_path / "control" / "1.json").write_text(json.dumps({"statement": text}), encoding="utf-8")
        frames = {name: read_stream(spark, tmp_path / name, each) for name, each in workload.streams.items()}
        control = spark.readStream.schema("statement STRING").json(str(tmp_path / "control"))
        rows_of = panewise_spark.rows(frames, workload, control=control, folder=tmp_path / "shared")
        writer = rows_of.write_stream(write).option("checkpointLocation", str(tmp_path / "progress"))
        writer.trigger(availableNow=True).start().awaitTermination()
    later = [json.loads(row["row"]) for row in found["later_rows"] if row["query"] == "t"]
    newest_us = max(row["t"] for batch in batches[:2] for row in batch["a"])
    query = panewise.read(f"{STREAMS} CREATE QUERY t AS SELECT {LATER['t']};").row_queries["t"]
    seen = {"a": [row for batch in batches for row in batch["a"] if row["t"] > newest_us], "c": []}
    stamps = {name: each.timestamp for name, each in workload.streams.items()}
    until_us = max(_plain(row["window_end"]) for row in later)
    wanted = expected(oracle.rows_of(query, oracle.Input(stamps, seen, dict.fromkeys(stamps, until_us), {})))
    assert _texts(later) == _texts([row for row in wanted if row["window_start"] > newest_us])
    assert found["top"]


def _texts(rows: list[Event]) -> Counter[str]:
    """Rows as texts, whether they come from JSON or from the oracle."""
    return Counter(str({name: _plain(value) for name, value in row.items()}) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value[:5] == "1970-":
        return round(datetime.fromisoformat(value).timestamp() * 1e6)
    if isinstance(value, float):
        return value + 0.0
    return "NaN" if value == "nan" else value


def test_a_job_without_rows_takes_no_row_query(tmp_path: Path) -> None:
    text = STREAMS + "CREATE QUERY counted AS SELECT COUNT(*) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS];"
    spark = SimulatedSpark(panewise.read(text), tmp_path, live=True)
    assert list(spark.schemas) == ["long"]
    spark.run_batch({"a": [], "c": []}, [f"CREATE QUERY h AS SELECT {LATER['h']};"])
    (change,) = StatementLog(tmp_path).before(9)
    assert "this job has no place for them" in str(change.statements[0].error)


def test_later_rows_without_a_bound(tmp_path: Path) -> None:
    workload = panewise.read(STREAMS + f"CREATE QUERY top AS {EVERY_QUERY['top']};")
    spark = SimulatedSpark(workload, tmp_path, live=True, wide_by="query")
    spark.run_batch({"a": [], "c": []}, [f"CREATE QUERY whole AS {EVERY_QUERY['whole']};"])
    (change,) = StatementLog(tmp_path).before(9)
    assert "write LIMIT, or give most_rows=" in str(change.statements[0].error)


@pytest.mark.parametrize("seed", range(3))
def test_evaluation_gets_rarer_in_a_batch_that_brings_many_windows(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    window = "[RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]"
    selects = {
        "h": f"HISTOGRAM(k) FROM a {window}",
        "t": f"TOP_K(s, 1) FROM a {window}",
        "o": f"x FROM a {window} ORDER BY x LIMIT 2",
    }
    pace = Evaluation(1, 8, 3)
    text = "".join(
        f"CREATE QUERY {name} AS SELECT {select} EVALUATE EVERY 1 TO 8 PRIORITY 3;" for name, select in selects.items()
    )
    workload = panewise.read(STREAMS + text)
    plain = panewise.read(STREAMS + "".join(f"CREATE QUERY {n} AS SELECT {each};" for n, each in selects.items()))
    spark = SimulatedSpark(workload, tmp_path, wide_by="query", buckets=4)
    accepted: dict[str, list[Event]] = {"a": [], "c": []}
    found: dict[str, list[Event]] = {name: [] for name in selects}
    every: dict[int, int] = {}
    now_us, before_us = ORIGIN_US, 0
    stream = workload.streams["a"]
    for number in range(12):
        # Few events, so that some buckets get none; and batches without any, which call buckets by timers alone.
        rows = [_event(dice, stream, now_us) for _ in range(dice.choice([0, 1, 3]) if number else 2)]
        rows, _ = on_time(stream, rows, spark.watermark_of_spark_us)
        accepted["a"] += rows
        watermark_us = spark.watermark_of_spark_us
        arriving = {"a": rows, "c": [_event(dice, workload.streams["c"], now_us)] if rows else []}
        spark.run_batch(arriving, attempts=dice.randint(1, 2), shift=dice.randint(0, 1))
        if watermark_us is not None:
            numbers = range(before_us // 2000 + 1, watermark_us // 2000 + 1)
            every |= dict.fromkeys(numbers, pace.under(len(numbers)) if before_us else 1)
            before_us = watermark_us
        for name in selects:
            found[name] += as_rows(spark.brought[name])
        now_us += dice.choice([2, 30, 200]) * MS
        if dice.random() < 0.3:
            spark.start()
    stamps = {name: each.timestamp for name, each in workload.streams.items()}
    for name, query in plain.row_queries.items():
        ordered = {each: in_order_of_content(query, plain.streams[each], rows) for each, rows in accepted.items()}
        rows = expected(oracle.rows_of(query, oracle.Input(stamps, ordered, dict.fromkeys(stamps, before_us), {})))
        kept = [row for row in rows if row["window_end"] // 2000 % every[row["window_end"] // 2000] == 0]
        said = {row["window_end"]: row.pop("evaluated_every") for row in found[name]}
        assert _counted(found[name]) == _counted(kept), name
        assert said == {row["window_end"]: every[row["window_end"] // 2000] for row in kept}
        assert len(kept) < len(rows)


def test_evaluation_of_windows_over_rows_gets_rarer_too(tmp_path: Path) -> None:
    """As often as in the engine, whatever lies between the windows."""
    selects = {
        "h": "HISTOGRAM(k) FROM a [ROWS 4 SLIDE 6]",
        "t": "TOP_K(k, 1) FROM a [ROWS 6 SLIDE 2]",
        "i": "k FROM a [ROWS 4 SLIDE 2] INTERSECT SELECT k FROM c [ROWS 6 SLIDE 2]",
    }
    pace = "EVALUATE EVERY 1 TO 4 PRIORITY 2"
    workload = panewise.read(
        STREAMS.replace("WATERMARK", "GRANULARITY 1 MILLISECOND WATERMARK")
        + "".join(f"CREATE QUERY {name} AS SELECT {select} {pace};" for name, select in selects.items())
    )
    spark, engine = SimulatedSpark(workload, tmp_path, wide_by="query"), panewise.Engine(workload)
    found: dict[str, list[Event]] = {name: [] for name in selects}
    wanted: dict[str, list[Event]] = {name: [] for name in selects}
    at_ms = ORIGIN_US // MS
    for number, count in enumerate((8, 12, 40, 100, 6, 50, 1)):
        watermark_us = spark.watermark_of_spark_us
        times = range(at_ms, at_ms + count)
        at_ms += count
        # The second stream has fewer rows, so that it decides what is complete.
        rows = {"a": [_row("t", time) for time in times], "c": [_row("u", time) for time in times[count // 4 :]]}
        spark.run_batch(rows, shift=number)
        if number % 3 == 2:
            spark.start()
        for stream, some in rows.items():
            engine.push(stream, public_table(workload.streams[stream], some))
            if watermark_us is not None:
                engine.advance(stream, watermark_us)
        for name in selects:
            found[name] += as_rows(spark.brought[name])
            wanted[name] += as_rows(engine.rows(name))
    for name in selects:
        assert _counted(found[name]) == _counted(wanted[name]), name
        assert {row["evaluated_every"] for row in found[name]} >= {1, 4}


def _row(stamp: str, at_ms: int) -> Event:
    values: dict[str, Any] = {stamp: at_ms * MS, "k": at_ms % 5, "x": 0.5, "s": "a"}
    return values if stamp == "u" else {**values, "b": None}
