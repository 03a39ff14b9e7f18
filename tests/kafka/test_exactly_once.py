"""Exactly once: a job that is killed again and again gives the same answers as one that is left alone.

The job reads two streams, one from a folder of files and one from a topic, while statements come and go. All input is
there before the job starts, and each batch takes one file of events, one file of statements and one share of the topic,
so a run that is killed has the same batches as one that is not.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest
from tests.answers import to_answer
from tests.kafka.driver import Driver, Message
from tests.kafka.test_kafka import START_US, Event, text
from tests.killed_job import Batches, KilledJob
from tests.oracle import Answer, assert_same_answers, closed_answers
from tests.spark.streaming import write_batches

import panewise
from panewise.errors import HistoryError
from panewise.language.workload import Workload

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by their /proc/*/environ"),
]

SEED = 9
MANY = os.environ.get("PANEWISE_MANY_KILLS") == "1"
"""Every start of Spark takes time, so `make kills` has many of them, and other runs of the tests have a few."""
KILLS = {"start": 4, "batch": 14, "write": 4} if MANY else {"start": 1, "batch": 2, "write": 1}
"""How often it is killed: during a start, after a new batch has begun, and between the moment when the sink has a
batch's answers and the moment when the batch is committed."""
IN_FLIGHT = 10 if MANY else 1
"""How many kills must have hit a batch whose offsets were logged in the same run and which was not committed."""
BATCHES = 48 if MANY else 22
EVENTS = 40
"""The number of events of each stream in a batch."""
MINUTE_US = 60_000_000
BATCH_US = 2 * MINUTE_US
"""How much time the events of a batch cover."""
WITHIN_S = 600.0

STATEMENTS = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
CREATE STREAM readings (at TIMESTAMP, sensor STRING, value BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
CREATE QUERY volume AS
  SELECT SUM(size), AVG(price) FROM trades [RANGE 10 MINUTES SLIDE 2 MINUTES] GROUP BY symbol;
CREATE QUERY large AS
  SELECT COUNT(DISTINCT symbol), QUANTILE(size, 0.9) FROM trades [RANGE 6 MINUTES SLIDE 3 MINUTES] WHERE size > 50;
CREATE QUERY peaks AS
  SELECT MAX(value), COUNT(*) FROM readings [RANGE 8 MINUTES SLIDE 1 MINUTE] GROUP BY sensor;
CREATE QUERY medians AS
  SELECT MEDIAN(value) FROM readings [RANGE 5 MINUTES SLIDE 5 MINUTES] WHERE value >= 20 GROUP BY sensor
  HAVING COUNT(*) > 3;
CREATE QUERY leaving AS
  SELECT MIN(price) FROM trades [RANGE 4 MINUTES SLIDE 2 MINUTES] GROUP BY symbol;
"""
STAYING = ("volume", "large", "peaks", "medians")
"""The queries that exist from the beginning to the end."""
LEAVES_IN = 19

JOB = """
queries = "queries.sql"
[source.trades]
format = "parquet"
path = "{inputs}/trades"
options.maxFilesPerTrigger = 1
[source.readings]
format = "kafka"
decode = "json"
options."kafka.bootstrap.servers" = "{address}"
options.subscribe = "{topic}"
options.maxOffsetsPerTrigger = {events}
[control]
format = "text"
path = "{inputs}/statements"
options.maxFilesPerTrigger = 1
[lookups]
folder = "lookups"
[sink]
format = "parquet"
path = "answers"
[stream]
checkpoint = "checkpoint"
{spark}
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
"""
TOPIC = "killed"


def statements_of(batch: int) -> str:
    """The statements of a batch: queries that find partials waiting, queries that do not, their ends, and mistakes."""
    earlier = batch - 10
    kind = batch % 5
    if batch == LEAVES_IN:
        return "DROP QUERY leaving;"
    if kind == 0:
        return (
            f"CREATE QUERY warm_{batch} AS SELECT SUM(size) FROM trades [RANGE 6 MINUTES SLIDE 2 MINUTES] "
            f"GROUP BY symbol;"
        )
    if kind == 1:
        return (
            f"CREATE QUERY cold_{batch} AS SELECT COUNT(*), MIN(value) FROM readings [RANGE 4 MINUTES SLIDE 1 MINUTE] "
            f"WHERE value > {batch} GROUP BY sensor;"
        )
    if kind == 2 and earlier > 0:
        return f"DROP QUERY cold_{earlier - 1}; DROP QUERY warm_{earlier - 2};"
    if kind == 3:
        return [
            "DROP QUERY unknown;",
            "DROP QUERY volume; CREATE QUERY half AS SELECT",
            "CREATE QUERY peaks AS SELECT MAX(value) FROM readings [RANGE 1 MINUTE SLIDE 1 MINUTE];",
            "CREATE QUERY odd AS SELECT MAX(value) FROM readings [RANGE 90 SECONDS SLIDE 1 MINUTE];",
        ][batch // 5 % 4]
    return ""


def trades(batch: int, dice: random.Random) -> list[Event]:
    return [
        event | {"symbol": dice.choice("wxyz"), "price": dice.randrange(800) / 8, "size": dice.randrange(100)}
        for event in times(batch, dice)
    ]


def readings(batch: int, dice: random.Random) -> list[Event]:
    return [event | {"sensor": dice.choice("abc"), "value": dice.randrange(100)} for event in times(batch, dice)]


def times(batch: int, dice: random.Random) -> list[Event]:
    """Events in any order, none of them late: the watermark is a minute behind the batches before."""
    return [{"at": START_US + batch * BATCH_US + dice.randrange(BATCH_US)} for _ in range(EVENTS)]


@dataclass(frozen=True)
class Inputs:
    """The input that is there before a run, the same for every run."""

    folder: Path
    workload: Workload
    events: dict[str, list[Event]]

    @property
    def watermark_us(self) -> int:
        """The watermark at the end."""
        newest = min(max(event["at"] for event in events) for events in self.events.values())
        return (newest - MINUTE_US) // 1000 * 1000


@pytest.fixture(scope="module")
def inputs(driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    dice = random.Random(SEED)
    workload = panewise.read(STATEMENTS)
    batches = [(trades(number, dice), readings(number, dice)) for number in range(BATCHES)]
    write_batches(folder / "trades", workload.streams["trades"], [of_trades for of_trades, _ in batches])
    (folder / "statements").mkdir()
    for number in range(BATCHES):
        path = folder / "statements" / f"{number:03}.sql"
        path.write_text(statements_of(number))
        os.utime(path, (1_000_000_000 + number,) * 2)
    messages = [event for _, of_readings in batches for event in of_readings]
    # One partition: a share of several would depend on how much each has left.
    driver.produce(TOPIC, [Message(text(event), partition=0) for event in messages])
    return Inputs(folder, workload, {"trades": [event for some, _ in batches for event in some], "readings": messages})


class Pace(NamedTuple):
    """How long a start takes, with its first batch, and how long a batch takes after that."""

    start_s: float
    batch_s: float


class Run:
    """One run of the job, with a checkpoint, a sink and a folder of its own."""

    def __init__(self, folder: Path, driver: Driver, inputs: Inputs) -> None:
        folder.mkdir()
        self.folder = folder
        self.inputs = inputs
        scratch = folder / "scratch"
        (folder / "queries.sql").write_text(STATEMENTS)
        settings = {"address": driver.address, "topic": TOPIC, "events": EVENTS, "spark": driver.spark_table.strip()}
        file = folder / "job.toml"
        file.write_text(JOB.format(inputs=inputs.folder, scratch=scratch, **settings))
        self.job = KilledJob(file, folder / "checkpoint", folder / "answers" / "_spark_metadata", scratch)

    def to_the_end(self) -> None:
        """Run what is left, undisturbed."""
        self.job.start()
        self.job.wait(WITHIN_S + 10 * BATCHES)

    def pace(self) -> Pace:
        """How fast an undisturbed run was. That depends on the machine, so the kills are spread by it."""
        commits = self.folder / "checkpoint" / "commits"
        ends_s = [(commits / str(number)).stat().st_mtime for number in range(BATCHES)]
        began_s = (self.folder / "job.toml").stat().st_mtime
        return Pace(start_s=ends_s[0] - began_s, batch_s=(ends_s[-1] - ends_s[0]) / (BATCHES - 1))

    def killed(self, kind: str, pace: Pace, dice: random.Random) -> tuple[Batches, Batches]:
        """Start it and kill it; returns how far it was before and after."""
        before = self.job.batches()
        self.job.start()
        if kind == "start":
            self.job.go_on(dice.uniform(0, pace.start_s), up_to_batch=before.logged + 2)
        elif kind == "batch":
            self.job.wait_for_batch(before.logged + 1, WITHIN_S)
            self.job.go_on(dice.uniform(0, 1.5 * pace.batch_s), up_to_batch=before.logged + 3)
        else:
            self.job.wait_for_write(before.logged + 1, WITHIN_S)
        return before, self.job.kill(may_hit)

    def rows(self) -> list[dict[str, Any]]:
        """The answers in the files that the sink's log names; files of attempts that were killed are not among them."""
        log = self.folder / "answers" / "_spark_metadata"
        entries = {int(path.name.removesuffix(".compact")): path for path in log.glob("[0-9]*")}
        newest_compact = max((number for number, path in entries.items() if path.suffix == ".compact"), default=0)
        lines = [
            line
            for number in range(newest_compact, max(entries) + 1)
            for line in entries[number].read_text().splitlines()[1:]
        ]
        files = [unquote(urlsplit(json.loads(line)["path"]).path) for line in lines]
        assert len(files) == len(set(files))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def offsets(self) -> list[list[str]]:
        """How far each source is read at each batch."""
        log = self.folder / "checkpoint" / "offsets"
        # Skip the version and a line with times and settings.
        return [(log / str(number)).read_text().splitlines()[2:] for number in range(self.job.batches().logged + 1)]

    def statements(self) -> dict[str, str]:
        """The statement log, by the names of its files."""
        return {path.name: path.read_text() for path in (self.folder / "lookups" / "statements").glob("*.json")}

    def lookups(self) -> dict[str, list[str]]:
        """The lookups at the end, for each query that exists then."""
        with panewise.LookupClient(self.folder / "lookups") as client:
            assert client.watermark_us == self.inputs.watermark_us
            return {name: looked_up(client, name) for name in client.workload.queries}


def looked_up(client: panewise.LookupClient, name: str) -> list[str]:
    """The answers of a query, or why there are none: the query that came last has seen no whole window."""
    try:
        return sorted(map(str, client.lookup(name).to_pylist()))
    except HistoryError as error:
        assert name not in STAYING
        return [str(error)]


def may_hit(batches: Batches) -> bool:
    """Whether Spark goes on with exactly the same batches as a run that is not killed.

    In one short moment it does not: after a kill between a file source's log and the log of offsets, the next batch has
    one file more. With statements that come and go this shows in the answers, because a query begins to answer with the
    batch after its statement.
    """
    return not batches.is_only_listed


def test_a_job_that_is_killed_answers_once(driver: Driver, inputs: Inputs, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    alone = Run(tmp_path / "alone", driver, inputs)
    killed = Run(tmp_path / "killed", driver, inputs)
    try:
        alone.to_the_end()
        kills = killed_often(killed, alone.pace(), dice)
        killed.to_the_end()
    finally:
        alone.job.close()
        killed.job.close()
    assert killed.offsets() == alone.offsets()
    assert killed.statements() == alone.statements()
    assert_statements_did_what_they_are_for(alone)
    rows = alone.rows()
    more, fewer = differences(killed.rows(), rows)
    assert (more, fewer) == ([], []), f"{len(more)} answers more and {len(fewer)} fewer, after {kills}"
    assert_same_answers(answers_of(killed.rows(), inputs), expected(inputs))
    lookups = killed.lookups()
    assert lookups == alone.lookups()
    assert all(lookups[name] for name in STAYING)
    assert "leaving" not in lookups
    # Otherwise the kills would have shown nothing.
    assert len(kills) >= (20 if MANY else 4)
    hit = {after.logged for before, after in kills if after.is_in_flight and after.logged > before.logged}
    assert len(hit) >= IN_FLIGHT, kills
    assert any(is_before_a_statement(after) for _, after in kills), kills


def is_before_a_statement(batches: Batches) -> bool:
    """Whether the sink has the answers of a batch that is not done, and the next one brings statements."""
    return batches.is_only_written and bool(statements_of(batches.written + 1))


def killed_often(run: Run, pace: Pace, dice: random.Random) -> list[tuple[Batches, Batches]]:
    """How far the job was before and after each run that was killed."""
    kinds = [kind for kind, count in KILLS.items() for _ in range(count)]
    dice.shuffle(kinds)
    kills = []
    # A commit follows a write at once, so that a kill may come too late.
    while kinds or not any(is_before_a_statement(after) for _, after in kills):
        kills.append(run.killed(kinds.pop(0) if kinds else "write", pace, dice))
        # The last batches are for the run that goes to the end: Spark's batch without data follows a batch of its run.
        assert kills[-1][1].logged < BATCHES - 2, "the job is too fast for so many kills: give it more batches"
    return kills


def assert_statements_did_what_they_are_for(run: Run) -> None:
    """Some queries came and answered, some went, and some statements were refused."""
    written = [json.loads(content) for content in run.statements().values()]
    judged = [statement for one in written for statement in one["statements"] if statement["text"]]
    assert sum(statement["error"] is not None for statement in judged) >= 4
    reported = Counter(row["query"].partition("_")[0] for row in run.rows())
    assert all(reported[name] > 0 for name in (*STAYING, "leaving", "warm", "cold")), reported
    assert not reported.keys() & {"half", "odd"}


def differences(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """The rows that occur only, or more often, in the first; and those in the second."""
    first, second = (Counter(map(str, rows)) for rows in (some, others))
    return sorted((first - second).elements()), sorted((second - first).elements())


def answers_of(rows: list[dict[str, Any]], inputs: Inputs) -> list[Answer]:
    """The answers of the queries that stay."""
    queries = inputs.workload.queries
    return [
        to_answer(row, Workload(inputs.workload.streams, {row["query"]: queries[row["query"]]}))
        for row in rows
        if row["query"] in STAYING
    ]


def expected(inputs: Inputs) -> list[Answer]:
    """The oracle's answers to the queries that stay."""
    queries = [inputs.workload.queries[name] for name in STAYING]
    return [
        answer
        for query in queries
        for answer in closed_answers(query, "at", inputs.events[query.stream], inputs.watermark_us)
    ]
