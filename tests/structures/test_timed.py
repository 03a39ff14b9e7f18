"""Windows of time over every structure that serves them: disorder, ties, lateness, history."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import Value, agrees, answer
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.errors import HistoryError, PanewiseError, WindowError
from panewise.structures import EVERY_STRUCTURE, Structure
from panewise.structures.rivals.materialize_all import MaterializeAll
from panewise.structures.running_intervals import RunningIntervals
from panewise.structures.sheet import Lookups
from panewise.structures.timed import TimedStructure

TIMED = [kind for kind in EVERY_STRUCTURE if kind.sheet.lookups is not Lookups.REGISTERED]


@pytest.mark.parametrize("kind", TIMED, ids=lambda kind: kind.sheet.name)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_agrees_with_the_oracle(kind: type[Structure], data: st.DataObject) -> None:
    served = [name for name in ("SUM", "MAX", "COUNT", "MEDIAN") if kind.sheet.why_not(name) is None]
    aggregate = data.draw(st.sampled_from(served))
    timed = TimedStructure(kind, aggregate, [(30, 0), (20, 5)], type=Type.BIGINT)
    arrived: list[tuple[int, Value]] = []
    late = clock = 0
    for _ in range(data.draw(st.integers(1, 8))):
        clock += data.draw(st.integers(0, 25))
        batch = data.draw(st.lists(st.tuples(st.integers(-4, 6), st.none() | st.integers(-9, 9)), max_size=12))
        batch = [(clock + offset, value) for offset, value in batch]
        timed.push([time for time, _ in batch], pa.array([value for _, value in batch], pa.int64()))
        on_time = [(time, value) for time, value in batch if time > timed.watermark]
        late += len(batch) - len(on_time)
        arrived += on_time
        timed.advance(clock - 4)
        timed.check_invariants()
        lefts = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
        rights = [data.draw(st.integers(0, left)) for left in lefts]
        got = timed.lookup(lefts, rights).tolist()
        now = timed.watermark
        for left, right, found in zip(lefts, rights, got):
            values = [value for time, value in arrived if now - left < time <= now - right and value is not None]
            assert agrees(aggregate, found, answer(aggregate, values), values)
    assert timed.late == late


def test_ties_keep_the_order_of_arrival() -> None:
    from panewise.aggregates.user import UserAggregate

    latest = UserAggregate("latest", lambda a, b: b if b != 0 else a, identity=0, type=Type.BIGINT)
    timed = TimedStructure(EVERY_STRUCTURE[0], latest, [(10, 0)])
    timed.push([5, 5, 4], [1, 2, 3])
    timed.push([5], [7])
    timed.advance(5)
    assert timed.lookup(10).tolist() == [7]


def test_elements_wait_for_the_watermark() -> None:
    timed = TimedStructure(RunningIntervals, "sum", [(10, 0)], type=Type.BIGINT)
    timed.push([3, 9], [1, 2])
    timed.advance(5)
    assert timed.lookup([10]).tolist() == [1]
    with pytest.raises(HistoryError, match="must wait"):
        timed.lookup([10], at=9)
    timed.advance(9)
    assert timed.lookup([10, 10], at=9).tolist() == [3, 3]
    assert timed.lookup([10], at=4).tolist() == [1]


def test_what_has_left_is_said() -> None:
    timed = TimedStructure(RunningIntervals, "sum", [(10, 0)])
    timed.push(np.arange(100), np.arange(100))
    timed.advance(99)
    timed.add_window(50)
    with pytest.raises(HistoryError, match="up to time 89 have left"):
        timed.lookup([50])
    assert timed.lookup([10]).tolist() == [sum(range(90, 100))]
    timed.remove_window(50)
    assert timed.windows == [(10, 0)]


def test_bad_input_is_refused() -> None:
    with pytest.raises(PanewiseError, match="fixed number of elements"):
        TimedStructure(MaterializeAll, "sum", [(10, 0)])
    with pytest.raises(WindowError, match="needs at least one window"):
        TimedStructure(RunningIntervals, "sum", [])
    timed = TimedStructure(RunningIntervals, "sum", [(10, 0)])
    with pytest.raises(WindowError, match="last window"):
        timed.remove_window(10)
    with pytest.raises(WindowError, match="was not added"):
        timed.remove_window(11)
    with pytest.raises(PanewiseError, match="2 times and 1 values"):
        timed.push([1, 2], [3])
    with pytest.raises(WindowError, match="left > right"):
        timed.lookup([3], [4])
