"""Metrics for Prometheus: the page, the server, and the table of them in the documentation."""

from __future__ import annotations

import os
import re
import socket
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.spark.progresses import COUNTS, progress, touching
from tests.spark.simulated import SimulatedSpark

import panewise
from panewise.spark import prometheus
from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.metrics_server import MetricsServer
from panewise.spark.prometheus import BatchCollector, LookupCollector, PrometheusEndpoint
from panewise.spark.published import published_s
from panewise.spark.query_costs import QueryCost

NEW_YEAR_S = 1_356_998_400
ROOT = Path(__file__).parents[2]
Labels = frozenset[tuple[str, str]]


def samples(metrics: Iterable[Metric]) -> dict[tuple[str, Labels], float]:
    """The values of some metrics, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value for metric in metrics for sample in metric.samples
    }


def labels(**values: str) -> Labels:
    return frozenset({"job_name": "flights", **values}.items())


def page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text: str = answer.read().decode()
    return text


def test_counters_add_up_and_gauges_are_of_the_last_batch() -> None:
    collector = BatchCollector(clock=lambda: NEW_YEAR_S + 6 * 3600)
    assert samples(collector.collect()) == {}
    collector.put(BatchMetrics.of(progress(0)))
    collector.put(BatchMetrics.of(progress(1, numInputRows=10, eventTime={"watermark": "2013-01-01T05:59:00.000Z"})))
    collector.put(BatchMetrics.of(progress(7, name='a "name"\\\n')))
    found = samples(collector.collect())
    job = labels()
    assert found["panewise_batches_total", job] == 2
    assert found["panewise_rows_in_total", job] == 500_010
    assert found["panewise_answers_total", job] == 2 * COUNTS["answers"]
    assert found["panewise_batch_number", job] == 1
    assert found["panewise_watermark_timestamp_seconds", job] == NEW_YEAR_S + 6 * 3600 - 60
    assert found["panewise_watermark_lag_seconds", job] == 60
    assert ("panewise_newest_event_timestamp_seconds", job) not in found  # no event in the last batch
    assert found["panewise_stage_seconds_total", labels(stage="combine")] == pytest.approx(1.2)
    assert found["panewise_step_seconds_total", labels(step="walCommit")] == pytest.approx(0.6)
    assert found["panewise_batch_number", labels(job_name='a "name"\\\n')] == 7
    assert found["panewise_log_bytes", job] == 64_000
    assert found["panewise_live_rows", job] == 1_000
    collector.put(BatchMetrics.of(touching(2, bucket_4="[1,4000,100,1,4000]")))
    found = samples(collector.collect())
    assert (found["panewise_behind_buckets", job], found["panewise_held_bytes", job]) == (1, 4_000)


def test_sizes_that_are_not_known_are_absent_and_sizes_of_nothing_are_0() -> None:
    collector = BatchCollector()
    collector.put(BatchMetrics.of(touching(0, bucket_0=None)))
    assert ("panewise_log_bytes", labels()) not in samples(collector.collect())
    collector.put(BatchMetrics.of(touching(1, bucket_0="[0,0,0,0,0]", bucket_4="[0,0,0,0,0]")))
    assert samples(collector.collect())["panewise_log_bytes", labels()] == 0


def test_the_backlog_of_each_source() -> None:
    kafka = {"description": "KafkaV2[a]", "endOffset": '{"a":{"0":5}}', "latestOffset": '{"a":{"0":12}}'}
    delta = {"description": "Delta[b]", "metrics": {"numFilesOutstanding": "3", "numBytesOutstanding": "1024"}}
    collector = BatchCollector()
    collector.put(BatchMetrics.of(progress(0, sources=[kafka, delta])))
    found = {name: value for name, value in samples(collector.collect()).items() if "backlog" in name[0]}
    assert found == {
        ("panewise_source_backlog_offsets", labels(source="KafkaV2[a]")): 7,
        ("panewise_source_backlog_files", labels(source="Delta[b]")): 3,
        ("panewise_source_backlog_bytes", labels(source="Delta[b]")): 1024,
    }


def test_queries_beyond_the_first_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {f"q{number}": QueryCost(number, number * 10**9) for number in range(5)}
    monkeypatch.setattr(prometheus, "MOST_QUERIES", 2)
    monkeypatch.setattr(prometheus, "costs_of_run", lambda run: costs if run == "0f12" else {"q4": QueryCost(10, 0)})
    collector = BatchCollector()
    collector.put(BatchMetrics.of(progress(0)))
    collector.put(BatchMetrics.of(progress(1, runId="after a restart in this process")))
    found = samples(collector.collect())
    shown = {query: found["panewise_query_answers_total", labels(query=query)] for query in ("q0", "q1", "(others)")}
    assert shown == {"q0": 0, "q1": 1, "(others)": 2 + 3 + 4 + 10}
    assert found["panewise_query_seconds_total", labels(query="(others)")] == 9
    assert len([name for name, _ in found if name == "panewise_query_answers_total"]) == 3


def test_the_age_of_lookups_grows_when_the_writer_is_dead(tmp_path: Path) -> None:
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t WATERMARK 1 MINUTE;"
        "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
    )
    folder = tmp_path / "lookups"
    now_s = 0.0
    collectors = BatchCollector(folder, lambda: now_s), LookupCollector(folder, lambda: now_s)
    name = "panewise_lookup_age_seconds", frozenset[tuple[str, str]]()
    assert [samples(collector.collect()) for collector in collectors] == [{}, {}]  # nothing is published yet
    spark = SimulatedSpark(workload, folder, lookups=True)
    spark.run_batch({"s": [{"t": 60_000_000 * minute, "k": "a"} for minute in range(1, 5)]})
    written_s = published_s(folder)
    assert written_s is not None
    for age_s in (0.5, 60.0, 3600.0):
        now_s = written_s + age_s
        assert [samples(collector.collect())[name] for collector in collectors] == pytest.approx([age_s, age_s])
    spark.run_batch({"s": [{"t": 60_000_000 * 9, "k": "a"}]})
    newer_s = published_s(folder)
    assert newer_s is not None
    assert newer_s >= written_s
    client = panewise.LookupClient(folder)
    fresh_s = client.statistics()["age_s"]
    for file in folder.rglob("*.panewise"):
        os.utime(file, (newer_s - 600, newer_s - 600))
    assert panewise.LookupClient(folder).statistics()["age_s"] >= 600 > fresh_s


def test_the_age_of_a_folder_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    (tmp_path / "manifest").write_text("a file in place of the folder")
    assert samples(LookupCollector(tmp_path).collect()) == {}


def test_the_endpoint_serves_the_metrics_and_nothing_else(tmp_path: Path) -> None:
    with PrometheusEndpoint(port=0, lookups=tmp_path) as endpoint:
        assert endpoint.url.startswith("http://127.0.0.1:")  # no other machine reaches it
        endpoint.put(BatchMetrics.of(progress(5, name='a "name"\\\n')))
        found = samples(text_string_to_metric_families(page(endpoint.url)))
        assert found["panewise_batch_number", labels(job_name='a "name"\\\n')] == 5
        with pytest.raises(urllib.error.HTTPError, match="404: the metrics are at /metrics") as missing:
            urllib.request.urlopen(endpoint.url.removesuffix("metrics"), timeout=10)
        missing.value.close()
        port = int(endpoint.url.split(":")[2].split("/")[0])
        with pytest.raises(
            panewise.PanewiseError, match=rf"cannot serve metrics at 127.0.0.1:{port}: .* choose another port"
        ):
            PrometheusEndpoint(port)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("said", [b"", b"GET /metr", b"GET /metrics HTTP/1.1\r\nHost: me\r\n"])
def test_a_client_that_falls_silent_is_hung_up_on(said: bytes) -> None:
    server = MetricsServer(CollectorRegistry(), "127.0.0.1", 0, idle_s=0.2)
    try:
        port = int(server.url.split(":")[2].split("/")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
            client.sendall(said)
            assert client.recv(1) == b""  # closed from the other side, and not by this socket's own time limit
        assert page(server.url) == ""
    finally:
        server.close()


def test_the_documentation_lists_every_metric(tmp_path: Path) -> None:
    collector = BatchCollector(tmp_path)
    exist = set()
    for metric in collector.collect():
        exist.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)
        assert re.fullmatch(r"panewise_[a-z_]+", metric.name)
        assert metric.documentation.endswith(".")
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = text.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(panewise_[a-z_]+)`", table, re.MULTILINE)
    assert sorted(listed) == sorted(exist)
