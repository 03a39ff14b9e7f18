"""Levels by their formulas equal levels laid out one after the other; segments never overlap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels.collective_count import level_of, level_start
from panewise.kernels.segments import give_segment, no_segments, take_segment


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7, 64])
def test_levels_one_after_the_other(p) -> None:
    begin = 1
    for level in range(40):
        size = 2 ** (level // p)
        assert level_start(level, p) == begin
        assert level_of(begin, p) == level
        assert level_of(begin + size - 1, p) == level
        begin += size


def test_levels_of_very_distant_positions() -> None:
    assert level_of(2**61, 1) == 61
    assert level_start(61, 1) == 2**61
    assert level_of(2**61 - 1, 1) == 60


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=60))
def test_segments_do_not_overlap(steps) -> None:
    pool, free = np.zeros(8, np.int64), no_segments()
    taken: list[tuple[int, int]] = []
    for is_taken, log_size in steps:
        if is_taken:
            start = take_segment(pool, free, log_size)
            while start < 0:
                pool = np.concatenate([pool, np.zeros(len(pool), np.int64)])
                start = take_segment(pool, free, log_size)
            taken.append((start, log_size))
            pool[start : start + 2**log_size] = len(taken)
        elif taken:
            give_segment(pool, free, *taken.pop(log_size % len(taken)))
        places = [place for start, size in taken for place in range(start, start + 2**size)]
        assert len(places) == len(set(places))
        assert all(0 <= place < len(pool) for place in places)


def test_a_segment_that_was_given_back_is_used_again() -> None:
    pool, free = np.zeros(8, np.int64), no_segments()
    first = take_segment(pool, free, 3)
    assert take_segment(pool, free, 0) == -1
    give_segment(pool, free, first, 3)
    assert take_segment(pool, free, 3) == first
