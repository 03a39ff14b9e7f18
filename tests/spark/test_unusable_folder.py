"""A shared folder that cannot be written for a while: answers go on, and lookups fall behind, say so, and catch up.

A job that meets faults is compared with its twin, which gets the same events and meets none.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.spark.simulated import SimulatedSpark

import panewise
from panewise.errors import HistoryError
from panewise.spark import processor, slot_compaction
from panewise.spark.counts import whole
from panewise.spark.slot_file import BatchSpan
from panewise.spark.slot_log import SLOTS, list_spans

ORIGIN_US = 1_356_998_400_000_000
MINUTE = 60_000_000
WORKLOAD = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
    CREATE QUERY sliding AS SELECT SUM(x), COUNT(*) FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE] GROUP BY k;
    CREATE QUERY latest AS SELECT COUNT(*), MAX(x) FROM s [RANGE 30 MINUTES] GROUP BY k;
    CREATE QUERY longer AS SELECT SUM(x), COUNT(*) FROM s [RANGE 90 MINUTES] GROUP BY k;
    CREATE QUERY longest AS SELECT COUNT(*), MAX(x) FROM s [RANGE 90 MINUTES] GROUP BY k;
    CREATE QUERY last_rows AS SELECT SUM(x), COUNT(*) FROM s [PARTITION BY k ROWS 5] GROUP BY k;
"""
QUERIES = ("sliding", "latest", "last_rows")
FROM_THE_START = """
    CREATE QUERY so_far AS SELECT COUNT(*), SUM(x) FROM s [UNBOUNDED SLIDE 5 MINUTES] GROUP BY k;
    CREATE QUERY total AS SELECT COUNT(*), SUM(x) FROM s [UNBOUNDED] GROUP BY k;
"""
KEYS = "abcdefgh"


def events(minute: int) -> list[dict[str, Any]]:
    keys = KEYS if minute % 3 else KEYS[:2]
    return [{"t": ORIGIN_US + minute * MINUTE, "k": key, "x": minute} for key in keys]


class Twins:
    """A job that meets faults, and one that does not."""

    def __init__(self, folder: Path, further: str = "") -> None:
        workload = panewise.read(WORKLOAD + further)
        self.folder = folder / "faulty"
        self.faulty = SimulatedSpark(workload, self.folder, lookups=True)
        self.sound = SimulatedSpark(workload, folder / "sound", lookups=True)
        self.client = panewise.LookupClient(self.folder, refresh_every_s=0)
        self.other = panewise.LookupClient(folder / "sound", refresh_every_s=0)
        self.minute = 0

    def run(self, batches: int = 1, **how: Any) -> None:
        for _ in range(batches):
            self.faulty.run_batch({"s": events(self.minute)}, **how)
            self.sound.run_batch({"s": events(self.minute)})
            self.minute += 1

    def check_answers(self) -> None:
        assert shown(self.faulty.table()) == shown(self.sound.table())

    def check_lookups(self, queries: Sequence[str] = QUERIES) -> None:
        """Lookups have caught up: for a client that was there, and for a new one."""
        self.other.refresh()
        for client in (self.client, panewise.LookupClient(self.folder)):
            client.refresh()
            assert not client.statistics()["is_behind"]
            assert client.watermark_us == self.other.watermark_us
            for query in queries:
                assert shown(client.lookup(query)) == shown(self.other.lookup(query)), query
            client.check_invariants()

    def check_old_lookups(self) -> None:
        """Whatever a client shows now is what was right at its watermark."""
        for client in (self.client, panewise.LookupClient(self.folder)):
            client.refresh()
            watermark_us = client.watermark_us
            if watermark_us is not None:
                self.other.refresh()
                assert shown(client.lookup("sliding")) == shown(self.other.lookup("sliding", at=watermark_us))
                at_us = watermark_us - 1
                assert shown(client.lookup("latest", at=at_us)) == shown(self.other.lookup("latest", at=at_us))
                if client.statistics()["is_behind"]:
                    assert shown(client.lookup("latest")) == shown(client.lookup("latest", at=at_us))


def shown(table: Any) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[str], bool] | None], None]:
    """Makes the disk full for the files that a function picks by their paths; None makes it usable again."""
    picked: list[Callable[[str], bool]] = []

    def sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if any(pick(path) for pick in picked):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def set_full(pick: Callable[[str], bool] | None) -> None:
        picked[:] = [] if pick is None else [pick]

    monkeypatch.setattr(os, "fsync", sync)
    return set_full


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="a path from a descriptor needs /proc")


@needs_proc
def test_a_full_folder_does_not_stop_answers(tmp_path: Path, full: Any, caplog: pytest.LogCaptureFixture) -> None:
    twins = Twins(tmp_path)
    twins.run(5)
    full(lambda path: "faulty" in path)
    twins.run(4)
    held = whole(twins.faulty.sizes.values())
    assert held.behind_buckets == 3
    assert 0 < held.held_bytes <= held.log_bytes
    assert ": No space left on device; every worker must be able to write to this folder; answers go on" in caplog.text
    assert "Errno" not in caplog.text
    twins.check_answers()
    twins.check_old_lookups()
    full(None)
    twins.run(1)
    assert whole(twins.faulty.sizes.values())[2:] == (0, 0)
    assert "have caught up, from batch 5 on" in caplog.text
    assert BatchSpan(5, 9) in list_spans(next((twins.folder / SLOTS).iterdir()))
    twins.check_lookups()
    twins.run(40)
    twins.check_lookups()
    twins.check_answers()


@needs_proc
def test_the_log_of_the_state_is_not_shortened_while_the_folder_is_full(
    tmp_path: Path, full: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What windows from the start need becomes one entry, which the folder must not get once more."""
    monkeypatch.setattr(processor, "MOST_KEPT", 4)
    twins = Twins(tmp_path, FROM_THE_START)
    twins.run(14)
    full(lambda path: "faulty" in path)
    twins.run(4)
    full(None)
    twins.run(2)
    twins.check_answers()
    twins.check_lookups(["so_far", "total"])


def test_a_folder_that_is_gone_for_a_while_does_not_stop_answers(tmp_path: Path) -> None:
    twins = Twins(tmp_path)
    twins.run(5)
    twins.folder.rename(tmp_path / "unmounted")
    twins.folder.mkdir()
    twins.run(5, attempts=2)
    assert list(twins.folder.iterdir()) == [], "nothing is written at the place of what is not mounted"
    twins.folder.rmdir()
    (tmp_path / "unmounted").rename(twins.folder)
    twins.run(2)
    twins.check_lookups()
    twins.check_answers()


@needs_proc
@pytest.mark.parametrize("seed", range(4))
def test_random_faults(seed: int, tmp_path: Path, full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_compaction, "KEPT_APART", 2)
    monkeypatch.setattr(slot_compaction, "MERGE_AT", 4)
    dice = Random(seed)
    twins = Twins(tmp_path)
    for _ in range(30):
        bad = [f"faulty/{log}/bucket-{bucket}/" for log in ("slots", "rows") for bucket in (0, 1, 2, 3, 4)]
        bad = dice.choice([[], [], dice.sample(bad, 3), ["faulty"]])
        calls = iter([dice.random() < 0.5 for _ in range(1000)])
        flickers = dice.random() < 0.3
        full(
            lambda path, bad=bad, calls=calls, flickers=flickers: (
                any(one in path for one in bad) and (not flickers or next(calls))
            )
        )
        twins.run(1, attempts=dice.randint(1, 2), shift=dice.randint(0, 3))
        full(None)
        twins.check_old_lookups()
        if dice.random() < 0.2:
            twins.faulty.start()
    twins.run(1)
    twins.check_answers()
    twins.check_lookups()


@needs_proc
def test_a_bucket_that_is_behind_holds_lookups_back(tmp_path: Path, full: Any) -> None:
    twins = Twins(tmp_path)
    twins.run(5)
    bucket = max((twins.folder / SLOTS).iterdir(), key=lambda one: len(list_spans(one)))
    full(lambda path: f"faulty/slots/{bucket.name}/" in path)
    twins.run(3)
    twins.check_old_lookups()
    for client in (twins.client, panewise.LookupClient(twins.folder)):
        assert client.statistics()["is_behind"]
        assert client.watermark_us == ORIGIN_US + 3 * MINUTE, "the one of the last batch that all buckets have written"
        late_us = ORIGIN_US + 6 * MINUTE
        for query in ("latest", "last_rows"):
            with pytest.raises(HistoryError, match=r"complete up to the watermark only.*wait until the job has caught"):
                client.lookup(query, at=late_us)
        at_us = ORIGIN_US + 3 * MINUTE - 1
        for query in ("latest", "last_rows"):
            assert shown(client.lookup(query)) == shown(twins.other.lookup(query, at=at_us))
    full(None)
    twins.run(1)
    twins.check_lookups()


@needs_proc
def test_what_cannot_be_held_is_told_to_be_missing(tmp_path: Path, full: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "HELD_BYTES", 0)
    twins = Twins(tmp_path)
    twins.run(15)
    full(lambda path: "faulty" in path)
    twins.run(20)
    full(None)
    twins.run(1)
    twins.check_answers()
    for client in (twins.client, panewise.LookupClient(twins.folder)):
        client.refresh()
        with pytest.raises(HistoryError, match="partials are held"):
            client.lookup("latest")
        with pytest.raises(HistoryError, match="rows were lost while the folder could not be written"):
            client.lookup("last_rows")
    twins.run(2)
    # The state has what open windows need, so that only those that had closed are missing.
    assert shown(twins.client.lookup("sliding")) == shown(twins.other.lookup("sliding"))
    twins.run(32)
    for client in (twins.client, panewise.LookupClient(twins.folder)):
        client.refresh()
        assert shown(client.lookup("latest")) == shown(twins.other.lookup("latest")), "its window is behind the gap"
        with pytest.raises(HistoryError, match="rows were lost"):
            client.lookup("last_rows")
