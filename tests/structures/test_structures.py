"""What all structures share: errors, types, history, user-defined aggregates, exactness; and the papers' numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from tests.structures.oracle import Value, agrees, answer, covered

from panewise.aggregates.types import Type
from panewise.errors import AnswerOverflowError, HistoryError, PanewiseError, WindowError
from panewise.kernels.base_intervals import cover
from panewise.kernels.landmark_intervals import split
from panewise.structures import BY_NAME, EVERY_STRUCTURE, Structure, UserAggregate, build, restore
from panewise.structures.partitions import Partition, partitions_of
from panewise.structures.sheet import Lookups

NAMES = [kind.sheet.name for kind in EVERY_STRUCTURE]
WITH_SUM = [kind.sheet.name for kind in EVERY_STRUCTURE if kind.sheet.why_not("SUM") is None]
WITH_MAX = [kind.sheet.name for kind in EVERY_STRUCTURE if kind.sheet.why_not("MAX") is None]


def test_the_papers_base_intervals() -> None:
    """The paper counts positions from 1: (385, 512) is a base interval of level 7, and (1, 43) is a union of four."""
    assert cover(384, 512) == [(7, 3)]
    assert [((k << j) + 1, (k + 1) << j) for j, k in cover(0, 43)] == [(1, 32), (33, 40), (41, 42), (43, 43)]


@given(st.integers(0, 10**6), st.integers(1, 10**6))
def test_a_cover_lies_end_to_end_and_is_small(low: int, width: int) -> None:
    intervals = cover(low, low + width)
    ends = [low, *((k + 1) << j for j, k in intervals)]
    assert [k << j for j, k in intervals] == ends[:-1]
    assert ends[-1] == low + width
    assert len(intervals) <= max(1, 2 * width.bit_length())


def test_the_papers_landmark_intervals() -> None:
    assert split(3257, 5164, spacing=1000) == ((3257, 3999), (4000, 5164))


def test_partitions_follow_the_widths() -> None:
    assert partitions_of([(1025, 0), (2047, 0), (2500, 1000), (10, 4)]) == [
        Partition(level=2, left=10, right=4),
        Partition(level=10, left=2500, right=1000),
    ]


def test_landmarks_of_suffix_windows_take_linear_space() -> None:
    """Ten partitions hold only the elements and two rings of a few blocks each: the reduced form."""
    windows = [(1 << bit, 0) for bit in range(4, 14)]
    structure = build("landmark_intervals", "max", windows, type=Type.BIGINT)
    assert structure.nbytes <= 9 * 8 * structure.largest


@pytest.mark.parametrize("name", WITH_SUM)
def test_memory_is_what_the_data_sheet_says(name: str) -> None:
    structure = build(name, "sum", [(10_000, 0)], type=Type.BIGINT)
    from panewise.structures.sheet import Shape

    elements = structure.sheet.space.of(Shape(largest=10_000, width=10_000, windows=1))
    assert structure.nbytes <= 1.2 * 8 * elements


@pytest.mark.parametrize("name", NAMES)
def test_windows_are_checked(name: str) -> None:
    aggregate = "count" if name != "sorted_base_intervals" else "median"
    with pytest.raises(WindowError, match="left > right >= 0"):
        build(name, aggregate, [(3, 3)])
    structure = build(name, aggregate, [(4, 0)], type=Type.BIGINT)
    structure.update([1, 2, 3])
    with pytest.raises(WindowError, match=r"\(2, 3\)"):
        structure.lookup([4, 2], [0, 3])
    with pytest.raises(WindowError, match="was not added"):
        structure.remove_window(9)
    with pytest.raises(WindowError, match="one dimension"):
        structure.lookup([[4]], [[0]])


@pytest.mark.parametrize("name", NAMES)
def test_a_window_that_grew_says_what_is_missing(name: str) -> None:
    aggregate = "sum" if name != "sorted_base_intervals" else "median"
    structure = build(name, aggregate, [(4, 0)])
    structure.update(np.arange(100))
    structure.add_window(10)
    assert structure.is_held([4, 10]).tolist() == [True, False]
    with pytest.raises(HistoryError, match="held from position 96"):
        structure.lookup([10])
    structure.update(np.arange(100, 105))
    assert not structure.is_held([10])[0]
    structure.update(np.arange(105, 106))
    assert structure.lookup([10]).tolist() == [sum(range(96, 106)) if aggregate == "sum" else 100]


@pytest.mark.parametrize("name", [kind.sheet.name for kind in EVERY_STRUCTURE if kind.sheet.lookups is not Lookups.ANY])
def test_windows_that_are_not_served_are_named(name: str) -> None:
    structure = build(name, "max", [(100, 0)])
    structure.update(np.arange(1000))
    with pytest.raises(WindowError, match=r"\(7, 0\).*add the window"):
        structure.lookup([7])


@pytest.mark.parametrize("name", WITH_SUM)
def test_integer_sums_are_exact_or_an_error(name: str) -> None:
    structure = build(name, "sum", [(3, 0), (2, 0)])
    structure.update([2**61, 5, -7])
    structure.update([2**62, 2**62 - 1, -(2**62)])
    assert structure.lookup([3, 2], [0, 0]).tolist() == [2**62 - 1, -1]
    structure.update([2**62, 2**62, 2**62])
    with pytest.raises(AnswerOverflowError, match="does not fit"):
        structure.lookup([3])
    structure.update([1, 2, 3])
    assert structure.lookup([3]).tolist() == [6]


@pytest.mark.parametrize("name", WITH_SUM)
def test_doubles_far_apart_do_not_leave_their_windows(name: str) -> None:
    structure = build(name, "sum", [(3, 0)], type=Type.DOUBLE)
    structure.update([1e300, 1.0, 1e-300])
    structure.update([1e-300, 2e-300, 3e-300])
    assert structure.lookup([3]).tolist() == [6e-300]
    structure.update([np.inf, 1.0, np.nan, 1.0])
    assert math.isnan(structure.lookup([3])[0])
    structure.update([2.0, 3.0])
    assert structure.lookup([3]).tolist() == [6.0]
    structure.update([1e308, 1e308, 1e308])
    assert structure.lookup([3]).tolist() == [math.inf]
    structure.update([1.0, 2.0, 3.0])
    assert structure.lookup([3]).tolist() == [6.0]


def test_sums_of_all_that_is_held_may_overflow_where_the_windows_do_not() -> None:
    structure = build("running_intervals", "sum", [(4, 0)], type=Type.DOUBLE)
    structure.update([1e308, 1e308, 1e308, 5.0])
    assert structure.lookup([3, 1], [2, 0]).tolist() == [1e308, 5.0]


@pytest.mark.parametrize("name", WITH_SUM)
def test_errors_do_not_grow_with_the_stream(name: str) -> None:
    random = np.random.default_rng(5)
    structure = build(name, "sum", [(1000, 0)], type=Type.DOUBLE)
    for _ in range(40):
        values = random.normal(size=5000) * 10.0 ** random.integers(-3, 4, 5000)
        structure.update(values)
    window = values[-1000:]
    exact = float(sum(Fraction(value) for value in window))
    assert abs(structure.lookup([1000])[0] - exact) <= 2 * 2**-52 * np.abs(window).sum()


@pytest.mark.parametrize("name", NAMES)
def test_types_are_checked(name: str) -> None:
    aggregate = "count" if name != "sorted_base_intervals" else "median"
    structure = build(name, aggregate, [(2, 0)])
    structure.update([1, 2])
    assert structure.type is Type.BIGINT
    with pytest.raises(PanewiseError, match="DOUBLE"):
        structure.update([1.5])
    with pytest.raises(PanewiseError, match="numbers or timestamps"):
        structure.update(["a"])
    with pytest.raises(PanewiseError, match="one dimension"):
        structure.update([[1]])
    with pytest.raises(PanewiseError, match="2\\*\\*63"):
        structure.update(np.array([2**63], np.uint64))
    structure.update(pa.array([7, None]))
    assert structure.length == 4


def test_names_are_checked() -> None:
    with pytest.raises(PanewiseError, match="did you mean 'base_intervals'"):
        build("base_interval", "sum")
    with pytest.raises(PanewiseError, match="no aggregate 'summ'"):
        build("base_intervals", "summ")
    with pytest.raises(PanewiseError, match="cannot hold the max"):
        build("running_intervals", "max")
    with pytest.raises(PanewiseError, match="needs phi"):
        build("recompute", "quantile", [(3, 0)], type=Type.BIGINT).lookup([3])
    with pytest.raises(PanewiseError, match="no parameter"):
        build("recompute", "sum", [(3, 0)], type=Type.BIGINT).lookup([3], parameter=0.5)


LATEST = UserAggregate("latest", njit(lambda a, b: b if b != 0 else a), identity=0, type=Type.BIGINT)
"""The last value that is not 0: associative, not commutative."""
PRODUCT = UserAggregate(
    "product_mod",
    lambda a, b: a * b % 1_000_003,
    identity=1,
    type=Type.BIGINT,
    inverse=lambda whole, prefix: whole * _power(prefix, 1_000_001) % 1_000_003,
)


@njit
def _power(base: int, exponent: int) -> int:
    result = 1
    while exponent:
        if exponent & 1:
            result = result * base % 1_000_003
        base = base * base % 1_000_003
        exponent >>= 1
    return result


TAKING_USERS = [kind for kind in EVERY_STRUCTURE if kind.sheet.takes_user_aggregates]


@pytest.mark.parametrize("kind", TAKING_USERS, ids=lambda kind: kind.sheet.name)
def test_user_defined_aggregates(kind: type[Structure]) -> None:
    random = np.random.default_rng(1)
    windows = [(40, 0), (33, 5)]
    if kind.sheet.needs_inverse:
        with pytest.raises(PanewiseError, match="has no inverse"):
            kind(LATEST, windows)
    for aggregate in [PRODUCT] if kind.sheet.needs_inverse else [PRODUCT, LATEST]:
        structure = kind(aggregate, windows)
        elements: list[int] = []
        for _ in range(20):
            values = random.integers(1 if aggregate is PRODUCT else 0, 4, int(random.integers(0, 30))).tolist()
            structure.update(values)
            structure.check_invariants()
            elements += values
            wanted = []
            for left, right in windows:
                total = int(aggregate.identity)
                for value in elements[max(len(elements) - left, 0) : max(len(elements) - right, 0)]:
                    total = total * value % 1_000_003 if aggregate is PRODUCT else value or total
                wanted.append(total)
            got = structure.lookup([40, 33], [0, 5])
            assert got.data.tolist() == wanted
        again = restore(structure.snapshot(), aggregate=aggregate)
        assert again.lookup([40, 33], [0, 5]).tolist() == structure.lookup([40, 33], [0, 5]).tolist()
        with pytest.raises(PanewiseError, match="give it"):
            restore(structure.snapshot())


def test_user_functions_lift_and_lower_whole_arrays() -> None:
    norm = UserAggregate("norm", lambda a, b: a + b, identity=0.0, lift=np.square, lower=np.sqrt)
    structure = build("base_intervals", norm, [(2, 0)])
    structure.update([1.0, 3.0, 4.0])
    assert structure.lookup([2]).tolist() == [5.0]


def test_a_function_that_numba_cannot_compile_is_an_error() -> None:
    with pytest.raises(PanewiseError, match="numba cannot compile"):
        build("base_intervals", UserAggregate("bad", lambda a, b: str(a) + input(b), identity=0.0))


@pytest.mark.parametrize("name", WITH_MAX)
def test_snapshots_are_checked(name: str) -> None:
    structure = build(name, "max", [(5, 0)])
    structure.update([3, 1, 2])
    blob = structure.snapshot()
    with pytest.raises(PanewiseError, match="not a snapshot"):
        restore(b"something else altogether")
    with pytest.raises(PanewiseError, match="damaged or cut short"):
        restore(blob[:-3])
    assert restore(blob).lookup([5]).tolist() == [3]


def test_a_structure_without_values_can_be_saved() -> None:
    empty = restore(build("base_intervals", "max", [(5, 0)]).snapshot())
    empty.update([1.5])
    assert empty.lookup([5]).tolist() == [1.5]


def test_timestamps_have_a_maximum() -> None:
    structure = build("base_intervals", "max", [(2, 0)])
    structure.update(np.array(["2026-01-01", "2026-01-03", "2026-01-02"], "datetime64[us]"))
    assert structure.type is Type.TIMESTAMP
    assert structure.lookup([2]).tolist() == [1_767_398_400_000_000]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "sorted_base_intervals"])
@pytest.mark.parametrize("aggregate", ["SUM", "MAX", "MIN", "AVG", "COUNT", "STDDEV_POP"])
@given(data=st.data())
def test_answers_at_every_event(name: str, aggregate: str, data: st.DataObject) -> None:
    if (why_not := BY_NAME[name].sheet.why_not(aggregate, Type.BIGINT)) is not None:
        with pytest.raises(PanewiseError, match=why_not):
            build(name, aggregate)
        return
    windows = [(1, 0), (5, 0), (7, 3), (2, 1), (5, 0)]
    values: st.SearchStrategy[Value] = st.integers(-100, 100)
    if data.draw(st.booleans(), label="NULLs"):
        values = values | st.none()
    structure = build(name, aggregate, windows, type=Type.BIGINT)
    elements: list[Value] = []
    for _ in range(data.draw(st.integers(1, 3))):
        some = data.draw(st.lists(values, max_size=12))
        structure.update(pa.array(some, pa.int64()))
        elements += some
        batch = data.draw(st.lists(values, max_size=12))
        got = structure.answers_at_every_event(pa.array(batch, pa.int64()))
        assert got.shape == (5, len(batch))
        for event, value in enumerate(batch):
            elements.append(value)
            for window, (left, right) in enumerate(structure.windows):
                wanted = covered(elements, left, right)
                found = got[window, event]
                found = None if found is np.ma.masked else found.item()
                assert agrees(aggregate, found, answer(aggregate, wanted), wanted)
        structure.check_invariants()


def test_answers_at_every_event_need_their_history() -> None:
    structure = build("base_intervals", "sum", [(4, 0)])
    structure.update(np.arange(10))
    structure.add_window(8)
    with pytest.raises(HistoryError, match="reaches back before position 6"):
        structure.answers_at_every_event([1])
    assert structure.length == 10, "what cannot be answered is not appended"
    with pytest.raises(PanewiseError, match="MEDIAN at every event"):
        build("recompute", "median", [(4, 0)]).answers_at_every_event([1])


@pytest.mark.parametrize("name", NAMES)
def test_before_the_first_value_windows_cover_nothing(name: str) -> None:
    for aggregate in ("count", "sum", "max", "median"):
        if BY_NAME[name].sheet.why_not(aggregate.upper()) is None:
            structure = build(name, aggregate, [(3, 0)])
            assert structure.lookup([3]).tolist() == [0 if aggregate == "count" else None]


@pytest.mark.parametrize("name", NAMES)
def test_no_values_decide_no_type(name: str) -> None:
    aggregate = "max" if BY_NAME[name].sheet.why_not("MAX") is None else "median"
    if BY_NAME[name].sheet.why_not(aggregate.upper()) is not None:
        aggregate = "sum"
    structure = build(name, aggregate, [(3, 0)])
    structure.update([])
    assert structure.type is None
    if aggregate != "median":
        assert structure.answers_at_every_event([]).shape == (1, 0)
    structure.update([2**60 + 1])
    assert structure.lookup([3]).tolist() == [2**60 + 1]
