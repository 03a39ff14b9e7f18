"""Faults under load: requests are answered all the time, the problem is told, and it ends by itself."""

from __future__ import annotations

import resource
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from tests.serve.conftest import STATEMENTS, as_columns, trades
from tests.serve.test_folder import expected, look_up, until
from tests.serve.test_safety import connected
from tests.spark.log_writing import BUCKETS, LogWriter

import panewise
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.folder_source import FolderSource
from panewise.serve.server import running
from panewise.spark.job import Job
from panewise.spark.slot_log import write_job


@pytest.fixture
def job(folder: Path) -> LogWriter:
    return began(folder)


def began(folder: Path) -> LogWriter:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 200))
    job.run(trades(200, 310))
    return job


@contextmanager
def load(url: str) -> Iterator[None]:
    """Ask all the time; every request must be answered."""
    seen: Counter[int] = Counter()
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(base_url=url) as client:
            while not stop.wait(0.002):
                body = {"queries": ["latest", "volume", "busy", "all_trades"], "keys": {"symbol": "AB"}}
                seen[client.post("/v1/lookup", json=body).status_code] += 1

    asking = [threading.Thread(target=ask) for _ in range(2)]
    for one in asking:
        one.start()
    try:
        until(lambda: seen.total() > 20)
        yield
        before = seen.total()
        until(lambda: seen.total() > before + 20)
    finally:
        stop.set()
        for one in asking:
            one.join()
    assert set(seen) == {200}


@contextmanager
def under_load(source: FolderSource) -> Iterator[httpx.Client]:
    with running(Application(source)) as url, httpx.Client(base_url=url) as client, load(url):
        yield client


def recovers(source: FolderSource, client: httpx.Client, job: LogWriter, folder: Path) -> None:
    """The problem is gone, and so are old answers."""
    until(lambda: source.problem is None)
    job.run(trades(600, 900))
    until(lambda: source.position.batch == job.next_batch - 1)
    until(lambda: look_up(client, "latest") == expected(folder, "latest"))


def told(client: httpx.Client, source: FolderSource, words: str) -> None:
    until(lambda: words in (source.problem or ""))
    assert words in client.get("/ready").json()["reason"]
    assert words in client.get("/v1/streams").json()["problem"]
    assert "panewise_serve_problem 1.0" in client.get("/metrics").text


def test_a_folder_that_goes_away(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    source = FolderSource(folder)
    with under_load(source) as client:
        before = look_up(client, "latest")
        shutil.move(folder, tmp_path / "away")
        told(client, source, f"cannot read {folder}")
        assert look_up(client, "latest") == before
        shutil.move(tmp_path / "away", folder)
        recovers(source, client, job, folder)


def test_a_file_that_is_cut_off(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder)
    with under_load(source) as client:
        before = look_up(client, "latest")
        job.run(trades(310, 450))
        until(lambda: source.position.batch == 2)
        # The server need not read this again; a client that comes now must.
        (newest, *_) = (folder / "slots").rglob("*2.panewise")
        whole = newest.read_bytes()
        newest.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(panewise.FolderError, match=newest.name):
            FolderSource(folder)
        assert look_up(client, "latest") != before
        newest.write_bytes(whole)
        recovers(source, client, job, folder)


def test_a_new_file_that_is_cut_off_is_told_and_answers_stay(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder)
    while source.refresh():
        pass
    before = source.read(lambda reader: reader.lookup("latest", None, None), wait=True)
    there = set((folder / "slots").rglob("*.panewise"))
    job.run(trades(310, 450))
    whole = {path: path.read_bytes() for path in set((folder / "slots").rglob("*.panewise")) - there}
    for path, content in whole.items():
        path.write_bytes(content[: len(content) // 2])
    with under_load(source) as client:
        told(client, source, ".panewise")
        assert source.read(lambda reader: reader.lookup("latest", None, None), wait=True).equals(before)
        for path, content in whole.items():
            path.write_bytes(content)
        recovers(source, client, job, folder)


def test_a_job_that_goes_on_after_a_restart(job: LogWriter, folder: Path) -> None:
    """It repeats its last batch, whose files may be there already or not, and goes on."""
    source = FolderSource(folder)
    with under_load(source) as client:
        job.run(trades(310, 400))
        job.repeat()
        again = LogWriter(folder, job.workload)
        again.accepted, again.newest_us, again.watermark_us = job.accepted, job.newest_us, job.watermark_us
        again.next_batch = job.next_batch
        again.run(trades(400, 600))
        recovers(source, client, again, folder)
        assert source.failures == 0


def test_a_job_that_begins_anew(job: LogWriter, folder: Path) -> None:
    """With an empty folder and a new checkpoint, batches are counted from 0, and queries may be others."""
    source = FolderSource(folder)
    with under_load(source) as client:
        before = look_up(client, "latest")
        shutil.rmtree(folder)
        told(client, source, f"cannot read {folder}")
        assert look_up(client, "latest") == before
        more = "CREATE QUERY most AS SELECT MAX(volume) AS most FROM trades [RANGE 5 MINUTES];"
        anew = LogWriter(folder, panewise.read(STATEMENTS + more))
        anew.run(trades(0, 100))
        recovers(source, client, anew, folder)
        assert look_up(client, "most") == expected(folder, "most")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    return ballast


def test_a_disk_that_is_full(small_disk: Path) -> None:
    folder = small_disk / "lookups"
    job = began(folder)
    source = FolderSource(folder)
    with under_load(source) as client:
        before = look_up(client, "latest")
        ballast = fill(small_disk)
        with pytest.raises(panewise.FolderError, match="No space left"):
            job.run(trades(310, 450))
        told(client, source, f"{folder}: the disk is full")
        assert look_up(client, "latest") == before
        ballast.unlink()
        job.repeat()
        job.next_batch += 1
        recovers(source, client, job, folder)


def test_statements_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    write_job(folder, Job.of(panewise.read(STATEMENTS), BUCKETS, is_live=True))
    control = tmp_path / "statements"
    control.mkdir()
    with running(Application(FolderSource(folder, control))) as url, httpx.Client(base_url=url) as client:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
        try:
            refused = client.delete("/v1/queries/busy")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert refused.status_code == 503
        assert f"cannot write the statements into {control}: File too large" in refused.json()["error"]["message"]
        assert not list(control.iterdir())
        assert client.delete("/v1/queries/busy").status_code == 200
    assert len(list(control.iterdir())) == 1


def test_a_thousand_idle_readers(source: EngineSource) -> None:
    application = Application(source)
    with running(application) as url, load(url):
        idle = [connected(url) for _ in range(1_000)]
        for one in idle:
            one.sendall(b"GET /v1/live?query=all_trades HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: application.feeds.readers == 1_000)
        for batch in range(5):
            source.push("trades", pa.table(as_columns(trades(310 + 20 * batch, 330 + 20 * batch))), None)
        for one in (idle[0], idle[-1]):
            read = b""
            while b'"complete":true' not in read:
                read += one.recv(1 << 16)
        for one in idle:
            one.close()
        until(lambda: application.feeds.readers == 0)
