"""Lookups over PARTITION BY ... ROWS on Spark agree with the oracle and the engine, in a stream and in a batch.

Most of it runs over `tests.spark.simulated`; at the end is Spark itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import lookup_rows, to_answers
from tests.spark.row_programs import ORIGIN_US, Event, Program, check_rows, merge_early, random_row_workload
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import public_table, read_stream, write_batches
from tests.thoroughness import examples
from tests.workloads import UNIT_US, random_events
from typer.testing import CliRunner

import panewise
from panewise import spark as panewise_spark
from panewise.cli.main import app
from panewise.errors import HistoryError, PanewiseError, SlotLogError
from panewise.spark import row_log, slot_compaction, slot_reader
from panewise.spark.job import Job
from panewise.spark.lookup_client import LookupClient
from panewise.spark.manifest import manifest_path
from panewise.spark.packing import unpack_parts
from panewise.spark.slot_file import read_file
from panewise.spark.slot_log import ROWS, bucket_folder, list_spans, write_job
from panewise.spark.statement_log import StatementLog
from panewise.windows import TimeWindow

MINUTE_US = 60_000_000


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 2:
        merge_early(monkeypatch)
    Program(seed, tmp_path, mixed=seed % 3 != 0).run()


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_of_queries_that_come_and_go(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 2:
        merge_early(monkeypatch)
    Program(seed, tmp_path, live=True).run()


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_job_leaves_what_lookups_need(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_log, "GATHERED_ROWS", 50)
    workload = random_row_workload(seed, mixed=True)
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 200, span_us=40 * UNIT_US, disorder_us=UNIT_US, origin_us=ORIGIN_US)
    spark = SimulatedSpark(workload, tmp_path)
    spark.run_as_batch_job({stream.name: rows})
    client = LookupClient(tmp_path)
    job = spark.packed.open()
    accepted = dict.fromkeys(job.row_bases, rows)
    assert check_rows(client, job, accepted) == 0
    check_rows(client, job, accepted, ORIGIN_US, dropped_us=ORIGIN_US + 1)
    newest_us = max(event[stream.timestamp] for event in rows)
    at_us = (newest_us // UNIT_US + 1) * UNIT_US - 1
    for query in workload.queries.values():
        if isinstance(query.window, TimeWindow) and not query.window.is_sliding:
            answers = to_answers(client.lookup(query.name), workload, query.name)
            oracle.assert_same_answers(answers, oracle.lookup(query, stream.timestamp, rows, at_us))
        elif query.window.is_sliding:
            length_us, slide_us = query.window.left_us, query.window.slide_us
            end_us = (at_us + 1 - length_us) // slide_us * slide_us + length_us
            closed = oracle.closed_answers(query, stream.timestamp, rows, at_us + 1)
            wanted = [one for one in closed if one.window_end == end_us]
            oracle.assert_same_answers(to_answers(client.lookup(query.name), workload, query.name), wanted)
    # A client that is there before all buckets are written reads the rest too, though it has older rows.
    bucket = next(bucket for bucket in job.bucket_ids if holds_rows(tmp_path, bucket))
    written = [bucket_folder(tmp_path, bucket, ROWS), manifest_path(tmp_path, ROWS, bucket)]
    for path in written:
        path.rename(tmp_path / f"not yet {path.name}")
    early = LookupClient(tmp_path)
    for path in written:
        (tmp_path / f"not yet {path.name}").rename(path)
    assert early.refresh()
    assert check_rows(early, job, accepted) == 0
    assert "at the end of a batch job" in CliRunner().invoke(app, ["lookup", str(tmp_path), "r0"]).output
    with pytest.raises(SlotLogError, match="what this batch job wrote before; give a new or empty folder"):
        spark.run_as_batch_job({stream.name: rows})


def holds_rows(folder: Path, bucket: int) -> bool:
    return bool(list_spans(bucket_folder(folder, bucket, ROWS)))


STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, n BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE"
LAST_TWO = "CREATE QUERY last_two AS SELECT k, SUM(n) FROM s [PARTITION BY k ROWS 2] GROUP BY k;"
OLDER = """CREATE QUERY older AS SELECT k, g, MAX(n), COUNT(*) FROM s
    [PARTITION BY k ROWS BETWEEN 4 PRECEDING AND 1 PRECEDING] WHERE n > 1 GROUP BY k, g;"""


def event(minute: float, n: int = 1, k: str | None = "a", g: int | None = 0) -> Event:
    return {"t": ORIGIN_US + int(minute * MINUTE_US), "k": k, "g": g, "n": n}


def stream_of(folder: Path, statements: str, **options: Any) -> tuple[SimulatedSpark, LookupClient]:
    spark = SimulatedSpark(panewise.read(statements), folder, lookups=True, **options)
    write_job(folder, spark.packed.open())
    return spark, LookupClient(folder, refresh_every_s=0)


def exact(client: LookupClient, query: str, at: float | None = None, **keys: Any) -> list[Any]:
    at_us = None if at is None else ORIGIN_US + int(at * MINUTE_US)
    table = client.lookup(query, keys or None, at_us)
    return [row["exact"] for row in lookup_rows(table, client.workload.queries[query])]


def test_rows_are_seen_with_their_batch_and_at_earlier_times(tmp_path: Path) -> None:
    spark, client = stream_of(tmp_path, f"{STREAM};{LAST_TWO}")
    assert exact(client, "last_two") == []
    spark.run_batch({"s": [event(1, 1), event(3, 4), event(2, 2), event(2, 9, "b")]})
    assert exact(client, "last_two", k="a") == [6]
    assert exact(client, "last_two", at=2, k="a") == [3]
    assert exact(client, "last_two", at=0.5) == []
    assert client.lookup_many("last_two", ["b", "nobody", "a"])["SUM(n)"].tolist() == [9, None, 6]
    (row,) = client.lookup("last_two", {"k": "a"}).to_pylist()
    times = [int(row[name].timestamp() * 1_000_000) for name in ("window_start", "window_end")]
    assert times == [event(2)["t"], event(3)["t"]]
    # Not behind the watermark, which is at 2: the order of rows changes.
    spark.run_batch({"s": [event(2.5, 32)]})
    assert exact(client, "last_two", k="a") == [36]
    assert exact(client, "last_two", at=2.7, k="a") == [34]
    # Without GRANULARITY a row is late by its own time.
    spark.run_batch({"s": [event(1.9, 64), event(2, 128)]})
    assert spark.counts["late_events"] == 1
    assert exact(client, "last_two", at=2.1, k="a") == [130]
    assert client.statistics()["events"] == 6


def test_rows_and_slots_agree_on_what_is_late(tmp_path: Path) -> None:
    sliding = "CREATE QUERY sliding AS SELECT k, COUNT(*) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    spark, client = stream_of(tmp_path, f"{STREAM} GRANULARITY 1 MINUTE;{LAST_TWO}{sliding}")
    spark.run_batch({"s": [event(3.5)]})
    spark.run_batch({"s": [event(2.2, 2), event(1.9, 4)]})
    assert spark.counts["late_events"] == 1, "the watermark is at 2.5, in the slot from 2 on"
    assert exact(client, "last_two", k="a") == [3]


def test_rows_of_equal_time_go_by_their_values(tmp_path: Path) -> None:
    rows = [event(1, n, g=g) for n, g in ((5, 1), (3, 2), (9, 0), (7, None))]
    engine = panewise.Engine(f"{STREAM};{LAST_TWO}{OLDER}")
    in_order = [rows[2], rows[0], rows[1], rows[3]]
    engine.push("s", {name: [row[name] for row in in_order] for name in rows[0]})
    for place, batches in enumerate(([rows], [rows[::-1]], [[row] for row in rows], [[row] for row in rows[::-1]])):
        spark, client = stream_of(tmp_path / str(place), f"{STREAM};{LAST_TWO}{OLDER}")
        for batch in batches:
            spark.run_batch({"s": batch})
        for query, by in (("last_two", "k"), ("older", "g")):
            assert client.lookup(query).sort_by(by) == engine.lookup(query).sort_by(by)
        assert exact(client, "last_two", k="a") == [10]


def test_substreams_of_one_key_share_their_rows() -> None:
    def bases(*partitions: str) -> list[tuple[str, ...]]:
        queries = (
            f"CREATE QUERY q{place} AS SELECT COUNT(*) FROM s [PARTITION BY {by} ROWS 3] GROUP BY k, g;"
            for place, by in enumerate(partitions)
        )
        return [
            base.together_by for base in Job.of(panewise.read(f"{STREAM};{''.join(queries)}"), [0]).row_bases.values()
        ]

    assert bases("k, g", "k", "g, k") == [("k",)]
    assert bases("g", "k", "k, g") == [("g",), ("k",)]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["a", "b", None]), st.integers(0, 2))), st.integers(0, 8))
def test_the_rows_that_a_merge_keeps(drawn: list[tuple[int, str | None, int]], final: int) -> None:
    queries = """CREATE QUERY one AS SELECT COUNT(*) FROM s [PARTITION BY k ROWS 3] GROUP BY k;
        CREATE QUERY two AS SELECT COUNT(*) FROM s [PARTITION BY k, g ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING]
          GROUP BY k, g;"""
    (base,) = Job.of(panewise.read(f"{STREAM};{queries}"), [0]).row_bases.values()
    rows = sorted(drawn, key=lambda row: (row[0], row[1] is None, row[1] or "", row[2]))
    columns = dict(zip("tkg", zip(*rows), strict=True)) if rows else {"t": [], "k": [], "g": []}
    batch = pa.RecordBatch.from_arrays([pa.array(columns[name], base.schema.field(name).type) for name in "tkg"], "tkg")
    kept = base.needed(batch, final)
    wanted = []
    for place, (time, k, g) in enumerate(rows):
        after = [row for row in rows[place + 1 :] if row[0] < final]
        if time >= final or sum(row[1] == k for row in after) < 3 or sum(row[1:] == (k, g) for row in after) < 2:
            wanted.append((time, k, g))
    assert list(zip(*(kept.column(name).to_pylist() for name in "tkg"), strict=True)) == wanted


def row_files(folder: Path, spark: SimulatedSpark) -> dict[str, bytes]:
    """The files of the row log and what they hold."""
    folders = [bucket_folder(folder, bucket, ROWS) for bucket in spark.committed]
    return {
        f"{some.name}/{span.name}": (some / span.name).read_bytes() for some in folders for span in list_spans(some)
    }


def test_a_batch_that_is_repeated_writes_the_same_files(tmp_path: Path) -> None:
    spark, _ = stream_of(tmp_path / "one", f"{STREAM};{LAST_TWO}")
    again, client = stream_of(tmp_path / "other", f"{STREAM};{LAST_TWO}")
    batches = [[event(place + minute, place, key) for minute in range(3) for key in "abc"] for place in range(3)]
    for batch in batches:
        spark.run_batch({"s": batch})
        again.run_batch({"s": batch[::-1]}, attempts=3)
    assert row_files(tmp_path / "one", spark) == row_files(tmp_path / "other", again)
    # As many rows of every key in every batch, none of them twice.
    assert exact(client, "last_two") == [4, 4, 4]
    assert client.statistics()["events"] == 27


def test_the_last_rows_of_every_key_outlive_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merge_early(monkeypatch)
    spark, client = stream_of(tmp_path, f"{STREAM};{LAST_TWO}", buckets=1)
    early = [event(0, place, f"early {place}") for place in range(10)]
    spark.run_batch({"s": [*early, *early, *early]})
    for minute in range(1, 80):
        spark.run_batch({"s": [event(minute, minute)]})
    # Two rows of each key, those since the watermark, and what the next merge lets go.
    (bucket,) = spark.committed
    folder = bucket_folder(tmp_path, bucket, ROWS)
    spans = list_spans(folder)
    assert len(spans) <= 6
    held = sum(
        part.partials.num_rows
        for span in slot_compaction.covering(spans)
        for part in unpack_parts(read_file(folder / span.name)[1])
    )
    assert 22 <= held <= 60
    for one in (client, LookupClient(tmp_path)):
        assert exact(one, "last_two", k="early 7") == [14]
        assert exact(one, "last_two", k="a") == [79 + 78]
        assert len(exact(one, "last_two")) == 11
        with pytest.raises(HistoryError, match=r"stream s: a lookup at .* needs events that are not held"):
            one.lookup("last_two", at=event(20)["t"])
        assert one.statistics()["events"] < 80


def test_a_client_that_slept_reads_only_what_is_new(tmp_path: Path) -> None:
    spark, client = stream_of(tmp_path, f"{STREAM};{LAST_TWO}")
    for minute in range(3):
        spark.run_batch({"s": [event(minute, minute)]})
    assert exact(client, "last_two", k="a") == [3]
    for minute in range(3, 20):
        spark.run_batch({"s": [event(minute, minute)]})
    # The files of slots have nothing but watermarks, and have left.
    assert client.refresh()
    assert not client.refresh()
    assert exact(client, "last_two", k="a") == [37]
    assert client.statistics()["rebuilds"] == 0
    assert client.watermark_us == event(17)["t"]


@pytest.mark.usefixtures("_no_pauses")
def test_a_missing_or_damaged_file_of_rows_is_told(tmp_path: Path) -> None:
    spark, client = stream_of(tmp_path, f"{STREAM};{LAST_TWO}", buckets=1)
    for minute in range(3):
        spark.run_batch({"s": [event(minute)]})
    (bucket,) = spark.committed
    path = bucket_folder(tmp_path, bucket, ROWS) / "1.panewise"
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    with pytest.raises(SlotLogError, match=r"rows/bucket-\d+/1\.panewise is cut off or damaged"):
        client.refresh()
    path.unlink()
    with pytest.raises(SlotLogError, match=r"rows/bucket-\d+/1\.panewise is missing"):
        LookupClient(tmp_path)
    path.write_bytes(content)
    assert exact(LookupClient(tmp_path), "last_two") == [2]


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_reader, "LONGEST_PAUSE_S", 0.01)


def test_a_log_that_is_ahead_belongs_to_another_checkpoint(tmp_path: Path) -> None:
    spark, _ = stream_of(tmp_path, f"{STREAM};{LAST_TWO}")
    for minute in range(2):
        spark.run_batch({"s": [event(minute)]})
    other, _ = stream_of(tmp_path, f"{STREAM};{LAST_TWO}")
    with pytest.raises(SlotLogError, match="ahead of this job"):
        other.run_batch({"s": [event(0)]})


def test_queries_over_rows_that_come_later(tmp_path: Path) -> None:
    spark, client = stream_of(tmp_path, f"{STREAM};{LAST_TWO}", live=True)
    for minute in range(5):
        spark.run_batch({"s": [event(minute, 1 << minute)]})
    spark.run_batch(
        {"s": [event(5, 32)]},
        [
            LAST_TWO.replace("last_two", "same"),
            LAST_TWO.replace("last_two", "longer").replace("ROWS 2", "ROWS 9"),
            LAST_TWO.replace("last_two", "other").replace("SUM(n)", "SUM(g)"),
            LAST_TWO.replace("last_two", "every").replace("PARTITION BY k ROWS 2", "ROWS 2 SLIDE 1"),
            LAST_TWO.replace("last_two", "forced").replace(";", " WITHIN 5 PERCENT USING timegram;"),
            "DROP QUERY last_two;",
        ],
    )
    assert spark.counts["rejected_statements"] == 2
    reasons = [statement.error for statement in StatementLog(tmp_path).before(99)[0].statements]
    assert "must be there when the job starts" in reasons[3]
    assert "USING timegram cannot answer it" in reasons[4]
    assert exact(client, "same", k="a") == [32 + 16]
    # The watermark was at 3 when it came: from there on all rows are held, and counted.
    assert exact(client, "longer", k="a") == [32 + 16 + 8]
    assert exact(client, "other", k="a") == []
    spark.run_batch({"s": [event(6, 64, g=7), event(4.5, 1024)]})
    assert exact(client, "longer", k="a") == [64 + 32 + 1024 + 16 + 8]
    assert exact(client, "other", k="a") == [7], "it reads an attribute that no row had before"
    with pytest.raises(PanewiseError, match="no query named 'last_two'; there are: same, longer, other"):
        client.lookup("last_two")


def test_what_spark_cannot_answer_is_refused_with_the_cure(tmp_path: Path) -> None:
    def refused(query: str, message: str, **options: Any) -> None:
        with pytest.raises(PanewiseError, match=message):
            panewise_spark.check_workload(panewise.read(f"{STREAM};CREATE QUERY q AS SELECT {query}"), **options)

    refused("SUM(n) FROM s [ROWS 5]", r"give folder= \(in a job file: \[lookups\]\)")
    refused("SUM(n) FROM s [PARTITION BY k ROWS 5] GROUP BY k", r"give folder= \(in a job file: \[lookups\]\)")
    with pytest.raises(PanewiseError, match="USING timegram cannot answer it"):
        Job.of(
            panewise.read(f"{STREAM};{LAST_TWO}".replace("GROUP BY k;", "GROUP BY k WITHIN 5 PERCENT USING timegram;")),
            [0],
        )


def test_the_command(tmp_path: Path) -> None:
    spark, _ = stream_of(tmp_path, f"{STREAM};{LAST_TWO}")
    spark.run_batch({"s": [event(1, 40), event(2, 2), event(2, 7, "b")]})
    run = CliRunner().invoke(app, ["lookup", str(tmp_path), "last_two", "--key", "k=a"], catch_exceptions=False)
    assert "last_two: no watermark yet" in run.output
    assert [part.strip() for part in run.output.splitlines()[-2].strip("│").split("│")] == [
        "2013-01-01 00:01:00+00:00",
        "2013-01-01 00:02:00+00:00",
        "a",
        "42",
    ]
    result = CliRunner().invoke(app, ["lookup", str(tmp_path), "last_two", "--json", "--at", str(event(1)["t"])])
    assert [json.loads(line)["SUM(n)"] for line in result.output.splitlines()] == [40]


@pytest.mark.spark
def test_a_spark_stream_and_a_spark_batch_agree_with_the_engine(spark: SparkSession, tmp_path: Path) -> None:
    workload = random_row_workload(5, mixed=True)
    (stream,) = workload.streams.values()
    rows = random_events(5, stream, 160, span_us=30 * UNIT_US, origin_us=ORIGIN_US)
    batches = [rows[start : start + 40] for start in range(0, 160, 40)]
    newest_us = max(event[stream.timestamp] for event in rows)

    def run_stream() -> None:
        frame = read_stream(spark, tmp_path / "events", stream)
        answers = panewise_spark.answers(frame, workload, folder=tmp_path / "stream")
        query = answers.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    write_batches(tmp_path / "events", stream, batches[:2])
    run_stream()
    client = LookupClient(tmp_path / "stream")
    job = Job.of(workload, client._state.job.bucket_ids)
    check_rows(client, job, dict.fromkeys(job.row_bases, rows[:80]))
    write_batches(tmp_path / "events", stream, batches[2:], first=2)
    run_stream()
    history = panewise_spark.answers(
        spark.createDataFrame(public_table(stream, rows)), workload, folder=tmp_path / "batch"
    )
    history.write.format("noop").mode("overwrite").save()
    for one in (client, LookupClient(tmp_path / "stream"), LookupClient(tmp_path / "batch")):
        assert check_rows(one, job, dict.fromkeys(job.row_bases, rows)) == 0
        assert check_rows(one, job, dict.fromkeys(job.row_bases, rows), newest_us + UNIT_US) == 0
