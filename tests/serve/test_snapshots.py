"""Snapshots of a folder: they answer as the client does, never change, and several servers share their memory."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.serve.conftest import STATEMENTS, trades
from tests.serve.test_folder import until
from tests.serve.test_fuzz import MORE, ROWS
from tests.spark.log_writing import LogWriter

import panewise
from panewise.errors import CommandError, FolderError
from panewise.serve import places, snapshots
from panewise.serve.folder_source import FolderSource
from panewise.spark.lookup_state import LookupState
from panewise.spark.lookup_structures import LookupStructures

SKETCHES = "CREATE QUERY near_symbols AS SELECT APPROX_COUNT_DISTINCT(symbol) AS n FROM trades [RANGE 5 MINUTES];"


@pytest.fixture(autouse=True)
def every_run_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LEAST_BYTES", 0)


def agree(source: FolderSource, folder: Path) -> None:
    """What a server answers is what a client answers that reads the folder itself."""
    with panewise.LookupClient(folder) as client:
        for query in client.workload.queries:
            found = source.read(lambda reader, name=query: reader.lookup(name, None, None), wait=True)
            assert sorted(found.to_pylist(), key=str) == sorted(client.lookup(query).to_pylist(), key=str), query
    source._active.client.check_invariants()


def caught_up(source: FolderSource, batch: int) -> bool:
    source.refresh()
    return source.position.batch == batch


@pytest.mark.parametrize("is_shared", [False, True])
def test_snapshots_answer_as_the_client_does(folder: Path, tmp_path: Path, is_shared: bool) -> None:
    more = MORE + ROWS + (SKETCHES if not panewise.extras.missing("sketches") else "")
    job = LogWriter(folder, panewise.read(STATEMENTS + more))
    job.run(trades(0, 200))
    share = tmp_path / "shared" if is_shared else None
    source = FolderSource(folder, share=share)
    others = [FolderSource(folder, share=share)] if is_shared else []
    for batch in range(1, 7):
        job.run(trades(batch * 155 + 45, batch * 155 + 200))
        for one in (source, *others):
            until(lambda one=one, batch=batch: caught_up(one, batch))
            agree(one, folder)
    assert [one.builds for one in (source, *others)] == [True, False][: 1 + len(others)]
    for one in (source, *others):
        one.close()


def test_a_snapshot_does_not_change(folder: Path) -> None:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 310))
    source = FolderSource(folder)
    before = source._active
    answers = {query: before.lookup(query, None, None) for query in job.workload.queries}
    for batch in range(1, 8):
        # New keys too: their numbers go into the same tables.
        fresh = [{**event, "symbol": f"new {batch}"} for event in trades(batch * 100 + 210, batch * 100 + 310)]
        job.run(fresh)
        assert caught_up(source, batch)
    for query, table in answers.items():
        assert before.lookup(query, None, None).equals(table)
    agree(source, folder)


def test_another_server_builds_when_the_first_one_ends(folder: Path, tmp_path: Path) -> None:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 310))
    first, second = (FolderSource(folder, share=tmp_path / "shared") for _ in range(2))
    assert (first.builds, second.builds) == (True, False)
    mapped = [source._active.client.state.store(next(iter(source._active.client.state.lookups.values())).family)
              for source in (first, second)]  # fmt: skip
    (one, *_), (other, *_) = (list(store._runs) for store in mapped)
    assert np.array_equal(one.keys, other.keys)
    version = second.position.version
    first.close()
    job.run(trades(310, 450))
    until(lambda: caught_up(second, 1))
    assert second.builds
    assert second.position.version > version
    agree(second, folder)
    third = FolderSource(folder, share=tmp_path / "shared")
    assert not third.builds
    agree(third, folder)
    left = list((tmp_path / "shared").rglob("*-*"))
    assert len(left) < 12, left
    for one in (second, third):
        one.close()


def test_what_is_wrong_is_told_by_all(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 310))
    first, second = (FolderSource(folder, share=tmp_path / "shared") for _ in range(2))
    there = set((folder / "slots").rglob("*.panewise"))
    job.run(trades(310, 450))
    whole = {path: path.read_bytes() for path in set((folder / "slots").rglob("*.panewise")) - there}
    for path, content in whole.items():
        path.write_bytes(content[:-9])
    for one in (first, second):
        one.start()
    for one in (first, second):
        until(lambda one=one: ".panewise" in (one.problem or ""))
    for path, content in whole.items():
        path.write_bytes(content)
    for one in (first, second):
        until(lambda one=one: one.problem is None and one.position.batch == 1)
        one.close()
    monkeypatch.setattr(places, "FORMAT", "9.9/3.99")
    third = FolderSource(folder, share=tmp_path / "shared")
    monkeypatch.setattr(places, "FORMAT", "0.0/3.0")
    with pytest.raises(FolderError, match=r"Panewise 9.9/3.99 builds there, and this is 0.0/3.0"):
        FolderSource(folder, share=tmp_path / "shared")
    third.close()


def test_a_directory_of_others_is_refused(folder: Path, tmp_path: Path) -> None:
    LogWriter(folder, panewise.read(STATEMENTS)).run(trades(0, 100))
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chmod(shared, 0o770)
    with pytest.raises(CommandError, match="make the directory yours alone"):
        FolderSource(folder, share=shared)


def test_structures_go_over_to_the_next_snapshot(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not made anew for each snapshot, and a snapshot that somebody still reads answers without them.

    Two sets take turns: while one follows the next snapshot, lookups go on with the other.
    """
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 310))
    source = FolderSource(folder)
    before = source._active
    rebuilds, columns_meanwhile = [], []
    follow = LookupStructures.follow

    def followed(structures: LookupStructures, state: LookupState) -> None:
        follow(structures, state)
        # A request that comes just now.
        source.read(lambda reader: reader.lookup("busy", None, None), wait=False)
        columns_meanwhile.append(len(source._active.client.statistics()["structures"]))

    monkeypatch.setattr(LookupStructures, "follow", followed)
    for batch in range(1, 9):
        for _ in range(3):
            source.read(lambda reader: reader.lookup("busy", None, None), wait=True)
        job.run(trades(310 + batch * 10, 320 + batch * 10))
        assert caught_up(source, batch)
        rebuilds.append([one["rebuilds"] for one in source._active.client.statistics()["structures"]])
    assert all(columns_meanwhile)
    assert len(columns_meanwhile) >= 8
    assert rebuilds[0]
    assert rebuilds[:2] == rebuilds[-2:]
    assert not before.client.statistics()["structures"]
    assert before.lookup("busy", None, None).num_rows
    agree(source, folder)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")
def test_the_partials_of_several_servers_are_the_same_pages(folder: Path, tmp_path: Path) -> None:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run([{**one, "symbol": f"s{place}"} for place, one in enumerate(trades(0, 310) * 200)])
    sources = [FolderSource(folder, share=tmp_path / "shared") for _ in range(2)]
    for one in sources:
        agree(one, folder)
    mapped = re.split(r"^(?=\w+-\w+ \S+ \w+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
    runs = [one for one in mapped if re.search(rf"{tmp_path}\S*/run-", one)]
    state = sources[0]._active.client.state
    held = state.store(next(iter(state.lookups.values())).family)._runs.nbytes
    # The server that builds has its runs from there too: it holds no second copy.
    assert sum(_size(one, "Size") for one in runs) >= 2 * held > 1 << 17
    # A page that somebody wrote to would be his own, and no page of the file any more.
    assert sum(_size(one, "Anonymous") for one in runs) == 0
    for one in sources:
        one.close()


def _size(mapping: str, name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", mapping, re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])
