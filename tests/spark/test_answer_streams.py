"""Queries of answers on Spark agree with the oracle, in a batch and in a stream across a restart."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import chain_oracle, oracle
from tests.answers import to_answers
from tests.spark.streaming import public_table, read_stream, watermarks, write_batches

import panewise
from panewise import spark as panewise_spark

pytestmark = pytest.mark.spark

SECOND = 1_000_000
FIRST = 1_356_998_400 * SECOND
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 20 SECONDS GRANULARITY 10 SECONDS;"
CHAIN = """
    CREATE QUERY minutes AS SELECT k AS key, SUM(x) AS total, COUNT(*) AS n FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]
      GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY best AS SELECT key, MAX(total) AS best, COUNT(*) AS minutes FROM minutes
      [RANGE 5 MINUTES SLIDE 5 MINUTES] GROUP BY key;
    CREATE QUERY everyone AS SELECT SUM(total), COUNT(DISTINCT key), MAX(window_end) FROM minutes
      [RANGE 4 MINUTES SLIDE 2 MINUTES] WHERE n > 2;
    CREATE QUERY third AS SELECT SUM(best) FROM best [RANGE 10 MINUTES SLIDE 10 MINUTES];
"""
OTHERS = """
    CREATE QUERY visits AS SELECT k, COUNT(*) AS n FROM s [SESSION GAP 40 SECONDS MAX 2 MINUTES] GROUP BY k;
    CREATE QUERY longest AS SELECT MAX(n), COUNT(*) FROM visits [RANGE 10 MINUTES SLIDE 5 MINUTES];
    CREATE QUERY counted AS SELECT MAX(x) AS most FROM s [ROWS 20 SLIDE 10];
    CREATE QUERY of_rows AS SELECT SUM(most), COUNT(*) FROM counted [RANGE 5 MINUTES SLIDE 5 MINUTES];
"""
ROWS = """
    CREATE QUERY shares AS SELECT minutes.key, minutes.window_end AS minute, minutes.total, best.best
      FROM minutes JOIN best ON minutes.key = best.key;
    CREATE QUERY loud AS SELECT key, total FROM minutes WHERE total > 20;
"""


def events(seed: int, count: int) -> list[dict]:
    dice = random.Random(seed)
    times = sorted(FIRST + dice.randrange(0, 25 * 60 * SECOND) for _ in range(count))
    return [{"t": time, "k": dice.choice("abc"), "x": dice.randint(0, 9)} for time in times]


def test_a_batch_of_a_chain_agrees_with_the_oracle(spark: SparkSession) -> None:
    workload = panewise.read(STREAM + CHAIN + OTHERS)
    rows = events(1, 300)
    frame = spark.createDataFrame(public_table(workload.streams["s"], rows))
    answers = to_answers(panewise_spark.answers(frame, workload).toArrow(), workload)
    oracle.assert_same_answers(answers, chain_oracle.closed_answers(workload, {"s": rows}, None))


def test_tables_and_rows_of_a_chain_are_those_of_the_engine(spark: SparkSession) -> None:
    workload = panewise.read(STREAM + CHAIN + ROWS)
    rows = events(2, 200)
    table = public_table(workload.streams["s"], rows)
    engine = panewise.Engine(workload)
    engine.push("s", table)
    wanted = dict(engine.advance("s", panewise.END_OF_STREAM).tables)
    wanted |= {name: engine.rows(name) for name in workload.row_queries}
    with panewise_spark.tables(spark.createDataFrame(table), workload, by="query") as found:
        assert set(found) == set(wanted)
        for name, mine in wanted.items():
            assert sorted_rows(found[name].toArrow()) == sorted_rows(mine)
    with panewise_spark.rows(spark.createDataFrame(table), workload) as found:
        assert set(found) == {"shares", "loud"}
        assert sorted_rows(found["shares"].toArrow()) == sorted_rows(wanted["shares"])


def sorted_rows(table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_a_stream_of_a_chain_agrees_with_the_oracle_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    workload = panewise.read(STREAM + CHAIN + OTHERS)
    stream = workload.streams["s"]
    rows = events(3, 300)
    batches = [rows[at : at + 100] for at in range(0, len(rows), 100)]
    folder, out = tmp_path / "events", tmp_path / "answers"
    for some in (batches[:2], batches[2:]):
        write_batches(folder, stream, some, first=len(list(folder.glob("*"))) if folder.exists() else 0)
        frame = panewise_spark.answers(read_stream(spark, folder, stream), workload)
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    found = to_answers(spark.read.schema(frame.schema).parquet(str(out)).toArrow(), workload)
    last = watermarks(stream, batches)[-1]
    assert last is not None
    slot_us = 10 * SECOND
    for mark, names in (
        (last, {"minutes", "best", "everyone", "third"}),
        # Spark reports them with their slots, and what reads them waits as long as they may take.
        (last // slot_us * slot_us, {"visits", "counted"}),
        (last - slot_us, {"of_rows"}),
        (last - 160 * SECOND + 120 * SECOND, {"longest"}),
    ):
        wanted = chain_oracle.closed_answers(workload, {"s": rows}, mark)
        oracle.assert_same_answers(
            [one for one in found if one.query in names], [one for one in wanted if one.query in names]
        )
