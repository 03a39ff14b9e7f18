"""Every form of a window on Spark, as a batch and as a stream, agrees with the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.cookbook import cookbook, events_of
from tests.engine.test_conformance import as_table
from tests.spark.log_writing import LogWriter
from tests.spark.streaming import public_table, run_stream, watermarks, write_batches

import panewise
from panewise import spark as panewise_spark
from panewise.language.workload import Workload
from panewise.spark.lookup_client import LookupClient
from panewise.windows import follows_events, is_unbounded

pytestmark = pytest.mark.spark

ALIGNED = "ALIGN TO TIME ZONE 'Europe/Berlin'"
WORKLOAD = panewise.read(f"""
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 2 HOURS;
    CREATE QUERY day AS SELECT k, SUM(x), MAX(x) FROM s [RANGE 1 DAY SLIDE 1 DAY {ALIGNED}] GROUP BY k;
    CREATE QUERY early AS SELECT k, COUNT(*) FROM s [RANGE 2 DAYS SLIDE 1 DAY OFFSET 6 HOURS {ALIGNED}]
      GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY shifted AS SELECT k, COUNT(*) FROM s [RANGE 1 DAY SLIDE 12 HOURS OFFSET 2 HOURS] GROUP BY k;
    CREATE QUERY own AS SELECT k, SUM(x) OVER [RANGE 6 HOURS] AS six, SUM(x) OVER [RANGE 2 DAYS] AS two, COUNT(*) OVER
      [RANGE 2 HOURS] AS n FROM s SLIDE 2 HOURS GROUP BY k HAVING six > two / 8;
    CREATE QUERY grown AS SELECT SUM(x) FROM s [CUMULATE 1 DAY SLIDE 6 HOURS];
    CREATE QUERY so_far AS SELECT k, COUNT(*), SUM(x), COUNT(DISTINCT x), LAST(x) FROM s [UNBOUNDED SLIDE 6 HOURS]
      GROUP BY k;
    CREATE QUERY some AS SELECT COUNT(*), MAX(x) FROM s [UNBOUNDED SLIDE 4 HOURS OFFSET 2 HOURS] WHERE x > 1
      HAVING COUNT(*) > 5;
    CREATE QUERY runs AS SELECT k, COUNT(*), SUM(x), LAST(x) FROM s [FROM WHEN x = 0 UNTIL WHEN x > 2 MAX 1 DAY]
      GROUP BY k;
    CREATE QUERY zeros AS SELECT COUNT(*), MAX(x) FROM s [FROM WHEN x = 0 UNTIL WHEN x = 0 MAX 12 HOURS] WHERE k <> 'b';
""")
FIRST_S = 1_729_728_000
"""2024-10-24: clocks go back in the night to the 27th."""
ROWS = [
    {"t": (FIRST_S + 1800 * place * 3 - place % 4 * 1700) * 1_000_000, "k": "abc"[place % 3], "x": place % 7 - 2}
    for place in range(120)
]


def expected_answers(workload: Workload, rows: list, watermark: int | None) -> list[oracle.Answer]:
    return [
        answer for query in workload.queries.values() for answer in oracle.closed_answers(query, "t", rows, watermark)
    ]


def test_a_batch_agrees_with_the_oracle(spark: SparkSession) -> None:
    frame = spark.createDataFrame(public_table(WORKLOAD.streams["s"], ROWS))
    table = panewise_spark.answers(frame, WORKLOAD).toArrow()
    oracle.assert_same_answers(to_answers(table, WORKLOAD), expected_answers(WORKLOAD, ROWS, None))


def test_a_stream_agrees_with_the_oracle(spark: SparkSession, tmp_path: Path) -> None:
    batches = [ROWS[at : at + 40] for at in range(0, len(ROWS), 40)]
    write_batches(tmp_path / "events", WORKLOAD.streams["s"], batches)
    table, _ = run_stream(spark, tmp_path / "events", WORKLOAD)
    last = watermarks(WORKLOAD.streams["s"], batches)[-1]
    oracle.assert_same_answers(to_answers(table, WORKLOAD), expected_answers(WORKLOAD, ROWS, last))


def test_the_cookbook_gives_the_answers_of_the_engine(spark: SparkSession) -> None:
    workload = cookbook()
    engine = panewise.Engine(workload)
    frames, expected = {}, []
    for name, stream in workload.declared.items():
        rows = events_of(stream)
        engine.push(name, as_table(stream, rows))
        expected += to_answers(engine.advance(name, panewise.END_OF_STREAM).long(), workload)
        frames[name] = spark.createDataFrame(public_table(stream, rows))
    table = panewise_spark.answers(frames, workload).toArrow()
    oracle.assert_same_answers(to_answers(table, workload), expected)


def test_lookups_give_the_newest_window_that_closed(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "folder", WORKLOAD)
    batches = [ROWS[at : at + 40] for at in range(0, len(ROWS), 40)]
    for batch in batches:
        writer.run(batch)
    client = LookupClient(writer.folder)
    # The last batch sees the watermark of those before it.
    closed = watermarks(WORKLOAD.streams["s"], batches)[-2]
    assert closed is not None
    for query in WORKLOAD.queries.values():
        if is_unbounded(query.window):
            continue  # tests.spark.test_unbounded has these
        if follows_events(query.window):
            # Where a group is now, not the newest that closed.
            seen_us = client.statistics()["seen_us"]["s"]
            standing = oracle.standing_answers(query, "t", writer.accepted, seen_us - 1)
            oracle.assert_same_answers(to_answers(client.lookup(query.name), WORKLOAD, query.name), standing)
            continue
        newest = oracle.newest_end(query.window, closed)
        expected = [one for one in expected_answers(WORKLOAD, ROWS, closed) if one.query == query.name]
        found = to_answers(client.lookup(query.name), WORKLOAD, query.name)
        wanted = [one for one in expected if one.window_end == newest]
        oracle.assert_same_answers(found, wanted)
        if query.has_own_windows and query.group_by == ("k",):
            for key in "abc":
                one = to_answers(client.lookup(query.name, {"k": key}), WORKLOAD, query.name)
                oracle.assert_same_answers(one, [each for each in wanted if each.group == (("k", key),)])
                assert client.can_share(query.name) is False
