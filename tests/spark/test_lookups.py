"""Lookups from a slot log agree with the oracle, whatever happens to the log and to the client."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.spark.log_writing import LogWriter
from tests.spark.streaming import read_stream, watermarks, write_batches
from tests.thoroughness import examples
from tests.workloads import UNIT_US, random_events, random_workload
from typer.testing import CliRunner

import panewise
from panewise import spark as panewise_spark
from panewise.cli.exit_codes import ExitCode
from panewise.cli.main import app
from panewise.errors import HistoryError, LookupTimeoutError, PanewiseError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.spark import slot_compaction
from panewise.spark.job import Job
from panewise.spark.lookup_client import LookupClient

WINDOWS = ("range slide", "range", "range between")
ORIGIN_US = 1_356_998_400_000_000
MINUTE_US = 60_000_000


class Told(Protocol):
    """What the oracle must know of a run: `LogWriter` has it, and `SparkRun`."""

    workload: Workload
    stream: Stream
    accepted: list
    watermark_us: int | None

    @property
    def slot_us(self) -> int: ...

    @property
    def seen_us(self) -> int | None: ...


def expected(writer: Told, query: Query, at_us: int | None) -> list[oracle.Answer]:
    """What a lookup must give, by the definition."""
    time, events = writer.stream.timestamp, writer.accepted
    if query.window.is_sliding:
        if writer.watermark_us is None:
            return []
        until = writer.watermark_us if at_us is None else min(at_us, writer.watermark_us)
        length, slide = query.window.left_us, query.window.slide_us
        end = (until - length) // slide * slide + length
        return [one for one in oracle.closed_answers(query, time, events, until) if one.window_end == end]
    ends_us = writer.seen_us if at_us is None else at_us + 1
    if ends_us is None:
        return []
    return oracle.lookup(query, time, events, ends_us // writer.slot_us * writer.slot_us - 1)


def check(client: LookupClient, writer: Told, at_us: int | None = None) -> None:
    """Every query, over all groups and group by group."""
    client.check_invariants()
    for query in writer.workload.queries.values():
        wanted = expected(writer, query, at_us)
        try:
            table = client.lookup(query.name, at=at_us)
        except HistoryError:
            assert at_us is not None
            continue
        if writer.accepted or query.window.is_sliding:
            oracle.assert_same_answers(to_answers(table, writer.workload, query.name), wanted, query)
        if query.group_by:
            keys = [tuple(value for _, value in group) for group in {answer.group for answer in wanted}]
            keys.append(tuple("nowhere" if t.name == "STRING" else None for t in types_of(writer, query)))
            some = client.lookup(query.name, keys=keys, at=at_us)
            asked = {tuple(map(repr, key)) for key in keys}
            there = [one for one in wanted if tuple(repr(value) for _, value in one.group) in asked]
            oracle.assert_same_answers(to_answers(some, writer.workload, query.name), there, query)
            check_many(client, query, keys, at_us, wanted)


def types_of(writer: Told, query: Query) -> list:
    return [writer.stream.attributes[name] for name in query.group_by]


def check_many(client: LookupClient, query: Query, keys: list, at_us: int | None, wanted: list) -> None:
    found = client.lookup_many(query.name, keys, at=at_us)
    labels = list(found)
    items = [i for i, item in enumerate(query.select) if item.is_answer]
    answers = {(repr(tuple(value for _, value in one.group)), one.item): one for one in wanted}
    for label, item in zip(labels, items, strict=True):
        assert len(found[label]) == len(keys)
        for key, value in zip(keys, found[label].tolist(), strict=True):
            answer = answers.get((repr(key), item))
            if answer is None or answer.value is None:
                assert value is None
            else:
                assert oracle.same_value(value, answer.value, answer.scale)


@settings(max_examples=examples(8), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.booleans())
def test_random_runs_agree_with_the_oracle(seed: int, merges_early: bool) -> None:
    chance = random.Random(seed)
    workload = random_workload(seed, queries=4, windows=WINDOWS)
    (stream,) = workload.streams.values()
    rows = random_events(
        seed, stream, 160, span_us=60 * UNIT_US, disorder_us=stream.watermark_us + 3 * UNIT_US, origin_us=ORIGIN_US
    )
    with TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        if merges_early:
            patch.setattr(slot_compaction, "KEPT_APART", 2)
            patch.setattr(slot_compaction, "MERGE_AT", 4)
            patch.setattr(slot_compaction, "FULL_BYTES", chance.choice([1 << 13, 1 << 20]))
        writer = LogWriter(
            Path(scratch), workload, groups=chance.choice([None, {"origin": 4, "gate": 4, "cancelled": 2}])
        )
        client = LookupClient(scratch, refresh_every_s=0)
        at = 0
        while at < len(rows):
            size = chance.choice([0, 1, 5, 20])
            writer.run(rows[at : at + size])
            at += size
            if chance.random() < 0.2:
                writer.repeat()
            if chance.random() < 0.1:
                client = LookupClient(scratch, refresh_every_s=0)
            if chance.random() < 0.3:
                check(client, writer)
                check(client, writer, ORIGIN_US + chance.randrange(-10 * UNIT_US, 60 * UNIT_US))
        check(client, writer)
        check(LookupClient(scratch), writer)


STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT) TIMESTAMP BY t WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;"
QUERIES = """
    CREATE QUERY sliding AS SELECT k, SUM(n) FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY k;
    CREATE QUERY latest AS SELECT k, SUM(n) FROM s [RANGE 5 MINUTES] GROUP BY k;
    CREATE QUERY before AS SELECT COUNT(*), MAX(n) FROM s [RANGE BETWEEN 10 MINUTES PRECEDING AND 5 MINUTES PRECEDING];
"""


@pytest.fixture
def writer(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path, panewise.read(STREAM + QUERIES))


def minute(at: float, n: int = 1, keys: str = "ab") -> list[dict]:
    return [{"t": int(at * MINUTE_US), "k": key, "n": n} for key in keys]


def shown(table: pa.Table) -> list[tuple]:
    """Window and answer of each row, in minutes."""
    return sorted(
        (row["window_start"].timestamp() / 60, row["window_end"].timestamp() / 60, row["k"], row["SUM(n)"])
        for row in table.to_pylist()
    )


LAST_INSTANT = 1 / MINUTE_US


def test_what_now_means(writer: LogWriter) -> None:
    client = LookupClient(writer.folder, refresh_every_s=0)
    assert client.lookup("sliding").num_rows == client.lookup("latest").num_rows == 0
    (before,) = client.lookup("before").to_pylist()
    assert before == {"window_start": None, "window_end": None, "COUNT(*)": 0, "MAX(n)": None}
    writer.run(minute(1))
    assert client.lookup("sliding").num_rows == 0, "no watermark yet, so no window has closed"
    # The slot of minute 1 is still open, and counts.
    assert shown(client.lookup("latest", {"k": "a"})) == [(-3 - LAST_INSTANT, 2 - LAST_INSTANT, "a", 1)]
    writer.run(minute(11.5))
    writer.run([])
    client.refresh()
    assert client.watermark_us == 10.5 * MINUTE_US
    assert shown(client.lookup("sliding")) == [(0, 10, "a", 1), (0, 10, "b", 1)]
    assert shown(client.lookup("sliding", at=9 * MINUTE_US)) == [(-5, 5, "a", 1), (-5, 5, "b", 1)]
    assert shown(client.lookup("sliding", at=99 * MINUTE_US)) == [(0, 10, "a", 1), (0, 10, "b", 1)]
    assert shown(client.lookup("latest", {"k": "b"}, at="1970-01-01 00:03:59")) == [
        (-2 - LAST_INSTANT, 3 - LAST_INSTANT, "b", 1)
    ]


def test_groups_that_there_are_not(writer: LogWriter) -> None:
    client = LookupClient(writer.folder, refresh_every_s=0)
    writer.run(minute(1, keys="a"))
    assert client.lookup("latest", {"k": "nowhere"}).num_rows == 0
    writer.run(minute(2, keys="c"))
    assert client.lookup("latest", {"k": "c"}).num_rows == 1
    assert client.lookup("latest", ["a", "c", "nowhere"]).num_rows == 2
    assert client.lookup_many("latest", ["c", "nowhere", "a", "c"])["SUM(n)"].tolist() == [1, None, 1, 1]


def test_a_time_that_is_no_longer_held(writer: LogWriter) -> None:
    for at in range(200):
        writer.run(minute(at))
    for client in (LookupClient(writer.folder), LookupClient(writer.folder)):
        with pytest.raises(HistoryError, match=r"query latest: its window begins at .*, and partials are held from"):
            client.lookup("latest", at=20 * MINUTE_US)
        assert client.lookup("latest", {"k": "a"}, at=195 * MINUTE_US).column("SUM(n)").to_pylist() == [5]
        assert client.statistics()["rows"] < 200


def test_a_client_that_slept_reads_all_anew(writer: LogWriter) -> None:
    client = LookupClient(writer.folder, refresh_every_s=None)
    writer.run(minute(1))
    client.refresh()
    for _ in range(40):
        writer.run(minute(1))
    assert client.refresh()
    assert client.statistics()["rebuilds"] == 1
    assert not client.refresh()
    check(client, writer)


def test_waiting(writer: LogWriter) -> None:
    client = LookupClient(writer.folder)
    with pytest.raises(LookupTimeoutError, match="the newest batch is -1 and the watermark none"):
        client.wait_for(batch=0, timeout_s=0.02)
    writer.run(minute(1))
    client.wait_for(batch=0)
    writer.run(minute(20))
    writer.run([])
    client.wait_for(time="1970-01-01 00:19:00")
    with pytest.raises(LookupTimeoutError, match="watermark 1970-01-01 00:19:00"):
        client.wait_for(time="1970-01-01 00:19:01", timeout_s=0.02)


def test_statistics(writer: LogWriter) -> None:
    with LookupClient(writer.folder) as client:
        assert client.statistics()["newest_batch"] is None
        writer.run(minute(1))
        client.refresh()
        found = client.statistics()
        assert found["newest_batch"] == 0
        assert found["seen_us"] == {"s": 2 * MINUTE_US}
        assert found["rows"] == 3, "two groups, and the query without groups"
        assert found["lag_s"] >= 0
        assert found["bytes"] > 0
    assert client.statistics()["rows"] == 0


def test_unknown_names(writer: LogWriter) -> None:
    client = LookupClient(writer.folder)
    with pytest.raises(PanewiseError, match="no query named 'slide'; did you mean 'sliding'"):
        client.lookup("slide")
    writer.run(minute(1))
    client.refresh()
    with pytest.raises(PanewiseError, match="`keys` needs a value or several for each of k"):
        client.lookup("latest", {"q": 1})
    with pytest.raises(PanewiseError, match="has no GROUP BY"):
        client.lookup("before", {"k": "a"})


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (
            STREAM.replace(" GRANULARITY 1 MINUTE", "")
            + "CREATE QUERY p AS SELECT COUNT(*) FROM s [RANGE 10 MINUTES SLIDE 2 MINUTES];"
            + "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 5 MINUTES]",
            "query q: its RANGE is not a multiple of the slots of stream s, which are 120 s long",
        ),
        (
            STREAM.replace(" GRANULARITY 1 MINUTE", "") + "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 5 MINUTES]",
            "add GRANULARITY to CREATE STREAM",
        ),
    ],
)
def test_windows_that_slots_cannot_answer(tmp_path: Path, statements: str, message: str) -> None:
    with pytest.raises(PanewiseError, match=message):
        LogWriter(tmp_path, panewise.read(statements))


def test_queries_without_slide_leave_the_trees_of_the_others_alone() -> None:
    sliding = "CREATE QUERY sliding AS SELECT k, SUM(n) FROM s [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY k;"
    (alone,) = Job.of(panewise.read(STREAM + sliding), [0]).bases.values()
    bases = Job.of(panewise.read(STREAM + QUERIES), [0]).bases
    trees = [tree for fed in bases.values() for tree in fed.trees]
    assert [(fed.tree.number, fed.tree.group_by, fed.tree.cuts, fed.tree.granularity) for fed in trees] == [
        (fed.tree.number, fed.tree.group_by, fed.tree.cuts, fed.tree.granularity) for fed in alone.trees
    ]
    assert {one.query.name for fed in bases.values() for one in fed.stand_ins} == {"latest", "before"}
    assert [name for tree in trees for name in tree.queries] == ["sliding"]


def test_approximate_answers_and_strings(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM + "CREATE QUERY q AS SELECT APPROX_COUNT_DISTINCT(k) AS about, COUNT(DISTINCT k) AS exactly, "
        "APPROX_QUANTILE(n, 0.5) AS half FROM s [RANGE 5 MINUTES];"
        "CREATE QUERY by_key AS SELECT k, APPROX_QUANTILE(n, 0.5) AS half, COUNT(DISTINCT n) FROM s [RANGE 5 MINUTES] "
        "GROUP BY k;"
    )
    writer = LogWriter(tmp_path, workload)
    client = LookupClient(tmp_path, refresh_every_s=0)
    for at in range(12):
        writer.run(minute(at / 3, at, keys="abc"[: 1 + at % 3]))
        check(client, writer)
    (row,) = client.lookup("by_key", {"k": "b"}).to_pylist()
    assert row["half low"] == row["half"] == row["half high"]


def test_the_command(writer: LogWriter) -> None:
    run = partial(CliRunner().invoke, app, catch_exceptions=False)
    early = run(["lookup", str(writer.folder), "sliding"])
    assert early.exit_code == ExitCode.NO_ANSWER
    assert "no window has closed yet" in early.output
    writer.run(minute(1))
    writer.run(minute(2, n=41))
    output = run(["lookup", str(writer.folder), "latest", "--key", "k=a"]).output
    assert "latest: 1969-12-31 23:57:59.999999+00:00 to 1970-01-01 00:02:59.999999+00:00" in output
    assert "42" in output
    lines = run(["lookup", str(writer.folder), "latest", "--json", "--at", str(2 * MINUTE_US)]).output.splitlines()
    assert {json.loads(line)["k"]: json.loads(line)["SUM(n)"] for line in lines} == {"a": 1, "b": 1}
    for arguments, message in {
        ("latests",): "did you mean latest?",
        ("latest", "--key", "q=a"): "query latest groups by k",
        ("latest", "--key", "a"): "write it as ATTRIBUTE=VALUE",
        ("latest", "--at", "noon"): "this is not a time",
    }.items():
        result = run(["lookup", str(writer.folder), *arguments])
        assert result.exit_code == 2
        assert message in " ".join(result.output.split())


class SparkRun:
    """A job on Spark over files of events, each a batch, and what it must have taken in."""

    def __init__(self, spark: SparkSession, scratch: Path, workload: Workload) -> None:
        self._spark = spark
        self._scratch = scratch
        self._batches: list[list] = []
        self.workload = workload
        (self.stream,) = workload.streams.values()
        self.slot_us = self.stream.granularity_us or 1
        self.accepted: list = []
        self.watermark_us: int | None = None

    @property
    def folder(self) -> Path:
        return self._scratch / "log"

    @property
    def seen_us(self) -> int | None:
        newest = max(event[self.stream.timestamp] for event in self.accepted)
        return (newest // self.slot_us + 1) * self.slot_us

    def run(self, batches: list[list]) -> None:
        """Start the job, or start it again, and let it answer these batches."""
        write_batches(self._scratch / "events", self.stream, batches, first=len(self._batches))
        self._batches += batches
        frame = read_stream(self._spark, self._scratch / "events", self.stream)
        answers = panewise_spark.answers(frame, self.workload, folder=self.folder)
        query = (
            answers.writeStream.format("noop")
            .option("checkpointLocation", str(self._scratch / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.accepted = []
        for batch, watermark in zip(self._batches, watermarks(self.stream, self._batches)):
            for event in batch:
                slot_end = (event[self.stream.timestamp] // self.slot_us + 1) * self.slot_us
                if watermark is None or slot_end > watermark:
                    self.accepted.append(event)

    def follow(self, client: LookupClient) -> None:
        """Take over the client's watermark: that of the last batch, or of one without data after it."""
        client.refresh()
        *_, before, last = watermarks(self.stream, self._batches)
        assert client.watermark_us in (before, last)
        self.watermark_us = client.watermark_us


@pytest.mark.spark
def test_a_spark_stream_is_looked_up_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    workload = random_workload(11, queries=6, windows=WINDOWS)
    (stream,) = workload.streams.values()
    rows = random_events(
        11, stream, 200, span_us=40 * UNIT_US, disorder_us=stream.watermark_us + 3 * UNIT_US, origin_us=ORIGIN_US
    )
    run = SparkRun(spark, tmp_path, workload)
    run.run([rows[:40], rows[40:80], rows[80:120]])
    client = LookupClient(run.folder)
    run.follow(client)
    check(client, run)
    run.run([rows[120:160], rows[160:]])
    run.follow(client)
    check(client, run)
    check(LookupClient(run.folder), run)
    assert client.statistics()["rebuilds"] == 0
