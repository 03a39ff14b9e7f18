"""Inputs a second, where an input is an update or a lookup, for each share of updates among them.

There is a SUM operator for each tuple window from 1 to the number of operators (the paper's [0, 0] covers nothing), and
a lookup asks a random one. Inputs come in batches, mixed at random, so that compiled code is measured and not the calls
of Python: first come the updates of a batch, then its lookups over the positions that each had. For that, structures
hold a batch more than the largest window, and so they skip no element. Materialize all has its answers only at the end
of a batch, and looks them up there. Batches are repeated for some time, and the median counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from experiments.figures import Case, Parameters
from experiments.tables import Row

from panewise.structures import BY_NAME, build
from panewise.structures.sheet import Lookups

LEAST_BATCHES = 3


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each structure and each share of updates."""
    for name in parameters["structures"]:
        for share in parameters["shares"]:
            yield Case(f"{name}, {share:.0%} updates", partial(_rows, parameters, name, share))


def _rows(parameters: Parameters, name: str, share: float) -> Iterator[Row]:
    random = np.random.default_rng(parameters["seed"])
    operators, batch = parameters["operators"], parameters["batch"]
    is_fixed = BY_NAME[name].sheet.lookups is Lookups.REGISTERED
    # The others answer every window up to their largest; a call takes longer if they know each window.
    structure = build(name, "SUM", [(size, 0) for size in range(1 if is_fixed else operators, operators + 1)])
    if not is_fixed:
        structure.hold(operators + batch)
    is_update = random.permutation(np.arange(batch) < round(share * batch))
    values = random.integers(-100, 100, np.count_nonzero(is_update))
    windows = random.integers(1, operators + 1, batch - len(values))
    updates_before = np.cumsum(is_update)[~is_update]

    def run() -> None:
        ends = structure.length + updates_before
        if len(values):
            structure.update(values)
        if len(windows) and is_fixed:
            structure.lookup(windows)
        elif len(windows):
            structure.lookup_ranges(ends - windows, ends)

    # Fill the windows, and compile everything.
    structure.update(random.integers(-100, 100, 2 * (operators + batch)))
    run()
    times: list[float] = []
    while len(times) < LEAST_BATCHES or sum(times) < parameters["seconds"]:
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    yield {
        "structure": name,
        "operators": operators,
        "updates_share": share,
        "batch": batch,
        "batches": len(times),
        "inputs_per_s": batch / statistics.median(times),
    }
