"""`panewise.spark.tables` on Spark itself: the oracle's answers, in wide tables, each row once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests import oracle
from tests.answers import microseconds
from tests.oracle import Answer
from tests.spark.streaming import Event, public_table, read_stream, watermarks, write_batches
from tests.spark.test_wide_layout import drawn
from tests.wide_answers import plain

import panewise
from panewise import spark as panewise_spark
from panewise.engine.families import Family, families_of
from panewise.errors import ArgumentError, NamesClashError, UnknownNameError
from panewise.language.expressions import Attribute
from panewise.language.model import Query
from panewise.language.printer import label_of
from panewise.language.workload import Workload
from panewise.spark import FileSink, TableBatch, Tables
from panewise.spark.table_frames import BATCH_COLUMN
from panewise.windows.slots import lengths_of

pytestmark = pytest.mark.spark

Place = tuple[int, tuple[tuple[str, Any], ...]]
"""A window's end, and a group."""


def of_query_table(table: pa.Table, query: Query) -> list[Answer]:
    names = {item.expression.name: label_of(item) for item in query.select if isinstance(item.expression, Attribute)}
    found = []
    for row in table.to_pylist():
        group = tuple((name, microseconds(row[names.get(name, name)])) for name in query.group_by)
        start, end = microseconds(row["window_start"]), microseconds(row["window_end"])
        for place, item in enumerate(query.select):
            if item.is_answer:
                found.append(Answer(query.name, start, end, group, place, microseconds(row[label_of(item)])))
    return found


def of_family_table(table: pa.Table, family: Family) -> list[Answer]:
    """The answers of a family's table, without those of a query whose answers at a place are all NULL."""
    found = []
    for row in table.to_pylist():
        for query in family.queries:
            end = microseconds(row["window_end"])
            group = tuple((name, microseconds(row[name])) for name in query.group_by)
            items = [(item, row[name]) for other, item, name in family.columns if other.name == query.name]
            found += [
                Answer(
                    query.name,
                    end - lengths_of(query.window)[0],
                    end,
                    group,
                    query.select.index(item),
                    microseconds(value),
                )
                for item, value in items
            ]
    return without_empty(found)


def without_empty(answers: Iterable[Answer]) -> list[Answer]:
    """The answers without those of a query that are all NULL for a window and group."""
    answers = list(answers)
    shown = {_row_of(answer) for answer in answers if answer.value is not None}
    return [answer for answer in answers if _row_of(answer) in shown]


def _row_of(answer: Answer) -> tuple[Any, ...]:
    return answer.query, answer.window_end, tuple((name, plain(value)) for name, value in answer.group)


def places_of(answers: Iterable[Answer], family: Family) -> set[Any]:
    members = {query.name for query in family.queries}
    return {
        (answer.window_end, frozenset((name, plain(value)) for name, value in answer.group))
        for answer in answers
        if answer.query in members
    }


def assert_as_the_oracle(tables: dict[str, pa.Table], workload: Workload, expected: list[Answer], by: str) -> None:
    if by == "query":
        assert tables.keys() == workload.queries.keys()
        found = [answer for name, table in tables.items() for answer in of_query_table(table, workload.queries[name])]
        oracle.assert_same_answers(found, expected)
        return
    families = families_of(workload.queries.values())
    assert tables.keys() == families.keys()
    found = [answer for name, table in tables.items() for answer in of_family_table(table, families[name])]
    oracle.assert_same_answers(found, without_empty(expected))
    for name, family in families.items():
        assert tables[name].num_rows == len(places_of(expected, family)), "a row per end and group"


def expected_answers(workload: Workload, accepted: list[Event], watermark: int | None) -> list[Answer]:
    (stream,) = workload.streams.values()
    queries = workload.queries.values()
    return [
        answer for query in queries for answer in oracle.closed_answers(query, stream.timestamp, accepted, watermark)
    ]


@pytest.mark.parametrize(("seed", "by"), [(1, "family"), (2, "query")])
def test_batch_agrees_with_the_oracle(spark: SparkSession, seed: int, by: Any) -> None:
    workload, batches = drawn(seed, corrects=False)
    (stream,) = workload.streams.values()
    rows = [row for batch in batches for row in batch]
    with panewise_spark.tables(spark.createDataFrame(public_table(stream, rows)), workload, by=by) as tables:
        found = {name: table.toArrow() for name, table in tables.items()}
    assert_as_the_oracle(found, workload, expected_answers(workload, rows, None), by)


def written(spark: SparkSession, tables: Tables, folder: Path) -> dict[str, pa.Table]:
    """What file sinks wrote, without the column of batches."""
    found = {}
    for name in tables:
        frame = tables[name]
        path = folder / name
        rows = (
            spark.read.parquet(str(path)).drop(BATCH_COLUMN)
            if path.exists()
            else spark.createDataFrame([], frame.schema)
        )
        assert rows.schema.simpleString() == frame.schema.simpleString()
        found[name] = rows.toArrow()
    return found


class Broken:
    """Writes the tables of a batch, and fails once, after some of them."""

    def __init__(self, sinks: dict[str, FileSink], fails_at: tuple[str, int]) -> None:
        self._sinks, self._fails_at = sinks, fails_at
        self.calls: list[tuple[str, int]] = []

    def __call__(self, batch: TableBatch) -> None:
        self.calls.append((batch.table, batch.number))
        self._sinks[batch.table](batch)
        if self._fails_at == (batch.table, batch.number) and self.calls.count(self._fails_at) == 1:
            raise RuntimeError("the disk is full")


def test_a_stream_that_fails_between_two_tables_writes_each_row_once(spark: SparkSession) -> None:
    workload, batches = drawn(5, corrects=False)
    (stream,) = workload.streams.values()
    *before, last = watermarks(stream, batches)
    accepted = [
        event
        for batch, watermark in zip(batches, before, strict=True)
        for event in batch
        if watermark is None or event[stream.timestamp] >= watermark
    ]
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        half = len(batches) // 2
        write_batches(folder / "events", stream, batches[:half])
        tables = panewise_spark.tables(read_stream(spark, folder / "events", stream), workload)
        first, *_ = tables
        broken = Broken({name: FileSink(folder / "out" / name) for name in tables}, (first, 2))

        def run() -> Any:
            query = (
                tables.write_stream(broken)
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return query

        with pytest.raises(StreamingQueryException, match="the disk is full"):
            run()
        run()
        write_batches(folder / "events", stream, batches[half:], first=half)
        query = run()
        found = written(spark, tables, folder / "out")
        metrics = [one.observedMetrics["panewise"] for one in query.recentProgress if one.observedMetrics]
    assert broken.calls.count((first, 2)) == 2, "the batch was repeated"
    expected = expected_answers(workload, accepted, last)
    assert_as_the_oracle(found, workload, expected, "family")
    assert 0 < sum(one.answers for one in metrics) < len(expected), "each answer is counted, as in the long table"


TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, MAX(t) AS last FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT k AS who, SUM(x), AVG(x) AS mean FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k;
"""
FAMILY = "s_by_k_every_2_seconds"


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    times = pa.array([second * 1_000_000 for second in range(8)]).cast(pa.timestamp("us", "UTC"))
    return spark.createDataFrame(pa.table({"t": times, "k": ["a", "b"] * 4, "x": [2**60 + 1] * 8}))


def test_types_changes_and_names(events: DataFrame) -> None:
    workload = panewise.read(TEXT)
    tables = panewise_spark.tables(events, workload)
    assert repr(tables) == f"Tables({FAMILY})"
    assert tables[FAMILY].schema.simpleString() == (
        "struct<window_end:timestamp,k:string,a__n:bigint,last:timestamp,b__SUM(x):bigint,mean:double>".replace(
            "a__n", "n"
        )
    )
    rows = tables[FAMILY].orderBy("window_end", "k").collect()
    assert (rows[0].k, rows[0]["b__SUM(x)"]) == ("a", 2**60 + 1), "no integer is rounded"
    tables.unpersist()
    with panewise_spark.tables(events, workload, until="1970-01-01 00:00:04") as early:
        assert sorted(row[0].second for row in early[FAMILY].select("window_end").collect()) == [2, 2, 4, 4]
    with panewise_spark.tables(events, workload, by="query", changed_only=True) as changes:
        assert changes["b"].schema.names == ["window_start", "window_end", "who", "SUM(x)", "mean", "ended"]
        ended = changes["b"].where("ended").collect()
        assert {row.who for row in ended} == {"a", "b"}
        assert changes["b"].count() == 4, "each group comes once and ends once"


def test_wrong_arguments(spark: SparkSession, events: DataFrame, tmp_path: Path) -> None:
    workload = panewise.read(TEXT)
    tables = panewise_spark.tables(events, workload)
    with pytest.raises(UnknownNameError, match=f"no table named 'a' is here; there are: {FAMILY}"):
        tables["a"]
    with pytest.raises(ArgumentError, match="write_stream is for streams; write each DataFrame itself"):
        tables.write_stream(print)
    tables.unpersist()
    with pytest.raises(ArgumentError, match="by is one of 'family', 'query', 'long', not 'table'"):
        panewise_spark.tables(events, workload, by="table")  # type: ignore[arg-type]
    clash = panewise.read(TEXT.replace("AS mean", "AS N"))
    with pytest.raises(NamesClashError, match="to Spark the columns n and N have the same name"):
        panewise_spark.tables(events, clash)
    asked = panewise.read(
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t; CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 1 HOUR];"
    )
    with pytest.raises(ArgumentError, match="no query of the workload has SLIDE"):
        panewise_spark.tables(events, asked, folder=tmp_path / "lookups")
    (stream,) = workload.streams.values()
    write_batches(tmp_path / "events", stream, [])
    live = panewise_spark.tables(read_stream(spark, tmp_path / "events", stream), workload)
    with pytest.raises(ArgumentError, match="until is for a batch; a stream answers windows when its watermark"):
        panewise_spark.tables(read_stream(spark, tmp_path / "events", stream), workload, until=0)
    with pytest.raises(ArgumentError, match=f"nothing writes table '{FAMILY}'; give a function for it, or None"):
        live.write_stream({})
    with pytest.raises(UnknownNameError, match="no table named 'other' is here"):
        live.write_stream({FAMILY: None, "other": print})
    with pytest.raises(ArgumentError, match="is a function of a TableBatch, a FileSink or a DeltaSink, not 'out'"):
        live.write_stream({FAMILY: "out"})  # type: ignore[dict-item]
