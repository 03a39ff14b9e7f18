"""Logged lookups are what a training set gives over the events that had arrived; what differs has a reason."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import oracle
from tests.spark.log_writing import LogWriter
from tests.workloads import UNIT_US, random_events, random_workload

import panewise
from panewise.engine.columns import arrow_type
from panewise.engine.lookup_log import LogReport, read_log
from panewise.errors import HistoryError
from panewise.spark.lookup_client import LookupClient
from panewise.training.audit import Audit, Reason, audit

ORIGIN_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
WINDOWS = ("range slide", "range", "range between")


class Arrivals(LogWriter):
    """A job that remembers which batch brought each event that was not late."""

    def __init__(self, folder: Path, workload: Any) -> None:
        super().__init__(folder, workload)
        self.batches: list[int] = []

    def run(self, events: Any) -> None:
        batch, before = self.next_batch, len(self.accepted)
        super().run(events)
        self.batches += [batch] * (len(self.accepted) - before)

    def table(self) -> pa.Table:
        schema = pa.schema([(name, arrow_type(kind)) for name, kind in self.stream.attributes.items()])
        return pa.Table.from_pylist(self.accepted, schema).append_column("batch", pa.array(self.batches, pa.int64()))


def lines_of(log: Path, report: LogReport | None = None) -> list[Any]:
    return list(read_log(log, report or LogReport()))


def audited(log: Path, writer: Arrivals, **options: Any) -> Audit:
    return audit(lines_of(log), {writer.stream.name: writer.table()}, "log", **options)


def ask(client: LookupClient, writer: Arrivals, chance: random.Random) -> int:
    """One lookup of a random kind; how many were logged."""
    query = chance.choice(list(writer.workload.queries.values()))
    at = None
    if writer.newest_us is not None and chance.random() < 0.3:
        at = writer.newest_us - chance.randrange(0, 20 * UNIT_US)
    keys = [
        {name: event[name] for name in query.group_by}
        for event in chance.sample(writer.accepted, min(3, len(writer.accepted)))
    ]
    try:
        if not query.group_by or not keys or chance.random() < 0.2:
            client.lookup(query.name, at=at)
        elif chance.random() < 0.3:
            client.lookup_many(query.name, [tuple(key.values()) for key in keys], at=at)
        elif chance.random() < 0.3 and client.can_share(query.name):
            client.lookup_rows([query.name], keys[0], at=at)
        else:
            client.lookup(query.name, keys[0], at=at)
    except HistoryError:
        return 0
    return 1


@pytest.mark.filterwarnings("ignore::panewise.PanewiseWarning")
@pytest.mark.parametrize("seed", range(6))
def test_every_logged_lookup_agrees_over_what_had_arrived(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    workload = random_workload(seed, queries=5, windows=WINDOWS)
    (stream,) = workload.streams.values()
    rows = random_events(
        seed, stream, 200, span_us=60 * UNIT_US, disorder_us=stream.watermark_us + 3 * UNIT_US, origin_us=ORIGIN_US
    )
    writer = Arrivals(tmp_path / "folder", workload)
    log = tmp_path / "lookups.log"
    client = LookupClient(writer.folder, refresh_every_s=0, log=log)
    begin = logged = 0
    while begin < len(rows):
        size = chance.choice([0, 1, 5, 20])
        writer.run(rows[begin : begin + size])
        begin += size
        if chance.random() < 0.1:
            client.close()
            client = LookupClient(writer.folder, refresh_every_s=0, log=log)
        logged += sum(ask(client, writer, chance) for _ in range(chance.randrange(8)))
    client.close()
    report = LogReport()
    assert len(lines_of(log, report)) == logged > 30
    assert report.is_whole
    found = audited(log, writer, arrived="batch")
    assert [one.as_dict() for one in found.differences] == []
    assert found.agree == found.answers >= logged
    # Without the batches, events that came later make some differ. Where a window begins before the first event, only
    # counts can tell whether events came or went.
    without = audited(log, writer)
    assert {one.reason for one in without.differences} <= {Reason.ARRIVED_LATER, Reason.EXPIRED}
    assert without.differ <= found.later


QUERIES = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
CREATE QUERY total AS SELECT k, SUM(x) AS total, AVG(y) AS mean FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] GROUP BY k;
CREATE QUERY newest AS SELECT COUNT(*) AS n, MAX(y) AS most FROM s [RANGE 3 MINUTES] GROUP BY k;
CREATE QUERY overall AS SELECT COUNT(*) AS n FROM s [RANGE 3 MINUTES];
"""


def event(minute: float, k: str = "a", x: int = 1, y: float | None = 0.5) -> dict[str, Any]:
    return {"t": int(minute * MINUTE_US), "k": k, "x": x, "y": y}


@pytest.fixture
def writer(tmp_path: Path) -> Arrivals:
    made = Arrivals(tmp_path / "folder", panewise.read(QUERIES))
    made.run([event(minute, x=minute) for minute in range(1, 12)])
    made.run([event(11, "b")])
    return made


@pytest.fixture
def log(writer: Arrivals, tmp_path: Path) -> Path:
    with LookupClient(writer.folder, log=tmp_path / "log") as client:
        client.lookup("total", {"k": "a"})
        client.lookup("newest", {"k": "a"})
        client.lookup("overall")
    return tmp_path / "log"


def reasons(found: Audit) -> dict[str, set[str]]:
    return {reason: {one.asked.query for one in found.differences if one.reason == reason} for reason in Reason}


def test_a_line_has_what_was_asked_and_answered(writer: Arrivals, log: Path) -> None:
    opened, total, newest, overall = map(json.loads, log.read_text().splitlines())
    assert opened["statements"].startswith("CREATE STREAM s")
    assert (total["query"], total["asked"], total["answer"]) == (
        "total", {"k": ["a"]}, {"k": ["a"], "total": [5 + 6 + 7 + 8 + 9], "mean": [0.5]})  # fmt: skip
    assert (total["watermark_us"], total["time_us"]) == (10 * MINUTE_US, 10 * MINUTE_US - 1)
    assert (newest["at_us"], newest["time_us"], newest["batches"][1]) == (None, 12 * MINUTE_US - 1, 1)
    assert (overall["asked"], overall["answer"]) == (None, {"n": [4]})
    assert audited(log, writer).differences == []


def test_events_that_arrived_later(writer: Arrivals, log: Path) -> None:
    writer.run([event(11.5, y=7.0)])
    found = audited(log, writer)
    assert reasons(found)[Reason.ARRIVED_LATER] == {"newest", "overall"}
    assert (found.agree, found.differ) == (1, 2)
    assert "beyond the watermark" in found.differences[0].why
    found = audited(log, writer, arrived="batch")
    assert (found.differ, found.agree, found.later) == (0, 3, 2)


def test_events_that_the_stream_dropped(writer: Arrivals, log: Path) -> None:
    # A batch that has been read as a whole, since the next one has begun.
    writer.run([event(11, "b")])
    with LookupClient(writer.folder, log=log) as client:
        client.lookup("total", {"k": "a"})
    writer.accepted.append(event(6.5, x=100))
    writer.batches.append(1)
    found = audited(log, writer, arrived="batch")
    assert reasons(found)[Reason.ARRIVED_LATER] == {"total"}
    (one,) = found.differences
    assert (one.asked.line.number, one.item, one.served, one.replayed) == (6, "total", 35, 135)
    assert "the stream dropped them" in one.why
    assert reasons(audited(log, writer))[Reason.UNEXPLAINED] == {"total"}


def test_events_that_are_gone(writer: Arrivals, log: Path) -> None:
    del writer.accepted[:6], writer.batches[:6]
    found = audited(log, writer)
    assert reasons(found)[Reason.EXPIRED] == {"total"}
    assert "1970-01-01 00:07:00" in found.differences[0].why
    del writer.accepted[:], writer.batches[:]
    assert audited(log, writer).reasons["expired"] == 3


def test_queries_that_changed(writer: Arrivals, log: Path) -> None:
    now = panewise.read(QUERIES.replace("MAX(y) AS most", "MIN(x) AS most").replace("QUERY overall", "QUERY other"))
    found = audited(log, writer, queries=now)
    assert reasons(found)[Reason.CHANGED_QUERY] == {"newest", "overall"}
    assert [(one.item, one.served, one.replayed) for one in found.differences] == [("most", 0.5, 9), ("n", 4, None)]
    assert (found.agree, found.differ) == (1, 2)
    by_x = panewise.read(QUERIES.replace("GROUP BY k;", "GROUP BY x;").replace("SELECT k, SUM", "SELECT x, SUM"))
    assert audited(log, writer, queries=by_x).reasons["changed_query"] == 2


def test_answers_that_are_wrong_are_unexplained(writer: Arrivals, log: Path) -> None:
    log.write_text(log.read_text().replace('"total":[35]', '"total":[36]').replace('"mean":[0.5]', '"mean":["NaN"]'))
    found = audited(log, writer, arrived="batch")
    assert [(one.item, one.served, one.reason) for one in found.differences] == [
        ("total", 36, Reason.UNEXPLAINED), ("mean", "NaN", Reason.UNEXPLAINED)]  # fmt: skip
    moved = json.loads(log.read_text().splitlines()[1]) | {"time_us": 9 * MINUTE_US - 1}
    log.write_text(log.read_text().splitlines()[0] + "\n" + json.dumps(moved) + "\n")
    assert "window_end" in {one.item for one in audited(log, writer).differences}


def test_all_groups_are_compared_and_those_that_are_missing(writer: Arrivals, tmp_path: Path) -> None:
    with LookupClient(writer.folder, log=tmp_path / "all") as client:
        client.lookup("newest")
    found = audited(tmp_path / "all", writer)
    assert (found.answers, found.differ) == (2, 0)
    (opened, line) = (tmp_path / "all").read_text().splitlines()
    answer = json.loads(line)["answer"]
    assert sorted(answer["k"]) == ["a", "b"]
    kept = answer["k"].index("a")
    less = json.loads(line) | {"answer": {name: [values[kept]] for name, values in answer.items()}}
    (tmp_path / "all").write_text(f"{opened}\n{json.dumps(less)}\n")
    assert [one.asked.key for one in audited(tmp_path / "all", writer).differences] == [("b",), ("b",)]


def test_special_doubles_and_nulls_come_back(tmp_path: Path) -> None:
    writer = Arrivals(tmp_path / "folder", panewise.read(QUERIES))
    writer.run([event(1, "nan", y=float("nan")), event(1, "inf", y=float("-inf")), event(1, "null", y=None)])
    with LookupClient(writer.folder, log=tmp_path / "log") as client:
        client.lookup_many("newest", ["nan", "inf", "null", "nobody"])
    found = audited(tmp_path / "log", writer)
    assert (found.answers, found.differences) == (4, [])
    assert "NaN" in (tmp_path / "log").read_text()


def test_lookups_before_the_first_event(tmp_path: Path) -> None:
    writer = Arrivals(tmp_path / "folder", panewise.read(QUERIES))
    with LookupClient(writer.folder, log=tmp_path / "log") as client:
        client.lookup("overall")
        client.lookup("total")
        client.lookup_many("newest", ["a"])
    writer.run([event(1)])
    found = audited(tmp_path / "log", writer)
    assert (found.lookups, found.differences) == (3, [])


def test_each_key_at_its_own_time(writer: Arrivals, tmp_path: Path) -> None:
    times = [minute * MINUTE_US for minute in (11, 12, 10, 12)]
    keys = {"k": ["a", "b", "a", "nobody"]}
    with LookupClient(writer.folder, log=tmp_path / "log") as client:
        for query in ("newest", "total"):
            found = client.lookup_at(query, keys, times)
            for place, (key, at) in enumerate(zip(keys["k"], times, strict=True)):
                for label, array in client.lookup_many(query, [key], at).items():
                    assert array.tolist() == found[label][place : place + 1].tolist()
        assert client.lookup_at("newest", keys, times)["n"].tolist() == [3, 1, 3, None]
        assert client.lookup_at("overall", None, times[:2])["n"].tolist() == [3, 4]
        assert client.lookup_at("newest", {"k": []}, [])["n"].tolist() == []
        with pytest.raises(panewise.KeysError, match="4 times for 2 keys of 'k'"):
            client.lookup_at("newest", {"k": ["a", "b"]}, times)
        with pytest.raises(HistoryError):
            client.lookup_at("total", keys, [1, *times[1:]])
    assert audited(tmp_path / "log", writer).differences == []


@pytest.mark.parametrize("seed", range(4))
def test_lookup_at_agrees_with_the_oracle(tmp_path: Path, seed: int) -> None:
    workload = random_workload(seed, queries=4, windows=("range", "range between"))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 80, span_us=20 * UNIT_US, disorder_us=0, origin_us=ORIGIN_US)
    writer = Arrivals(tmp_path / "folder", workload)
    writer.run(rows)
    client = LookupClient(writer.folder)
    for query in workload.queries.values():
        if not query.group_by:
            continue
        times = np.array([row[stream.timestamp] for row in rows]) + UNIT_US
        keys = {name: [row[name] for row in rows] for name in query.group_by}
        found = client.lookup_at(query.name, keys, times)
        aggregates = [place for place, item in enumerate(query.select) if item.is_answer]
        for place, row in enumerate(rows):
            instant = (int(times[place]) + 1) // writer.slot_us * writer.slot_us - 1
            wanted = oracle.lookup(query, stream.timestamp, rows, instant)
            key = [oracle._identity(row[name]) for name in query.group_by]
            mine = {one.item: one for one in wanted if [oracle._identity(value) for _, value in one.group] == key}
            for item, array in zip(aggregates, found.values(), strict=True):
                value = array[place]
                right = mine.get(item)
                if right is None or right.value is None:
                    assert value is np.ma.masked
                else:
                    assert oracle.same_value(value.item(), right.value, right.scale)
