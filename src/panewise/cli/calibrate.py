"""`panewise calibrate`: what adding an event and combining a fragment cost on this machine, for each kind of component,
and what trees cost beside that.

Measured with the kernels that the engine runs: events are lifted into partials of random keys, and a run of partials is
folded into the instances of one window. The fastest of many runs counts, as disturbances only slow runs down. Trees are
measured in engines that differ in the number of their trees or windows alone.
"""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import KeptValues, bytes_of_words
from panewise.aggregates.sketches import Sketch, is_installed, lift
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.engine import Engine
from panewise.engine.joined import fold_joined, lift_joined
from panewise.engine.kept import lift_kept
from panewise.engine.sketches import column_of, fold_sketches
from panewise.engine.tables import ColumnTable, IntTable
from panewise.errors import FileAccessError, NothingClosedWarning
from panewise.kernels.folding import fold_extreme, fold_squares, fold_sum_int, fold_sum_pairs, prefix_sums
from panewise.kernels.hashing import find_small_ints, first_places
from panewise.kernels.lifting import (
    lift_count,
    lift_extreme_float,
    lift_squares,
    lift_squares_int,
    lift_sum_float,
    lift_sum_int,
)
from panewise.kernels.multisets import select_ranks
from panewise.language.filling import fill
from panewise.language.reader import read
from panewise.planning.calibration import KindCost, TreeCost, read_calibration, weights_path

EVENTS = 1 << 19
KEYS = 1000
PARTIALS = 1 << 13
"""Few enough to fit the cache, like the fragments of one key and window; fresh memory would cost more than folding."""
WINDOW = 100
"""How many partials an instance covers; the next instance begins one partial later."""
VALUES_WINDOW = 16
VALUES_PER_PARTIAL = 8
"""Sorting the values of an instance takes longer for more of them."""
SKETCH_SHARE = 16
SKETCH_VALUES = 1000
"""Unions take microseconds, so fewer partials are folded, with this many values each."""
SECONDS = 0.15
"""How long each operation is repeated."""
TREES = 8
"""How many trees or windows are compared with one."""
STEPS = 40
"""For at least so many seconds of events."""
_LEAST_NS = 1.0
"""Measured differences are never less."""
_STEP_STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;"
_STEP_QUERY = "CREATE QUERY {name} AS SELECT k, SUM(x) FROM s [RANGE {range} SECONDS SLIDE {slide} SECONDS] GROUP BY k"
_LEAST_RUNS = 3
_JOINED = tuple(kind for kind in Kind if kind.is_joined)
_KEPT = tuple(kind for kind in Kind if kind.is_kept)
_SKETCHES = tuple(kind for kind in Kind if kind.is_sketch and not kind.is_kept)


def calibrate_text(output: Path | None, *, as_json: bool) -> str:
    """Measure, store, and print what was measured."""
    path = weights_path() if output is None else output
    document = measured_document()
    store(document, path)
    if as_json:
        return json.dumps(document, indent=2)
    lines = [f"{'component':<12}{'event':>10}{'combine':>10}   ns each"]
    for kind, numbers in document["kinds"].items():
        lines.append(f"{kind:<12}{numbers['event_ns']:>10.2f}{numbers['combine_ns']:>10.2f}")
    trees = document["trees"]
    lines += [
        f"feeding a partial to a tree {trees['feed_ns']:,.0f} ns; a tree at each push and advance "
        f"{trees['tree_ns']:,.0f} ns, when windows of it close {trees['closing_ns']:,.0f} ns more,",
        f"and for each of these windows {trees['window_ns']:,.0f} ns",
    ]
    return "\n".join([*lines, f"stored in {path}"])


def measured_document(*, seconds: float = SECONDS) -> dict[str, Any]:
    """All numbers with the machine that they were measured on."""
    costs = measure(seconds)
    return {
        "panewise": version("panewise"),
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "system": platform.platform(),
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "numba": version("numba"),
        },
        "unit": "nanoseconds",
        "kinds": {
            kind.value: {"event_ns": round(cost.event_ns, 4), "combine_ns": round(cost.combine_ns, 4)}
            for kind, cost in costs.items()
        },
        "trees": {name: round(number, 4) for name, number in asdict(measure_trees(seconds)).items()},
    }


def measure(seconds: float) -> dict[Kind, KindCost]:
    """The costs of every kind, with each operation repeated for `seconds`."""
    random = np.random.default_rng(1)
    lifts = _lifts(random, EVENTS)
    folds = _folds(random, PARTIALS)
    costs = {}
    for kind in lifts:
        fold, combines = folds[kind]
        costs[kind] = KindCost(_fastest_ns(lifts[kind], seconds) / EVENTS, _fastest_ns(fold, seconds) / combines)
    return costs


def measure_trees(seconds: float) -> TreeCost:
    """What trees cost beside their combines, from engines that differ in one thing."""
    far, near = [(TREES * STEPS + place, TREES * STEPS) for place in range(TREES)], [(2 + p, 1) for p in range(TREES)]
    one_idle, idle = _step_ns(far[:1], "no_share", seconds), _step_ns(far, "no_share", seconds)
    one, together = _step_ns(near[:1], "shared", seconds), _step_ns(near, "shared", seconds)
    apart = _step_ns(near, "no_share", seconds)
    apart_by_key, together_by_key = (_step_ns(near, way, seconds, keys=KEYS) for way in ("no_share", "shared"))
    others = TREES - 1
    tree_ns = (idle - one_idle) / others
    closing_ns = (apart - together) / others - tree_ns
    # Each step has an event of every key.
    feed_ns = ((apart_by_key - together_by_key) - (apart - together)) / others / KEYS
    window_ns = (together - one) / others
    return TreeCost(*(max(_LEAST_NS, number) for number in (feed_ns, tree_ns, closing_ns, window_ns)))


def _step_ns(windows: list[tuple[int, int]], method: str, seconds: float, *, keys: int = 1) -> float:
    """What a second of events takes, pushed and advanced to, the fastest of some: with a tree or window for each."""
    columns = {"range": [length for length, _ in windows], "slide": [slide for _, slide in windows]}
    names = {"name": [f"q{place}" for place in range(len(windows))]}
    workload = fill(_STEP_QUERY, columns | names, read(_STEP_STREAM))
    engine = Engine(workload, method=method, tolerance=float("inf"))
    number, fastest, stop = 0, float("inf"), time.perf_counter() + seconds
    key = np.arange(keys)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingClosedWarning)
        while number < STEPS or time.perf_counter() < stop:
            times = np.sort(number * 1_000_000 + key * 1_000_000 // keys)
            began = time.perf_counter_ns()
            engine.push("s", {"t": times, "k": key, "x": key})
            engine.advance("s", (number + 1) * 1_000_000)
            # The first steps compile, and fill the windows.
            if number >= len(windows) + 2:
                fastest = min(fastest, time.perf_counter_ns() - began)
            number += 1
    return fastest


def store(document: dict[str, Any], path: Path) -> None:
    """Write the numbers so that a reader sees the old file or the new one, never half a file."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        read_calibration(draft)
        draft.replace(path)
    except OSError as error:
        raise FileAccessError(f"{path} cannot be written: {error.strerror or error}; use --output PATH") from None
    finally:
        with suppress(OSError):
            draft.unlink()


def _lifts(random: np.random.Generator, events: int) -> dict[Kind, Callable[[], object]]:
    """Add all events to the partials of their keys."""
    index = random.integers(0, KEYS, events)
    integers, doubles = random.integers(-(10**6), 10**6, events), random.normal(size=events)
    valid, none = np.ones(events, np.bool_), np.empty(0, np.bool_)
    column = pa.array(np.round(doubles, 1))
    counts, high, low = (np.zeros(KEYS, np.int64) for _ in range(3))
    total, error, extreme = np.zeros(KEYS), np.zeros(KEYS), np.full(KEYS, -np.inf)
    words, squares = tuple(np.zeros((4, KEYS), np.int64)), tuple(np.zeros((4, KEYS)))
    joined: dict[Kind, Callable[[], object]] = {
        kind: partial(lift_joined, kind, doubles, doubles, 1.0, none, index, KEYS) for kind in _JOINED
    }
    # Strings, each with a time: the best of them is kept.
    strings = pa.array(np.round(doubles, 1).astype(str))
    kept: dict[Kind, Callable[[], object]] = {
        kind: partial(lift_kept, kind, strings, integers, 1, none, index, KEYS) for kind in _KEPT
    }
    return (
        joined
        | kept
        | {
            Kind.ROWS: lambda: _find_and_count(index, none),
            Kind.COUNT: lambda: lift_count(index, valid, counts),
            Kind.SUM_INT: lambda: lift_sum_int(index, integers, none, high, low),
            Kind.SUM_FLOAT: lambda: lift_sum_float(index, doubles, none, total, error),
            Kind.SQUARES_INT: lambda: lift_squares_int(index, integers, none, words),
            Kind.SQUARES: lambda: lift_squares(index, doubles, none, squares),
            Kind.MIN: lambda: lift_extreme_float(index, doubles, none, np.full(KEYS, np.nan), False),
            Kind.MAX: lambda: lift_extreme_float(index, doubles, none, extreme, True),
            Kind.VALUES: lambda: _lift_values(index, column),
        }
        | ({kind: partial(_lift_sketches, kind, index, doubles) for kind in _SKETCHES} if is_installed() else {})
    )


def _find_and_count(keys: Ints, none: npt.NDArray[np.bool_]) -> None:
    """Every partial counts its rows, so the cost of finding the partials of events is included here."""
    index = np.empty(len(keys), np.int64)
    found = find_small_ints(keys, np.full(KEYS, -1), index)
    first_places(index, np.empty(found, np.int64))
    lift_count(index, none, np.zeros(found, np.int64))


def _lift_values(index: Ints, column: pa.Array) -> None:
    """Count the different values of each partial, as the engine makes multisets."""
    codes = ColumnTable(Type.DOUBLE).codes(column)
    table = IntTable()
    pairs = table.ids(index * (int(codes.max()) + 1) + codes)
    counts = np.zeros(len(table), np.int64)
    lift_count(pairs, np.empty(0, np.bool_), counts)


def _lift_sketches(kind: Kind, index: Ints, values: npt.NDArray[np.float64]) -> list[Sketch]:
    """A sketch of each partial."""
    order = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[order], np.arange(KEYS + 1)).tolist()
    return [lift(kind, values[order[low:high]]) for low, high in pairwise(bounds)]


def _sketch_folds(random: np.random.Generator, partials: int) -> dict[Kind, tuple[Callable[[], object], int]]:
    """The same with full sketches."""
    some = max(1, partials // SKETCH_SHARE)
    low = np.arange(max(1, some - WINDOW))
    high = np.minimum(low + WINDOW, some)
    folds: dict[Kind, tuple[Callable[[], object], int]] = {}
    for kind in _SKETCHES:
        sketches = column_of([lift(kind, random.normal(size=SKETCH_VALUES)) for _ in range(some)])
        folds[kind] = partial(fold_sketches, kind, sketches, low, high), some
    return folds


def _folds(random: np.random.Generator, partials: int) -> dict[Kind, tuple[Callable[[], object], int]]:
    """For each kind, a call that folds a run of partials into the instances of a window, and its number of combines."""
    low = np.arange(partials - WINDOW)
    high = low + WINDOW
    integers, doubles = random.integers(-(10**6), 10**6, partials), random.normal(size=partials)
    small, tiny = doubles * 1e-17, doubles * 1e-34
    rows = max(1, partials // VALUES_WINDOW)
    offsets = np.arange(rows + 1) * VALUES_PER_PARTIAL
    items = np.round(random.normal(size=rows * VALUES_PER_PARTIAL), 1)
    ones = np.ones(len(items), np.int64)
    starts = np.arange(max(1, rows - VALUES_WINDOW))
    ends = np.minimum(starts + VALUES_WINDOW, rows)
    ranks = np.full(len(starts), VALUES_WINDOW * VALUES_PER_PARTIAL // 2)

    def whole() -> Ints:
        sums: Ints = fold_sum_int(prefix_sums(integers), low, high)
        return sums

    def pairs() -> None:
        fold_sum_pairs(doubles, small, low, high)

    joined: dict[Kind, tuple[Callable[[], object], int]] = {
        kind: (partial(_fold_joined, kind, doubles, integers, low, high), partials) for kind in _JOINED
    }
    some = column_of([KeptValues(1, (value,)) for value in bytes_of_words(integers[: partials // SKETCH_SHARE])])
    few_low = np.arange(max(1, len(some) - WINDOW))
    few_high = np.minimum(few_low + WINDOW, len(some))
    kept: dict[Kind, tuple[Callable[[], object], int]] = {
        kind: (partial(fold_sketches, kind, some, few_low, few_high), len(some)) for kind in _KEPT
    }
    return (
        joined
        | kept
        | {
            Kind.ROWS: (whole, partials),
            Kind.COUNT: (whole, partials),
            Kind.SUM_INT: (lambda: (whole(), whole()), partials),
            Kind.SUM_FLOAT: (pairs, partials),
            Kind.SQUARES_INT: (lambda: (whole(), whole()), partials),
            Kind.SQUARES: (lambda: fold_squares((doubles, small, small, tiny), low, high), partials),
            Kind.MIN: (lambda: fold_extreme(doubles, low, high, False), partials),
            Kind.MAX: (lambda: fold_extreme(doubles, low, high, True), partials),
            Kind.VALUES: (
                lambda: select_ranks(items, ones, offsets, starts, ends, ranks),
                int((ends - starts).sum()),
            ),
        }
        | (_sketch_folds(random, partials) if is_installed() else {})
    )


def _fold_joined(kind: Kind, doubles: npt.NDArray[np.float64], integers: Ints, low: Ints, high: Ints) -> object:
    column = integers if kind in (Kind.AT_LEAST, Kind.AT_GREATEST) else np.abs(doubles)
    return fold_joined(kind, [column] * kind.words, low, high)


def _fastest_ns(run: Callable[[], object], seconds: float) -> float:
    run()  # compiles, or loads what was compiled before
    fastest, runs, stop = float("inf"), 0, time.perf_counter() + seconds
    while runs < _LEAST_RUNS or time.perf_counter() < stop:
        began = time.perf_counter_ns()
        run()
        fastest = min(fastest, time.perf_counter_ns() - began)
        runs += 1
    return fastest
