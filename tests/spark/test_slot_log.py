"""The slot log: what is written, merged and deleted, and what a reader makes of files that come, go and break."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.spark.log_writing import LogWriter

import panewise
from panewise.errors import PanewiseError, SlotLogError
from panewise.spark import slot_compaction, slot_reader
from panewise.spark.job import Job
from panewise.spark.lookup_client import LookupClient
from panewise.spark.packing import unpack_parts
from panewise.spark.slot_compaction import covering
from panewise.spark.slot_file import NO_BATCH, BatchSpan, Head, read_file, read_head, write_file
from panewise.spark.slot_log import Entry, SlotLog, bucket_folder, list_spans, write_job
from panewise.spark.slot_reader import FellBehindError, SlotReader

WORKLOAD = """
    CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT) TIMESTAMP BY t WATERMARK 2 SECONDS GRANULARITY 1 SECOND;
    CREATE QUERY sliding AS SELECT k, SUM(n) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
    CREATE QUERY latest AS SELECT k, SUM(n), MAX(n) FROM s [RANGE 4 SECONDS] GROUP BY k;
"""
SECOND_US = 1_000_000
BUCKET = 3


@pytest.fixture
def merges_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_compaction, "KEPT_APART", 2)
    monkeypatch.setattr(slot_compaction, "MERGE_AT", 4)


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path, panewise.read(WORKLOAD), buckets=[BUCKET])


def second(at: int, n: int = 1) -> list[dict]:
    return [{"t": at * SECOND_US, "k": key, "n": n} for key in ("a", "b")]


def files(folder: Path) -> list[str]:
    return [span.name for span in list_spans(bucket_folder(folder, BUCKET))]


def total(folder: Path) -> int:
    """How many events the files hold, each batch counted once."""
    found = 0
    inside = bucket_folder(folder, BUCKET)
    for span in covering(list_spans(inside)):
        for part in unpack_parts(read_file(inside / span.name)[1]):
            found += sum(part.partials.column("rows").to_pylist())
    return found


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    head = Head(7, BatchSpan(3, 16), 2, 5_000_000, None, {0: 12, 4: -3}, oldest=3, changes=2)
    write_file(tmp_path, head, b"partials")
    assert read_file(tmp_path / "3-16.panewise") == (head, b"partials")
    assert read_head(tmp_path / "3-16.panewise") == head
    assert [path.name for path in tmp_path.iterdir()] == ["3-16.panewise"]


@pytest.mark.parametrize(
    "damage",
    [lambda blob: blob[:-9], lambda blob: blob[:5], lambda blob: blob[:-6] + b"??" + blob[-4:], lambda blob: b""],
)
def test_a_damaged_file_is_told(writer: LogWriter, damage) -> None:
    writer.run(second(1))
    writer.run(second(2))
    path = bucket_folder(writer.folder, BUCKET) / "1.panewise"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(SlotLogError, match=r"bucket-3/1\.panewise .*(damaged|cut off)"):
        LookupClient(writer.folder)


def test_a_file_of_another_format_is_told(writer: LogWriter) -> None:
    writer.run(second(1))
    path = bucket_folder(writer.folder, BUCKET) / "0.panewise"
    blob = bytearray(path.read_bytes())
    blob[8] = 99
    path.write_bytes(bytes(blob))
    with pytest.raises(SlotLogError, match="format 99"):
        LookupClient(writer.folder)


def test_batches_name_the_one_before(writer: LogWriter) -> None:
    for at in range(3):
        writer.run(second(at))
    inside = bucket_folder(writer.folder, BUCKET)
    assert [read_head(inside / name).previous for name in files(writer.folder)] == [NO_BATCH, 0, 1]


def test_a_batch_that_is_repeated_counts_once(writer: LogWriter) -> None:
    writer.run(second(1))
    writer.run(second(2))
    before = {name: (bucket_folder(writer.folder, BUCKET) / name).read_bytes() for name in files(writer.folder)}
    writer.repeat()
    assert before == {name: (bucket_folder(writer.folder, BUCKET) / name).read_bytes() for name in files(writer.folder)}
    assert total(writer.folder) == 4


def test_a_timer_in_the_same_batch_takes_nothing_away(writer: LogWriter) -> None:
    writer.run(second(1))
    writer.log.put(BUCKET, 0, Entry.of([], None, None))
    assert total(writer.folder) == 2


def test_a_log_that_is_ahead_belongs_to_another_run(writer: LogWriter) -> None:
    writer.run(second(1))
    writer.run(second(2))
    with pytest.raises(SlotLogError, match="ahead of this job: bucket 3 has batch 1, and now batch 0 runs"):
        writer.log.put(BUCKET, 0, Entry.of([], None, None))
    assert total(writer.folder) == 4


@pytest.mark.usefixtures("merges_early")
def test_small_files_are_merged_without_what_is_old(writer: LogWriter) -> None:
    for batch in range(60):
        writer.run(second(batch))
        # Two events a second; the longest window, its slide and the watermark need eleven seconds of them.
        assert len(files(writer.folder)) <= 7
        assert min(22, 2 * (batch + 1)) <= total(writer.folder) <= 2 * 24
    assert any(span.first < span.last for span in list_spans(bucket_folder(writer.folder, BUCKET)))


def test_old_files_leave_from_the_oldest_on(writer: LogWriter) -> None:
    for batch in range(30):
        writer.run(second(batch))
    # The last batch closed up to 26 s, and a lookup reaches eight seconds further back.
    assert files(writer.folder) == [f"{batch}.panewise" for batch in range(18, 30)]


@pytest.mark.usefixtures("merges_early")
def test_merging_combines_the_partials_of_a_slot(writer: LogWriter) -> None:
    for _ in range(20):
        writer.run(second(1))
    inside = bucket_folder(writer.folder, BUCKET)
    merged = next(span for span in list_spans(inside) if span.first < span.last)
    (part,) = unpack_parts(read_file(inside / merged.name)[1])
    assert part.partials.num_rows == 2
    assert total(writer.folder) == 40


@pytest.mark.usefixtures("merges_early")
def test_a_full_file_is_left_alone(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_compaction, "FULL_BYTES", 1)
    for batch in range(12):
        writer.run(second(batch // 12))
    assert files(writer.folder) == [f"{batch}.panewise" for batch in range(12)]


@pytest.mark.usefixtures("merges_early")
def test_what_a_crash_leaves_between_merging_and_deleting_is_deleted_later(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    monkeypatch.setattr(slot_compaction, "delete", lambda folder, span: kept.append(span.name))
    for _ in range(5):
        writer.run(second(1))
    assert kept
    assert set(kept) < set(files(writer.folder))
    assert total(writer.folder) == 10
    client = LookupClient(writer.folder)
    (row,) = client.lookup("latest", {"k": "a"}).to_pylist()
    assert (row["SUM(n)"], row["MAX(n)"]) == (5, 1)
    monkeypatch.undo()
    writer.run(second(1))
    assert not set(kept) & set(files(writer.folder))
    assert total(writer.folder) == 12


@pytest.mark.usefixtures("merges_early")
def test_what_a_killed_attempt_left_is_deleted_later(writer: LogWriter) -> None:
    writer.run(second(1))
    inside = bucket_folder(writer.folder, BUCKET)
    for name, age_s in (("0.panewise.old.unfinished", 7200), ("0.panewise.young.unfinished", 0)):
        (inside / name).write_bytes(b"PANEWISE")
        os.utime(inside / name, (time.time() - age_s, time.time() - age_s))
    for _ in range(5):
        writer.run(second(1))
    assert [path.name for path in inside.glob("*.unfinished")] == ["0.panewise.young.unfinished"]
    assert total(writer.folder) == 12


@pytest.mark.usefixtures("merges_early")
def test_an_attempt_that_finds_files_merged_by_another_goes_on(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        writer.run(second(1))

    def other_attempt(path: Path) -> tuple[Head, bytes]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(slot_compaction, "read_file", other_attempt)
    writer.run(second(1))
    assert total(writer.folder) == 8


def test_a_folder_belongs_to_one_job(writer: LogWriter) -> None:
    write_job(writer.folder, writer.job)
    other = Job.of(panewise.read(WORKLOAD.replace("RANGE 4", "RANGE 8")), [BUCKET])
    with pytest.raises(SlotLogError, match="another job: statements and identity differ"):
        write_job(writer.folder, other)
    other = Job.of(panewise.read(WORKLOAD), [BUCKET, 4])
    with pytest.raises(SlotLogError, match="another job: statements and buckets and identity differ"):
        write_job(writer.folder, Job.of(panewise.read(WORKLOAD.replace("RANGE 4", "RANGE 8")), [BUCKET, 4]))
    with pytest.raises(SlotLogError, match="it has 1 buckets, and the job has 2; set buckets= as it was") as refused:
        write_job(writer.folder, other)
    # The cure for another number of partitions, and not for another job.
    assert str(writer.folder) in str(refused.value)
    assert "spark.sql.shuffle.partitions, from which it follows" in str(refused.value)
    moved = Job.of(panewise.read(WORKLOAD), [BUCKET + 1])
    with pytest.raises(SlotLogError, match=r"lie in other partitions; set spark.sql.shuffle.partitions as it was"):
        write_job(writer.folder, moved)


def test_a_folder_without_a_job_is_told(tmp_path: Path) -> None:
    with pytest.raises(PanewiseError, match=r"has no job\.json"):
        LookupClient(tmp_path)
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(SlotLogError, match=r"job\.json is damaged"):
        LookupClient(tmp_path)


def test_a_job_that_was_planned_differently_is_told(writer: LogWriter) -> None:
    path = writer.folder / "job.json"
    described = json.loads(path.read_text())
    described["identity"]["bases"] = "other"
    path.write_text(json.dumps(described))
    with pytest.raises(SlotLogError, match="another version of Panewise"):
        LookupClient(writer.folder)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, writer: LogWriter) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PanewiseError, match="cannot write"):
        write_job(tmp_path / "file" / "folder", writer.job)
    with pytest.raises(PanewiseError, match="cannot write the slot log"):
        SlotLog(tmp_path / "file", writer.job.bases).put(BUCKET, 0, Entry.of([], None, None))


class Reading:
    """A reader and the batches that it has read."""

    def __init__(self, folder: Path) -> None:
        self.reader = SlotReader(folder, [BUCKET])
        self.spans: list[BatchSpan] = []

    def read(self) -> list[BatchSpan]:
        self.spans = []
        self.reader.read_new(lambda head, content: self.spans.append(head.span))
        return self.spans


def test_a_reader_reads_each_batch_once(writer: LogWriter) -> None:
    reading = Reading(writer.folder)
    assert reading.read() == []
    writer.run(second(1))
    writer.run(second(2))
    assert reading.read() == [BatchSpan(0, 0), BatchSpan(1, 1)]
    writer.repeat()
    assert reading.read() == []
    writer.run(second(3))
    assert reading.read() == [BatchSpan(2, 2)]


@pytest.mark.usefixtures("merges_early")
def test_a_reader_that_fell_behind_says_so(writer: LogWriter) -> None:
    reading = Reading(writer.folder)
    writer.run(second(1))
    assert reading.read() == [BatchSpan(0, 0)]
    for _ in range(6):
        writer.run(second(1))
    with pytest.raises(FellBehindError):
        reading.read()
    # One that was at the end of what is merged goes on.
    behind = Reading(writer.folder)
    assert behind.read()[0].first == 0
    writer.run(second(1))
    assert behind.read() == [BatchSpan(7, 7)]


def test_a_missing_file_is_told(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_reader, "LONGEST_PAUSE_S", 0.01)
    for at in range(3):
        writer.run(second(at))
    inside = bucket_folder(writer.folder, BUCKET)
    (inside / "1.panewise").unlink()
    with pytest.raises(SlotLogError, match=r"bucket-3/1\.panewise is missing"):
        Reading(writer.folder).read()


def test_a_log_that_was_emptied_is_told(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_reader, "LONGEST_PAUSE_S", 0.01)
    reading = Reading(writer.folder)
    writer.run(second(1))
    reading.read()
    (bucket_folder(writer.folder, BUCKET) / "0.panewise").unlink()
    with pytest.raises(SlotLogError, match=r"0\.panewise is missing"):
        reading.read()


def test_a_file_that_comes_late_is_waited_for(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(3):
        writer.run(second(at))
    inside = bucket_folder(writer.folder, BUCKET)
    (inside / "1.panewise").rename(inside / "elsewhere")
    monkeypatch.setattr(slot_reader, "sleep", lambda _: (inside / "elsewhere").rename(inside / "1.panewise"))
    assert Reading(writer.folder).read() == [BatchSpan(0, 0), BatchSpan(1, 1), BatchSpan(2, 2)]


def test_a_first_listing_that_missed_the_oldest_files_is_made_again(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(3):
        writer.run(second(at))
    listings = iter([[BatchSpan(2, 2)]])
    monkeypatch.setattr(slot_reader, "list_spans", lambda folder: next(listings, None) or list_spans(folder))
    assert Reading(writer.folder).read() == [BatchSpan(0, 0), BatchSpan(1, 1), BatchSpan(2, 2)]
