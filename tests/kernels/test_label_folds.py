"""What folds any range of a key's values agrees with the values themselves, over keys of many sizes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from panewise.kernels.block_extremes import build_blocks, greatest_of_ranges
from panewise.kernels.label_ranges import places_behind
from panewise.kernels.running_sums import running_sums, sums_of_ranges
from panewise.kernels.sliding_modes import slide_modes
from panewise.kernels.wavelets import build_wavelets, count_first, previous_equal, rank_values, select_symbols

SIZES = (0, 1, 3, 64, 0, 65, 127, 128, 300, 1)
SEGMENTS = np.concatenate([[0], np.cumsum(SIZES)]).astype(np.int64)


def sliding_ranges(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, and ranges that are not empty, with both ends non-decreasing within a key."""
    random = np.random.default_rng(seed)
    keys, begins, ends = [], [], []
    for key, size in enumerate(SIZES):
        if size:
            count = 40
            ends_here = np.sort(random.integers(1, size + 1, count))
            begins_here = np.minimum(np.sort(random.integers(0, size, count)), ends_here - 1)
            keys += [key] * count
            begins += (SEGMENTS[key] + np.maximum.accumulate(begins_here)).tolist()
            ends += (SEGMENTS[key] + ends_here).tolist()
    return np.array(keys), np.array(begins), np.maximum(np.array(ends), np.array(begins) + 1)


@pytest.mark.parametrize("different", [1, 2, 5, 1000])
def test_symbols_of_ranges(different: int) -> None:
    random = np.random.default_rng(different)
    words = random.integers(-different, different, SEGMENTS[-1])
    keys, begins, ends = sliding_ranges(different)
    covered = [words[begin:end] for begin, end in zip(begins, ends)]
    ranks, distinct, counts = rank_values(words, SEGMENTS)
    base = SEGMENTS[keys]
    wanted = np.array([random.integers(1, len(one) + 1) for one in covered])
    selection = build_wavelets(ranks, SEGMENTS, counts - 1)
    found = distinct[base + select_symbols(selection, SEGMENTS, keys, begins, ends, wanted)]
    assert found.tolist() == [np.sort(one)[rank - 1] for one, rank in zip(covered, wanted)]
    first = build_wavelets(previous_equal(ranks, SEGMENTS), SEGMENTS, np.diff(SEGMENTS))
    assert count_first(first, SEGMENTS, keys, begins, ends).tolist() == [len(set(one.tolist())) for one in covered]
    modes = distinct[base + slide_modes(ranks, SEGMENTS, counts, keys, begins, ends)]
    for mode, one in zip(modes, covered):
        same = Counter(one.tolist())
        assert mode == min(same, key=lambda value: (-same[value], value))


def test_extremes_of_ranges() -> None:
    random = np.random.default_rng(7)
    words = random.integers(-(2**62), 2**62, 5000)
    begins = random.integers(0, 5000, 3000)
    ends = np.minimum(begins + random.integers(1, 4000, 3000), 5000)
    found = greatest_of_ranges(words, *build_blocks(words), begins, ends)
    assert found.tolist() == [words[begin:end].max() for begin, end in zip(begins, ends)]


def test_sums_of_ranges_are_right_or_say_that_they_are_not() -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=SEGMENTS[-1]) * 10.0 ** random.integers(-12, 12, SEGMENTS[-1])
    values[200] = 1e200
    values[250] = np.nan
    _, begins, ends = sliding_ranges(3)
    special = np.concatenate([[0], np.cumsum(~np.isfinite(values))])
    running = running_sums(values, SEGMENTS)
    high, low, good = sums_of_ranges(values, running, special, max(SIZES), begins, ends)
    assert 0 < np.count_nonzero(good) < len(good)
    for i in np.flatnonzero(good).tolist():
        exact = [Fraction(value) for value in values[begins[i] : ends[i]].tolist()]
        error = abs(Fraction(float(high[i])) + Fraction(float(low[i])) - sum(exact))
        assert error <= Fraction(2) ** -53 * sum(map(abs, exact))


def test_places_behind_targets() -> None:
    random = np.random.default_rng(1)
    times = np.concatenate([np.sort(random.integers(0, 200, size)) for size in SIZES])
    keys = np.repeat(np.arange(len(SIZES)), 50)
    targets = np.concatenate([np.sort(random.integers(-10, 220, 50)) for _ in SIZES])
    found = places_behind(times, SEGMENTS, keys, targets)
    for key, target, place in zip(keys, targets, found):
        mine = times[SEGMENTS[key] : SEGMENTS[key + 1]]
        assert place == SEGMENTS[key] + np.count_nonzero(mine <= target)
