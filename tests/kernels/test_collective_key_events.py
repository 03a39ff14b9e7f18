"""What the store of keys says about one key equals what plain Python says about its events."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels.key_events import (
    count_after,
    event_of_sum,
    extreme_after,
    first_after,
    reaches_count,
    sum_after,
    with_room,
)
from panewise.substreams.scan import ScanSubstreams

events = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50), st.integers(0, 4)), min_size=1, max_size=60)


def stored(steps, aggregate):
    """A store with events, and per key its values and times."""
    scan, now, plain = ScanSubstreams(10**6, aggregate=aggregate), 0, {}
    for key, value, gap in steps:
        now += gap
        scan.update([key], [value], [now])
        plain.setdefault(key, []).append((value, now))
    return scan._store, plain, now


@given(events, st.integers(-1, 250))
def test_counts(steps, start) -> None:
    store, plain, _ = stored(steps, "count")
    for key, held in plain.items():
        seat = store.seat_of[key]
        expected = sum(time > start for _, time in held)
        assert count_after(store, seat, start) == expected
        assert first_after(store, seat, start) == len(held) - expected
        assert reaches_count(store, seat, start, expected)
        assert not reaches_count(store, seat, start, expected + 1)


@given(events, st.integers(-1, 250))
def test_sums(steps, start) -> None:
    store, plain, _ = stored(steps, "sum")
    for key, held in plain.items():
        seat = store.seat_of[key]
        expected = sum(value for value, time in held if time > start)
        assert sum_after(store, seat, start) == expected


@given(events, st.integers(0, 59), st.integers(0, 10**4))
def test_the_event_that_reaches_a_sum(steps, guess, total) -> None:
    store, plain, _ = stored(steps, "sum")
    for key, held in plain.items():
        running = np.cumsum([value for value, _ in held])
        wanted = 1 + total % int(running[-1])
        found = event_of_sum(store, store.seat_of[key], guess % len(held), wanted)
        assert found == next(i for i, reached in enumerate(running) if reached >= wanted)


@given(events)
def test_extremes(steps) -> None:
    store, plain, now = stored(steps, "max")
    for key, held in plain.items():
        for start in range(-1, now):
            later = [value for value, time in held if time > start]
            if later:
                assert extreme_after(store, store.seat_of[key], start) == max(later)


def test_room() -> None:
    found = np.arange(4)
    assert with_room(found, 2, 2).tolist() == [0, 1, 2, 3]
    larger = with_room(found, 3, 9)
    assert larger[:3].tolist() == [0, 1, 2]
    assert len(larger) >= 12
