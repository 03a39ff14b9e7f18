"""A server over the folder of a job: it follows the job, never waits for files, and says what is wrong."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from tests.serve.conftest import START_US, STATEMENTS, trades
from tests.spark.log_writing import BUCKETS, LogWriter

import panewise
from panewise.serve.application import Application
from panewise.serve.folder_source import FolderSource
from panewise.serve.server import running
from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.job import Job
from panewise.spark.metrics_file import MetricsFile
from panewise.spark.slot_log import write_job


def until(holds: Callable[[], bool], within_s: float = 90.0) -> None:
    ends_s = monotonic() + within_s
    while not holds():
        assert monotonic() < ends_s, "it did not happen"
        sleep(0.01)


@pytest.fixture
def job(folder: Path) -> LogWriter:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 200))
    job.run(trades(200, 310))
    return job


def look_up(client: httpx.Client, query: str, at: str | None = None) -> list[dict[str, object]]:
    response = client.post("/v1/lookup", json={"queries": [query], "at": at})
    assert response.status_code == 200, response.text
    rows: list[dict[str, object]] = response.json()["answers"][0]["rows"]
    return sorted(rows, key=str)


def expected(folder: Path, query: str) -> list[dict[str, object]]:
    from panewise.serve.encoding import rows_of

    with panewise.LookupClient(folder) as client:
        return sorted(rows_of(client.lookup(query)), key=str)


def test_it_follows_the_job(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder)
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:
        for query in job.workload.queries:
            assert look_up(client, query) == expected(folder, query)
        for batch in range(2, 8):
            job.run(trades(batch * 155, batch * 155 + 155))
            until(lambda wanted=batch: source.position.batch == wanted)
            for query in job.workload.queries:
                until(lambda name=query: look_up(client, name) == expected(folder, name))
        found = client.get("/v1/streams").json()
        assert (found["kind"], found["batch"], found["problem"]) == ("folder", 7, None)
    assert source._builder is not None
    for client in (source._active.client, source._builder.client):
        client.check_invariants()


def test_no_request_waits_while_files_are_read(job: LogWriter, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FolderSource(folder)
    is_reading, may_go_on = threading.Event(), threading.Event()
    refresh = panewise.LookupClient.refresh

    def slow_refresh(client: panewise.LookupClient) -> bool:
        is_reading.set()
        assert may_go_on.wait(20)
        return refresh(client)

    monkeypatch.setattr(panewise.LookupClient, "refresh", slow_refresh)
    try:
        with running(Application(source)) as url, httpx.Client(base_url=url) as client:
            assert is_reading.wait(20)
            # Without a snapshot, this would wait for the reading that does not end.
            assert look_up(client, "latest") == expected_without_refresh(source, "latest")
            may_go_on.set()
    finally:
        may_go_on.set()


def expected_without_refresh(source: FolderSource, query: str) -> list[dict[str, object]]:
    from panewise.serve.encoding import rows_of

    found = source.read(lambda reader: reader.lookup(query, None, None), wait=True)
    return sorted(rows_of(found), key=str)


def test_what_a_reader_reads_does_not_change(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            table = source.read(lambda reader: reader.lookup("all_trades", None, None), wait=True)
            if table.num_rows != 1:
                wrong.append(table)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for batch in range(2, 12):
        job.run(trades(batch * 155, batch * 155 + 155))
        while source.refresh():
            pass
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert source.position.batch == 11


def test_a_request_of_many_queries_has_the_answers_of_each(job: LogWriter, folder: Path) -> None:
    queries = [*job.workload.queries]
    with running(Application(FolderSource(folder))) as url, httpx.Client(base_url=url) as client:
        for key in ({"symbol": "AB"}, {"symbol": ["CD"]}, {"symbol": "none"}, {"symbol": ["AB", "EF"]}):
            body = {"queries": queries, "keys": key}
            together = client.post("/v1/lookup", json=body).json()["answers"]
            for query, found in zip(queries, together):
                asked = {"keys": json.dumps(key)}
                alone = client.get(f"/v1/queries/{query}/answers", params=asked).json()
                assert {**found, "age_s": None, "version": 0} == {**alone, "age_s": None, "version": 0}


def test_the_batches_of_the_job(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    source = FolderSource(folder, metrics=path)
    with running(Application(source)) as url, httpx.Client(base_url=url) as client:

        def told() -> list[int]:
            return [one["batch"] for one in client.get("/v1/batches").json()["batches"]]

        assert told() == []
        metrics = BatchMetrics(
            "job", "run", 7, START_US, 1_000, 500.0, counts={"late_events": 3, "fed": 9, "folded": 8}
        )
        sink = MetricsFile(path)
        sink.put(metrics)
        until(lambda: told() == [7])
        (found,) = client.get("/v1/batches").json()["batches"]
        assert (found["events"], found["late_events"], found["fed"]) == (1_000, 3, 9)
        with path.open("a") as file:
            file.write('{"batch": 8, "trig')  # another process is just writing it
        sink.path.rename(tmp_path / "metrics.jsonl.1")
        sink.put(replace(metrics, number=9))
        sink.put(replace(metrics, number=10))
        until(lambda: told() == [7, 9, 10])


def test_metrics_that_cannot_be_read_stop_no_answers(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "metrics"
    path.mkdir()
    source = FolderSource(folder, metrics=path)
    with running(Application(source, can_add=False)):
        batch = source.position.batch
        job.run(trades(310, 450))
        until(lambda: source.position.batch != batch)
        until(lambda: "batches are shown once the file can be read" in (source.problem or ""))
        path.rmdir()
        until(lambda: source.problem is None)


def test_too_old_an_answer_is_not_ready(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder)
    with running(Application(source, most_age_s=0.2)) as url, httpx.Client(base_url=url) as client:
        until(lambda: client.get("/ready").status_code == 503)
        assert "s ago, and at most 0.2 s are allowed" in client.get("/ready").json()["reason"]
        assert client.get("/health").status_code == 200


def test_statements_go_to_the_control_stream(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    control = tmp_path / "statements"
    control.mkdir()
    statement = "CREATE QUERY more AS SELECT COUNT(*) FROM trades [RANGE 1 MINUTE SLIDE 1 MINUTE];"
    with running(Application(FolderSource(folder, control))) as url, httpx.Client(base_url=url) as client:
        wrong = client.post(
            "/v1/queries", json={"statements": "CREATE QUERY more AS SELECT\n COUNT(nothing) FROM trades"}
        )
        assert wrong.status_code == 422
        assert wrong.json()["error"]["line"] == 2
        refused = client.post("/v1/queries", json={"statements": statement})
        assert refused.status_code == 409
        assert "has no control stream" in refused.json()["error"]["message"]
    assert not list(control.iterdir())
    with running(Application(FolderSource(folder))) as url, httpx.Client(base_url=url) as client:
        assert client.post("/v1/queries", json={"statements": statement}).status_code == 409
        events = client.post("/v1/streams/trades/events", content=b"", headers={"content-type": "application/x-ndjson"})
        assert events.status_code == 409


def test_a_live_job_takes_statements(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job(folder, Job.of(panewise.read(STATEMENTS), BUCKETS, is_live=True))
    control = tmp_path / "statements"
    control.mkdir()
    synced: list[tuple[int, list[str]]] = []
    monkeypatch.setattr(os, "fsync", lambda opened: synced.append((os.fstat(opened).st_ino, os.listdir(control))))
    with running(Application(FolderSource(folder, control))) as url, httpx.Client(base_url=url) as client:
        sent = client.delete("/v1/queries/busy").json()
        assert sent == {"added": [], "dropped": ["busy"], "holds": "with the next batch"}
        rows = "CREATE QUERY r AS SELECT COUNT(*) FROM trades [ROWS 10 SLIDE 5];"
        refused = client.post("/v1/queries", json={"statements": rows})
        assert refused.status_code == 422, refused.text
        assert "the job would refuse it" in refused.json()["error"]["message"]
    (file,) = control.iterdir()
    assert file.read_text() == "DROP QUERY busy;"
    assert not file.name.startswith(".")
    # On the disk, and only then by its name.
    assert synced == [(file.stat().st_ino, [f".{file.name}"]), (control.stat().st_ino, [file.name])]
