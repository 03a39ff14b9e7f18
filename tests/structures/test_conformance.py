"""Every structure, every aggregate that it serves: random elements, lookups, window changes and snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import Value, agrees, answer, covered

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.structures import EVERY_STRUCTURE, Structure, build, restore
from panewise.structures.sheet import Lookups

SERVED = [
    pytest.param(kind, aggregate, id=f"{kind.sheet.name}-{aggregate}")
    for kind in EVERY_STRUCTURE
    for aggregate, entry in CATALOGUE.items()
    if entry.is_exact and kind.sheet.served_types(aggregate)
]

integers = st.integers(-(10**6), 10**6) | st.integers(-(2**62), 2**62)
doubles = st.floats(-1e9, 1e9, width=32) | st.sampled_from([0.0, -0.0, 1e-300, 1e300, np.nan, np.inf, -np.inf])
close_doubles = st.integers(0, 5).map(lambda step: 1e15 + step / 8)
large_and_small = st.sampled_from([1e155, -1e155, 3e-170, 1.7e308, -1.7e308, 5e-324, 1.0])


def values_of(aggregate: str, is_float: bool) -> st.SearchStrategy[Value]:
    if not is_float:
        # Sums of several of these would not fit in a BIGINT. That is an error of its own, tested below.
        return st.integers(-(10**6), 10**6) if aggregate == "SUM" else integers
    return doubles | close_doubles | large_and_small


windows_of_streams = st.lists(
    st.integers(1, 24).flatmap(lambda left: st.tuples(st.just(left), st.integers(0, left - 1))), min_size=1, max_size=5
)


class Run:
    """A structure beside the list of all its elements."""

    def __init__(self, kind: type[Structure], aggregate: str, windows: list[tuple[int, int]], type: Type) -> None:
        self.structure = kind(aggregate, windows, type=type)
        self.aggregate = aggregate
        self.elements: list[Value] = []

    def update(self, values: list[Value]) -> None:
        array = pa.array(values, pa.float64() if self.structure.type is Type.DOUBLE else pa.int64())
        self.structure.update(array)
        self.elements += values
        self.structure.check_invariants()

    def lookup(self, draw: Callable[[Any], Any]) -> None:
        structure = self.structure
        windows = st.sampled_from(structure.windows)
        if structure.sheet.lookups is Lookups.ANY:
            left = st.integers(1, structure.largest)
            windows |= left.flatmap(lambda left: st.tuples(st.just(left), st.integers(0, left)))
        chosen = draw(st.lists(windows, min_size=1, max_size=6))
        lefts, rights = np.array(chosen).T
        held = structure.is_held(lefts, rights)
        lefts, rights = lefts[held], rights[held]
        phis = None
        if self.aggregate == "QUANTILE":
            phis = draw(st.lists(st.integers(1, 100), min_size=len(lefts), max_size=len(lefts)))
            phis = [percent / 100 for percent in phis]
        got = structure.lookup(lefts, rights, phis).tolist()
        for place, (left, right) in enumerate(zip(lefts.tolist(), rights.tolist())):
            values = covered(self.elements, left, right)
            m = len(self.elements)
            rows = len(self.elements[max(m - left, 0) : max(m - right, 0)])
            wanted = answer(self.aggregate, values, None if phis is None else phis[place], rows)
            assert agrees(self.aggregate, got[place], wanted, values), (left, right, got[place], wanted, values)


@pytest.mark.parametrize(("kind", "aggregate"), SERVED)
@settings(max_examples=25)
@given(data=st.data())
def test_agrees_with_the_oracle(kind: type[Structure], aggregate: str, data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(kind.sheet.served_types(aggregate)))
    values = values_of(aggregate, type is Type.DOUBLE)
    if data.draw(st.booleans(), label="NULLs"):
        values = values | st.none()
    run = Run(kind, aggregate, data.draw(windows_of_streams, label="windows"), type)
    for _ in range(data.draw(st.integers(1, 12), label="steps")):
        step = data.draw(st.sampled_from(["update", "update", "lookup", "lookup", "add", "remove", "snapshot"]))
        match step:
            case "update":
                run.update(data.draw(st.lists(values, max_size=60 if data.draw(st.booleans()) else 6)))
            case "add":
                run.structure.add_window(*data.draw(windows_of_streams)[0])
            case "remove" if len(run.structure.windows) > 1:
                run.structure.remove_window(*data.draw(st.sampled_from(run.structure.windows)))
            case "snapshot":
                run.structure = restore(run.structure.snapshot())
            case _:
                run.lookup(data.draw)
        run.structure.check_invariants()
    run.lookup(data.draw)


@pytest.mark.parametrize("kind", EVERY_STRUCTURE, ids=lambda kind: kind.sheet.name)
def test_the_window_of_every_update_size(kind: type[Structure]) -> None:
    """Batches shorter than, as long as, and longer than the largest window."""
    aggregate = "SUM" if kind.sheet.why_not("SUM") is None else "MEDIAN"
    for size in (1, 7, 8, 9, 100):
        structure = build(kind.sheet.name, aggregate, [(8, 0), (5, 2)])
        elements: list[Value] = []
        for batch in range(5):
            values = [(31 * (batch * size + i)) % 17 for i in range(size)]
            structure.update(values)
            elements += values
            got = structure.lookup([8, 5], [0, 2]).tolist()
            assert got == [answer(aggregate, covered(elements, *window)) for window in [(8, 0), (5, 2)]]
