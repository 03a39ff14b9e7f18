"""Sessions on Spark: a batch agrees with Spark's own session_window, a stream with the oracle."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests import oracle
from tests.answers import to_answers
from tests.spark.log_writing import LogWriter
from tests.spark.streaming import public_table, read_stream, watermarks, write_batches

import panewise
from panewise import spark as panewise_spark
from panewise.engine.columns import arrow_type
from panewise.engine.lookup_log import LogReport, read_log
from panewise.spark.job import Change, Job, Statement
from panewise.spark.lookup_client import LookupClient
from panewise.training.audit import Reason, audit

pytestmark = pytest.mark.spark

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
GAPS = (5, 7, 30)
WORKLOAD = panewise.read(
    """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 2 MINUTES GRANULARITY 1 MINUTE;
    CREATE QUERY gap_5 AS SELECT k, COUNT(*), SUM(x), COUNT(DISTINCT x) FROM s
      [SESSION GAP 5 MINUTES MAX 1 DAY] GROUP BY k;
    CREATE QUERY gap_7 AS SELECT k, COUNT(*), SUM(x), COUNT(DISTINCT x) FROM s
      [SESSION GAP 7 MINUTES MAX 1 DAY] GROUP BY k;
    CREATE QUERY gap_30 AS SELECT k, COUNT(*), SUM(x), COUNT(DISTINCT x) FROM s
      [SESSION GAP 30 MINUTES MAX 1 DAY] GROUP BY k;
    CREATE QUERY some AS SELECT k, MAX(x), MEDIAN(x) FROM s [SESSION GAP 7 MINUTES MAX 20 MINUTES] WHERE x > 2
      GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY everyone AS SELECT COUNT(*) FROM s [SESSION GAP 5 MINUTES MAX 1 HOUR];
    CREATE QUERY hourly AS SELECT k, COUNT(*) FROM s [RANGE 1 HOUR SLIDE 10 MINUTES] GROUP BY k;
    """
)
FIRST_US = 1_356_998_400 * SECOND_US


def events(seed: int, count: int) -> list[dict]:
    """Events a few minutes apart, some of them exactly a gap, or a microsecond less, after another one."""
    dice = random.Random(seed)
    rows, newest = [], dict.fromkeys("abc", FIRST_US)
    for _ in range(count):
        key = dice.choice("abc")
        pause = dice.choice([MINUTE_US, 90 * SECOND_US, *(gap * MINUTE_US for gap in GAPS)])
        newest[key] += pause - dice.choice([0, 0, 1])
        rows.append({"t": newest[key], "k": key, "x": dice.randint(0, 9)})
    return sorted(rows, key=lambda row: row["t"])


def test_a_batch_agrees_with_session_window_of_spark(spark: SparkSession) -> None:
    rows = events(1, 400)
    frame = spark.createDataFrame(public_table(WORKLOAD.streams["s"], rows))
    table = panewise_spark.answers(frame, WORKLOAD).toArrow()
    answers = to_answers(table, WORKLOAD)
    for gap in GAPS:
        session = F.session_window("t", f"{gap} minutes")
        native = frame.groupBy(session, "k").agg(F.count("*"), F.sum("x"), F.countDistinct("x"))
        starts, ends = (F.unix_micros(F.col("session_window")[name]) for name in ("start", "end"))
        wanted = {
            (row[0], row[1], row["k"], item + 1, row[item + 3])
            for row in native.select(starts, ends, "k", *native.columns[2:]).collect()
            for item in range(3)
        }
        mine = [one for one in answers if one.query == f"gap_{gap}"]
        assert {(one.window_start, one.window_end, one.group[0][1], one.item, one.value) for one in mine} == wanted
        assert len(mine) == len(wanted)
    oracle.assert_same_answers(answers, expected(rows, None))


def expected(rows: list[dict], watermark: int | None) -> list[oracle.Answer]:
    return [
        answer for query in WORKLOAD.queries.values() for answer in oracle.closed_answers(query, "t", rows, watermark)
    ]


def test_a_stream_agrees_with_the_oracle_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """The watermark of Spark is in milliseconds, and a session closes with the slot in which it ends."""
    rows = events(2, 300)
    batches = [rows[at : at + 60] for at in range(0, len(rows), 60)]
    folder, out = tmp_path / "events", tmp_path / "answers"
    for some in (batches[:3], batches[3:]):
        write_batches(folder, WORKLOAD.streams["s"], some, first=len(list(folder.glob("*"))) if folder.exists() else 0)
        frame = panewise_spark.answers(read_stream(spark, folder, WORKLOAD.streams["s"]), WORKLOAD, changed_only=True)
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    last = watermarks(WORKLOAD.streams["s"], batches)[-1]
    assert last is not None
    found = to_answers(spark.read.schema(frame.schema).parquet(str(out)).toArrow(), WORKLOAD)
    closed = expected(rows, last // MINUTE_US * MINUTE_US)
    # Changes have each session once; of other windows they have only what differs.
    oracle.assert_same_answers(
        [one for one in found if one.query != "hourly"], [one for one in closed if one.query != "hourly"]
    )
    assert any(one.query == "hourly" for one in found)


def test_a_running_job_takes_sessions_and_windows_from_event_to_event() -> None:
    job = Job.of(WORKLOAD, [0], is_live=True)
    windows = "[SESSION GAP 9 MINUTES MAX 1 DAY]", "[FROM WHEN x = 1 UNTIL WHEN x = 2 MAX 1 DAY]"
    texts = [
        f"CREATE QUERY later_{place} AS SELECT k, COUNT(*) FROM s {one} GROUP BY k" for place, one in enumerate(windows)
    ]
    change = job.judge(Change(3, tuple(map(Statement, texts)), {"s": FIRST_US}, FIRST_US - MINUTE_US))
    assert [one.error for one in change.statements] == [None, None]
    at_work = [name for base in job.after(change).bases.values() for tree in base.trees for name in tree.queries]
    assert {"later_0", "later_1"} <= set(at_work)


LOOKED_UP = panewise.read(
    """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 2 MINUTES GRANULARITY 1 MINUTE;
    CREATE QUERY visits AS SELECT k, COUNT(*), SUM(x), MEDIAN(x) FROM s
      [SESSION GAP 5 MINUTES MAX 20 MINUTES] GROUP BY k;
    CREATE QUERY some AS SELECT k, MAX(x) FROM s [SESSION GAP 7 MINUTES MAX 50 MINUTES] WHERE x > 2
      GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY everyone AS SELECT COUNT(*) FROM s [SESSION GAP 2 MINUTES MAX 1 HOUR];
    CREATE QUERY runs AS SELECT k, COUNT(*), LAST(x) FROM s
      [FROM WHEN x > 6 UNTIL WHEN x < 2 MAX 15 MINUTES] GROUP BY k;
    CREATE QUERY hourly AS SELECT k, COUNT(*) FROM s [RANGE 1 HOUR SLIDE 10 MINUTES] GROUP BY k;
    """
)


def test_lookups_see_the_session_that_a_group_is_in(tmp_path: Path) -> None:
    """At the end of the newest slot, or of one before; the log of lookups is what training sets give."""
    writer = LogWriter(tmp_path / "folder", LOOKED_UP)
    rows, log = events(3, 240), tmp_path / "served.log"
    with LookupClient(writer.folder, refresh_every_s=0, log=log) as client:
        assert client.lookup("visits").num_rows == 0
        for place in range(0, len(rows), 30):
            writer.run(rows[place : place + 30])
            seen_us = (writer.accepted[-1]["t"] // MINUTE_US + 1) * MINUTE_US
            for name, query in list(LOOKED_UP.queries.items())[:-1]:
                for back in (0, 3 * MINUTE_US):
                    end_us = seen_us - back - 1
                    wanted = oracle.standing_answers(query, "t", writer.accepted, end_us)
                    found = client.lookup(name, at=end_us if back else None)
                    oracle.assert_same_answers(to_answers(found, LOOKED_UP, name), wanted)
                    if not query.group_by:
                        continue
                    one = client.lookup(name, {"k": "a"}, end_us)
                    of_a = [answer for answer in wanted if answer.group == (("k", "a"),)]
                    oracle.assert_same_answers(to_answers(one, LOOKED_UP, name), of_a)
                    many = client.lookup_many(name, ["b", "zzz", "a"], end_us)
                    label = found.column_names[-1]
                    by_key = {row["k"]: row[label] for row in found.to_pylist()}
                    assert many[label].tolist() == [by_key.get(key) for key in ("b", "zzz", "a")]
            each = client.lookup_at("runs", ["a", "b"], [seen_us - 1, seen_us - 1 - 3 * MINUTE_US])
            assert len(each["COUNT(*)"]) == 2
        client.check_invariants()
        with pytest.raises(panewise.HistoryError, match=r"visits: its window begins at .* look up a later time"):
            client.lookup("visits", at=FIRST_US + 60 * MINUTE_US)
    stream = LOOKED_UP.streams["s"]
    held = pa.Table.from_pylist(writer.accepted, pa.schema([(n, arrow_type(k)) for n, k in stream.attributes.items()]))
    result = audit(list(read_log(log, LogReport())), {"s": held}, "log")
    # Events of the newest slot came with the next batch too.
    assert {one.reason for one in result.differences} <= {Reason.ARRIVED_LATER}
    assert result.agree > 100 > 10 * result.differ
