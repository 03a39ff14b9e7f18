"""Substream filters against asking every key: the same events, the same lookups, the same answers, in one run.

Keys have Zipf activity and codes in random order. Windows are 15 minutes to 3 hours; the threshold of each lookup lets
a share of all keys pass, drawn from 0.03 to 0.05. After the windows are full, the benchmark times updates alone, then
updates and lookups one by one in turn, in one call per way. An input is an update or a lookup. The scan gets the first
of the same steps, before the others and after them, and its answers must be the same; the faster of its two runs
counts. Times are processor time, as everything is one thread that waits for nothing; medians of five parts.

`scan_substreams` searches each key for the start of the window, as R-INT per key does. For counts it is also measured
with a probe: one look at the event that decides. The probe is this project's own and a harder rival. `least` is a
filter that knows the least threshold and keeps no levels below it. The large run has 1,000,000 live keys, and one in
10,000 passes.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench substreams --json
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.substreams import Matches, SubstreamFilter, build

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
LARGEST_US = 3 * HOUR_US
LEAST_US = 15 * MINUTE_US
PARTS = 5
GRID = 12

Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[Any]


@dataclass(frozen=True)
class Scale:
    """How large a run is."""

    keys: int
    events: int
    updates: int
    pairs: int
    scan_pairs: int
    least_share: float
    most_share: float
    every_key: bool


SMALL = Scale(5_000, 500_000, 250_000, 10_000, 250, 0.03, 0.05, False)
LARGE = Scale(1_000_000, 3_000_000, 250_000, 2_000, 10, 0.0001, 0.0001, True)


@dataclass(frozen=True)
class Measurement:
    """One filter under one load."""

    filter: str
    aggregate: str
    levels_per_size: int
    options: str
    keys: int
    live_keys: int
    selectivity: float
    updates_per_s: float
    inputs_per_s: float
    lookup_us: float
    times_scan: float
    index_bytes_per_key: float
    event_bytes_per_key: float


class Load:
    """A stream and the lookups over it, for one aggregate."""

    def __init__(self, scale: Scale, aggregate: str, seed: int = 7) -> None:
        self.scale, self.aggregate = scale, aggregate
        random = np.random.default_rng(seed)
        total = scale.events + scale.updates + scale.pairs
        weights = 1.0 / np.arange(1, scale.keys + 1)
        ranks = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(total))
        self.keys = random.permutation(scale.keys)[np.minimum(ranks, scale.keys - 1)].astype(np.int64)
        span = LARGEST_US * 9 // 10 if scale.every_key else 4 * HOUR_US
        if scale.every_key:
            self.keys[random.permutation(scale.events)[: scale.keys]] = np.arange(scale.keys)
        self.times = np.sort(random.integers(0, span, total))
        self.values = random.integers(1, 1_001 if aggregate == "sum" else 1_000_001, total)
        self.ranges = random.integers(LEAST_US, LARGEST_US + 1, scale.pairs)
        shares = random.uniform(scale.least_share, scale.most_share, scale.pairs)
        self.comparison = "<=" if aggregate == "min" else ">="
        self.thresholds = self._thresholds(shares)

    def _thresholds(self, shares: npt.NDArray[np.float64]) -> Ints:
        """Thresholds that the wanted shares of all keys pass, from the windows of a grid."""
        end = self.scale.events + self.scale.updates
        grid = np.linspace(LEAST_US, LARGEST_US, GRID)
        of_share = np.linspace(self.scale.least_share, self.scale.most_share, 5)
        table = np.array([np.quantile(self._aggregates(end, int(r)), 1 - of_share) for r in grid])
        low = np.clip(np.searchsorted(grid, self.ranges, "right") - 1, 0, GRID - 2)
        column = np.rint((shares - of_share[0]) / max(of_share[-1] - of_share[0], 1e-12) * 4).astype(np.int64)
        part = (self.ranges - grid[low]) / (grid[1] - grid[0])
        found = table[low, column] * (1 - part) + table[low + 1, column] * part
        return np.rint(np.abs(found)).astype(np.int64)

    def _aggregates(self, end: int, range_us: int) -> Numbers:
        """Every key's aggregate over a window; with the sign changed for the least value."""
        start = int(np.searchsorted(self.times, self.times[end] - range_us, "right"))
        keys, values = self.keys[start:end], self.values[start:end]
        if self.aggregate == "count":
            return np.bincount(keys, minlength=self.scale.keys)
        if self.aggregate == "sum":
            return np.bincount(keys, values, minlength=self.scale.keys)
        out = np.full(self.scale.keys, -(10**7))
        np.maximum.at(out, keys, values if self.aggregate == "max" else -values)
        return out

    def fill(self, tested: SubstreamFilter) -> float:
        """Fill the windows, then time updates alone: updates a second."""
        scale, rates = self.scale, []
        tested.update(self.keys[: scale.events], self.values[: scale.events], self.times[: scale.events])
        for part in np.array_split(np.arange(scale.events, scale.events + scale.updates), PARTS):
            columns = self.keys[part], self.values[part], self.times[part]
            began = time.process_time()
            tested.update(*columns)
            rates.append(len(part) / (time.process_time() - began))
        return statistics.median(rates)

    def replay(self, tested: SubstreamFilter, pairs: int) -> tuple[float, list[Matches]]:
        """An update, a lookup, an update, ...: inputs a second, and the answers."""
        base, rates, answers = self.scale.events + self.scale.updates, [], []
        for part in np.array_split(np.arange(pairs), PARTS):
            is_lookup = np.tile([False, True], len(part))
            events = np.repeat(base + part, 2)
            asked = np.repeat(part, 2)
            columns = (
                is_lookup,
                self.keys[events],
                self.values[events],
                self.times[events],
                self.ranges[asked],
                self.comparison,
                self.thresholds[asked],
            )
            began = time.process_time()
            answers.append(tested.replay(*columns))
            rates.append(2 * len(part) / (time.process_time() - began))
        return statistics.median(rates), answers


def warm(name: str, options: dict[str, Any]) -> None:
    """Compile what will be timed."""
    tested = build(name, 100, **options)
    tested.replay([False, True], [0, 0], [1, 1], [1, 1], 10, ">=", 1)


def sets_of(answers: list[Matches], count: int) -> list[list[int]]:
    """The first answers, each in order."""
    every = (sorted(each.of(i).tolist()) for each in answers for i in range(len(each.offsets) - 1))
    return [found for found, _ in zip(every, range(count))]


def ways(aggregate: str, load: Load, large: bool) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The filters to measure: name, options, and a name for the options."""
    yield "scan_substreams", {"aggregate": aggregate}, ""
    if aggregate == "count":
        yield "scan_substreams", {"aggregate": "count", "by_probe": True}, "by probe"
    name = f"collective_{aggregate}"
    if aggregate in ("max", "min"):
        yield name, {}, ""
        return
    every = (1, 4, 16) if large else (1, 2, 4, 8, 16, 32, 64)
    for p in every if aggregate == "count" or not large else (4,):
        yield name, {"levels_per_size": p}, ""
    least = int(load.thresholds.min())
    for p in (4, 16) if large else (4, 16, 64):
        yield name, {"levels_per_size": p, "least_threshold": max(1, least)}, f"least {least}"


def measure_one(load: Load, name: str, options: dict[str, Any], label: str) -> tuple[Measurement, list[Matches]]:
    """Measure one filter, not yet compared with the scan; also returns its answers."""
    scale = load.scale
    warm(name, options)
    tested = build(name, LARGEST_US, **options)
    updates = load.fill(tested)
    pairs = scale.scan_pairs if name == "scan_substreams" else scale.pairs
    rate, answers = load.replay(tested, pairs)
    live = tested.live_keys
    measurement = Measurement(
        filter=name,
        aggregate=load.aggregate,
        levels_per_size=int(options.get("levels_per_size", 0)),
        options=label,
        keys=scale.keys,
        live_keys=live,
        selectivity=round(sum(len(each.keys) for each in answers) / pairs / scale.keys, 6),
        updates_per_s=round(updates),
        inputs_per_s=round(rate, 1),
        lookup_us=round(2e6 / rate - 1e6 / updates, 2),
        times_scan=0.0,
        index_bytes_per_key=round(tested.index_nbytes / live, 1),
        event_bytes_per_key=round(tested.event_nbytes / live, 1),
    )
    return measurement, answers


def measure(scale: Scale, aggregate: str) -> Iterator[Measurement]:
    """All filters of one aggregate, with the scan first and last."""
    load = Load(scale, aggregate)
    every = list(ways(aggregate, load, scale.every_key))
    expected: list[list[int]] = []
    rows: list[Measurement] = []
    for way in [*every, every[0]]:
        row, answers = measure_one(load, *way)
        # Parts of the scan are shorter: its first lies within the first of the others.
        found = sets_of(answers[:1], scale.scan_pairs // PARTS)
        expected = expected or found
        if found != expected:
            raise SystemExit(f"{way} does not give the answers of the scan")
        rows.append(row)
    scan_rate = max(rows[0].inputs_per_s, rows[-1].inputs_per_s)
    for row in rows[:-1]:
        yield replace(row, times_scan=round(row.inputs_per_s / scan_rate, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description="Substream filters against asking every key.")
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--aggregate", choices=["count", "sum", "max", "min"], help="measure only one aggregate")
    parser.add_argument("--only", choices=["small", "large"], help="5,000 keys only, or 1,000,000 keys only")
    arguments = parser.parse_args()
    scales = {"small": SMALL, "large": LARGE}
    for size, scale in scales.items():
        if arguments.only not in (None, size):
            continue
        for aggregate in ("count", "sum", "max", "min"):
            if arguments.aggregate not in (None, aggregate):
                continue
            for row in measure(scale, aggregate):
                if arguments.json:
                    print(json.dumps(asdict(row)), flush=True)
                else:
                    p = f"p={row.levels_per_size}" if row.levels_per_size else ""
                    print(
                        f"{row.keys:>9,} keys {row.aggregate:5} {row.filter:16} {p:5} {row.options:12} "
                        f"{row.updates_per_s:>11,.0f} updates/s {row.inputs_per_s:>11,.0f} inputs/s "
                        f"{row.times_scan:>9,.1f} x scan, selectivity {row.selectivity:.4f}, bytes per key "
                        f"{row.index_bytes_per_key:,.0f} + {row.event_bytes_per_key:,.0f}",
                        flush=True,
                    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
