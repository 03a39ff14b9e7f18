"""Every storage with every index gives the answers of plain Python, for every type and way of purging."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.indexes.plain import PlainWindow, plain
from tests.indexes.streams import ODD, TYPES, column, make, runs
from tests.thoroughness import examples

from panewise.errors import IndexingError
from panewise.indexes import EVERY_INDEX, EVERY_STORAGE, SetWindow, TwoSetWindow

EXACT = [
    (storage.sheet.name, index.sheet.name, purge)
    for storage in EVERY_STORAGE
    for index in EVERY_INDEX
    if index.sheet.is_exact and index.sheet.name in storage.sheet.indexes
    for purge in ("periodic", "zero_list")
]
RANGED = [
    (s.sheet.name, i.sheet.name)
    for s in EVERY_STORAGE
    for i in EVERY_INDEX
    if not i.sheet.is_exact and i.sheet.name in s.sheet.indexes
]
exact = pytest.mark.parametrize(("storage", "index", "purge"), EXACT)
every_type = pytest.mark.parametrize("type", TYPES)


def listed(values):
    return (
        [plain(value) for value in values.to_pylist()]
        if isinstance(values, pa.Array)
        else [plain(v) for v in values.tolist()]
    )


def test_every_pair_is_tested() -> None:
    assert {pair[:2] for pair in EXACT} | set(RANGED) == {
        (storage.sheet.name, index) for storage in EVERY_STORAGE for index in storage.sheet.indexes
    }


@exact
@every_type
@settings(max_examples=examples(8))
@given(data=st.data(), basic_windows=st.integers(1, 5))
def test_answers(storage, index, purge, type, data, basic_windows) -> None:
    options = {"index_buckets": 3} if index == "h_index" and data.draw(st.booleans()) else {}
    tested = SetWindow(basic_windows, type, storage=storage, index=index, purge=purge, **options)
    oracle = PlainWindow(basic_windows)
    for _, batch, attach in data.draw(runs(type)):
        tested.append(column(type, batch))
        oracle.append(batch)
        if len(batch) % 2:
            # Values that only fill must not go.
            tested.purge()
        tested.check_invariants()
        tested.attach(attach)
        oracle.attach(attach)
        tested.check_invariants()
        values, counts = tested.histogram()
        assert list(zip(listed(values), counts.tolist())) == oracle.histogram()
        assert tested.distinct() == len(oracle.histogram())
        for phi in (0.01, 0.29, 0.5, 1):
            assert plain(tested.quantile(phi)) == oracle.quantile(phi)
        assert plain(tested.median()) == oracle.median()
        top = oracle.top()
        assert plain(tested.mode()) == (top[0][0] if top else None)
        values, counts = tested.top_k(3)
        assert list(zip(listed(values), counts.tolist())) == top[:3]
        shown = tested.statistics()
        assert shown["tuples"] == tested.tuples == len(oracle.values())
        assert shown["filling"] == len(oracle.filling)
        assert shown["basic_windows"] == len(oracle.attached)
        assert shown["distinct"] <= shown["nodes"] == shown["distinct"] + shown["zero_nodes"]


def in_range(value, low, high, type):
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(low) and math.isnan(high)
    if type == "int64":
        return low <= value <= high
    return low <= value and (value < high or value == high == math.inf)


@pytest.mark.parametrize(("storage", "index"), RANGED)
@pytest.mark.parametrize(("type", "width"), [("int64", 7), ("float64", 0.1), ("float64", 33.0)])
@settings(max_examples=examples(15))
@given(data=st.data(), basic_windows=st.integers(1, 4))
def test_ranges(storage, index, type, width, data, basic_windows) -> None:
    tested = SetWindow(basic_windows, type, storage=storage, index=index, group_width=width)
    oracle = PlainWindow(basic_windows)
    for _, batch, attach in data.draw(runs(type)):
        tested.append(column(type, batch))
        oracle.append(batch)
        tested.attach(attach)
        oracle.attach(attach)
        tested.check_invariants()
        ranges, counts = tested.histogram()
        pairs = list(zip(ranges.low.tolist(), ranges.high.tolist()))
        held = [sum(in_range(value, *pair, type) for value in oracle.values()) for pair in pairs]
        # Each value lies in one range, and in no other.
        assert counts.tolist() == held
        assert sum(held) == len(oracle.values())
        if not held:
            assert tested.median() is None
            continue
        ordered = sorted(oracle.values(), key=lambda v: (math.isnan(v), v))
        assert in_range(ordered[math.ceil(len(ordered) / 2) - 1], *tested.median(), type)
        assert in_range(ordered[max(1, len(ordered) // 4) - 1], *tested.quantile(0.25), type)
        low, high = tested.mode()
        assert sum(in_range(value, low, high, type) for value in oracle.values()) == max(held)


@exact
@every_type
@settings(max_examples=examples(5))
@given(data=st.data(), basic_windows=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_intersection(storage, index, purge, type, data, basic_windows) -> None:
    tested = TwoSetWindow(basic_windows, type, storage=storage, index=index, purge=purge)
    oracles = [PlainWindow(n) for n in basic_windows]
    for side, batch, attach in data.draw(runs(type, sides=2)):
        tested.append(side, column(type, batch))
        oracles[side].append(batch)
        tested.attach(side, attach)
        oracles[side].attach(attach)
        tested.check_invariants()
        left, right = dict(oracles[0].histogram()), dict(oracles[1].histogram())
        values, lefts, rights = tested.intersection()
        expected = [(value, count, right[value]) for value, count in left.items() if value in right]
        assert list(zip(listed(values), lefts.tolist(), rights.tolist())) == expected
        for each in (0, 1):
            values, counts = tested.histogram(each)
            assert list(zip(listed(values), counts.tolist())) == oracles[each].histogram()


@pytest.mark.parametrize(("storage", "index"), RANGED)
@settings(max_examples=examples(15))
@given(data=st.data(), basic_windows=st.tuples(st.integers(1, 4), st.integers(1, 4)))
def test_intersection_of_ranges(storage, index, data, basic_windows) -> None:
    tested = TwoSetWindow(basic_windows, "int64", storage=storage, index=index, group_width=10)
    oracles = [PlainWindow(n) for n in basic_windows]
    for side, batch, attach in data.draw(runs("int64", sides=2)):
        tested.append(side, column("int64", batch))
        oracles[side].append(batch)
        tested.attach(side, attach)
        oracles[side].attach(attach)
        tested.check_invariants()
        groups = [{value // 10 for value in oracle.values()} for oracle in oracles]
        ranges, lefts, rights = tested.intersection()
        assert [low // 10 if low > -(2**63) else -(2**63) // 10 for low in ranges.low.tolist()] == sorted(
            groups[0] & groups[1]
        )
        for low, high, left, right in zip(ranges.low.tolist(), ranges.high.tolist(), lefts.tolist(), rights.tolist()):
            assert left == sum(low <= value <= high for value in oracles[0].values())
            assert right == sum(low <= value <= high for value in oracles[1].values())


FIGURE_2 = [12, 14, 16, 17, 15, 4, 19, 17, 16, 23, 12, 19, 1, 12, 5, 23]


@pytest.mark.parametrize("storage", ["list", "aggr", "hash"])
def test_the_values_of_figure_2(storage) -> None:
    window = SetWindow(1, storage=storage)
    window.append(FIGURE_2)
    assert window.distinct() == 0, "tuples are not seen before their basic window is attached"
    window.attach()
    values, counts = window.histogram()
    assert values.tolist() == [1, 4, 5, 12, 14, 15, 16, 17, 19, 23]
    assert counts.tolist() == [1, 1, 1, 3, 1, 1, 2, 2, 2, 2]
    assert window.statistics()["entries"] == (16 if storage == "list" else 10)


def test_the_groups_of_figure_2() -> None:
    window = SetWindow(1, storage="group", index="g_index", group_width=5)
    window.append(FIGURE_2)
    window.attach()
    (low, high), counts = window.histogram()
    assert low.tolist() == [0, 5, 10, 15, 20]
    assert high.tolist() == [4, 9, 14, 19, 24]
    assert counts.tolist() == [2, 1, 4, 7, 2]


@exact
def test_a_value_that_leaves_and_comes_back_between_purges(storage, index, purge) -> None:
    window = SetWindow(10, storage=storage, index=index, purge=purge, purges_per_roll_over=1)
    for step in range(60):
        # Five is there once in twelve basic windows: gone for two of them, in the index for longer.
        window.append([5, 6] if step % 12 == 0 else [6])
        window.check_invariants()
        window.attach()
        window.check_invariants()
        assert window.histogram().values.tolist() == ([5, 6] if step % 12 < 10 else [6])


@exact
@pytest.mark.parametrize("type", ["int64", "string"])
def test_ever_new_values_do_not_leak(storage, index, purge, type) -> None:
    window = SetWindow(4, type, storage=storage, index=index, purge=purge)
    sizes = []
    for step in range(1500):
        batch = [3 * step, 3 * step + 1, 3 * step + 2, -7]
        window.append(column(type, [f"{value:>9}" for value in batch] if type == "string" else batch))
        window.attach()
        if step % 500 == 499:
            window.check_invariants()
            sizes.append((window.nbytes, window.statistics()["nodes"]))
    assert sizes[0] == sizes[1] == sizes[2]
    assert window.distinct() == 13


def test_a_gap_of_time_empties_the_window_at_once() -> None:
    window = SetWindow(3)
    window.append([1, 2, 3])
    window.attach(10**15)
    window.check_invariants()
    assert window.tuples == 0
    assert window.histogram().counts.tolist() == []
    assert window.median() is None
    assert window.mode() is None


@every_type
def test_a_refused_batch_changes_nothing(type) -> None:
    window = SetWindow(2, type)
    window.append(column(type, [make(type, 1), make(type, 2)]))
    before = window.statistics()
    bad = {"int64": [1.5], "float64": ["x"], "string": [1, 2]}[type]
    for batch in (bad, pa.array([None, None], pa.string() if type == "string" else pa.int64()), [[1], [2]]):
        with pytest.raises(IndexingError):
            window.append(batch)
        assert window.statistics() == before
        window.check_invariants()


def test_bad_arguments_are_named() -> None:
    for options, words in [
        ({"storage": "lists"}, "did you mean 'list'"),
        ({"index": "tree"}, "l_index, t_index, h_index, g_index"),
        ({"index": "g_index"}, "group_width"),
        ({"group_width": 5}, "g_index"),
        ({"storage": "group"}, "serves g_index"),
        ({"storage": "aggr", "index": "g_index", "group_width": 5}, "aggr does not serve g_index"),
        ({"index": "g_index", "group_width": 0}, "above 0"),
        ({"index": "g_index", "group_width": 1.5}, "whole number"),
        ({"type": "string", "index": "g_index", "group_width": 5}, "strings have no ranges"),
        ({"type": "int32"}, "did you mean 'int64'"),
        ({"purge": "never"}, "periodic, zero_list"),
        ({"index_buckets": 4}, "h_index"),
        ({"storage_buckets": 4}, "hash"),
        ({"storage": "hash", "storage_buckets": -1}, "at least one bucket"),
        ({"index": "h_index", "index_buckets": 0}, "at least one bucket"),
        ({"basic_windows": 0}, "at least one basic window"),
        ({"purges_per_roll_over": 0}, "at least 1"),
    ]:
        with pytest.raises(IndexingError, match=words):
            SetWindow(**{"basic_windows": 2, **options})
    window = SetWindow(2)
    for call, words in [
        (lambda: window.quantile(0), "phi"),
        (lambda: window.top_k(0), "k must be"),
        (lambda: window.attach(-1), "-1"),
        (lambda: SetWindow(2, index="g_index", group_width=3).distinct(), "ranges"),
        (lambda: TwoSetWindow((1, 2, 3)), "two numbers"),
        (lambda: TwoSetWindow((1, 2)).append(2, [1]), "side"),
    ]:
        with pytest.raises(IndexingError, match=words):
            call()


def test_odd_values_in_order() -> None:
    for type, expected in [
        ("int64", [-(2**63), -1, 0, 1, 7, 2**63 - 2, 2**63 - 1]),
        ("float64", [-math.inf, -1.5, 0.0, 5e-324, 1e308, math.inf, "NaN"]),
        ("string", ["", "\x00", "a", "aa", "b", "zz", "ä", "￿", "\U0001f600"]),
    ]:
        window = SetWindow(1, type)
        window.append(column(type, ODD[type]))
        window.attach()
        assert listed(window.histogram().values) == expected


def test_strings_of_every_arrow_kind() -> None:
    window = SetWindow(1, "string")
    for values in (
        pa.array(["a", "b"], pa.large_string()),
        pa.chunked_array([pa.array(["a"]), pa.array(["c"])]),
        pa.array(["a", "d"]).dictionary_encode(),
        np.array(["a", "e"], object),
        ["a"],
        pa.chunked_array([], pa.string()),
    ):
        window.append(values)
    window.attach()
    assert window.histogram().values.to_pylist() == ["a", "b", "c", "d", "e"]
    assert window.histogram().counts.tolist() == [5, 1, 1, 1, 1]
