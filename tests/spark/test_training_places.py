"""Buckets with many labels are cut by time, as far as events do not go to too many places."""

from __future__ import annotations

import numpy as np

from panewise.spark.training_places import FRACTIONS, Places, slices_wanted, time_cuts

DAY_US = 86_400_000_000


def quantiles_of(times: np.ndarray) -> np.ndarray:
    return np.quantile(times, FRACTIONS).astype(np.int64)


def test_a_hot_key_is_cut_into_slices_with_as_many_labels() -> None:
    random = np.random.default_rng(3)
    # Most labels in one day of ninety: cuts at equal lengths of time would leave them together.
    times = np.append(random.integers(0, 90 * DAY_US, 1_000), random.integers(10 * DAY_US, 11 * DAY_US, 9_000))
    counts = {0: len(times), **dict.fromkeys(range(1, 16), 1_400)}
    wanted = slices_wanted(counts, partitions=4)
    assert wanted == {0: 3}
    cuts = time_cuts(quantiles_of(times), wanted[0], lambda asked: asked - DAY_US // 24)
    np.testing.assert_allclose(np.bincount(np.searchsorted(cuts, times, side="right")), 10_000 / 3, atol=100)
    assert len(cuts) == 2


def test_few_labels_are_not_cut_unless_they_are_all_in_one_bucket() -> None:
    random = np.random.default_rng(5)
    few = {bucket: 1 + int(count) for bucket, count in enumerate(random.poisson(1.0, 800))}
    assert max(few.values()) > 4
    assert slices_wanted(few, partitions=200) == {}
    assert slices_wanted({0: 5}, partitions=200) == {0: 5}
    assert slices_wanted({0: 1}, partitions=200) == {}


def test_long_windows_are_cut_less() -> None:
    quantiles = quantiles_of(np.arange(0, 90 * DAY_US, DAY_US // 10))
    numbers = [len(time_cuts(quantiles, 100, lambda asked, days=days: asked - days * DAY_US)) for days in (1, 30, 900)]
    assert numbers == [90, 3, 2]
    same = np.zeros(len(FRACTIONS), np.int64)
    assert len(time_cuts(same, 100, lambda asked: asked - DAY_US)) == 0


def test_places_are_spread_evenly_and_labels_find_their_events() -> None:
    places = Places.of(4, 16, {3: np.array([10, 20])}, lambda asked: asked - 7)
    assert len({one for some in places.ids for one in some}) == 18
    assert (places.cuts[3], places.needed[3], len(places.ids[3])) == ([10, 20], [2, 12], 3)
    assert not Places.of(4, 16, {}, lambda asked: asked).are_cut
