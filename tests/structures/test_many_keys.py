"""Structures with many keys: sums against NumPy's bincount, reused segments, memory, no object for a key."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from panewise.structures import EVERY_STRUCTURE, Structure, build, restore

NAMES = [structure.sheet.name for structure in EVERY_STRUCTURE if structure.sheet.why_not("SUM") is None]
COUNT = 200_000


def newest(codes: Any, width: int) -> Any:
    """Which events are among the newest `width` of their key."""
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(codes.max() + 1), side="right")
    behind = np.empty(len(codes), np.int64)
    behind[order] = ends[codes[order]] - 1 - np.arange(len(codes))
    return behind < width


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_sums_of_200_000_keys(name: str, dtype: Any) -> None:
    random = np.random.default_rng(11)
    sums = build(name, "SUM", [(8, 0), (7, 4), (3, 1), (1, 0)])
    codes = random.integers(0, COUNT, 1_000_000)
    codes[random.random(len(codes)) < 0.3] = 77
    values = random.integers(-(2**40), 2**40, len(codes)).astype(dtype)
    for part in np.array_split(np.arange(len(codes)), 7):
        sums.update(values[part], keys=codes[part])
        sums._pool.check()
    sums.check_invariants()
    np.testing.assert_array_equal(sums.lengths(np.arange(COUNT)), np.bincount(codes, minlength=COUNT))
    for left, right in [(8, 0), (1, 0), (3, 1), (7, 4)]:
        inside = newest(codes, left) & ~newest(codes, right)
        wanted = np.bincount(codes[inside], weights=values[inside], minlength=COUNT)
        found, answers = sums.lookup_all(left, right)
        np.testing.assert_array_equal(found, np.unique(codes))
        np.testing.assert_array_equal(answers.filled(0), wanted[found])
        some = random.integers(0, COUNT + 10, 50_000)
        answers = sums.lookup(left, right, keys=some)
        np.testing.assert_array_equal(answers.filled(0), np.append(wanted, np.zeros(10))[some])


@pytest.mark.parametrize("name", NAMES)
def test_one_key_with_half_of_the_events(name: str) -> None:
    random = np.random.default_rng(13)
    count = 100_000
    codes = np.where(random.random(600_000) < 0.5, 0, random.integers(0, count, 600_000))
    values = random.integers(0, 1000, len(codes))
    greatest = build(name, "SUM", [(100_000, 0), (1000, 0)])
    for part in np.array_split(np.arange(len(codes)), 3):
        greatest.update(values[part], keys=codes[part])
    greatest.check_invariants()
    wanted = np.bincount(codes[newest(codes, 1000)], weights=values[newest(codes, 1000)], minlength=count)
    found, answers = greatest.lookup_all(1000)
    np.testing.assert_array_equal(answers, wanted[found])
    # The segments of the others are small, however large the largest window is.
    assert greatest._pool.size < 2 * 131_072 + 16 * count


@pytest.mark.parametrize("name", NAMES)
def test_segments_of_forgotten_keys_are_used_again(name: str) -> None:
    sums = build(name, "SUM", [(16, 0)])
    codes = np.repeat(np.arange(10_000), 16)
    sums.update(np.ones(len(codes), np.int64), keys=codes)
    size = sums._pool.size
    for step in range(1, 6):
        sums.forget(np.arange(10_000) + (step - 1) * 10_000)
        sums.update(np.full(len(codes), step), keys=codes + step * 10_000)
        sums.check_invariants()
        assert sums._pool.size == size
        found, answers = sums.lookup_all(16)
        assert found[0] == step * 10_000
        np.testing.assert_array_equal(answers, np.full(10_000, 16 * step))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_smaller_window_gives_memory_back(name: str, dtype: Any) -> None:
    random = np.random.default_rng(17)
    sums = build(name, "SUM", [(64, 0), (4, 0)])
    codes, values = random.integers(0, 500, 50_000), random.integers(-99, 99, 50_000).astype(dtype)
    sums.update(values, keys=codes)
    large = sums.nbytes
    wanted = np.bincount(codes[newest(codes, 4)], weights=values[newest(codes, 4)])
    sums.remove_window(64)
    sums.check_invariants()
    assert sums.nbytes < large / 4
    np.testing.assert_array_equal(sums.lookup_all(4)[1], wanted)
    sums.add_window(64)
    sums.update(values, keys=codes)
    sums.check_invariants()
    wanted = np.bincount(codes[newest(codes, 64)], weights=values[newest(codes, 64)])
    np.testing.assert_array_equal(sums.lookup_all(64)[1], wanted)


@pytest.mark.parametrize(
    ("name", "factor"), [("base_intervals", 2), ("landmark_intervals", 3), ("running_intervals", 1), ("recompute", 1)]
)
def test_memory_is_that_of_the_elements_and_a_little_for_each_key(name: str, factor: int) -> None:
    sums = build(name, "SUM", [(16, 0)])
    for _ in range(20):
        sums.update(np.arange(100_000), keys=np.arange(100_000))
    assert sums.nbytes <= 1.3 * 8 * factor * 16 * 100_000 + 50 * 100_000


@pytest.mark.parametrize("name", NAMES)
def test_no_object_is_made_for_a_key(name: str) -> None:
    sums = build(name, "SUM", [(16, 0)])
    sums.update([1], keys=[0])
    gc.collect()
    before = len(gc.get_objects())
    sums.update(np.arange(50_000), keys=np.arange(50_000))
    gc.collect()
    assert len(gc.get_objects()) < before + 100


def test_snapshots_of_many_keys_come_back_the_same() -> None:
    random = np.random.default_rng(19)
    codes, values = random.integers(0, COUNT, 400_000), random.normal(size=400_000)
    averages = build("running_intervals", "AVG", [(4, 0)])
    averages.update(np.ma.MaskedArray(values, random.random(400_000) < 0.1), keys=codes)
    again = restore(averages.snapshot())
    again.check_invariants()
    (keys, answers), (keys_again, answers_again) = averages.lookup_all(4), again.lookup_all(4)
    np.testing.assert_array_equal(keys, keys_again)
    np.testing.assert_array_equal(answers.mask, answers_again.mask)
    np.testing.assert_allclose(answers.filled(0), answers_again.filled(0), rtol=1e-15)


def small_structure(name: str) -> Structure:
    sums = build(name, "SUM", [(8, 0)])
    sums.update(np.arange(18.0), keys=[0] * 9 + [1] * 9)
    sums.check_invariants()
    return sums


def test_a_damaged_tree_is_noticed() -> None:
    sums = small_structure("base_intervals")
    sums._every_column()[0].arrays()[0][21] += 1.0
    with pytest.raises(AssertionError, match="key 1"):
        sums.check_invariants()


def test_a_damaged_landmark_is_noticed() -> None:
    sums = small_structure("landmark_intervals")
    sums._every_column()[0].arrays()[1][sums._pool.size + 8] += 1.0
    with pytest.raises(AssertionError, match="key 1"):
        sums.check_invariants()


def test_a_damaged_sum_is_noticed() -> None:
    sums = small_structure("running_intervals")
    sums._every_column()[0].arrays()[0][3] += 1.0
    with pytest.raises(AssertionError, match="key 0"):
        sums.check_invariants()


def test_segments_that_overlap_are_noticed() -> None:
    sums = small_structure("recompute")
    sums._pool.offset[1] = 4
    with pytest.raises(AssertionError):
        sums.check_invariants()
