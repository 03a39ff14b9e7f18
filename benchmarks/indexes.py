"""Windowed indexes in the setting of their paper (Indexing, section 6), and what it claims about them.

A window of 100,000 tuples in 50, 100 and 500 basic windows; 1,000 and 10,000 values, uniform or by a power law with
coefficient 1, in random order of popularity; 5 buckets in HASH, 100 in the H-INDEX and as many as values in "h_index";
a purge 5 times per roll-over. The window is filled, then the next 100,000 tuples are timed, a basic window a call; the
L-INDEX, which is slow, gets the first tenth of them. Times are processor time, nanoseconds per tuple, the least of
the runs: everything is one thread that waits for nothing.

maintenance   Figure 7: append and attach, no question asked. "none" is LIST without an index.
histogram     Figure 8 (a): the same, and the histogram after each basic window. "none" sorts the window each time, or
              merges basic windows that are sorted and counted when they are complete.
intersection  Figure 8 (b): two windows, each side's basic windows in turn, an intersection after each pair.
deletion      Figure 9 (a): what it costs a ring to let the oldest basic window leave, over the T-INDEX.
sorted_scan   Figure 9 (b): append, attach, and the rows by value after each basic window; "none" sorts with NumPy,
              with a stable sort, as ties are in the order of arrival.
scan_alone    The same, and only the answers are timed.
roll_overs    A window of ever new values is replaced a million times: nodes and bytes at the start and at the end.

After the measurements it prints the claims, each true or false with the ratios behind it: the least, which decides, and
the greatest. Prints a JSON line each with --json, a table otherwise. Run: panewise bench indexes --json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.indexes import EVERY_INDEX, EVERY_RING, EVERY_STORAGE, RingWindow, SetWindow, TwoSetWindow

Ints = npt.NDArray[np.int64]

STORAGES = {each.sheet.name: each for each in EVERY_STORAGE}
INDEXES = {each.sheet.name: each for each in EVERY_INDEX}
RINGS = {each.sheet.name: each for each in EVERY_RING}
MEASURES = ("maintenance", "histogram", "intersection", "deletion", "sorted_scan", "scan_alone", "roll_overs")


@dataclass(frozen=True)
class Load:
    """A stream of two windows' length: one to fill, one to time."""

    tuples: int
    basic_windows: int
    values: int
    distribution: str

    def stream(self, seed: int) -> Ints:
        """The tuples."""
        random = np.random.default_rng(seed)
        if self.distribution == "uniform":
            return random.integers(0, self.values, 2 * self.tuples)
        weights = 1.0 / np.arange(1, self.values + 1)
        ranks = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(2 * self.tuples))
        return random.permutation(self.values)[np.minimum(ranks, self.values - 1)].astype(np.int64)

    def pieces(self, stream: Ints) -> list[Ints]:
        """The basic windows of a stream."""
        return np.split(stream, 2 * self.basic_windows)


@dataclass(frozen=True)
class Measurement:
    """One way of doing one thing under one load."""

    measure: str
    way: str
    basic_windows: int
    values: int
    distribution: str
    ns_per_tuple: float


@dataclass(frozen=True)
class Claim:
    """What the paper or the project claims, and what was measured."""

    claim: str
    holds: bool
    least_ratio: float
    greatest_ratio: float
    cases: int


Step = Callable[[Ints], Any]


def timed(load: Load, make: Callable[[], Step], seed: int, share: float = 1.0) -> float:
    """Fill a window a basic window at a time, then time the next ones: nanoseconds per tuple."""
    pieces = load.pieces(load.stream(seed))
    step = make()
    for piece in pieces[: load.basic_windows]:
        step(piece)
    rest = pieces[load.basic_windows :][: max(1, round(share * load.basic_windows))]
    began = time.process_time()
    for piece in rest:
        step(piece)
    return (time.process_time() - began) * 1e9 / (len(rest) * len(rest[0]))


def set_window(load: Load, answers: bool, **options: Any) -> Step:
    """Append and attach, and ask for a histogram if wanted."""
    window = SetWindow(load.basic_windows, **options)

    def step(piece: Ints) -> Any:
        window.append(piece)
        window.attach()
        return window.histogram() if answers else None

    return step


def list_alone(load: Load) -> Step:
    """LIST without an index: the G-INDEX takes keys as they are, and never counts them."""
    storage, index = STORAGES["list"](load.basic_windows), INDEXES["g_index"]()

    def step(piece: Ints) -> None:
        storage.append(piece, index)
        if storage.array.is_full:
            storage.drop()
        storage.close()

    return step


def sort_each_time(load: Load) -> Step:
    """LIST without an index: the histogram by sorting the window."""
    window: deque[Ints] = deque(maxlen=load.basic_windows)

    def step(piece: Ints) -> Any:
        window.append(piece)
        return np.unique(np.concatenate(list(window)), return_counts=True)

    return step


def merge_each_time(load: Load) -> Step:
    """AGGR without an index: basic windows sorted and counted once, the histogram by merging them."""
    window: deque[tuple[Ints, Ints]] = deque(maxlen=load.basic_windows)

    def step(piece: Ints) -> Any:
        window.append(np.unique(piece, return_counts=True))
        values = np.concatenate([held[0] for held in window])
        order = np.argsort(values, kind="stable")
        starts = np.flatnonzero(np.diff(values[order], prepend=-1))
        return values[order][starts], np.add.reduceat(np.concatenate([held[1] for held in window])[order], starts)

    return step


def two_windows(load: Load, **options: Any) -> Step:
    """Half of each piece to each side, then the intersection; so both windows together have the load's tuples."""
    window = TwoSetWindow((load.basic_windows, load.basic_windows), **options)

    def step(piece: Ints) -> Any:
        for side, half in enumerate(np.array_split(piece, 2)):
            window.append(side, half)
            window.attach(side)
        return (window.intersection().values,)

    return step


def intersect_each_time(load: Load) -> Step:
    """No index: the distinct values of both windows, then those that both have."""
    sides: list[deque[Ints]] = [deque(maxlen=load.basic_windows) for _ in range(2)]

    def step(piece: Ints) -> Any:
        for window, half in zip(sides, np.array_split(piece, 2)):
            window.append(half)
        return (np.intersect1d(*(np.concatenate(list(window)) for window in sides)),)

    return step


def sorted_window(load: Load, ring: str) -> Step:
    """Append and attach, then the rows by value."""
    window = RingWindow(load.basic_windows, ring=ring)

    def step(piece: Ints) -> Any:
        window.append(piece)
        first = window.attach()
        rows = window.sorted_rows()
        return rows, first

    return step


def ring_window(load: Load, ring: str) -> Step:
    """Append and attach."""
    window = RingWindow(load.basic_windows, ring=ring)

    def step(piece: Ints) -> None:
        window.append(piece)
        window.attach()

    return step


def argsort_each_time(load: Load) -> Step:
    """No index: the rows by value with NumPy."""
    window: deque[Ints] = deque(maxlen=load.basic_windows)

    def step(piece: Ints) -> Any:
        window.append(piece)
        return np.argsort(np.concatenate(list(window)), kind="stable"), 0

    return step


def deletion(load: Load, name: str, seed: int) -> float:
    """Only the time in which the oldest basic windows leave a ring."""
    ring = RINGS[name](INDEXES["t_index"]())
    spent, size = 0.0, 0
    for number, piece in enumerate(load.pieces(load.stream(seed))):
        ring.append(piece)
        ring.attach()
        if number >= load.basic_windows:
            began = time.process_time()
            ring.expire(len(piece))
            spent += time.process_time() - began
            size += len(piece)
    return spent * 1e9 / size


def scan_alone(load: Load, name: str | None, seed: int) -> float:
    """The time of the sorted answers alone, one a basic window, of a ring or of NumPy: per tuple that came."""
    stream, size = load.stream(seed), load.tuples // load.basic_windows
    window = RingWindow(load.basic_windows, ring=name or "dirty_bits")
    spent = 0.0
    for number, piece in enumerate(load.pieces(stream)):
        window.append(piece)
        window.attach()
        held = stream[max(0, (number + 1) * size - load.tuples) : (number + 1) * size]
        began = time.process_time()
        if name is None:
            np.argsort(held, kind="stable")
        else:
            window.sorted_rows()
        spent += time.process_time() - began if number >= load.basic_windows else 0.0
    return spent * 1e9 / load.tuples


def check(measure: str, load: Load) -> None:
    """Stop if exact ways of doing the same thing do not give the same answers; this also compiles them all."""
    expected: list[list[int]] | None = None
    for way, make in ways(measure, load):
        step, answer = make(), None
        for piece in load.pieces(load.stream(0)):
            answer = step(piece)
        if answer is None or way.startswith("g_index"):
            continue
        if measure == "sorted_scan":
            found = [(answer[0] - answer[1]).tolist()]
        else:
            found = [column.tolist() for column in answer]
        if expected not in (None, found):
            raise SystemExit(f"{measure}: {way} does not give the answer of the others")
        expected = found


def set_ways(load: Load) -> Iterator[tuple[str, dict[str, Any]]]:
    """Storage and index by name, and the options of a window with them."""
    for storage in ("list", "aggr", "hash"):
        for index, options in (("l_index", {}), ("t_index", {}), ("h_index", {}), ("h_index", {"index_buckets": 100})):
            label = f"{index} 100" if options else index
            yield f"{label} over {storage}", {"storage": storage, "index": index, **options}
    for groups in (10, 50):
        width = load.values // groups
        yield f"g_index {groups} over group", {"storage": "group", "index": "g_index", "group_width": width}


def ways(measure: str, load: Load) -> Iterator[tuple[str, Callable[[], Step]]]:
    """What to measure: a name, and the function that makes the step of one basic window."""
    if measure == "maintenance":
        yield "none over list", lambda: list_alone(load)
        for ring in RINGS:
            yield f"ring {ring}", lambda ring=ring: ring_window(load, ring)
    if measure == "histogram":
        yield "none over list", lambda: sort_each_time(load)
        yield "none over aggr", lambda: merge_each_time(load)
    if measure in ("maintenance", "histogram"):
        for label, options in set_ways(load):
            yield label, lambda options=options: set_window(load, measure == "histogram", **options)
    if measure == "intersection":
        yield "none over list", lambda: intersect_each_time(load)
        for label, options in set_ways(load):
            if label.endswith("list") or label.startswith("g_index"):
                yield label, lambda options=options: two_windows(load, **options)
    if measure == "sorted_scan":
        yield "none over list", lambda: argsort_each_time(load)
        for ring in RINGS:
            yield f"ring {ring}", lambda ring=ring: sorted_window(load, ring)


def measure_one(measure: str, load: Load, runs: int) -> Iterator[Measurement]:
    """All ways of one thing under one load."""

    def row(way: str, times: list[float]) -> Measurement:
        return Measurement(measure, way, load.basic_windows, load.values, load.distribution, round(min(times), 1))

    if measure == "deletion":
        for ring in RINGS:
            yield row(f"ring {ring}", [deletion(load, ring, seed) for seed in range(runs)])
        return
    if measure == "scan_alone":
        for ring in (None, *RINGS):
            way = f"ring {ring}" if ring else "none over list"
            yield row(way, [scan_alone(load, ring, seed) for seed in range(runs)])
        return
    for way, make in ways(measure, load):
        slow = way.startswith("l_index")
        times = [timed(load, make, seed, 0.1 if slow else 1.0) for seed in range(1 if slow else runs)]
        yield row(way, times)


def roll_overs(count: int) -> dict[str, Any]:
    """Replace a window of ever new values many times: nodes and bytes after a thousandth of them, and after all."""
    window = SetWindow(1, purge="zero_list", purges_per_roll_over=1)
    shown: list[tuple[int, int]] = []
    began = time.process_time()
    for number in range(count):
        window.append(np.array([number, number + 1, -1]))
        window.attach()
        if number + 1 in (max(1, count // 1000), count):
            shown.append((window.statistics()["nodes"], window.nbytes))
    spent = time.process_time() - began
    window.check_invariants()
    return {
        "measure": "roll_overs",
        "roll_overs": count,
        "nodes_at_first": shown[0][0],
        "nodes_at_last": shown[-1][0],
        "bytes_at_first": shown[0][1],
        "bytes_at_last": shown[-1][1],
        "us_per_roll_over": round(spent * 1e6 / count, 2),
    }


def ratios(rows: list[Measurement], measure: str, slow: str, fast: str, **where: int) -> list[float]:
    """How many times as long one way takes as another, load by load."""
    found: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        if row.measure == measure and all(getattr(row, name) == value for name, value in where.items()):
            found.setdefault((row.basic_windows, row.values, row.distribution), {})[row.way] = row.ns_per_tuple
    return [each[slow] / each[fast] for each in found.values() if slow in each and fast in each]


def claims(rows: list[Measurement]) -> Iterator[Claim]:
    """The claims for which there are measurements."""

    def over(text: str, pairs: list[list[float]], least: float = 1.0) -> Iterator[Claim]:
        every = [ratio for pair in pairs for ratio in pair]
        if every:
            holds = min(every) > least
            yield Claim(text, holds, round(min(every), 2), round(max(every), 2), len(every))

    for fast in ("t_index", "h_index", "h_index 100"):
        yield from over(
            f"maintenance: {fast} beats l_index, over any storage",
            [ratios(rows, "maintenance", f"l_index over {s}", f"{fast} over {s}") for s in ("list", "aggr", "hash")],
        )
    for groups, values in ((10, 1_000), (50, 10_000)):
        text = f"maintenance: g_index with {groups} groups over group beats list without an index, {values:,} values"
        way = f"g_index {groups} over group"
        yield from over(text, [ratios(rows, "maintenance", "none over list", way, values=values)])
        text = f"maintenance: g_index with {groups} groups over group beats t_index over list, {values:,} values"
        yield from over(text, [ratios(rows, "maintenance", "t_index over list", way, values=values)])
    for fast in ("l_index", "t_index", "h_index", "h_index 100"):
        yield from over(
            f"histogram: {fast} over list beats sorting the window",
            [ratios(rows, "histogram", "none over list", f"{fast} over list")],
        )
    for groups in (10, 50):
        yield from over(
            f"intersection: g_index with {groups} groups beats t_index and h_index",
            [
                ratios(rows, "intersection", f"{slow} over list", f"g_index {groups} over group")
                for slow in ("t_index", "h_index", "h_index 100")
            ],
        )
    for fast in ("l_index", "t_index", "h_index", "h_index 100"):
        yield from over(
            f"intersection: {fast} over list beats recomputing it",
            [ratios(rows, "intersection", "none over list", f"{fast} over list")],
        )
    for slow, fast in (("forward", "backward"), ("auxiliary", "backward"), ("backward", "dirty_bits")):
        yield from over(f"deletion: {fast} beats {slow}", [ratios(rows, "deletion", f"ring {slow}", f"ring {fast}")])
    for ring in RINGS:
        yield from over(
            f"sorted_scan: ring {ring} beats sorting the window",
            [ratios(rows, "sorted_scan", "none over list", f"ring {ring}")],
        )
    yield from targets(rows)


def targets(rows: list[Measurement]) -> Iterator[Claim]:
    """The project's own targets: ratios of the limit to the measured time, above one if the target is met."""
    for way, limit_ns in (("t_index over list", 100.0), ("h_index over list", 100.0), ("ring dirty_bits", 150.0)):
        kept = [limit_ns / row.ns_per_tuple for row in rows if row.measure == "maintenance" and row.way == way]
        if kept:
            text = f"target: maintenance of {way} takes at most {limit_ns:.0f} ns a tuple"
            yield Claim(text, min(kept) >= 1, round(min(kept), 2), round(max(kept), 2), len(kept))
    scans = ratios(rows, "scan_alone", "none over list", "ring dirty_bits", basic_windows=100)
    if scans:
        text = "target: a sorted scan of ring dirty_bits is 20 times as fast as sorting, 100 basic windows"
        yield Claim(text, min(scans) >= 20, round(min(scans), 2), round(max(scans), 2), len(scans))


def main() -> int:
    parser = argparse.ArgumentParser(description="Windowed indexes in the setting of their paper.")
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement and claim")
    parser.add_argument("--quick", action="store_true", help="a tenth of the window, one number of basic windows")
    parser.add_argument("--only", choices=MEASURES, help="one kind of measurement")
    parser.add_argument("--runs", type=int, default=3, help="runs of each, of which the fastest counts")
    arguments = parser.parse_args()
    tuples = 10_000 if arguments.quick else 100_000
    loads = [
        Load(tuples, basic_windows, values, distribution)
        for basic_windows in ((50,) if arguments.quick else (50, 100, 500))
        for values in ((1_000,) if arguments.quick else (1_000, 10_000))
        for distribution in ("uniform", "power law")
    ]
    rows: list[Measurement] = []
    for measure in MEASURES[:-1]:
        if arguments.only not in (None, measure):
            continue
        for load in loads:
            small = Load(2_000, 4, 100, load.distribution)
            check(measure, small)
            list(measure_one(measure, small, 1))
            for row in measure_one(measure, load, arguments.runs):
                rows.append(row)
                show(asdict(row), arguments.json)
    if arguments.only in (None, "roll_overs"):
        show(roll_overs(10_000 if arguments.quick else 1_000_000), arguments.json)
    for claim in claims(rows):
        show(asdict(claim), arguments.json)
    return 0


def show(row: dict[str, Any], as_json: bool) -> None:
    """One line."""
    if as_json:
        print(json.dumps(row), flush=True)
    else:
        print(
            "  ".join(
                f"{value:,}" if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
                for value in row.values()
            ),
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
