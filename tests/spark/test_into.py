"""Row queries with INTO on Spark: lookups agree with the oracle, as a stream with restarts and as a batch."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import windowed_oracle as oracle
from tests.engine.windowed.test_conformance import as_rows, expected
from tests.spark import row_programs
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import Event, read_stream, write_batches
from tests.spark.test_rows import (
    EVERY_QUERY,
    ORIGIN_US,
    STREAMS,
    accepted_of,
    drawn_batches,
    in_order_of_content,
    on_time,
)

import panewise
from panewise import spark as panewise_spark
from panewise.errors import NotOnSparkError, QueryKindError
from panewise.language.row_queries import SelectionQuery
from panewise.language.workload import Workload
from panewise.spark.lookup_client import LookupClient
from panewise.spark.tuple_plan import how_to_look_up
from panewise.windows import RowWindow

HELD = {name: f"{select} INTO [RANGE 12 MILLISECONDS]" for name, select in EVERY_QUERY.items()}
HELD["last"] = "SELECT k, x, s, b, t AS at FROM a WHERE k > 0 INTO [ROWS 7]"
TEXT = STREAMS + "".join(f"CREATE QUERY {name} AS {select};\n" for name, select in HELD.items())


def wanted_rows(workload: Workload, name: str, accepted: dict[str, list[Event]], now_us: int, end: int) -> list[Event]:
    """The rows of a query in the window of INTO at a time, when streams are complete up to an end."""
    query, streams = workload.row_queries[name], workload.streams
    stamps = {each: stream.timestamp for each, stream in streams.items()}
    ordered = {each: in_order_of_content(query, streams[each], rows) for each, rows in accepted.items()}
    rows = expected(oracle.rows_of(query, oracle.Input(stamps, ordered, dict.fromkeys(stamps, end), {})))
    stamp = "time" if "time" in rows[0] else "window_end"
    # An event at the watermark is not late, so the rows of a selection there are not complete.
    last_us = now_us - (isinstance(query, SelectionQuery) and end != oracle.END)
    if isinstance(query.into, RowWindow):
        names = list(dict.fromkeys(["time", *rows[0]]))
        rows = sorted(
            (row for row in rows if row[stamp] <= last_us), key=lambda row: row_programs.by_content(row, names)
        )
        return rows[-query.into.left :]
    return [row for row in rows if last_us - query.into.left_us < row[stamp] <= last_us]


def check(client: LookupClient, workload: Workload, accepted: dict[str, list[Event]], now_us: int, end: int) -> int:
    """Every query is looked up; how many rows there were."""
    count = 0
    for name in workload.row_queries:
        rows = as_rows(client.lookup(name))
        wanted = wanted_rows(workload, name, accepted, now_us, end)
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted)), name
        count += len(rows)
    return count


@pytest.mark.parametrize("seed", range(4))
def test_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row_programs.merge_early(monkeypatch)
    dice = random.Random(seed)
    workload = panewise.read(TEXT)
    batches, _ = drawn_batches(seed, workload, 12)
    accepted: dict[str, list[Event]] = {name: [] for name in workload.streams}
    spark = SimulatedSpark(workload, tmp_path, lookups=True)
    client, count = LookupClient(tmp_path, refresh_every_s=0), 0
    for batch in batches:
        for name, rows in batch.items():
            accepted[name] += on_time(workload.streams[name], rows, spark.watermark_of_spark_us)[0]
        spark.run_batch(batch, attempts=dice.randint(1, 2), shift=dice.randint(0, 1))
        if dice.random() < 0.3:
            spark.start()
        if dice.random() < 0.3:
            client = LookupClient(tmp_path, refresh_every_s=0)
        client.refresh()
        if dice.random() < 0.6 and client.watermark_us is not None:
            count += check(client, workload, accepted, client.watermark_us, client.watermark_us)
    late = LookupClient(tmp_path)
    assert late.watermark_us is not None
    assert check(late, workload, accepted, late.watermark_us, late.watermark_us) > 0
    assert count > 100
    # Nothing of it is in the state of the stream, and what INTO does not hold leaves the log.
    assert not any(state["log"] for state in spark.committed.values())
    read = sum(path.stat().st_size for path in tmp_path.glob("rows/*/*.panewise"))
    assert late.statistics()["bytes_read"] <= read


@pytest.mark.parametrize("seed", [1, 2])
def test_a_batch_job(seed: int, tmp_path: Path) -> None:
    workload = panewise.read(TEXT)
    batches, _ = drawn_batches(seed, workload, 4)
    rows = {name: [row for batch in batches for row in batch[name]] for name in workload.streams}
    SimulatedSpark(workload, tmp_path).run_as_batch_job(rows)
    client = LookupClient(tmp_path)
    newest = {name: max(row[workload.streams[name].timestamp] for row in rows[name]) for name in rows}
    for name, query in workload.row_queries.items():
        now_us = max(newest[stream] for stream in query.streams)
        found = as_rows(client.lookup(name))
        wanted = wanted_rows(workload, name, rows, now_us, oracle.END)
        assert sorted(map(repr, found)) == sorted(map(repr, wanted)), name


def test_queries_with_into_come_and_go(tmp_path: Path) -> None:
    workload = panewise.read(STREAMS + f"CREATE QUERY top AS {HELD['top']};")
    batches, _ = drawn_batches(3, workload, 6)
    spark = SimulatedSpark(workload, tmp_path, live=True, lookups=True)
    accepted: dict[str, list[Event]] = {name: [] for name in workload.streams}
    since_us = 0
    for number, batch in enumerate(batches):
        for name, rows in batch.items():
            accepted[name] += on_time(workload.streams[name], rows, spark.watermark_ms * 1000 or None)[0]
        spark.run_batch(batch, [f"CREATE QUERY later AS {HELD['head']}; DROP QUERY top;"] if number == 2 else [])
        if number == 2:
            since_us = spark.newest["a"] + 1
    assert spark.counts["rejected_statements"] == 0
    client = LookupClient(tmp_path)
    assert client.watermark_us is not None
    later = panewise.read(STREAMS + f"CREATE QUERY later AS {HELD['head']};")
    seen = {**accepted, "a": [row for row in accepted["a"] if row["t"] >= since_us]}
    wanted = wanted_rows(later, "later", seen, client.watermark_us, client.watermark_us)
    assert sorted(map(repr, as_rows(client.lookup("later")))) == sorted(map(repr, wanted))
    assert wanted
    with pytest.raises(panewise.PanewiseError, match="no query named 'top'"):
        client.lookup("top")


def test_what_to_do_to_look_rows_up() -> None:
    queries = {
        "SELECT DISTINCT k FROM a [RANGE 9 SECONDS SLIDE 2 SECONDS] EVALUATE EVERY 3": r"INTO \[RANGE 6 SECONDS\]",
        "SELECT k FROM a": r"write INTO \[RANGE \.\.\.\]",
        "SELECT l.k FROM a [ROWS 3] AS l JOIN c [RANGE 1 SECOND] AS r ON l.k = r.k": "use a RANGE with INTO",
    }
    for select, cure in queries.items():
        query = panewise.read(f"{STREAMS} CREATE QUERY q AS {select};").row_queries["q"]
        assert re.search(cure, how_to_look_up(query))


@pytest.mark.spark
def test_into_beside_other_queries_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    text = f"CREATE QUERY shared AS {HELD['shared']}; CREATE QUERY top AS {EVERY_QUERY['top']};"
    text += "CREATE QUERY counted AS SELECT k, COUNT(*) FROM a [RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS] GROUP BY k;"
    workload = panewise.read(STREAMS + text)
    batches, _ = drawn_batches(5, workload, 2)
    for name, stream in workload.streams.items():
        write_batches(tmp_path / name, stream, [batch[name] for batch in batches])
    frames = {name: read_stream(spark, tmp_path / name, each) for name, each in workload.streams.items()}
    tables = panewise_spark.tables(frames, workload, by="long", folder=tmp_path / "shared")
    assert sorted(tables) == ["long", "top"]
    found: list[str] = []
    writer = tables.write_stream(lambda batch: found.append(batch.table))
    writer = writer.option("checkpointLocation", str(tmp_path / "progress")).trigger(availableNow=True)
    writer.start().awaitTermination()
    client = LookupClient(tmp_path / "shared")
    now_us = client.watermark_us
    assert now_us is not None
    wanted = wanted_rows(workload, "shared", accepted_of(workload, batches), now_us, now_us)
    assert sorted(map(repr, as_rows(client.lookup("shared")))) == sorted(map(repr, wanted))
    assert now_us > ORIGIN_US
    assert set(found) == {"long", "top"}
    with pytest.raises(NotOnSparkError, match=r"its rows go to a table of the job.*write INTO \[RANGE 2 MILLI"):
        client.lookup("top")
    with pytest.raises(QueryKindError, match="looked up as they are now"):
        client.lookup("shared", at=now_us)
    with pytest.raises(QueryKindError, match="answers with rows, not with arrays"):
        client.lookup_many("shared", {"k": [1]})
