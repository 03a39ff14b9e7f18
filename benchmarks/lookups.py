"""Lookups from the folder of a running job: how long one takes, and how old its answer is.

Another process feeds the folder: a Spark stream (`--feed spark`, Spark's own rate source, which stamps events with the
time at which they are made), or the same slot log written without Spark (`--feed plain`), which shows what Panewise
alone costs. This process looks up random keys, one at a time, as fast as it can, for `--seconds`, while events keep
coming; each lookup also looks for new files if the last look is 20 ms ago, and then reads them.

Sections, each a JSON line with --json and a line of text otherwise:
  lookup   one key of one query: median, 99th percentile and longest time, and lookups a second
  many     one call for 1,000 keys: the same
  every    one call for all groups: the same
  lag      how old the newest and the oldest event of a batch are when a lookup first sees them: slots are 10 ms long
  memory   partials and bytes held, and files in the folder

Run: panewise bench lookups --json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import panewise
from _slot_feed import feed

SLOT_MS = 10
WARM_UP_S = 10.0
"""Feeding goes on for this long before anything is measured: compiled code is loaded, and batches become regular."""

FEWEST_BATCHES = 50
"""The lag is taken from this many batches; if fewer came, lookups go on for as long again."""


def statements() -> str:
    """Three queries over measurements."""
    return f"""
        CREATE STREAM measurements (t TIMESTAMP, k BIGINT, x DOUBLE)
          TIMESTAMP BY t WATERMARK 100 MILLISECONDS GRANULARITY {SLOT_MS} MILLISECONDS;
        CREATE QUERY sliding AS
          SELECT k, COUNT(*), AVG(x), MAX(x) FROM measurements [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY latest AS
          SELECT k, COUNT(*), AVG(x), MAX(x) FROM measurements [RANGE 10 SECONDS] GROUP BY k;
        CREATE QUERY filtered AS
          SELECT k, SUM(x) FROM measurements [RANGE 5 SECONDS] WHERE x > 0.5 GROUP BY k;
    """


def main() -> None:
    """Start a feeding process, measure, and stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a few seconds, without Spark")
    parser.add_argument("--feed", choices=["spark", "plain"], default="spark")
    parser.add_argument("--events", type=int, default=20_000, help="events a second")
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--trigger-ms", type=int, default=200, help="how often a batch begins")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.feed, arguments.seconds, arguments.events = "plain", 3.0, 5_000
    if arguments.folder is not None:
        {"spark": feed_spark, "plain": feed_plain}[arguments.feed](arguments)
        return
    with tempfile.TemporaryDirectory() as scratch:
        options = ["--feed", arguments.feed, "--events", str(arguments.events), "--keys", str(arguments.keys)]
        options += ["--trigger-ms", str(arguments.trigger_ms), "--folder", scratch]
        feeding = subprocess.Popen([sys.executable, __file__, *options], stdin=subprocess.PIPE)
        try:
            for found in measure(arguments, Path(scratch), feeding):
                found = {"feed": arguments.feed, "events_per_s": arguments.events, "keys": arguments.keys, **found}
                print(json.dumps(found) if arguments.json else _text(found), flush=True)
        finally:
            # The feeding process ends when no process holds its standard input any more.
            assert feeding.stdin is not None
            feeding.stdin.close()
            feeding.wait(120)


def measure(arguments: argparse.Namespace, folder: Path, feeding: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
    """Measure what a client of the folder sees."""
    until_s = time.monotonic() + 180
    while not (folder / "log" / "job.json").exists():
        if feeding.poll() is not None or time.monotonic() > until_s:
            raise SystemExit("the feeding process did not start")
        time.sleep(0.1)
    client = panewise.LookupClient(folder / "log")
    client.wait_for(batch=1, timeout_s=180)
    warm_until_s = time.monotonic() + (2.0 if arguments.quick else WARM_UP_S)
    keys = np.random.default_rng(7)
    while time.monotonic() < warm_until_s:
        for query in ("sliding", "latest", "filtered"):
            client.lookup(query, {"k": int(keys.integers(arguments.keys))})
            client.lookup_many(query, {"k": keys.integers(0, arguments.keys, 100)})
        client.lookup("latest")
    lag = Lag()
    found: list[dict[str, Any]] = []
    share_s = arguments.seconds / 5

    def watched(call: Callable[[], object], seconds: float) -> dict[str, float]:
        times_us = []
        ends_s = time.perf_counter() + seconds
        while (began_s := time.perf_counter()) < ends_s:
            call()
            times_us.append(1e6 * (time.perf_counter() - began_s))
            lag.look(client)
        p50, p99 = np.percentile(times_us, [50, 99])
        return {
            "p50_us": round(p50, 1),
            "p99_us": round(p99, 1),
            "max_us": round(max(times_us), 1),
            "calls_per_s": round(len(times_us) / seconds, 1),
        }

    for query in ("sliding", "latest", "filtered"):
        one = watched(lambda q=query: client.lookup(q, {"k": int(keys.integers(arguments.keys))}), share_s)
        found.append({"section": "lookup", "query": query, **one})
    many = np.arange(1_000) % arguments.keys
    found.append({"section": "many", "query": "latest", **watched(lambda: client.lookup_many("latest", many), share_s)})
    found.append({"section": "every", "query": "latest", **watched(lambda: client.lookup("latest"), share_s)})
    more_until_s = time.monotonic() + arguments.seconds
    while len(lag.newest_ms) < FEWEST_BATCHES and time.monotonic() < more_until_s:
        client.lookup("latest", {"k": 0})
        lag.look(client)
    found.append({"section": "lag", "trigger_ms": arguments.trigger_ms, **lag.found()})
    held = client.statistics()
    files = [file for file in (folder / "log" / "slots").rglob("*.panewise") if file.exists()]
    found.append(
        {
            "section": "memory",
            "rows": held["rows"],
            "bytes": held["bytes"],
            "files": len(files),
            "rebuilds": held["rebuilds"],
        }
    )
    return found


class Lag:
    """How old events are when a client first shows them."""

    def __init__(self) -> None:
        self._seen_us: int | None = None
        self.newest_ms: list[float] = []
        self.oldest_ms: list[float] = []

    def look(self, client: panewise.LookupClient) -> None:
        """Note the ages when there is something new."""
        seen_us = client.seen_us.get("measurements")
        if seen_us is None or seen_us == self._seen_us:
            return
        now_us = time.time() * 1e6
        if self._seen_us is not None:
            self.newest_ms.append((now_us - seen_us) / 1e3 + SLOT_MS)
            self.oldest_ms.append((now_us - self._seen_us) / 1e3)
        self._seen_us = seen_us

    def found(self) -> dict[str, Any]:
        """Median and 99th percentile."""
        out: dict[str, Any] = {"batches": len(self.newest_ms)}
        for name, ages in (("newest", self.newest_ms), ("oldest", self.oldest_ms)):
            if ages:
                p50, p99 = np.percentile(ages, [50, 99])
                out |= {f"{name}_p50_ms": round(p50, 1), f"{name}_p99_ms": round(p99, 1)}
        return out


def feed_spark(arguments: argparse.Namespace) -> None:
    """A Spark stream over the rate source, until standard input ends."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from panewise import spark as panewise_spark

    panewise_spark.ensure_java()
    panewise_spark.choose_worker_python()
    settings = panewise_spark.SETTINGS | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.master("local[2]").appName("lookups").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    events = (
        session.readStream.format("rate")
        .option("rowsPerSecond", arguments.events)
        .option("numPartitions", 2)
        .load()
        .select(
            F.col("timestamp").alias("t"),
            F.pmod(F.xxhash64("value"), F.lit(arguments.keys)).alias("k"),
            F.rand(1).alias("x"),
        )
    )
    answers = panewise_spark.answers(
        events, panewise.read(statements()), rate=arguments.events, folder=arguments.folder / "log"
    )
    query = (
        answers.writeStream.format("noop")
        .option("checkpointLocation", str(arguments.folder / "checkpoint"))
        .trigger(processingTime=f"{arguments.trigger_ms} milliseconds")
        .start()
    )
    sys.stdin.read()
    query.stop()
    session.stop()


def feed_plain(arguments: argparse.Namespace) -> None:
    """The same slot log without Spark, until standard input ends."""
    feed(statements(), arguments.folder / "log", arguments.events, arguments.keys, arguments.trigger_ms)


def _text(found: dict[str, Any]) -> str:
    section = found["section"]
    rest = {name: value for name, value in found.items() if name != "section"}
    return f"{section:8}" + "  ".join(f"{name} {value}" for name, value in rest.items())


if __name__ == "__main__":
    main()
