"""Every ring over every index gives the rows of plain Python: sorted scans and join probes."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.indexes.plain import PlainWindow
from tests.indexes.streams import ODD, TYPES, column, make, runs
from tests.thoroughness import examples

from panewise.errors import IndexingError
from panewise.indexes import EVERY_INDEX, EVERY_RING, RingWindow

INDEXES = [index.sheet.name for index in EVERY_INDEX]
RINGS = [ring.sheet.name for ring in EVERY_RING]
every_ring = pytest.mark.parametrize("ring", RINGS)
every_index = pytest.mark.parametrize("index", INDEXES)


def build(basic_windows, type, ring, index, purge="periodic"):
    width = {"int64": 9, "float64": 4.5}[type] if index == "g_index" else None
    return RingWindow(basic_windows, type, ring=ring, index=index, purge=purge, group_width=width)


@every_ring
@pytest.mark.parametrize(
    ("index", "type"),
    [(index, type) for index in INDEXES for type in TYPES if not (index == "g_index" and type == "string")],
)
@settings(max_examples=examples(8))
@given(
    data=st.data(),
    basic_windows=st.integers(1, 5),
    purge=st.sampled_from(["periodic", "zero_list"]),
    every=st.integers(1, 3),
)
def test_rows(ring, index, type, data, basic_windows, purge, every) -> None:
    tested, oracle = build(basic_windows, type, ring, index, purge), PlainWindow(basic_windows)
    keys = [make(type, 3), make(type, 1), *ODD[type][:4], make(type, 3)]
    for step, (_, batch, attach) in enumerate(data.draw(runs(type))):
        rows = tested.append(column(type, batch))
        assert rows.tolist() == list(range(oracle.rows, oracle.rows + len(batch)))
        oracle.append(batch)
        if step % 2:
            tested.purge()
        tested.check_invariants()
        for including in (False, True):
            places, rows = tested.probe(column(type, keys), including)
            assert list(zip(places.tolist(), rows.tolist())) == oracle.probe(keys, including)
        first = tested.attach(attach)
        oracle.attach(attach)
        tested.check_invariants()
        held = [row for _, row in oracle.tuples() + oracle.filling]
        assert first == tested.first_row == (held[0] if held else oracle.rows)
        assert tested.next_row == oracle.rows
        # Evaluated now and then, as the answer is kept from one time to the next.
        if step % every == 0:
            assert tested.sorted_rows().tolist() == oracle.sorted_rows()
            assert tested.sorted_rows(descending=True).tolist() == oracle.sorted_rows(descending=True)
            assert tested.sorted_rows().tolist() == oracle.sorted_rows()
        shown = tested.statistics()
        assert shown["tuples"] == tested.tuples == len(oracle.tuples())
        assert shown["filling"] == len(oracle.filling)


@every_ring
@pytest.mark.parametrize("index", ["l_index", "t_index", "h_index"])
def test_many_small_steps(ring, index) -> None:
    """Long runs: the order is merged many times, values leave, come back, and nodes are used again."""
    random = np.random.default_rng(5)
    tested = RingWindow(20, ring=ring, index=index, purge="zero_list", purges_per_roll_over=10)
    keys = deque()
    sizes = deque()
    for step in range(400):
        batch = random.integers(0, 60, 12) + step // 3
        tested.append(batch)
        keys.extend(batch.tolist())
        sizes.append(12)
        first = tested.attach()
        if len(sizes) > 20:
            for _ in range(sizes.popleft()):
                keys.popleft()
        expected = np.argsort(np.array(keys), kind="stable") + first
        assert tested.sorted_rows().tolist() == expected.tolist()
        if step % 40 == 0:
            tested.check_invariants()
    assert tested.statistics()["nodes"] < 120


@every_ring
@every_index
def test_a_join_of_two_windows(ring, index) -> None:
    """Each arrival probes the other window: the pairs that a join of windows gives, each once."""
    random = np.random.default_rng(3)
    windows = [build(3, "int64", ring, index), build(2, "int64", ring, index)]
    oracles = [PlainWindow(3), PlainWindow(2)]
    found, expected = [], []
    for step in range(40):
        side = step % 2
        batch = random.integers(0, 12, 5)
        rows = windows[side].append(batch)
        places, others = windows[1 - side].probe(batch, including_filling=True)
        found += [(side, row, other) for row, other in zip(rows[places].tolist(), others.tolist())]
        numbers = range(oracles[side].rows, oracles[side].rows + 5)
        pairs = oracles[1 - side].probe(batch.tolist(), including_filling=True)
        expected += [(side, numbers[place], row) for place, row in pairs]
        oracles[side].append(batch.tolist())
        if step % 3 == 2:
            windows[side].attach()
            oracles[side].attach()
    assert found == expected
    assert len(found) > 100


@every_ring
def test_ever_new_keys_do_not_leak(ring) -> None:
    window = RingWindow(4, "string", ring=ring, index="t_index")
    sizes = []
    for step in range(1500):
        window.append([f"{step:>9}", f"{step:>9}.", "same"])
        window.attach()
        if step % 10 == 0:
            window.sorted_rows()
        if step % 500 == 499:
            window.check_invariants()
            sizes.append((window.nbytes, window.statistics()["nodes"]))
    assert sizes[0] == sizes[1] == sizes[2]


def test_sorted_rows_are_the_callers_to_read_only() -> None:
    window = RingWindow(2)
    window.append([3, 1, 2])
    window.attach()
    for descending in (False, True):
        with pytest.raises(ValueError, match="read-only"):
            window.sorted_rows(descending)[0] = 9
    window.append([0])
    rows = window.sorted_rows()
    window.attach()
    assert rows.tolist() == [1, 2, 0], "an answer does not change when the window does"
    assert window.sorted_rows().tolist() == [3, 1, 2, 0]


def test_a_window_sorted_by_one_column_shows_another() -> None:
    price, volume = np.array([30, 10, 20, 10, 30, 5]), np.array([1, 2, 3, 4, 5, 6])
    window = RingWindow(2)
    for part in (slice(0, 2), slice(2, 4), slice(4, 6)):
        window.append(price[part])
        first = window.attach()
    assert first == 2
    assert volume[window.sorted_rows()].tolist() == [6, 4, 3, 5]
    assert volume[window.sorted_rows(descending=True)].tolist() == [5, 3, 4, 6]


def test_bad_arguments_are_named() -> None:
    for options, words in [
        ({"ring": "dirty"}, "did you mean 'dirty_bits'"),
        ({"index": "g_index"}, "group_width"),
        ({"index": "aggr"}, "there is no index"),
        ({"purge": "x"}, "way of purging"),
        ({"purges_per_roll_over": 0}, "at least 1"),
        ({"type": "string", "index": "g_index", "group_width": 2}, "strings have no ranges"),
    ]:
        with pytest.raises(IndexingError, match=words):
            RingWindow(**{"basic_windows": 2, **options})
    window = RingWindow(2)
    window.append([1, 2])
    with pytest.raises(IndexingError, match="int64"):
        window.append([1.5])
    with pytest.raises(IndexingError, match="-3"):
        window.attach(-3)
    window.check_invariants()
    assert window.next_row == 2
