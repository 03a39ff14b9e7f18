"""What is special with keys: order, forms of values, keys that come back, errors, sketches of each key."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import PanewiseError, SnapshotError, WindowError
from panewise.structures import EVERY_STRUCTURE, build, restore
from panewise.structures.snapshot import pack, unpack

XOR = UserAggregate(
    "XOR", combine=lambda a, b: a ^ b, identity=0, type=Type.BIGINT, inverse=lambda whole, prefix: whole ^ prefix
)
LAST = UserAggregate("LAST", combine=lambda a, b: b if b != 0.0 else a, identity=0.0, lower=lambda x: x + 1.0)


@pytest.mark.parametrize("name", [kind.sheet.name for kind in EVERY_STRUCTURE if kind.sheet.why_not("SUM") is None])
def test_a_sum_that_overflows_spoils_no_window_beside_it(name: str) -> None:
    sums = build(name, "SUM", [(4, 0), (4, 2), (4, 3), (2, 1), (3, 2), (1, 0), (3, 0), (3, 1), (2, 0)])
    sums.update([1e308, 1e308, 1e308, 5.0], keys=[0, 0, 0, 0])
    assert sums.lookup([1, 2, 3, 4], [0, 1, 2, 0], keys=0).tolist() == [5.0, 1e308, 1e308, math.inf]
    sums.update([7.0, -2.0, 1.0], keys=[0] * 3)
    assert sums.lookup([4, 3], keys=0).tolist() == [11.0, 6.0]
    sums.update([1.5e308, 2e307, 3e307, -1.0], keys=[1, 1, 1, 1])
    assert sums.lookup([3, 2], [1, 0], keys=1).tolist() == [5e307, 3e307]


@pytest.mark.parametrize("largest", [16, 100, 1000])
def test_the_error_of_sums_stays_within_the_window(largest: int) -> None:
    random = np.random.default_rng(largest)
    sums = build("running_intervals", "SUM", [(largest, 0)])
    streams: list[list[float]] = [[], [], []]
    for _ in range(40):
        codes = random.integers(0, 3, 1000)
        values = random.normal(size=1000) * 10.0 ** random.integers(-20, 20, 1000)
        sums.update(values, keys=codes)
        for key, value in zip(codes.tolist(), values.tolist()):
            streams[key].append(value)
        lefts = random.integers(1, largest + 1, 30)
        rights = random.integers(0, lefts)
        asked = random.integers(0, 3, 30)
        answers = sums.lookup(lefts, rights, keys=asked).filled(0.0).tolist()
        for key, left, right, answer in zip(asked.tolist(), lefts.tolist(), rights.tolist(), answers):
            end = len(streams[key])
            window = streams[key][max(end - left, 0) : max(end - right, 0)]
            assert abs(answer - math.fsum(window)) <= 2.0**-52 * math.fsum(map(abs, window))


def test_elements_of_one_key_keep_their_order() -> None:
    last = build("base_intervals", LAST, [(8, 0)])
    last.update([1.0, 10.0, 2.0, 20.0, 3.0, 4.0, 0.0], keys=[4, 2, 4, 2, 4, 4, 2])
    assert last.lookup([8, 3, 4, 8, 3], [0, 1, 3, 0, 2], keys=[4, 4, 4, 2, 2]).tolist() == [5.0, 4.0, 2.0, 21.0, 11.0]


def test_values_come_in_every_form() -> None:
    sums = build("base_intervals", "SUM", [(4, 0)], type=Type.DOUBLE)
    sums.update(pa.array([1, None]), keys=np.array([1, 0], np.uint8))
    sums.update(2.5, keys=1)
    sums.update([], keys=[])
    assert sums.lookup(4, keys=[0, 1]).tolist() == [None, 3.5]
    times = build("base_intervals", "MAX", [(4, 0)])
    times.update(np.array(["2024-01-01"], "datetime64[s]"), keys=[1])
    assert times.lookup(1, keys=1).tolist() == [1704067200 * 10**6]


def test_before_the_first_update_nothing_is_known() -> None:
    assert build("recompute", "COUNT", [(4, 0)]).lookup(4, keys=[0, 7]).tolist() == [0, 0]
    assert build("running_intervals", "SUM", [(4, 0)]).lookup(4, keys=[0, 7]).tolist() == [None, None]
    keys, answers = build("base_intervals", "MAX", [(4, 0)], type=Type.BIGINT).lookup_all(4)
    assert keys.tolist() == answers.tolist() == []


def test_a_key_that_comes_back_begins_again() -> None:
    sums = build("running_intervals", "SUM", [(4, 0)])
    sums.update([1, 2, 3, 4], keys=[0, 0, 1, 0])
    sums.forget([0, 0, 99])
    assert sums.lengths([0, 1]).tolist() == [0, 1]
    assert sums.lookup(4, keys=[0, 1]).tolist() == [None, 3]
    sums.update([10], keys=[0])
    assert sums.lookup(4, keys=[0, 1]).tolist() == [10, 3]


def test_errors_say_what_is_wrong_and_what_helps() -> None:
    with pytest.raises(PanewiseError, match="cannot hold the max"):
        build("running_intervals", "MAX")
    with pytest.raises(PanewiseError, match="LAST has no inverse"):
        build("running_intervals", LAST)
    with pytest.raises(PanewiseError, match="cannot hold the values that MEDIAN"):
        build("base_intervals", "MEDIAN")
    sums = build("base_intervals", "SUM", [(4, 0)])
    with pytest.raises(PanewiseError, match="2 keys and 1 values"):
        sums.update([1], keys=[0, 1])
    with pytest.raises(PanewiseError, match="key -1"):
        sums.update([1], keys=[-1])
    with pytest.raises(PanewiseError, match="must be below"):
        sums.update([1], keys=[2**40])
    with pytest.raises(PanewiseError, match="must be integers, not float64"):
        sums.update([1], keys=[0.5])
    with pytest.raises(WindowError, match=r"window \(0, 0\)"):
        sums.lookup([0], keys=[0])
    with pytest.raises(WindowError, match=r"window \(2, 3\)"):
        sums.lookup([2], [3], keys=[0])
    with pytest.raises(WindowError, match="shapes"):
        sums.lookup([2, 3, 4], keys=[0, 1])
    with pytest.raises(WindowError, match="was not added"):
        sums.remove_window(9)
    sums.update([1], keys=[0])
    with pytest.raises(PanewiseError, match="takes no parameter"):
        sums.lookup([1], 0, 0.5, keys=[0])
    quantiles = build("recompute", "QUANTILE", [(4, 0)])
    quantiles.update([1], keys=[0])
    with pytest.raises(PanewiseError, match="QUANTILE needs phi"):
        quantiles.lookup([1], keys=[0])


def test_snapshots_know_their_keys() -> None:
    keyed = build("base_intervals", "SUM", [(4, 0)])
    keyed.update([1, 2, 3], keys=[0, 3, 0])
    blob = keyed.snapshot()
    assert unpack(blob)[1]["keys"].tolist() == [0, 3]
    with pytest.raises(SnapshotError):
        restore(blob[:-9])
    user = build("base_intervals", XOR, [(4, 0)])
    with pytest.raises(PanewiseError, match="'XOR'; give it"):
        restore(user.snapshot())


@pytest.mark.parametrize("name", ["base_intervals", "landmark_intervals"])
def test_sketches_of_each_key(name: str) -> None:
    pytest.importorskip("datasketches")
    random = np.random.default_rng(3)
    medians = build(name, "approx_quantile", [(1000, 0)])
    streams: dict[int, list[float]] = {0: [], 5: [], 9: []}
    for _ in range(5):
        codes, values = random.choice([0, 5, 9], 1500), random.normal(size=1500)
        medians.update(values + codes, keys=codes)
        medians.check_invariants()
        for key, value in zip(codes.tolist(), (values + codes).tolist()):
            streams[key].append(value)
    medians = restore(medians.snapshot())
    found, low, high = medians.lookup_with_bounds(1000, 0, 0.5, keys=[9, 0, 5, 6])
    for place, key in enumerate([9, 0, 5]):
        median = sorted(streams[key][-1000:])[499]
        assert low[place] <= median <= high[place]
        assert abs(found[place] - median) < 0.2
    assert found[3] is np.ma.masked
    medians.forget([0])
    medians.check_invariants()
    assert medians.lookup(1000, 0, 0.5, keys=[0]).tolist() == [None]
    medians.update([7.0], keys=[0])
    assert medians.lookup(1000, 0, 0.5, keys=[0]).tolist() == [7.0]


def test_a_snapshot_of_an_earlier_version_is_refused() -> None:
    header, arrays = unpack(build("base_intervals", "SUM", [(4, 0)]).snapshot())
    del arrays["keys"]
    with pytest.raises(SnapshotError, match="earlier version"):
        restore(pack(header, arrays))
