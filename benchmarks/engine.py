"""The engine in one process: events a second in, lookups a second, bytes for each live (slot, key), and the planner's
choice of structures beside each forced structure.

One core. Events have a time (10,000 a second), a key, the region that the key belongs to (8 of them), a DOUBLE and a
BIGINT; half of all events have one of an eighth of the keys. Queries are drawn from windows of 1 to 15 minutes, 8
predicates and none, grouped by key, by region or not at all, with one to three aggregates; those by key report the
groups that pass a HAVING. `ingest` pushes batches, advances the watermark after each and fetches the answers; `push` is
the part of that without advancing. `forms` is `ingest` of 100 queries with expressions and FILTER, and without.
`lookup` asks the same number of on-demand queries, over 5 to 60 seconds: one key at a time, as a table and as plain
values (`value_...`, for which there is a target), and many keys at once. `bytes` fills
a window with five partials for each slot and key. `grid` runs updates and lookups for each structure and for the
automatic choice, in turns in one run, and compares medians of the time on a core. `--quick` is a tenth of the events,
and fewer points.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench engine --json
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import numpy as np
import numpy.typing as npt

import panewise

Ints = npt.NDArray[np.int64]
Events = dict[str, npt.NDArray[Any]]

US = 1_000_000
MINUTE_US = 60 * US
RATE = 10_000
REGIONS = 8
SECTIONS = ["ingest", "forms", "lookup", "bytes", "grid"]
STREAM = "CREATE STREAM s (t TIMESTAMP, key BIGINT, region STRING, price DOUBLE, volume BIGINT) TIMESTAMP BY t;\n"
WINDOWS = [(1, 1), (2, 1), (3, 1), (5, 1), (5, 5), (6, 2), (6, 3), (10, 1), (10, 2), (10, 5), (12, 4), (15, 3), (15, 5)]
"""Range and slide in minutes."""
LOOKED_UP = [5, 10, 15, 20, 30, 45, 60]
"""Ranges of on-demand queries in seconds."""
PREDICATES = ["price > 25", "price > 50", "price > 90", "volume >= 500", "region <> 'r1'", "region = 'r3'",
              "price > 75 AND region <> 'r2'", "volume < 100"]  # fmt: skip
AGGREGATES = ["COUNT(*)", "SUM(volume)", "AVG(price)", "MIN(price)", "MAX(price)", "STDDEV_SAMP(price)", "MAX(volume)"]
ALONE = 5
"""How many queries run alone to measure the rate of one."""
FORMS = {
    "plain": ["SUM(volume)", "COUNT(*)", "MAX(price)"],
    "expressions": ["SUM(volume) / COUNT(*)", "MAX(price) - SUM(volume) / 1000", "ROUND(MAX(price), 1)"],
    "filter": ["SUM(volume) FILTER (WHERE price > 50)", "COUNT(*) FILTER (WHERE price > 50)", "MAX(price)"],
    "both": ["SUM(volume) FILTER (WHERE price > 50) / COUNT(*)", "SUM(volume) / COUNT(*)", "MAX(price)"],
}
"""What the same queries select: aggregates alone, what is computed from them, and of some events only."""
FORMS_QUERIES = 100
FIVE = "SUM({0}), COUNT({0}), MIN({0}), MAX({0}), VAR_POP({0})"
GRID_STRUCTURES = {
    "MAX": ["base_intervals", "landmark_intervals", "recompute"],
    "SUM": ["base_intervals", "landmark_intervals", "recompute", "running_intervals"],
}
GRID_RATIOS = [1, 10, 100, 1_000, 10_000]
GRID_QUERIES = [1, 10, 100]


class Output:
    """Prints measurements as they come."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def emit(self, section: str, **fields: Any) -> None:
        rounded = {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in fields.items()}
        if self._as_json:
            print(json.dumps({"bench": "engine", "section": section, **rounded}), flush=True)
        else:
            print(f"{section:8}", "  ".join(f"{k} {v}" for k, v in rounded.items()), flush=True)

    def target(self, name: str, value: float, wanted: float, *, at_most: bool = False, **fields: Any) -> None:
        met = value <= wanted if at_most else value >= wanted
        self.emit("target", name=name, **fields, value=float(value), wanted=wanted, met=bool(met))


@dataclass
class Clock:
    """Wall time, and the time that this process had a core."""

    wall_s: float = 0.0
    cpu_s: float = 0.0

    def __enter__(self) -> Clock:
        self._began = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._began[0]
        self.cpu_s += time.process_time() - self._began[1]


def batches(events: int, keys: int, size: int, seed: int, first_us: int = 0) -> Iterator[Events]:
    """Events in order of their times, in batches."""
    random = np.random.default_rng(seed)
    names = np.array([f"r{place}" for place in range(REGIONS)], dtype=object)
    for start in range(0, events, size):
        count = min(size, events - start)
        times = first_us + (np.arange(start, start + count) * US) // RATE
        often = random.random(count) < 0.5
        key = np.where(often, random.integers(0, max(1, keys // 8), count), random.integers(0, keys, count))
        yield {
            "t": times,
            "key": key,
            "region": names[key % REGIONS],
            "price": random.gamma(2.0, 20.0, count),
            "volume": random.integers(1, 1_000, count),
        }


def as_arrow(events: Events) -> Any:
    import pyarrow as pa

    return pa.table(dict(events))


def mixed_queries(count: int, seed: int, *, slides: bool) -> tuple[str, list[str]]:
    """`count` queries of many kinds, one statement a line, and the names of those by key."""
    random = np.random.default_rng(seed)
    text, by_key = [], []
    for place in range(count):
        group = ["key", "key", "region", None][int(random.integers(0, 4))] if place else "key"
        chosen = [AGGREGATES[i] for i in sorted(random.permutation(len(AGGREGATES))[: int(random.integers(1, 4))])]
        where = PREDICATES[int(random.integers(0, len(PREDICATES)))] if place and random.random() < 0.5 else None
        if slides:
            length, slide = WINDOWS[int(random.integers(0, len(WINDOWS)))] if place else (10, 5)
            window = f"[RANGE {length} MINUTES SLIDE {slide} MINUTES]"
        else:
            window = f"[RANGE {LOOKED_UP[int(random.integers(0, len(LOOKED_UP)))]} SECONDS]"
        query = f"CREATE QUERY q{place} AS SELECT {', '.join(chosen)} FROM s {window}"
        query += f" WHERE {where}" if where else ""
        query += f" GROUP BY {group}" if group else ""
        if slides and group == "key":
            # Only the groups that stand out, as an alert reports them.
            query += f" HAVING MAX(price) > {int(random.integers(250, 400))}"
        if group == "key":
            by_key.append(f"q{place}")
        text.append(query + ";")
    return "\n".join(text), by_key


def make_engine(statements: str, keys: int) -> panewise.Engine:
    return panewise.Engine(panewise.read(STREAM + statements), rate=RATE, groups={"key": keys, "region": REGIONS})


@dataclass(frozen=True)
class Ingested:
    """The time it took to take in events."""

    push: Clock
    advance: Clock
    answers: int
    plan_s: float
    bytes_per_row: float
    rows: int


def ingest(statements: str, keys: int, events: int, batch: int, seed: int) -> Ingested:
    planned = Clock()
    with planned:
        engine = make_engine(statements, keys)
    push, advance, answers = Clock(), Clock(), 0
    for number, part in enumerate(batches(events, keys, batch, seed)):
        table = as_arrow(part)
        if number == 0:
            gc.collect()
        with push:
            engine.push("s", table)
        with advance:
            answers += engine.advance("s").long().num_rows
    trees = engine.statistics()["streams"]["s"]["trees"]
    rows = sum(tree["fragments"] for tree in trees)
    held = sum(tree["bytes"] for tree in trees)
    return Ingested(push, advance, answers, planned.wall_s, held / max(1, rows), rows)


class Bench:
    """All measurements of a run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.output = Output(options.json)
        self._rates: dict[tuple[int, int], float] = {}

    def ingest(self) -> None:
        options = self._options
        for keys in options.keys:
            for queries in options.queries:
                statements, _ = mixed_queries(queries, options.seed, slides=True)
                if queries > 1:
                    self._rates[keys, queries] = self._ingest(keys, queries, statements)
                    continue
                # The rate of one query is the median of several, each run alone: what a query asks matters a lot.
                several = mixed_queries(ALONE, options.seed, slides=True)[0].splitlines()
                self._rates[keys, 1] = float(np.median([self._ingest(keys, 1, statement) for statement in several]))
        for keys in options.keys:
            one, many = self._rates.get((keys, 1)), self._rates.get((keys, 1_000))
            if one is not None and many is not None:
                self.output.target("ingest of 1,000 queries beside 1", many / one, 0.5, keys=keys)
            if many is not None and keys == 1_000:
                self.output.target("events a second in, 1,000 queries", many, 2_000_000, keys=keys)

    def _ingest(self, keys: int, queries: int, statements: str) -> float:
        """Events a second."""
        options = self._options
        # Kernels are compiled on the first use of each kind of column; this run does not count.
        ingest(statements, min(keys, 100), 16 * 60 * RATE // 50, 20_000, options.seed)
        done = ingest(statements, keys, options.events, options.batch, options.seed)
        wall, cpu = done.push.wall_s + done.advance.wall_s, done.push.cpu_s + done.advance.cpu_s
        self.output.emit(
            "ingest", way="sliding", keys=keys, queries=queries, events=options.events,
            events_per_s=options.events / wall, events_per_cpu_s=options.events / cpu,
            push_events_per_s=options.events / done.push.wall_s, advance_s=done.advance.wall_s,
            plan_s=done.plan_s, answers=done.answers, live_fragments=done.rows,
            bytes_per_fragment=done.bytes_per_row,
        )  # fmt: skip
        return options.events / wall

    def forms(self) -> None:
        """The same queries with expressions and FILTER and without: none of these takes a further pass over events."""
        options = self._options
        keys, plain = options.keys[0], 0.0
        for form, items in FORMS.items():
            statements = "\n".join(
                f"CREATE QUERY q{place} AS SELECT key, {', '.join(items)} FROM s "
                f"[RANGE {length} MINUTES SLIDE {slide} MINUTES] GROUP BY key HAVING MAX(price) > {250 + place};"
                for place, (length, slide) in enumerate(islice(cycle(WINDOWS), FORMS_QUERIES))
            )
            ingest(statements, 100, 16 * 60 * RATE // 50, 20_000, options.seed)
            done = ingest(statements, keys, options.events, options.batch, options.seed)
            events_per_s = options.events / (done.push.wall_s + done.advance.wall_s)
            plain = plain or events_per_s
            self.output.emit(
                "forms", form=form, keys=keys, queries=FORMS_QUERIES, events=options.events, events_per_s=events_per_s,
                beside_plain=events_per_s / plain, push_s=done.push.wall_s, advance_s=done.advance.wall_s,
                answers=done.answers,
            )  # fmt: skip

    def lookup(self) -> None:
        for keys in self._options.keys:
            for queries in self._options.queries:
                self._lookup(keys, queries)

    def _lookup(self, keys: int, queries: int) -> None:
        options = self._options
        statements, by_key = mixed_queries(queries, options.seed, slides=False)
        engine = make_engine(statements, keys)
        random = np.random.default_rng(options.seed)
        feed = Clock()
        for part in batches(options.lookup_events, keys, options.batch, options.seed):
            table = as_arrow(part)
            with feed:
                engine.push("s", table)
                engine.advance("s")
        asked = [by_key[i] for i in random.integers(0, len(by_key), options.lookups)]
        chosen = random.integers(0, keys, options.lookups).tolist()
        for name in dict.fromkeys(asked):
            engine.lookup(name, keys=[0])
            engine.lookup_one(name, 0)
        taken, value_taken = np.empty(options.lookups), np.empty(options.lookups)
        gc.collect()
        for place, (name, key) in enumerate(zip(asked, chosen)):
            began = time.perf_counter_ns()
            engine.lookup(name, keys=[key])
            taken[place] = time.perf_counter_ns() - began
        for place, (name, key) in enumerate(zip(asked, chosen)):
            began = time.perf_counter_ns()
            engine.lookup_one(name, key)
            value_taken[place] = time.perf_counter_ns() - began
        every = np.arange(keys)
        several = [random.permutation(every)[: options.many] for _ in range(10)]
        many, answered = Clock(), 0
        names = list(dict.fromkeys(asked))[:20]
        for name in names:
            engine.lookup_many(name, several[0])
        rates = []
        for place in range(max(20, len(names))):
            once = Clock()
            wanted = several[place % len(several)]
            with once:
                engine.lookup_many(names[place % len(names)], wanted)
            rates.append(len(wanted) / once.wall_s)
            many.wall_s += once.wall_s
            answered += len(wanted)
        p50, p99 = (float(np.percentile(taken, part)) / 1_000 for part in (50, 99))
        value_p50, value_p99 = (float(np.percentile(value_taken, part)) / 1_000 for part in (50, 99))
        held = engine.statistics()
        structures = held["structures"]["s"]
        self.output.emit(
            "lookup", way="on_demand", keys=keys, queries=queries, events=options.lookup_events,
            lookups_per_s=1e9 * options.lookups / taken.sum(), p50_us=p50, p99_us=p99,
            value_p50_us=value_p50, value_p99_us=value_p99,
            many_per_s=answered / many.wall_s, many_median_per_s=float(np.median(rates)),
            events_per_s=options.lookup_events / feed.wall_s, structures=len(structures),
            structure_bytes=sum(one["bytes"] for one in structures), log_bytes=held["streams"]["s"]["bytes"],
        )  # fmt: skip
        self.output.target("p99 of a lookup of one key, us", value_p99, 50.0, at_most=True, keys=keys, queries=queries)
        self.output.target("batched lookups a second", answered / many.wall_s, 5e6, keys=keys, queries=queries)

    def bytes(self) -> None:
        """Five partials for each slot and key: of doubles, and of integers."""
        for keys in self._options.keys:
            for column in ("price", "volume"):
                query = f"CREATE QUERY q AS SELECT {FIVE.format(column)} FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE]"
                engine = make_engine(f"{query} GROUP BY key;", keys)
                for part in batches(min(self._options.events, 10 * 60 * RATE), keys, 100_000, self._options.seed):
                    engine.push("s", as_arrow(part))
                    engine.advance("s")
                (tree,) = engine.statistics()["streams"]["s"]["trees"]
                each = tree["bytes"] / tree["fragments"]
                self.output.emit("bytes", keys=keys, input=column, live=tree["fragments"], bytes_per_live=each)
                self.output.target("bytes for each live (slot, key)", each, 64.0, at_most=True, keys=keys, input=column)

    def grid(self) -> None:
        worst = 0.0
        for group in ("key", None):
            for aggregate in GRID_STRUCTURES:
                for queries in self._options.grid_queries:
                    for ratio in self._options.grid_ratios:
                        worst = max(worst, self._point(aggregate, group, queries, ratio))
        self.output.target("automatic choice beside the best forced one, worst point", worst, 1.3, at_most=True)

    def _point(self, aggregate: str, group: str | None, queries: int, ratio: int) -> float:
        """One point of the grid: how much longer the automatic choice takes than the best forced one."""
        options = self._options
        ways: list[str | None] = [None, *GRID_STRUCTURES[aggregate]]
        runs = {way: Turns(aggregate, group, queries, ratio, way, options) for way in ways}
        taken: dict[str | None, list[float]] = {way: [] for way in ways}
        for turn in range(options.grid_warm + options.grid_turns):
            for way in ways:
                seconds = runs[way].turn()
                if turn >= options.grid_warm:
                    taken[way].append(seconds)
        medians = {way: float(np.median(several)) for way, several in taken.items()}
        best = min((way for way in ways if way is not None), key=lambda way: medians[way])
        times = medians[None] / medians[best]
        shown = {str(way): 1e6 * medians[way] / options.grid_batch for way in ways if way is not None}
        self.output.emit(
            "grid", aggregate=aggregate, group_by=group, queries=queries, updates_per_lookup=ratio,
            chosen=runs[None].structure, best=best, auto_us_per_event=1e6 * medians[None] / options.grid_batch,
            times_best=times, us_per_event={k: float(f"{v:.4g}") for k, v in shown.items()},
        )  # fmt: skip
        return times


class Turns:
    """One way of answering one point of the grid: a turn is a batch of updates and the lookups that belong to it."""

    def __init__(
        self, aggregate: str, group: str | None, queries: int, ratio: int, way: str | None, options: argparse.Namespace
    ) -> None:
        using = f" USING {way}" if way else ""
        by = f" GROUP BY {group}" if group else ""
        ranges = np.random.default_rng(options.seed).integers(1, 11, queries)
        self._engine = make_engine(
            "\n".join(
                f"CREATE QUERY q{place} AS SELECT {aggregate}(price) FROM s [RANGE {seconds} SECONDS]{by}{using};"
                for place, seconds in enumerate(ranges.tolist())
            ),
            options.grid_keys,
        )
        self._random = np.random.default_rng(options.seed)
        self._lookups = max(1, options.grid_batch // ratio)
        self._queries, self._group, self._options = queries, group, options
        self._turn = self._asked = 0

    def turn(self) -> float:
        """The seconds of one turn."""
        options, engine = self._options, self._engine
        first_us = self._turn * options.grid_batch * US // RATE
        (part,) = batches(options.grid_batch, options.grid_keys, options.grid_batch, self._turn, first_us)
        table = as_arrow(part)
        wanted = self._random.integers(0, options.grid_keys, self._lookups)
        self._turn += 1
        clock = Clock()
        with clock:
            engine.push("s", table)
            engine.advance("s")
            if self._group is None:
                self._ask_alone(min(self._lookups, options.grid_calls))
            else:
                self._ask_keys(wanted)
        # The time on a core: ways take turns, and other programs must not decide which is best.
        return clock.cpu_s

    def _ask_alone(self, lookups: int) -> None:
        """One call for each lookup; more of them than `--grid-calls` would only measure calls."""
        for _ in range(lookups):
            self._engine.lookup(f"q{self._asked % self._queries}")
            self._asked += 1

    def _ask_keys(self, wanted: Ints) -> None:
        """Spread the lookups over the queries, each asked at most once."""
        calls = min(self._queries, self._lookups, self._options.grid_calls)
        for keys in np.array_split(wanted, calls):
            self._engine.lookup_many(f"q{self._asked % self._queries}", keys)
            self._asked += 1

    @property
    def structure(self) -> str:
        """The structure that answers now."""
        held = self._engine.statistics()["structures"]["s"]
        return held[0]["structure"] if held else "log"


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench engine", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--quick", action="store_true", help="a tenth of the events, fewer keys and queries")
    parser.add_argument("--events", type=int)
    parser.add_argument("--keys", type=int, nargs="+")
    parser.add_argument("--queries", type=int, nargs="+")
    parser.add_argument("--batch", type=int, default=100_000, help="events of a push")
    parser.add_argument("--lookup-events", type=int, default=2_000_000, help="events before lookups begin")
    parser.add_argument("--lookups", type=int, default=20_000, help="lookups of one key")
    parser.add_argument("--many", type=int, default=100_000, help="most keys of a batched lookup")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--grid-queries", type=int, nargs="+")
    parser.add_argument("--grid-ratios", type=int, nargs="+")
    parser.add_argument("--grid-keys", type=int, default=1_000)
    parser.add_argument("--grid-batch", type=int, default=20_000, help="updates of a turn")
    parser.add_argument("--grid-calls", type=int, default=1_000, help="most calls of a turn")
    parser.add_argument("--grid-warm", type=int, default=15, help="turns before those that count")
    parser.add_argument("--grid-turns", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    quick = options.quick
    options.events = options.events or (1_000_000 if quick else 10_000_000)
    options.lookup_events = min(options.lookup_events, options.events)
    options.keys = options.keys or ([1_000] if quick else [1_000, 100_000])
    options.queries = options.queries or ([1, 100, 1_000] if quick else [1, 100, 1_000, 10_000])
    options.grid_queries = options.grid_queries or (GRID_QUERIES[:2] if quick else GRID_QUERIES)
    options.grid_ratios = options.grid_ratios or (GRID_RATIOS[::2] if quick else GRID_RATIOS)
    bench = Bench(options)
    for section in SECTIONS:
        if section in options.sections:
            getattr(bench, section)()


if __name__ == "__main__":
    main()
