"""Training = stream = lookup on Spark: what a job served, killed and started again, is what a training set gives.

A job reads files of trades, one a batch: mostly a little late, now and then far too late, with ties. While it runs, is
killed and starts again, this process looks up random queries and groups at random moments, and logs them. Afterwards
the checkpoint tells which batch brought each trade, and which watermark that batch saw. All lookups are replayed
through `training_set` over what had arrived; not one may differ. Values are multiples of 1/8, so that sums have no
rounding.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.killed_job import KilledJob
from tests.spark.streaming import public_table, write_batches
from typer.testing import CliRunner

import panewise
from panewise.cli.main import app
from panewise.errors import FolderError, HistoryError

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by their /proc/*/environ"),
]

MANY = os.environ.get("PANEWISE_MANY_LOOKUPS") == "1"
"""`make served` has as many as a proof needs, and other runs of the tests have few."""
LOOKUPS = 10_000 if MANY else 500
BATCHES = 80 if MANY else 7
KILLS = 8 if MANY else 1
TRADES = 60
SECOND = 1_000_000
START_US = 1_700_000_000 * SECOND
BATCH_US = 6 * SECOND
WITHIN_S = 120.0
SYMBOLS = ["A", "B", "C", None]

STATEMENTS = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, venue BIGINT, price DOUBLE, shares BIGINT)
  TIMESTAMP BY ts WATERMARK 4 SECONDS GRANULARITY 1 SECOND;
CREATE QUERY by_symbol AS SELECT COUNT(*) AS n, SUM(price) AS total, AVG(price) AS mean, MAX(price) AS most
  FROM trades [RANGE 30 SECONDS] GROUP BY symbol;
CREATE QUERY by_both AS SELECT COUNT(DISTINCT shares) AS different, QUANTILE(price, 0.25) AS low, MODE(shares) AS mode
  FROM trades [RANGE 60 SECONDS] WHERE shares > 2 GROUP BY symbol, venue;
CREATE QUERY past AS SELECT SUM(price) AS total, MIN(shares) AS least
  FROM trades [RANGE BETWEEN 40 SECONDS PRECEDING AND 10 SECONDS PRECEDING] GROUP BY venue HAVING COUNT(*) > 2;
CREATE QUERY last_rows AS SELECT SUM(price) AS total, MAX(shares) AS most, COUNT(*) AS n
  FROM trades [PARTITION BY symbol ROWS 5] GROUP BY symbol;
CREATE QUERY overall AS SELECT COUNT(*) AS n, AVG(price) AS mean FROM trades [RANGE 5 SECONDS] WHERE venue = 1;
CREATE QUERY slides AS SELECT COUNT(*) AS n, SUM(price) AS total, MIN(price) AS least
  FROM trades [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY symbol;
CREATE QUERY tumbles AS SELECT COUNT(*) AS n, MEDIAN(price) AS middle FROM trades [RANGE 7 SECONDS SLIDE 7 SECONDS];
"""
JOB = """
queries = "queries.sql"
[source]
format = "parquet"
path = "trades"
options.maxFilesPerTrigger = 1
[lookups]
folder = "lookups"
[sink]
format = "parquet"
path = "answers"
[stream]
checkpoint = "checkpoint"
[spark]
master = "local[2]"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"spark.sql.streaming.minBatchesToRetain" = "1000"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
"""


def trades(batch: int, dice: random.Random) -> list[dict[str, Any]]:
    return [
        {
            "ts": START_US
            + batch * BATCH_US
            + dice.randrange(12) * SECOND // 2
            - (dice.randrange(30) if dice.random() < 0.1 else 0) * SECOND,
            "symbol": dice.choice(SYMBOLS),
            "venue": dice.randrange(3),
            "price": dice.randrange(-80, 80) / 8,
            "shares": dice.randrange(9),
        }
        for _ in range(TRADES)
    ]


class Asking:
    """Asks a running job, and goes on with a new client now and then."""

    def __init__(self, folder: Path, log: Path, dice: random.Random) -> None:
        self._folder = folder
        self._log = log
        self._dice = dice
        self._client: panewise.LookupClient | None = None
        self.asked = 0
        self.batches: set[int | None] = set()

    def ask(self) -> None:
        """One lookup of a random query and kind, now or at a time in the past."""
        client = self._opened()
        if client is None:
            return
        dice = self._dice
        query = dice.choice(list(client.workload.queries.values()))
        keys = {"symbol": [dice.choice(SYMBOLS) for _ in range(2)], "venue": [dice.randrange(4) for _ in range(2)]}
        some = {name: keys[name] for name in query.group_by}
        at = None
        if client.watermark_us is not None and dice.random() < 0.2:
            at = client.watermark_us + dice.randrange(-2 * SECOND, 8 * SECOND)
        try:
            if not some or dice.random() < 0.1:
                client.lookup(query.name, at=at)
            elif dice.random() < 0.4:
                client.lookup_many(query.name, some, at)
            elif client.can_share(query.name) and dice.random() < 0.5:
                client.lookup_rows([query.name], {name: values[0] for name, values in some.items()}, at)
            else:
                client.lookup(query.name, {name: values[0] for name, values in some.items()}, at)
        except HistoryError:
            return
        self.asked += 1
        self.batches.add(client.statistics()["newest_batch"])

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _opened(self) -> panewise.LookupClient | None:
        if self._client is not None and self._dice.random() < 0.002:
            self.close()
        if self._client is None:
            try:
                self._client = panewise.LookupClient(self._folder, log=self._log)
            except FolderError:
                # The job has not come so far.
                sleep(0.05)
        return self._client


def arrived_batches(checkpoint: Path) -> tuple[dict[int, int], dict[int, int]]:
    """By the number of a file, the batch that brought it; and the watermark that each batch saw."""
    files: dict[int, int] = {}
    marks: dict[int, int] = {}
    for number in sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()):
        _, settings, offset = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        marks[number] = json.loads(settings)["batchWatermarkMs"] * 1000
        for file in range(json.loads(offset)["logOffset"] + 1):
            files.setdefault(file, number)
    return files, marks


def accepted(stream: Any, batches: list[list[dict[str, Any]]], checkpoint: Path) -> pa.Table:
    """The trades that were not late, with the batch that brought each."""
    files, marks = arrived_batches(checkpoint)
    found: list[tuple[dict[str, Any], int]] = []
    for file, rows in enumerate(batches):
        mark = marks[files[file]]
        found += [(row, files[file]) for row in rows if not mark or (row["ts"] // SECOND + 1) * SECOND > mark]
    table = public_table(stream, [row for row, _ in found])
    return table.append_column("batch", pa.array([batch for _, batch in found], pa.int64()))


def test_what_a_killed_job_served_is_what_a_training_set_gives(tmp_path: Path) -> None:
    dice = random.Random(5)
    workload = panewise.read(STATEMENTS)
    (stream,) = workload.streams.values()
    batches = [trades(number, dice) for number in range(BATCHES)]
    write_batches(tmp_path / "trades", stream, batches)
    (tmp_path / "queries.sql").write_text(STATEMENTS)
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(scratch=tmp_path / "scratch"))
    checkpoint, log = tmp_path / "checkpoint", tmp_path / "served.log"
    job = KilledJob(file, checkpoint, tmp_path / "answers" / "_spark_metadata", tmp_path / "scratch")
    asking = Asking(tmp_path / "lookups", log, dice)
    kills = [BATCHES * (number + 1) // (KILLS + 1) for number in range(KILLS)]
    in_flight = 0
    try:
        for goal in [*kills, BATCHES + 1]:
            job.start()
            until_s = monotonic() + WITHIN_S + 10 * BATCHES
            while job.batches().committed < goal and job.is_running:
                assert monotonic() < until_s
                # Lookups are spread over the batches.
                if asking.asked < LOOKUPS * (job.batches().logged + 2) / (BATCHES + 1):
                    asking.ask()
                else:
                    sleep(0.002)
            if goal <= BATCHES:
                in_flight += job.kill(lambda reached: reached.is_in_flight).is_in_flight
                for _ in range(LOOKUPS // 40):
                    asking.ask()
            else:
                job.wait(WITHIN_S)
        while asking.asked < LOOKUPS:
            asking.ask()
    finally:
        asking.close()
        job.close()
    assert in_flight == KILLS
    assert len(asking.batches) > BATCHES / 2

    events = accepted(stream, batches, checkpoint)
    assert 0 < sum(map(len, batches)) - len(events) < len(events) / 4
    pq.write_table(events, tmp_path / "events.parquet")
    arguments = ["audit", str(log), str(tmp_path / "events.parquet"), "--arrived", "batch", "--json"]
    done = CliRunner().invoke(app, arguments)
    *differences, counts = map(json.loads, done.stdout.splitlines())
    assert differences == []
    assert (counts["differ"], counts["broken_lines"], counts["missing_lines"]) == (0, [], 0)
    assert counts["lookups"] == asking.asked >= LOOKUPS
    # The proof would be empty if nothing had come later.
    assert counts["agree_without_later"] > LOOKUPS / 50
