"""Metrics of batches: the value, its sinks, and the listener in a real session."""

from __future__ import annotations

import json
import logging
import re
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row, SparkSession
from tests.spark.progresses import BUCKETS, COUNTS, progress, touching
from tests.spark.streaming import run_stream, write_batches

import panewise
from panewise.spark.batch_metrics import BatchMetrics, is_batch
from panewise.spark.counts import COUNTS as COUNTS_OF_A_BATCH
from panewise.spark.counts import OUTPUT, PackedTable, Sizes, output_rows
from panewise.spark.metrics_file import MetricsFile
from panewise.spark.progress_listener import ForgivingSinks, ProgressListener
from panewise.spark.prometheus import PrometheusEndpoint
from panewise.spark.query_costs import QueryCost, costs_of_run
from panewise.spark.source_backlog import SourceBacklog
from panewise.spark.whole_job import WholeJob

HOUR = 3_600_000_000
NEW_YEAR = 1_356_998_400_000_000


class Collected(list[BatchMetrics]):
    """A sink that keeps all."""

    def put(self, metrics: BatchMetrics, /) -> None:
        self.append(metrics)


class Broken:
    """A sink that always fails."""

    calls = 0

    def put(self, metrics: BatchMetrics, /) -> None:
        self.calls += 1
        raise OSError("no space left")

    def __str__(self) -> str:
        return "the broken sink"


# The value


def test_metrics_of_a_progress() -> None:
    batch = BatchMetrics.of(progress(3))
    assert (batch.query, batch.run, batch.number) == ("flights", "0f12", 3)
    assert batch.triggered_us == NEW_YEAR + 6 * HOUR + 500_000
    assert batch.watermark_us == NEW_YEAR + 5 * HOUR + HOUR // 2
    assert batch.newest_us == NEW_YEAR + 5 * HOUR + 45 * HOUR // 60 + 250_000
    assert batch.watermark == "2013-01-01 05:30:00"
    assert batch.watermark_lag_s == 1800.5
    assert (batch.rows_in, batch.duration_ms) == (500_000, 2_500)
    assert batch.steps_ms == {"addBatch": 2_000, "walCommit": 300, "commitOffsets": 200}
    assert batch.stages_ns == {"combine": 600_000_000, "feed": 100_000_000, "close": 300_000_000, "pack": 0}
    assert (batch.state_rows, batch.state_memory_bytes, batch.state_disk_bytes) == (10, 1_000, 500)
    assert (batch.sizes, batch.state_bytes) == (Sizes(64_000, 1_000), 64_000)
    assert batch.backlog == (SourceBacklog("FileStreamSource[file:/flights]"),)
    assert batch.counts["cache_hits"] == 3
    assert batch.counts["corrected_events"] == 0  # not among the counts of this progress


def test_metrics_over_connect_are_the_same() -> None:
    names = [{"name": name, "type": "long"} for name in [*COUNTS, *BUCKETS]]
    row = Row(values=[*COUNTS.values(), *BUCKETS.values()], schema={"type": "struct", "fields": names})
    over_connect = BatchMetrics.of(progress(3, observedMetrics={"panewise": row}))
    assert over_connect == BatchMetrics.of(progress(3))


def test_metrics_before_any_event_and_without_counts() -> None:
    nothing = {"watermark": "1970-01-01T00:00:00.000Z", "max": "0001-01-01T00:00:00.000Z"}
    batch = BatchMetrics.of(progress(0, eventTime=nothing, observedMetrics={}, name=None))
    assert (batch.watermark_us, batch.newest_us, batch.watermark, batch.watermark_lag_s) == (None,) * 4
    assert (batch.query, batch.is_counted, batch.state_bytes) == ("08e7", False, 1_500)
    as_dict = batch.as_dict()
    assert (as_dict["answers"], as_dict["late_events"]) == (None, None)
    empty = BatchMetrics.of(progress(0, eventTime={}, numInputRows=None, processedRowsPerSecond=None))
    assert (empty.rows_in, empty.rows_per_s, empty.watermark_us) == (0, 0.0, None)


def test_metrics_as_json_and_back() -> None:
    as_dict = BatchMetrics.of(progress(3)).as_dict()
    assert json.loads(json.dumps(as_dict)) == as_dict
    assert as_dict["batch"] == 3
    assert as_dict["answers"] == COUNTS["answers"]
    assert as_dict["stages_ns"]["combine"] == COUNTS["combine_ns"]


@pytest.mark.parametrize(
    ("told", "waits"),
    [
        (
            {"endOffset": '{"trades":{"0":5,"1":9}}', "latestOffset": '{"trades":{"0":12,"1":9,"2":4}}'},
            {"offsets": 7},  # partition 2 is new: nobody tells where it begins
        ),
        ({"endOffset": {"trades": {"0": 5}}, "latestOffset": {"trades": {"0": 5}}}, {"offsets": 0}),
        ({"endOffset": '{"trades":{"0":5}}', "latestOffset": '{"trades":{"0":2}}'}, {"offsets": 0}),  # made anew
        ({"metrics": {"numFilesOutstanding": "3", "numBytesOutstanding": "1024"}}, {"files": 3, "bytes": 1024}),
        ({"endOffset": "{'trades': {'0': 5}}", "latestOffset": "{'trades': {'0': 6}}"}, {"offsets": 1}),
        ({"endOffset": '{"logOffset":3}', "latestOffset": None}, {}),
        ({"endOffset": "None", "latestOffset": "of a kind: of its own"}, {}),
        ({"endOffset": "17", "latestOffset": "18", "metrics": {"numFilesOutstanding": "some"}}, {}),
    ],
)
def test_what_waits_in_a_source(told: dict[str, Any], waits: dict[str, int]) -> None:
    (backlog,) = BatchMetrics.of(progress(0, sources=[{"description": "KafkaV2[trades]", **told}])).backlog
    assert backlog == SourceBacklog("KafkaV2[trades]", **waits)


# The whole job


def test_sizes_are_of_the_whole_job_in_every_batch() -> None:
    whole_job = WholeJob()

    def sizes(number: int, **buckets: str | None) -> Sizes | None:
        return whole_job.complete(BatchMetrics.of(touching(number, **buckets))).sizes

    # After a restart, nothing tells of a bucket before it is touched.
    assert sizes(7, bucket_0="[1,10,1,0,0]", bucket_4=None) is None
    assert sizes(8, bucket_0="[0,20,2,1,5]", bucket_4="[0,300,30,0,0]") == Sizes(320, 32, 1, 5)
    assert sizes(9, bucket_0=None, bucket_4="[1,100,10,0,0]") == Sizes(120, 12, 1, 5)
    assert sizes(10, bucket_0=None, bucket_4=None) == Sizes(120, 12, 1, 5)
    another = BatchMetrics.of(touching(0, bucket_0=None) | {"runId": "another"})
    assert whole_job.complete(another).sizes is None
    whole_job.forget("0f12")
    assert sizes(11, bucket_0=None, bucket_4=None) is None


def test_sizes_that_are_not_known_are_null() -> None:
    unknown = BatchMetrics.of(touching(0, bucket_0=None))
    assert {unknown.as_dict()[name] for name in Sizes._fields} == {None}
    assert unknown.state_bytes == 1_500  # what RocksDB holds


# The file


def test_a_line_for_each_batch(tmp_path: Path) -> None:
    path = tmp_path / "new" / "metrics.jsonl"
    MetricsFile(path).put(BatchMetrics.of(progress(0)))
    MetricsFile(path).put(BatchMetrics.of(progress(1)))  # as after a restart
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [BatchMetrics.of(progress(number)).as_dict() for number in range(2)]


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"query": "fl')
    MetricsFile(path).put(BatchMetrics.of(progress(1)))
    cut, whole = path.read_text().splitlines()
    assert cut == '{"query": "fl'
    assert json.loads(whole)["batch"] == 1


def test_a_file_that_is_full_makes_room(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    length = len(json.dumps(BatchMetrics.of(progress(0)).as_dict(), separators=(",", ":"))) + 1
    sink = MetricsFile(path, max_bytes=3 * length)
    for number in range(10):
        sink.put(BatchMetrics.of(progress(number)))
    now, before = (
        [json.loads(line)["batch"] for line in file.read_text().splitlines()]
        for file in (path, tmp_path / "metrics.jsonl.1")
    )
    assert (before, now) == ([6, 7, 8], [9])
    assert len(list(tmp_path.iterdir())) == 2
    path.unlink()  # somebody else's rotation
    sink.put(BatchMetrics.of(progress(10)))
    assert json.loads(path.read_text())["batch"] == 10


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(panewise.PanewiseError, match=re.escape(f"cannot write metrics to {tmp_path}: Is a directory")):
        MetricsFile(tmp_path)


# The listener


def heard(**changed: Any) -> SimpleNamespace:
    """An event of Spark with a progress."""
    content = progress(0, **changed)
    whole = type("Progress", (dict,), {"runId": content["runId"], "observedMetrics": content["observedMetrics"]})
    return SimpleNamespace(progress=whole(content))


def test_a_sink_that_fails_stops_neither_others_nor_the_stream_and_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken, collected = Broken(), Collected()
    sinks = ForgivingSinks(broken, collected)
    with caplog.at_level(logging.WARNING):
        for number in range(3):
            sinks.put(BatchMetrics.of(progress(number)))
    assert [batch.number for batch in collected] == [0, 1, 2]
    assert broken.calls == 3
    (record,) = caplog.records
    assert record.getMessage().startswith("the broken sink failed on batch 0 of flights: no space left; the stream")


def test_the_listener_hears_batches_of_its_run_or_of_panewise() -> None:
    everything, one_run = Collected(), Collected()
    for_all, for_one = ProgressListener(everything), ProgressListener(one_run, run="0f12")
    idle = {"triggerExecution": 3, "latestOffset": 2}
    for event in (heard(), heard(durationMs=idle), heard(runId="0a00"), heard(runId="0a01", observedMetrics={})):
        for_all.onQueryProgress(event)
        for_one.onQueryProgress(event)
    assert [batch.run for batch in everything] == ["0f12", "0a00"]
    assert [batch.run for batch in one_run] == ["0f12"]
    for_one.onQueryTerminated(SimpleNamespace(runId="0a00"))
    assert not for_one.wait_until_ended(0)
    for_one.onQueryTerminated(SimpleNamespace(runId="0f12"))
    assert for_one.wait_until_ended(0)


@pytest.mark.spark
def test_the_listener_in_a_session(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t WATERMARK 1 MINUTE;"
        "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
        "CREATE QUERY longer AS SELECT COUNT(*) FROM s [RANGE 30 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    )
    (stream,) = workload.streams.values()
    minute = HOUR // 60
    batches = [
        [{"t": NEW_YEAR + minute * (10 * number + second), "k": "ab"[second % 2]} for second in range(5)]
        for number in range(3)
    ]
    batches[2].append({"t": NEW_YEAR, "k": "a"})
    write_batches(tmp_path / "events", stream, batches)
    collected = Collected()
    with PrometheusEndpoint(port=0) as endpoint:
        listener = ProgressListener(Broken(), collected, MetricsFile(tmp_path / "metrics.jsonl"), endpoint)
        spark.streams.addListener(listener)
        try:
            table, observed = run_stream(spark, tmp_path / "events", workload)
            assert listener.wait_until_ended(60)
        finally:
            spark.streams.removeListener(listener)
        with urllib.request.urlopen(endpoint.url, timeout=10) as answer:
            page = answer.read().decode()
    assert [batch.number for batch in collected] == list(range(len(observed)))
    assert sum(batch.rows_in for batch in collected) == 16
    assert sum(batch.counts["answers"] for batch in collected) == table.num_rows
    assert sum(batch.counts["late_events"] for batch in collected) == 1
    assert collected[0].watermark_us is None
    assert [batch.newest_us for batch in collected[:3]] == [NEW_YEAR + minute * (10 * n + 4) for n in range(3)]
    assert collected[2].watermark_us == NEW_YEAR + 13 * minute
    assert all(batch.stages_ns["combine"] > 0 for batch in collected[:3])
    assert all(batch.duration_ms > 0 and is_batch({"durationMs": batch.steps_ms}) for batch in collected)
    assert collected[0].state_rows > 0
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == [batch.number for batch in collected]
    assert len([record for record in caplog.records if "failed on batch" in record.getMessage()]) == 1
    # Every batch with events touches every bucket; after them comes one without events, which touches those with
    # timers only, and still tells of the whole job: the windows of half an hour are open.
    assert all(None not in batch.buckets.values() for batch in collected if batch.rows_in)
    idle = collected[-1]
    assert idle.rows_in == 0
    assert None in idle.buckets.values()
    assert idle.sizes is not None
    assert idle.sizes.log_bytes >= max(sizes.log_bytes for sizes in idle.buckets.values() if sizes is not None)
    assert idle.sizes.live_rows > 0
    check_queries(table, collected[0].run, page)


def check_queries(table: pa.Table, run: str, page: str) -> None:
    """Answers by query are those in the table, and each query took some time."""
    names = table.column("query").to_pylist()
    costs = costs_of_run(run)
    assert {name: cost.answers for name, cost in costs.items()} == {name: names.count(name) for name in set(names)}
    assert set(names) == {"q", "longer"}
    assert all(cost.ns > 0 for cost in costs.values())
    for name, cost in costs.items():
        assert f'query="{name}"}} {float(cost.answers)}\n' in page
    assert costs_of_run("another") == {}


def test_rows_of_counts_have_the_columns_in_order_and_every_row_its_bucket() -> None:
    packed = [PackedTable("t", b"a", 2), PackedTable("u", b"b", 1)]
    rows = output_rows(packed, dict.fromkeys(COUNTS_OF_A_BATCH, 5), query_id="id", bucket=4, sizes="[0,1,1,0,0]")
    assert [(row["table_name"], row["query_id"], row["content"]) for row in rows] == [
        ("t", "id", b"a"),
        ("u", "id", b"b"),
    ]
    names = [column.split()[0] for column in OUTPUT.split(", ")]
    assert [list(row) for row in rows] == [names, names]
    assert [(row["answers"], row["bucket"], row["sizes"], row["fed"]) for row in rows] == [
        (2, 4, "[0,1,1,0,0]", 5),
        (1, 4, None, 0),
    ]
    (alone,) = output_rows([], dict.fromkeys(COUNTS_OF_A_BATCH, 0), bucket=4, sizes="[0,0,0,0,0]")
    assert (alone["content"], alone["sizes"]) == (None, "[0,0,0,0,0]")
    assert output_rows([], dict.fromkeys(COUNTS_OF_A_BATCH, 0)) == []


def test_costs_add_up() -> None:
    assert QueryCost(3, 10).plus(QueryCost(1, 5)) == QueryCost(4, 15)
