"""The naive approach: every query by itself, exact after every arrival."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import agrees, answer, covered
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.errors import PanewiseError, WindowError
from panewise.structures.rivals import stream_naive as module
from panewise.structures.rivals.stream_naive import StreamNaive

AGGREGATES = ["COUNT", "SUM", "AVG", "MAX", "MIN"]


@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_every_answer_agrees_with_the_oracle(aggregate: str, data: st.DataObject) -> None:
    is_float = data.draw(st.booleans())
    # Sums run on for ever, as pairs: values may lie far apart, but not by more than the digits of a pair.
    values = st.floats(-1e9, 1e9).map(lambda value: round(value, 3)) if is_float else st.integers(-9, 9)
    sizes = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=5))
    naive = StreamNaive(aggregate, sizes, type=Type.DOUBLE if is_float else Type.BIGINT)
    elements: list[Any] = []
    for _ in range(data.draw(st.integers(1, 4))):
        batch = data.draw(st.lists(values, max_size=30))
        got = naive.answers_at_every_event(batch).tolist()
        for value, *found in zip(batch, *got):
            elements.append(value)
            for size, one in zip(sizes, found):
                window = covered(elements, size, 0)
                assert agrees(aggregate, one, answer(aggregate, window), window)
        naive.check_invariants()
        for size, one in zip(sizes, naive.lookup(sizes).tolist()):
            window = covered(elements, size, 0)
            assert agrees(aggregate, one, answer(aggregate, window), window)


@pytest.mark.parametrize("aggregate", AGGREGATES)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_windows_of_time(aggregate: str, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    naive = StreamNaive(aggregate, sizes, timed=True)
    arrived: list[tuple[int, int]] = []
    clock = 0
    for _ in range(data.draw(st.integers(1, 5))):
        batch: list[tuple[int, int]] = []
        for step, value in data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), min_size=1)):
            clock += step
            batch.append((clock, value))
        naive.update([value for _, value in batch], [time for time, _ in batch])
        naive.check_invariants()
        arrived += batch
        for size, found in zip(sizes, naive.lookup(sizes, at_us=clock).tolist()):
            inside = [value for time, value in arrived if clock - size < time]
            assert agrees(aggregate, found, answer(aggregate, inside), inside)


@pytest.mark.parametrize("timed", [False, True])
def test_queries_come_and_go_and_begin_empty(timed: bool) -> None:
    naive = StreamNaive("SUM", [3, 3, 2], timed=timed)
    naive.update([1, 2, 3, 4], [1, 2, 3, 4] if timed else None)
    naive.add_window(5)
    assert naive.lookup([5, 3, 2]).tolist() == [None, 9, 7]
    naive.update([10], [5] if timed else None)
    assert naive.lookup([5, 3, 2]).tolist() == [10, 17, 14]
    naive.remove_window(3)
    assert naive.windows == [3, 2, 5]
    naive.update([100], [6] if timed else None)
    naive.check_invariants()
    assert naive.lookup([5, 3, 2]).tolist() == [110, 114, 110]
    with pytest.raises(WindowError, match="was not added"):
        naive.remove_window(7)


def test_queues_of_time_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE", 8)
    naive = StreamNaive("MAX", [1_000, 5], timed=True)
    values = np.random.default_rng(1).integers(0, 10_000, 900)
    naive.update(values, np.arange(900))
    naive.check_invariants()
    assert naive.lookup([1_000, 5]).tolist() == [values.max(), values[-5:].max()]


def test_a_large_value_leaves_no_trace_in_a_sum() -> None:
    naive = StreamNaive("SUM", [2])
    naive.update([1e17, 0.1, 0.2, 0.3])
    assert naive.lookup([2]).tolist() == [0.5]


def test_bad_input_is_refused() -> None:
    with pytest.raises(PanewiseError, match="not MEDIAN"):
        StreamNaive("MEDIAN", [2])
    with pytest.raises(WindowError, match="above 0"):
        StreamNaive("SUM", [0])
    naive = StreamNaive("SUM", [2])
    assert naive.lookup([2]).tolist() == [None]
    with pytest.raises(WindowError, match="window 3 was not added"):
        naive.lookup([3])
    with pytest.raises(PanewiseError, match="finite values only"):
        naive.update([math.nan])
    with pytest.raises(PanewiseError, match="no NULLs"):
        naive.update(np.ma.MaskedArray([1, 2], [False, True]))
    with pytest.raises(PanewiseError, match="64 bits"):
        naive.update([2**62, 2**62])
    with pytest.raises(PanewiseError, match="give no times"):
        naive.update([1], [1])
    timed = StreamNaive("SUM", [2], timed=True)
    timed.update([1], [5])
    with pytest.raises(PanewiseError, match="backwards"):
        timed.update([1], [4])
    with pytest.raises(PanewiseError, match="at arrivals only"):
        timed.lookup([2], at_us=9)


def test_its_data_sheet() -> None:
    assert StreamNaive.sheet.is_exact
    assert all(StreamNaive.sheet.why_not(name) is None for name in AGGREGATES)
    assert StreamNaive.sheet.why_not("MEDIAN") is not None
