"""Packed rows give back every bit, and take the bytes that their values need."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.engine.packed_rows import NO_SLOT, PackedColumn, PackedRows
from panewise.engine.rows import Rows

integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300) | st.integers(2**40, 2**40 + 70_000)
doubles = st.floats() | st.sampled_from([0.0, -0.0, float("nan")])


@given(
    st.lists(integers, max_size=20).map(lambda x: np.array(x, np.int64)) | st.lists(doubles, max_size=20).map(np.array)
)
def test_a_column_comes_back_bit_by_bit(column) -> None:
    column = column.astype(np.float64) if column.dtype == np.float64 else column
    packed = PackedColumn.of(column)
    back = packed.unpacked()
    assert back.dtype == column.dtype
    assert back.view(np.int64).tolist() == column.view(np.int64).tolist()
    some = np.arange(len(column))[::2]
    assert packed.unpacked(some).view(np.int64).tolist() == column[::2].view(np.int64).tolist()


@given(st.lists(st.tuples(doubles, doubles), min_size=1, max_size=60), st.sets(st.integers(0, 59), max_size=9))
def test_a_column_that_is_mostly_like_another_comes_back_bit_by_bit(pairs, others: set[int]) -> None:
    values, more = np.array(pairs, np.float64).T.copy()
    first = PackedColumn.of(values)
    places = [place for place in others if place < len(values)]
    alike, low = values.copy(), np.zeros(len(values))
    alike[places] = low[places] = more[places]
    for column in (alike, low):
        packed = PackedColumn.of(column, [first] if first.rest is not None else [])
        assert packed.unpacked().view(np.int64).tolist() == column.view(np.int64).tolist()
        some = np.arange(len(column), dtype=np.int32)[::-3]
        assert packed.unpacked(some).view(np.int64).tolist() == column[some].view(np.int64).tolist()
    assert first.unpacked().view(np.int64).tolist() == values.view(np.int64).tolist()


def test_columns_of_single_events_are_held_once() -> None:
    values = np.sqrt(np.arange(1000.0))
    greatest, low = values.copy(), np.zeros(1000)
    greatest[:50] += 1.0
    low[100:105] = 1e-20
    columns = {"sum_high": values, "sum_low": low, "max": greatest}
    keys, nothing = np.arange(1000), np.zeros(1000, np.int64)
    rows = PackedRows(Rows(keys, nothing, nothing, columns))
    bare = PackedRows(Rows(keys, nothing, nothing))
    assert rows.nbytes - bare.nbytes == 8 * 1000 + 12 * (50 + 5)


def test_bytes_follow_the_span_of_values() -> None:
    base = np.arange(1000) % 200 + 10**15
    assert PackedColumn.of(base).nbytes == 1000
    assert PackedColumn.of(base * 2).nbytes == 2000
    assert PackedColumn.of(base * 10**6).nbytes == 4000
    assert PackedColumn.of(base * 10**3 * (1 - 2 * (base % 2))).nbytes == 8000
    assert PackedColumn.of(np.full(1000, -0.0)).nbytes == 8
    assert PackedColumn.of(np.array([0.0, -0.0, 0.0])).nbytes == 24


def test_places_take_the_bytes_that_their_number_needs() -> None:
    for count, width in ((1, 1), (256, 1), (257, 2), (65_537, 4)):
        packed = PackedRows(Rows(np.arange(count), np.arange(count) * 10**9, np.zeros(count, np.int64)))
        assert packed.places.nbytes == count * width
        assert packed.unpacked().slots.tolist() == (np.arange(count) * 10**9).tolist()


def test_equal_columns_are_held_once() -> None:
    keys, slots, shards = np.arange(100), np.arange(100) + 7, np.zeros(100, np.int64)
    counts = np.arange(100) % 5 + 1
    rows = PackedRows(Rows(keys, slots, shards, {"rows": counts, "count_0": counts.copy(), "sum_0": counts * 2}))
    # Keys, places, both columns, and the slot, shard and number of rows of each place.
    assert rows.nbytes == 400 + 100 + 100 + 100 + 100 * (8 + 8 + 8)
    assert rows.lowest_slot == 7
    back = rows.unpacked(np.array([3, 50]))
    assert back.columns["count_0"].tolist() == [4, 1]
    assert back.columns["sum_0"].tolist() == [8, 2]
    assert back.slots.tolist() == [10, 57]
    assert PackedRows(back.take(np.arange(0))).lowest_slot == NO_SLOT


@given(
    st.lists(st.tuples(st.integers(-3, 3) | st.integers(-(2**62), 2**62), st.integers(0, 3)), max_size=30),
    st.integers(-4, 4),
)
def test_places_are_slots_and_shards(given, oldest: int) -> None:
    slots, shards = np.array(given, np.int64).reshape(-1, 2).T.copy()
    packed = PackedRows(Rows(np.arange(len(given)), slots, shards))
    back = packed.unpacked()
    assert list(zip(back.slots.tolist(), back.shards.tolist())) == given
    assert len(packed.place_slots) == len(set(given))
    packed.forget(oldest)
    held = [slot for slot, _ in given if slot >= oldest]
    assert packed.live_rows == len(held)
    assert packed.lowest_slot == min(held, default=NO_SLOT)
    live = packed.unpacked(packed.live)
    assert live.slots.tolist() == held
    assert live.keys.tolist() == [row for row, (slot, _) in enumerate(given) if slot >= oldest]
