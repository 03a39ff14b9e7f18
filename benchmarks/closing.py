"""What a closing window costs: long windows that move in small steps, alerts, and changes only.

One core. A stream has 500 events a minute of 20,000 keys, and 100 a minute for ranges of more than a day. Windows slide
by a minute and close one by one, as in a live stream. `range` goes from an hour to 30 days: `moving` is Panewise as it
is, `bucket` is the part of it that runs in a Spark worker, `two_stacks` is a compiled rival that does this one thing,
`folded` folds each window anew from its rows, and `looked_up` asks the same window without SLIDE for all keys. Times
are medians of the time on a core for an answer (a window and a group with SUM, COUNT and MAX), with the wide table
made. `aggregates` has other aggregates, with HAVING, without, and looked up. `alerts` has queries that differ in
a threshold which no group passes. `changed` has 100,000 keys of which one in a hundred is active, with changes only and
with all answers. The past is taken in at once, and its windows are not reported.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench closing --json
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import panewise
from _two_stacks import TwoStacks
from panewise.engine import moved_windows
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.engine.wide_tables import query_table
from panewise.spark.bucket import Bucket
from panewise.spark.job import Job
from panewise.spark.packing import PackedPart

MINUTE_US = 60_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT, y DOUBLE) TIMESTAMP BY t;\n"
AGGREGATES = {
    "sum_count_max": "SUM(x) AS total, COUNT(*) AS n, MAX(y) AS top",
    "avg": "AVG(y) AS mean",
    "five": "SUM(y) AS total, COUNT(y) AS n, MIN(y) AS least, MAX(y) AS top, VAR_POP(y) AS spread",
    "quantile": "QUANTILE(y, 0.9) AS high",
}
RANGES = {"1h": 60, "6h": 360, "1d": 1_440, "7d": 10_080, "30d": 43_200}
SECTIONS = ["range", "aggregates", "keys", "changed", "alerts"]
CHUNK = 2_000_000


class Events:
    """A stream, minute by minute; the same for everybody who asks with the same numbers."""

    def __init__(self, per_minute: int, keys: int, seed: int = 1) -> None:
        self.per_minute, self.keys = per_minute, keys
        self._random = np.random.default_rng(seed)

    def minutes(self, first: int, count: int) -> Iterator[dict[str, Any]]:
        """Some minutes, in parts that are not too large."""
        step = max(1, CHUNK // self.per_minute)
        for begin in range(first, first + count, step):
            end = min(begin + step, first + count)
            size = (end - begin) * self.per_minute
            yield {
                "t": np.sort(self._random.integers(begin * MINUTE_US, end * MINUTE_US, size)),
                "k": self._random.integers(0, self.keys, size),
                "x": self._random.integers(0, 1_000, size),
                "y": self._random.random(size),
            }


@contextmanager
def folded_anew(is_folded: bool) -> Iterator[None]:
    """No window moves while this holds."""
    usual = moved_windows.FEWEST_CLOSINGS
    moved_windows.FEWEST_CLOSINGS = 2**62 if is_folded else usual
    try:
        yield
    finally:
        moved_windows.FEWEST_CLOSINGS = usual


def take_past(engine: panewise.Engine, events: Events, minutes: int) -> None:
    """Push a past whose windows count as reported."""
    for some in events.minutes(0, minutes):
        engine.push("s", some)
    state = engine._streams["s"]
    state.closed_us = state.watermark_us = minutes * MINUTE_US
    state.free()


def closings(
    engine: panewise.Engine, events: Events, first: int, count: int, **options: bool
) -> list[tuple[float, int]]:
    """The seconds of each closing, and its answers."""
    times = []
    for minute in range(first, first + count):
        for some in events.minutes(minute, 1):
            engine.push("s", some)
        began = time.process_time()
        answers = engine.advance("s", (minute + 1) * MINUTE_US, **options)
        rows = (
            sum(table.num_rows for table in answers.tables.values()) if len(answers.tables) < 100 else answers.num_rows
        )
        times.append((time.process_time() - began, rows))
    return times


def median_ns(times: list[tuple[float, int]]) -> float:
    return float(np.median([seconds / max(rows, 1) for seconds, rows in times])) * 1e9


def sliding(aggregates: str, minutes: int, having: str = "") -> str:
    return (
        f"CREATE QUERY q AS SELECT k, {aggregates} FROM s [RANGE {minutes} MINUTES SLIDE 1 MINUTE] GROUP BY k {having};"
    )


def measure_window(
    aggregates: str, minutes: int, per_minute: int, keys: int, steps: int, *, folded: bool, having: str = ""
) -> dict[str, Any]:
    """The time of an answer of one window, and the memory of the rows that it covers."""
    with folded_anew(folded):
        engine = panewise.Engine(STREAM + sliding(aggregates, minutes, having), rate=per_minute / 60)
        events = Events(per_minute, keys)
        take_past(engine, events, minutes)
        closings(engine, events, minutes, 4)
        times = closings(engine, events, minutes + 4, steps)
    store = engine._streams["s"].generations[0].trees[0].store
    return {
        "ns_an_answer": median_ns(times),
        "slowest_ms": max(seconds for seconds, _ in times) * 1e3,
        "answers": times[-1][1],
        "rows": store.live_rows,
        "bytes_a_row": store.bytes_held / store.live_rows,
    }


def measure_lookup(aggregates: str, minutes: int, per_minute: int, keys: int, steps: int) -> dict[str, Any]:
    """The same window without SLIDE, looked up for all keys after each minute."""
    text = f"CREATE QUERY q AS SELECT k, {aggregates} FROM s [RANGE {minutes} MINUTES] GROUP BY k;"
    engine = panewise.Engine(STREAM + text, rate=per_minute / 60)
    events = Events(per_minute, keys)
    for some in events.minutes(0, minutes):
        engine.push("s", some)
    engine.advance("s", minutes * MINUTE_US)
    times = []
    for minute in range(minutes, minutes + steps):
        for some in events.minutes(minute, 1):
            engine.push("s", some)
        engine.advance("s", (minute + 1) * MINUTE_US)
        began = time.process_time()
        found = engine.lookup("q")
        times.append((time.process_time() - began, found.num_rows))
    return {"ns_an_answer": median_ns(times[2:]), "answers": times[-1][1]}


class OneBucket:
    """One bucket of a Spark job with all keys, called without Spark; the wide table is made as in the engine."""

    def __init__(self, text: str, rate: float, *, changed_only: bool = False) -> None:
        self._workload = panewise.read(text)
        self._stream = self._workload.streams["s"]
        self._job = Job.of(self._workload, [0], rate=rate, changed_only=changed_only)
        self._bucket = Bucket(self._job)

    def push(self, some: dict[str, Any]) -> None:
        parts = []
        for live in self._job.bases.values():
            combiner = Combiner(live.plan, project(live.plan, to_batch(self._stream, some)))
            partials = combiner.partials(live.base, some["t"] // live.base.granularity)
            parts.append(PackedPart(live.number, b"", partials))
        self._bucket.append(parts)

    def begin(self, until_us: int) -> None:
        """Take windows up to a time as reported."""
        self._bucket.resume(until_us)

    def close(self, until_us: int) -> tuple[float, int]:
        """The seconds of a closing, and its answers."""
        began = time.process_time()
        reported = [part for closed in self._bucket.closing(until_us) for part in closed.reported]
        query = self._workload.queries["q"]
        rows = query_table(self._stream, query, reported, marks_ended=self._job.changed_only).num_rows
        return time.process_time() - began, rows


def measure_bucket(aggregates: str, minutes: int, per_minute: int, keys: int, steps: int) -> dict[str, Any]:
    """One bucket of a Spark job."""
    bucket, events = OneBucket(STREAM + sliding(aggregates, minutes), per_minute / 60), Events(per_minute, keys)
    for some in events.minutes(0, minutes):
        bucket.push(some)
    bucket.begin(minutes * MINUTE_US)
    times = []
    for minute in range(minutes, minutes + 4 + steps):
        for some in events.minutes(minute, 1):
            bucket.push(some)
        times.append(bucket.close((minute + 1) * MINUTE_US))
    return {"ns_an_answer": median_ns(times[4:]), "answers": times[-1][1]}


def measure_two_stacks(minutes: int, per_minute: int, keys: int, steps: int) -> dict[str, Any]:
    """The rival, over the same events."""
    events = Events(per_minute, keys)
    rival = TwoStacks(keys, per_minute * (minutes + 2), minutes * MINUTE_US)
    for some in events.minutes(0, minutes):
        rival.push(some)
    times = []
    for minute in range(minutes, minutes + 4 + steps):
        for some in events.minutes(minute, 1):
            rival.push(some)
        began = time.process_time()
        rows = rival.advance((minute + 1) * MINUTE_US).num_rows
        times.append((time.process_time() - began, rows))
    return {"ns_an_answer": median_ns(times[4:]), "answers": times[-1][1]}


def events_a_minute(name: str, options: argparse.Namespace) -> int:
    """Of more events, the past of a long range alone would take minutes to make."""
    return int(options.per_minute if RANGES[name] <= RANGES["1d"] else options.per_minute // 5)


def against_an_hour(emit: Callable[..., None], what: str, found: dict[str, float]) -> None:
    """The time of an answer over a long range beside that over an hour."""
    for name in [name for name in ("1d", "30d") if name in found and "1h" in found]:
        emit("target", name=f"{what}{name} against 1h", value=found[name] / found["1h"], wanted=1.3)


def range_section(emit: Callable[..., None], options: argparse.Namespace) -> None:
    found: dict[str, float] = {}
    for name in options.ranges:
        per_minute = events_a_minute(name, options)
        shared = {"range": name, "keys": options.keys, "per_minute": per_minute}
        data = RANGES[name], per_minute, options.keys, options.steps
        size = AGGREGATES["sum_count_max"], *data
        measured = measure_window(*size, folded=False)
        found[name] = measured["ns_an_answer"]
        emit("range", way="moving", **shared, **measured)
        emit("range", way="two_stacks", **shared, **measure_two_stacks(*data))
        emit("range", way="bucket", **shared, **measure_bucket(*size))
        emit("range", way="looked_up", **shared, **measure_lookup(*size))
        if RANGES[name] <= RANGES["1d"]:
            emit("range", way="folded", **shared, **measure_window(*size, folded=True))
    against_an_hour(emit, "", found)
    for name, value in found.items():
        emit("target", name=f"ns an answer, {name}", value=value, wanted=300)


def aggregates_section(emit: Callable[..., None], options: argparse.Namespace) -> None:
    """Each way to aggregate, alone, with a HAVING that about half of the groups pass, and looked up."""
    for name in options.aggregates:
        found = {}
        for length in [length for length in ("1h", "1d", "30d") if length in options.ranges]:
            per_minute = events_a_minute(length, options)
            size = AGGREGATES[name], RANGES[length], per_minute, options.keys, options.steps
            half = RANGES[length] * per_minute // options.keys
            shared = {"aggregates": name, "range": length, "per_minute": per_minute}
            for having in ("", f"HAVING COUNT(*) > {half}"):
                measured = measure_window(*size, folded=False, having=having)
                emit("aggregates", way="moving", **shared, having=bool(having), **measured)
                if not having:
                    found[length] = measured["ns_an_answer"]
                    if name == "five":
                        emit("target", name=f"bytes a row, {length}", value=measured["bytes_a_row"], wanted=96)
            emit("aggregates", way="looked_up", **shared, having=False, **measure_lookup(*size))
        against_an_hour(emit, f"{name}, ", found)


def keys_section(emit: Callable[..., None], options: argparse.Namespace) -> None:
    for keys in (1_000, 10_000, 100_000):
        size = AGGREGATES["sum_count_max"], RANGES["6h"], keys // 10, keys, options.steps
        emit("keys", keys=keys, range="6h", per_minute=keys // 10, **measure_window(*size, folded=False))


class OneEngine:
    """The engine, called as a bucket is."""

    def __init__(self, text: str, rate: float, *, changed_only: bool = False) -> None:
        self._engine = panewise.Engine(text, rate=rate)
        self._changed_only = changed_only

    def push(self, some: dict[str, Any]) -> None:
        self._engine.push("s", some)

    def begin(self, until_us: int) -> None:
        """Take windows up to a time as reported."""
        state = self._engine._streams["s"]
        state.closed_us = state.watermark_us = until_us

    def close(self, until_us: int) -> tuple[float, int]:
        """The seconds of a closing, and its answers."""
        began = time.process_time()
        answers = self._engine.advance("s", until_us, changed_only=self._changed_only)
        rows = answers.tables["q"].num_rows
        return time.process_time() - began, rows


def measure_changed(
    way: type[OneEngine | OneBucket], keys: int, active: int, steps: int, *, changed_only: bool
) -> dict[str, Any]:
    """The time of a closing: every key has an event in the past, and only some have one now."""
    minutes = 600
    one = way(STREAM + sliding(AGGREGATES["sum_count_max"], minutes), keys / 60, changed_only=changed_only)
    random = np.random.default_rng(2)

    def push(minute: int, some: Any) -> None:
        times = np.full(len(some), minute * MINUTE_US)
        one.push({"t": times, "k": some, "x": random.integers(0, 9, len(some)), "y": random.random(len(some))})

    # Those that are not active came in the window's last minutes, so that they stay.
    for minute in range(minutes - 40, minutes):
        push(minute, np.arange(keys) if minute == minutes - 1 else np.arange(active))
    one.begin(minutes * MINUTE_US)
    times = []
    for minute in range(minutes, minutes + steps):
        push(minute, np.arange(active))
        times.append(one.close((minute + 1) * MINUTE_US))
    return {"ms_a_closing": float(np.median([spent for spent, _ in times[4:]])) * 1e3, "rows": times[-1][1]}


def changed_section(emit: Callable[..., None], options: argparse.Namespace) -> None:
    """One key in a hundred is active; then as many among ten times the keys."""
    active, found = options.changed_keys // 100, {}
    for keys, changed_only in itertools.product((options.changed_keys, 10 * options.changed_keys), (False, True)):
        measured = measure_changed(OneEngine, keys, active, options.steps, changed_only=changed_only)
        found[keys, changed_only] = measured["ms_a_closing"]
        emit("changed", way="engine", changed_only=changed_only, keys=keys, active=active, **measured)
    few, many = options.changed_keys, 10 * options.changed_keys
    for changed_only in (False, True):
        measured = measure_changed(OneBucket, few, active, options.steps, changed_only=changed_only)
        emit("changed", way="bucket", changed_only=changed_only, keys=few, active=active, **measured)
    emit("target", name="all answers against changes only", value=found[few, False] / found[few, True], wanted=20)
    emit("target", name="changes among ten times the keys", value=found[many, True] / found[few, True], wanted=1.3)


def alerts_section(emit: Callable[..., None], options: argparse.Namespace) -> None:
    """Queries over ten windows; no group passes."""
    count, keys = options.alerts, 10_000
    text = [
        f"CREATE QUERY q{place} AS SELECT k, SUM(x) FROM s [RANGE {10 * (1 + place % 10)} MINUTES SLIDE 1 MINUTE] "
        f"GROUP BY k HAVING SUM(x) > {10**9 + place};"
        for place in range(count)
    ]
    engine = panewise.Engine(STREAM + "\n".join(text), rate=keys / 60)
    warnings.simplefilter("ignore", panewise.NothingClosedWarning)
    events = Events(keys, keys)
    take_past(engine, events, 100)
    times = closings(engine, events, 100, options.steps)
    value = float(np.median([spent for spent, _ in times[4:]])) / count * 1e6
    emit("alerts", queries=count, keys=keys, windows=10, us_a_query=value, answers=times[-1][1])
    emit("target", name="us a query and closing where nothing passes", value=value, wanted=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="a JSON line per measurement")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--ranges", nargs="+", choices=list(RANGES), default=list(RANGES))
    parser.add_argument("--aggregates", nargs="+", choices=list(AGGREGATES), default=list(AGGREGATES))
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--per-minute", type=int, default=500)
    parser.add_argument("--steps", type=int, default=30, help="closings that are measured")
    parser.add_argument("--alerts", type=int, default=10_000)
    parser.add_argument("--changed-keys", type=int, default=100_000)
    options = parser.parse_args()
    if options.quick:
        options.keys, options.per_minute, options.steps, options.alerts = 200, 50, 6, 50
        options.changed_keys, options.ranges = 1_000, ["1h", "6h"]

    def emit(section: str, **fields: Any) -> None:
        if section == "target":
            at_most = "against changes" not in fields["name"]
            met = fields["value"] <= fields["wanted"] if at_most else fields["value"] >= fields["wanted"]
            fields["met"] = bool(met)
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in fields.items()}
        if options.json:
            print(json.dumps({"bench": "closing", "section": section, **rounded}), flush=True)
        else:
            print(f"{section:11}", "  ".join(f"{k} {v}" for k, v in rounded.items()), flush=True)

    sections = {
        "range": range_section,
        "aggregates": aggregates_section,
        "keys": keys_section,
        "changed": changed_section,
        "alerts": alerts_section,
    }
    for name in options.sections:
        sections[name](emit, options)


if __name__ == "__main__":
    main()
