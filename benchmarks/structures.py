"""What an update and a lookup cost in each structure, beside a NumPy cumsum and a NumPy gather in the same run.

One core. Batches of 100,000 elements; windows up to Nmax. `update` and `lookup` are medians in nanoseconds an element
and a lookup; `times` is the ratio to the yardstick: `np.cumsum` for an update, `prefix[b] - prefix[a]` over arrays of
as many positions for a lookup. Further sections: answers at every event, quantile lookups a second, memory, and with
--long a billion doubles through R-INT with the error against exact sums.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench structures --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import log2
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.structures import EVERY_STRUCTURE, Structure, build
from panewise.structures.sheet import Lookups, Shape

Ints = npt.NDArray[np.int64]

BATCH = 100_000
LARGEST = [1_000, 10_000, 100_000, 1_000_000]
WIDTHS = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
DEFAULT_LARGEST = 100_000
SECTIONS = ["costs", "every_event", "memory"]
SLOWEST_LOOKUP_S = 2.0
"""A batch of lookups is made smaller until it takes no longer than this: recomputation and sorting are slow."""


def nanoseconds(run: Callable[[], Any], count: int, repeat: int) -> float:
    """The median time of a run, by element."""
    run()
    times = []
    for _ in range(repeat):
        began = time.perf_counter_ns()
        run()
        times.append(time.perf_counter_ns() - began)
    return sorted(times)[repeat // 2] / count


class Output:
    """Prints measurements as they come."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def emit(self, section: str, **fields: Any) -> None:
        rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in fields.items() if v is not None}
        if self._as_json:
            print(json.dumps({"bench": "structures", "section": section, **rounded}), flush=True)
        else:
            print(f"{section:12}", "  ".join(f"{k} {v}" for k, v in rounded.items()), flush=True)


class Yardsticks:
    """The time that NumPy takes on the same machine at the same time."""

    def __init__(self, random: np.random.Generator, repeat: int) -> None:
        self._random, self._repeat = random, repeat
        self._values = random.integers(-100, 100, BATCH)

    def update(self) -> float:
        return nanoseconds(lambda: np.cumsum(self._values), BATCH, self._repeat)

    def lookup(self, largest: int, left: Ints, right: Ints) -> float:
        prefix = np.cumsum(self._random.integers(-100, 100, largest + 1))
        low, high = largest - left, largest - right
        return nanoseconds(lambda: prefix[high] - prefix[low], len(left), self._repeat)


def windows_of_width(random: np.random.Generator, largest: int, width: int, count: int) -> tuple[Ints, Ints]:
    """Windows of one width anywhere within the newest `largest` elements."""
    rights = random.integers(0, largest - width + 1, count)
    return rights + width, rights


def registered(kind: type[Structure], largest: int) -> list[tuple[int, int]]:
    """Windows with which a structure serves every width in WIDTHS at any place."""
    if kind.sheet.lookups is Lookups.REGISTERED:
        return [(largest, 0)]
    return [(largest, largest - width) for width in WIDTHS if width < largest] + [(largest, 0)]


def measure_costs(output: Output, random: np.random.Generator, repeat: int) -> None:
    """Updates and lookups, one aggregate of each kind that a structure serves."""
    sticks = Yardsticks(random, repeat)
    for kind in EVERY_STRUCTURE:
        for aggregate, is_float in (("SUM", False), ("SUM", True), ("MAX", False), ("MEDIAN", False)):
            if kind.sheet.why_not(aggregate) is not None:
                continue
            if aggregate == "MEDIAN" and kind.sheet.name != "sorted_base_intervals":
                continue
            values = random.normal(size=BATCH) if is_float else random.integers(-100, 100, BATCH)
            label = {"structure": kind.sheet.name, "aggregate": aggregate, "type": "double" if is_float else "int64"}
            for largest in LARGEST:
                if kind.sheet.lookups is Lookups.REGISTERED and largest > DEFAULT_LARGEST:
                    continue
                structure = build(kind.sheet.name, aggregate, registered(kind, largest))
                for _ in range(-(-2 * largest // BATCH)):
                    structure.update(values)
                stick = sticks.update()
                cost = nanoseconds(partial(structure.update, values), BATCH, repeat)
                output.emit("update", **label, largest=largest, ns=cost, yardstick_ns=stick, times=cost / stick)
                for width in WIDTHS:
                    if width <= largest:
                        measure_lookups(output, random, structure, label, largest, width, sticks, repeat)


def measure_lookups(
    output: Output,
    random: np.random.Generator,
    structure: Structure,
    label: dict[str, str],
    largest: int,
    width: int,
    sticks: Yardsticks,
    repeat: int,
) -> None:
    if structure.sheet.lookups is Lookups.REGISTERED and width != largest:
        return
    count = BATCH
    left, right = windows_of_width(random, largest, width, count)
    structure.lookup(left[:50], right[:50])
    began = time.perf_counter()
    structure.lookup(left[:50], right[:50])
    each = (time.perf_counter() - began) / 50
    count = max(50, min(BATCH, int(SLOWEST_LOOKUP_S / repeat / each)))
    left, right = left[:count], right[:count]
    stick = sticks.lookup(largest, *windows_of_width(random, largest, width, BATCH))
    cost = nanoseconds(lambda: structure.lookup(left, right), count, repeat)
    output.emit(
        "lookup", **label, largest=largest, width=width, ns=cost, per_s=1e9 / cost, yardstick_ns=stick,
        times=cost / stick, times_by_log2=cost / stick / max(1.0, log2(width)),
    )  # fmt: skip


def measure_every_event(output: Output, random: np.random.Generator, repeat: int) -> None:
    """The answers of all windows after each event."""
    for windows, events in ((1, BATCH), (1_000, 2_000)):
        lefts = random.integers(1, DEFAULT_LARGEST + 1, windows)
        lefts[0] = DEFAULT_LARGEST
        for aggregate, is_float in (("SUM", False), ("SUM", True), ("MAX", False), ("MAX", True)):
            values = random.normal(size=BATCH) if is_float else random.integers(-1000, 1000, BATCH)
            # The answers come from the elements, so the structure that holds only elements is the cheapest.
            name = "recompute"
            structure = build(name, aggregate, [(int(left), 0) for left in lefts])
            structure.update(values)
            batch = values[:events]
            cost = nanoseconds(partial(structure.answers_at_every_event, batch), events * windows, repeat)
            output.emit(
                "every_event", structure=name, aggregate=aggregate, type="double" if is_float else "int64",
                windows=windows, ns_per_answer=cost, cumsum_ns=Yardsticks(random, repeat).update(),
            )  # fmt: skip


def measure_memory(output: Output, random: np.random.Generator) -> None:
    """Bytes an element, beside what the data sheet's formula implies for the stored type."""
    for kind in EVERY_STRUCTURE:
        aggregate = "SUM" if kind.sheet.why_not("SUM") is None else "MEDIAN"
        for largest in LARGEST[:3]:
            structure = build(kind.sheet.name, aggregate, [(largest, 0)])
            structure.update(random.integers(-100, 100, 2 * largest))
            implied = 8 * kind.sheet.space.of(Shape(largest, largest, 1))
            output.emit(
                "memory", structure=kind.sheet.name, largest=largest, bytes_per_element=structure.nbytes / largest,
                times_the_bound=structure.nbytes / implied,
            )  # fmt: skip


def measure_long_run(output: Output, random: np.random.Generator, elements: int) -> None:
    """Doubles of many magnitudes through R-INT; the largest error in ulps of the sum of |x| in the window."""
    largest = DEFAULT_LARGEST
    structure = build("running_intervals", "SUM", [(largest, 0)])
    worst, began = 0.0, time.perf_counter()
    for number in range(elements // BATCH):
        values = random.normal(size=BATCH) * 10.0 ** random.integers(-6, 7, BATCH)
        structure.update(values)
        if number % 100 == 99:
            for width in (1, 10, 1_000, largest):
                window = values[-width:]
                exact = float(sum(Fraction(value) for value in window))
                ulp = np.spacing(np.abs(window).sum())
                worst = max(worst, abs(float(structure.lookup([width])[0]) - exact) / ulp)
    seconds = time.perf_counter() - began
    output.emit("long_run", elements=elements, worst_error_ulps=worst, seconds=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="panewise bench structures", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument(
        "--sections",
        nargs="*",
        choices=SECTIONS,
        default=SECTIONS,
        help="which sections to measure, all by default; an empty list for none",
    )
    parser.add_argument(
        "--long",
        type=int,
        nargs="?",
        const=1_000_000_000,
        help="how many doubles to send through R-INT, a billion by default",
    )
    parser.add_argument("--repeat", type=int, default=7, help="runs of which the median is taken")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random = np.random.default_rng(options.seed)
    output = Output(options.json)
    if "costs" in options.sections:
        measure_costs(output, random, options.repeat)
    if "every_event" in options.sections:
        measure_every_event(output, random, options.repeat)
    if "memory" in options.sections:
        measure_memory(output, random)
    if options.long:
        measure_long_run(output, random, options.long)


if __name__ == "__main__":
    main()
