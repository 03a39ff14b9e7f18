"""The shared folder when it is moved, loses files, or has files of others: a job and a client say so, and go on if they
can.

It runs over `tests.spark.simulated`; at the end is Spark itself.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import write_batches
from tests.spark.test_live import run_live

import panewise
from panewise.errors import SlotLogError
from panewise.spark import slot_compaction, slot_reader
from panewise.spark.manifest import MANIFEST, manifest_path
from panewise.spark.slot_log import SLOTS, list_spans
from panewise.spark.statement_log import STATEMENTS

ORIGIN_US = 1_356_998_400_000_000
MINUTE = 60_000_000
WORKLOAD = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
    CREATE QUERY total AS SELECT SUM(x) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k;
    CREATE QUERY latest AS SELECT COUNT(*) FROM s [RANGE 60 MINUTES] GROUP BY k;
"""
ADDED = "CREATE QUERY added AS SELECT MAX(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
MORE = "CREATE QUERY more AS SELECT MIN(x) FROM s [RANGE 3 MINUTES SLIDE 1 MINUTE] GROUP BY k;"
KEYS = "abcdefgh"


@pytest.fixture(autouse=True)
def waits_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_reader, "LONGEST_PAUSE_S", 0.01)


def events(minute: int) -> list[dict[str, Any]]:
    return [{"t": ORIGIN_US + minute * MINUTE, "k": key, "x": minute} for key in KEYS]


def started(folder: Path, *, live: bool = False) -> SimulatedSpark:
    """A job that has run for a while; a live one has got a query."""
    spark = SimulatedSpark(panewise.read(WORKLOAD), folder, live=live, lookups=True)
    for minute in range(6):
        spark.run_batch({"s": events(minute)}, [ADDED] if live and minute == 2 else [])
    return spark


def goes_on(spark: SimulatedSpark, minutes: range) -> None:
    for minute in minutes:
        spark.run_batch({"s": events(minute)})


def counted(folder: Path) -> dict[str, int]:
    table = panewise.LookupClient(folder).lookup("latest")
    return dict(zip(table["k"].to_pylist(), table["COUNT(*)"].to_pylist()))


def busy_bucket(folder: Path) -> Path:
    """The folder of a bucket that has files."""
    return max((folder / SLOTS).iterdir(), key=lambda bucket: len(list_spans(bucket)))


def test_a_live_job_whose_folder_was_moved_refuses_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    spark = started(folder, live=True)
    folder.rename(tmp_path / "elsewhere")
    spark.start()
    with pytest.raises(panewise.PanewiseError, match=r"has 0 of the 1 batches of statements .*put its"):
        spark.run_batch({"s": events(6)})
    shutil.rmtree(folder)
    (tmp_path / "elsewhere").rename(folder)
    spark.start()
    goes_on(spark, range(6, 9))
    assert "added" in spark.table()["query"].to_pylist()
    assert counted(folder) == dict.fromkeys(KEYS, 9)


def test_a_statement_that_came_with_the_last_batch_is_missed_too(tmp_path: Path) -> None:
    spark = started(tmp_path, live=True)
    spark.run_batch({"s": events(6)}, [MORE])
    (tmp_path / STATEMENTS / "000000000006.json").unlink()
    spark.start()
    with pytest.raises(panewise.PanewiseError, match="has 1 of the 2 batches of statements"):
        spark.run_batch({"s": events(7)})


def test_statements_that_were_changed_are_refused(tmp_path: Path) -> None:
    spark = started(tmp_path, live=True)
    path = tmp_path / STATEMENTS / "000000000002.json"
    path.write_text(path.read_text().replace("2 MINUTES", "3 MINUTES"))
    spark.start()
    with pytest.raises(panewise.PanewiseError, match="has other statements than those that it went by"):
        spark.run_batch({"s": events(6)})


def test_a_new_checkpoint_refuses_the_statements_of_an_old_one(tmp_path: Path) -> None:
    started(tmp_path, live=True)
    shutil.rmtree(tmp_path / SLOTS)
    new = SimulatedSpark(panewise.read(WORKLOAD), tmp_path, live=True)
    goes_on(new, range(3))
    with pytest.raises(panewise.PanewiseError, match="has other statements than those that it went by"):
        goes_on(new, range(3, 4))


def test_a_timer_in_the_batch_that_brought_statements_is_no_change(tmp_path: Path) -> None:
    spark = started(tmp_path, live=True)
    for minute in range(6, 12):
        spark.run_batch({"s": events(2 * minute)}, [ADDED.replace("added", f"n{minute}")], attempts=2)
    spark.run_batch({})
    assert spark.counts["rejected_statements"] == 0


def test_a_job_whose_log_was_moved_refuses_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    spark = started(folder)
    folder.rename(tmp_path / "elsewhere")
    spark.start()
    with pytest.raises(SlotLogError, match=r"lacks what this job wrote in batch 5: it has no file at all.*put its"):
        spark.run_batch({"s": events(6)})
    shutil.rmtree(folder)
    (tmp_path / "elsewhere").rename(folder)
    goes_on(spark, range(6, 9))
    assert counted(folder) == dict.fromkeys(KEYS, 9)


@pytest.mark.parametrize(("lost", "found"), [(0, "files from batch 1 on"), (-1, "files up to batch 4")])
def test_a_job_whose_log_lost_files_refuses_to_go_on(tmp_path: Path, lost: int, found: str) -> None:
    spark = started(tmp_path)
    for bucket in (tmp_path / SLOTS).iterdir():
        (bucket / list_spans(bucket)[lost].name).unlink()
    with pytest.raises(SlotLogError, match=f"lacks what this job wrote in batch .*: it has {found}"):
        spark.run_batch({"s": events(6)})


def _oldest(bucket: Path) -> None:
    (bucket / list_spans(bucket)[0].name).unlink()


def _newest(bucket: Path) -> None:
    (bucket / list_spans(bucket)[-1].name).unlink()


def _all(bucket: Path) -> None:
    shutil.rmtree(bucket)


def _damaged(bucket: Path) -> None:
    path = bucket / list_spans(bucket)[2].name
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_oldest, r"0\.panewise is missing"),
        (_newest, r"5\.panewise is missing"),
        (_all, r"5\.panewise is missing"),
        (_damaged, r"2\.panewise is cut off or damaged"),
    ],
)
def test_a_client_whose_bucket_lost_files_refuses_to_answer(
    tmp_path: Path, harm: Callable[[Path], None], message: str
) -> None:
    started(tmp_path)
    assert counted(tmp_path) == dict.fromkeys(KEYS, 6)
    harm(busy_bucket(tmp_path))
    with pytest.raises(SlotLogError, match=message):
        panewise.LookupClient(tmp_path)


def test_a_client_without_a_manifest_refuses_to_answer(tmp_path: Path) -> None:
    spark = started(tmp_path)
    shutil.rmtree(tmp_path / MANIFEST)
    with pytest.raises(panewise.PanewiseError, match=r"manifest/slots-\d+\.json is missing"):
        panewise.LookupClient(tmp_path)
    # The next batch says again what must be there.
    goes_on(spark, range(6, 7))
    assert counted(tmp_path) == dict.fromkeys(KEYS, 7)


def test_a_damaged_manifest_is_told(tmp_path: Path) -> None:
    started(tmp_path)
    bucket = int(busy_bucket(tmp_path).name.removeprefix("bucket-"))
    manifest_path(tmp_path, SLOTS, bucket).write_text("{")
    with pytest.raises(SlotLogError, match=f"slots-{bucket}.json is damaged"):
        panewise.LookupClient(tmp_path)


def test_a_client_that_lacks_statements_refuses_to_answer(tmp_path: Path) -> None:
    started(tmp_path, live=True)
    (tmp_path / STATEMENTS / "000000000002.json").unlink()
    with pytest.raises(SlotLogError, match="has the statements of 0 batches, and the job went by those of 1"):
        panewise.LookupClient(tmp_path)


def test_old_files_that_leave_are_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_compaction, "MERGE_AT", 1000)
    spark = started(tmp_path)
    for minute in range(6, 75):
        spark.run_batch({"s": events(minute)})
        if minute % 18 == 0:
            assert counted(tmp_path) == dict.fromkeys(KEYS, min(60, minute + 1))
    bucket = busy_bucket(tmp_path)
    assert list_spans(bucket)[0].first > 0
    _oldest(bucket)
    with pytest.raises(SlotLogError, match="is missing"):
        panewise.LookupClient(tmp_path)


def test_files_of_others_are_named_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slot_compaction, "KEPT_APART", 2)
    monkeypatch.setattr(slot_compaction, "MERGE_AT", 4)
    spark = started(tmp_path, live=True)
    bucket = busy_bucket(tmp_path)
    foreign = [bucket / name for name in ("notes.txt", "1-4.panewise", "900.panewise", "2-77.panewise")]
    foreign += [tmp_path / STATEMENTS / name for name in ("notes.json", "000000000003.json", "copy of 2.json")]
    for path in foreign:
        path.write_text("mine")
    (tmp_path / STATEMENTS / "000000000001.json").mkdir()
    spark.start()
    goes_on(spark, range(6, 12))
    assert counted(tmp_path) == dict.fromkeys(KEYS, 12)
    assert all(path.read_text() == "mine" for path in foreign)
    for path in foreign:
        (told,) = {text for text in caplog.messages if text.startswith(f"{path} ")}
        assert told.endswith("left alone")
        assert "restore" not in told
    unread = panewise.LookupClient(tmp_path).statistics()["unread_files"]
    assert {str(bucket / "900.panewise"), str(bucket / "2-77.panewise")} == set(unread)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    started(tmp_path)
    bucket = busy_bucket(tmp_path)
    (bucket / "2.panewise").chmod(0)
    with pytest.raises(SlotLogError, match=r"cannot read .*2\.panewise: Permission denied; give this user"):
        panewise.LookupClient(tmp_path)
    bucket.chmod(0)
    with pytest.raises(SlotLogError, match=r"cannot read .*Permission denied"):
        panewise.LookupClient(tmp_path)
    bucket.chmod(0o700)


def _modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_what_is_written_is_closed_to_others(tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    for folder in (alone, shared):
        started(folder, live=True)
    assert stat.S_IMODE(alone.stat().st_mode) == 0o700
    assert _modes(alone) == {0o600}
    assert _modes(shared) == {0o660}, "its group may do in it what it may do in the folder, others nothing"
    folders = {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in shared.rglob("*") if path.is_dir()}
    assert folders == {0o770}


def test_files_are_on_the_disk_before_they_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(source: Path, target: Path) -> None:
        steps.append("rename")
        rename(source, target)

    spark = started(tmp_path, live=True)
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    spark.run_batch({"s": events(6)}, [MORE])
    assert steps
    assert len(steps) % 3 == 0
    assert all(tuple(steps[at : at + 3]) == ("file", "rename", "folder") for at in range(0, len(steps), 3))


@pytest.mark.spark
def test_a_folder_that_was_moved_stops_a_job_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    workload = panewise.read(WORKLOAD)
    (stream,) = workload.streams.values()
    (tmp_path / "control").mkdir()
    (tmp_path / "control" / "1.sql").write_text(ADDED)
    write_batches(tmp_path / "events", stream, [events(minute) for minute in range(3)])
    run_live(spark, tmp_path, workload)
    (tmp_path / "shared").rename(tmp_path / "elsewhere")
    write_batches(tmp_path / "events", stream, [events(minute) for minute in range(3, 6)], 3)
    with pytest.raises(Exception, match="batches of statements that it went by"):
        run_live(spark, tmp_path, workload)
    shutil.rmtree(tmp_path / "shared")
    (tmp_path / "elsewhere").rename(tmp_path / "shared")
    run_live(spark, tmp_path, workload)
    assert spark.read.parquet(str(tmp_path / "answers")).where("query = 'added'").count() > 0
    assert counted(tmp_path / "shared") == dict.fromkeys(KEYS, 6)
