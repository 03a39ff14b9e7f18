"""Sorted base intervals answer quantiles, medians and distinct values as a plain sort of each window does."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.thoroughness import examples

from panewise.aggregates.user import UserAggregate
from panewise.errors import HistoryError, PanewiseError
from panewise.structures.recompute import Recompute
from panewise.structures.sheet import Shape
from panewise.structures.snapshot import unpack
from panewise.structures.sorted_base_intervals import SortedBaseIntervals

Value = int | float | None
LARGEST_INT = 2**63 - 1

INTS = [0, 1, 2, 3, -1, -7, 10**12, LARGEST_INT, LARGEST_INT - 1, -LARGEST_INT - 1]
DOUBLES = [0.0, -0.0, 1.5, -1.5, 1e-300, 5e-324, 1e300, math.inf, -math.inf, math.nan, -math.nan]
ints = st.one_of(st.sampled_from(INTS), st.integers(-LARGEST_INT - 1, LARGEST_INT))
doubles = st.one_of(st.sampled_from(DOUBLES), st.floats())
phis = st.one_of(st.sampled_from([0.07, 0.25, 0.29, 0.5, 0.57, 0.58, 0.9, 0.99, 1.0]), st.floats(1e-9, 1.0))
windows = st.one_of(st.integers(1, 10), st.integers(1, 160)).flatmap(
    lambda left: st.tuples(st.just(left), st.integers(0, left - 1))
)


def in_order(values: list[Value]) -> list[int | float]:
    """The values that are not NULL, NaN last."""
    return sorted((value for value in values if value is not None), key=lambda value: (value != value, value))


def expected(aggregate: str, values: list[Value], phi: float | None) -> Value:
    """The answer over the values of a window; None is NULL."""
    ordered = in_order(values)
    if aggregate == "COUNT_DISTINCT":
        return len({value for value in ordered if value == value}) + any(value != value for value in ordered)
    if not ordered:
        return None
    if aggregate == "MEDIAN":
        return ordered[(len(ordered) - 1) // 2]
    assert phi is not None
    return ordered[max(1, math.floor(Fraction(str(phi)) * len(ordered))) - 1]


def is_same(a: Value, b: Value) -> bool:
    """Whether two answers are the same; NaN equals NaN, and NULL equals NULL."""
    if a is None or b is None:
        return a is b
    return a == b or (a != a and b != b)


def as_array(values: list[Value], dtype: Any) -> Any:
    """Values as an array, masked where there are NULLs."""
    array = np.array([0 if value is None else value for value in values], dtype)
    missing = [value is None for value in values]
    return np.ma.MaskedArray(array, missing) if any(missing) else array


class SortedIntervalsAgainstSorting(RuleBasedStateMachine):
    """Any order of calls, beside a list of all values so far."""

    @initialize(
        aggregate=st.sampled_from(["QUANTILE", "QUANTILE", "MEDIAN", "COUNT_DISTINCT"]),
        is_float=st.booleans(),
        first=st.lists(windows, max_size=2),
    )
    def begin(self, aggregate: str, is_float: bool, first: list[tuple[int, int]]) -> None:
        self.aggregate = aggregate
        self.dtype = np.float64 if is_float else np.int64
        self.windows = list(first)
        self.values: list[Value] = []
        self.held_from = 0
        self.structure = SortedBaseIntervals(aggregate, first)

    @rule(data=st.data(), has_nulls=st.booleans())
    def append_a_few(self, data: st.DataObject, has_nulls: bool) -> None:
        value = doubles if self.dtype is np.float64 else ints
        self._append(data.draw(st.lists(st.none() | value if has_nulls else value, max_size=30)))

    @rule(
        seed=st.integers(0, 2**32),
        count=st.integers(1, 500),
        shape=st.sampled_from(["few", "many", "trend"]),
        nulls=st.sampled_from([0.0, 0.1, 0.9]),
    )
    def append_many(self, seed: int, count: int, shape: str, nulls: float) -> None:
        random = np.random.default_rng(seed)
        pool = DOUBLES if self.dtype is np.float64 else INTS
        if shape == "few":
            values = [pool[place] for place in random.integers(0, len(pool), count)]
        elif shape == "many":
            values = random.integers(-(10**9), 10**9, count).tolist()
        else:
            values = (np.arange(count) + random.integers(0, 10, count)).tolist()
        self._append([None if random.random() < nulls else value for value in values])

    @rule(asked=st.lists(st.tuples(windows, phis), min_size=1, max_size=8))
    @precondition(lambda self: self.structure.type is not None)
    def look_up(self, asked: list[tuple[tuple[int, int], float]]) -> None:
        length = len(self.values)
        held = [(window, phi) for window, phi in asked if self._is_held(*window)]
        lefts, rights = [left for (left, _), _ in held], [right for (_, right), _ in held]
        parameter = [phi for _, phi in held] if self.aggregate == "QUANTILE" else None
        answers = self.structure.lookup(lefts, rights, parameter).tolist()
        for ((left, right), phi), answer in zip(held, answers, strict=True):
            values = self.values[max(length - left, 0) : max(length - right, 0)]
            wanted = expected(self.aggregate, values, phi)
            assert is_same(answer, wanted), (left, right, phi, answer, wanted)

    @rule(window=windows)
    def add_window(self, window: tuple[int, int]) -> None:
        self.structure.add_window(*window)
        self.windows.append(window)

    @rule(data=st.data())
    @precondition(lambda self: self.windows)
    def remove_window(self, data: st.DataObject) -> None:
        window = data.draw(st.sampled_from(self.windows))
        self.structure.remove_window(*window)
        self.windows.remove(window)
        self._let_go()

    @rule()
    def restore(self) -> None:
        self.structure = SortedBaseIntervals.from_snapshot(unpack(self.structure.snapshot()), self.aggregate)

    @invariant()
    def holds_together(self) -> None:
        if hasattr(self, "structure"):
            self.structure.check_invariants()
            assert self.structure.length == len(self.values)
            assert self.structure.held_from == self.held_from

    def _append(self, values: list[Value]) -> None:
        self.structure.update(as_array(values, self.dtype))
        self.values += values
        self._let_go()

    def _let_go(self) -> None:
        largest = max([1, *(left for left, _ in self.windows)])
        self.held_from = max(self.held_from, len(self.values) - largest)

    def _is_held(self, left: int, right: int) -> bool:
        low, high = max(len(self.values) - left, 0), len(self.values) - right
        return low >= self.held_from or high <= low


SortedIntervalsAgainstSorting.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=20)
TestSortedIntervalsAgainstSorting = SortedIntervalsAgainstSorting.TestCase


@pytest.mark.parametrize("shape", ["random", "rising", "falling", "walk", "few values"])
def test_large_windows_agree_with_a_sort(shape: str) -> None:
    random = np.random.default_rng(7)
    count, largest = 50_000, 20_000
    stream = {
        "random": lambda: random.normal(size=count),
        "rising": lambda: np.arange(count, dtype=np.float64),
        "falling": lambda: -np.arange(count, dtype=np.float64),
        "walk": lambda: np.cumsum(random.normal(size=count)),
        "few values": lambda: random.integers(0, 5, count).astype(np.float64),
    }[shape]()
    structure = SortedBaseIntervals("QUANTILE", [(largest, 0)])
    for batch in np.array_split(stream, 37):
        structure.update(batch)
    lefts = random.integers(1, largest + 1, 100)
    rights = random.integers(0, lefts)
    shares = random.integers(1, 1001, 100) / 1000
    answers = structure.lookup(lefts, rights, shares).tolist()
    for left, right, phi, answer in zip(lefts.tolist(), rights.tolist(), shares.tolist(), answers, strict=True):
        assert answer == expected("QUANTILE", stream[count - left : count - right].tolist(), phi)


def test_the_largest_integer_is_not_mistaken_for_null() -> None:
    values = np.ma.MaskedArray([LARGEST_INT, 0, 5, 0, LARGEST_INT], [False, True, False, True, False])
    distinct = SortedBaseIntervals("COUNT_DISTINCT", [(5, 0)])
    distinct.update(values)
    assert distinct.lookup([5, 4, 2], [0, 1, 1]).tolist() == [2, 1, 0]
    greatest = SortedBaseIntervals("QUANTILE", [(5, 0)])
    greatest.update(values)
    assert greatest.lookup([5, 4, 2], [0, 1, 1], 1.0).tolist() == [LARGEST_INT, 5, None]


def test_elements_come_back_with_their_nulls() -> None:
    structure = SortedBaseIntervals("MEDIAN", [(4, 0)])
    structure.update(np.ma.MaskedArray([9.0, -1.5, math.nan, 7.0, -math.inf], [False, False, False, True, False]))
    assert structure._values is not None
    values, valid = structure._values.elements(None, np.arange(1, 5))
    assert valid.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(values[valid], [-1.5, math.nan, -math.inf])


def test_a_damaged_run_is_noticed() -> None:
    structure = SortedBaseIntervals("MEDIAN", [(8, 0)])
    structure.update(np.arange(8))
    structure.check_invariants()
    assert structure._values is not None
    structure._values.arrays()[0][8] += 100
    with pytest.raises(AssertionError):
        structure.check_invariants()


def test_it_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(PanewiseError, match="sorted_base_intervals cannot hold the max that MAX is made of"):
        SortedBaseIntervals("MAX")
    product = UserAggregate("PRODUCT", combine=lambda a, b: a * b, identity=1.0)
    with pytest.raises(PanewiseError, match="takes no user-defined aggregate"):
        SortedBaseIntervals(product)
    structure = SortedBaseIntervals("QUANTILE", [(4, 0)])
    structure.update(np.arange(9))
    with pytest.raises(HistoryError, match="held from position 5"):
        structure.lookup(5, 0, 0.5)


@pytest.mark.parametrize("largest", [32, 1000, 1024, 4097, 100_000])
def test_memory_and_costs_are_those_of_the_paper(largest: int) -> None:
    sheet = SortedBaseIntervals.sheet
    shape = Shape(largest=largest, width=256)
    structure = SortedBaseIntervals("MEDIAN", [(largest, 0)])
    structure.update(np.arange(10))
    assert structure.nbytes <= 1.2 * 8 * largest * math.log2(largest) + 1000
    assert sheet.space.of(shape) == pytest.approx(largest * math.log2(largest))
    assert sheet.update.of(shape) == pytest.approx(math.log2(largest))
    assert sheet.lookup.of(shape) == pytest.approx(8 * 8 * 3)


def test_it_agrees_with_recomputing_at_every_step() -> None:
    random = np.random.default_rng(3)
    for aggregate in ("MEDIAN", "COUNT_DISTINCT"):
        shared, plain = SortedBaseIntervals(aggregate, [(37, 0)]), Recompute(aggregate, [(37, 0)])
        for _ in range(100):
            batch = random.integers(0, 20, random.integers(0, 9))
            shared.update(batch)
            plain.update(batch)
            lefts = random.integers(1, 38, 5)
            rights = random.integers(0, lefts)
            assert shared.lookup(lefts, rights).tolist() == plain.lookup(lefts, rights).tolist()
