"""B-INT and L-INT of sketches agree with sketches built from scratch, whatever the updates, windows and snapshots."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise import extras
from panewise.aggregates.types import Type
from panewise.errors import PanewiseError, WindowError
from panewise.extras import MissingPackageError
from panewise.structures import BY_NAME, build, restore
from panewise.structures.sketch_column import LEAF

NAMES = ["base_intervals", "landmark_intervals"]
RANK_ERROR = 0.0133

windows_of_streams = st.lists(
    st.one_of(st.integers(1, 40), st.integers(60, 700)).flatmap(
        lambda left: st.tuples(st.just(left), st.integers(0, left - 1))
    ),
    min_size=1,
    max_size=4,
)


def check_quantile(structure, covered: np.ndarray, left: int, right: int, phi: float) -> None:
    """A rank within three times the error; exact over as few values as a sketch keeps."""
    answer, low, high = (part[0] for part in structure.lookup_with_bounds(left, right, phi))
    if not len(covered):
        assert answer is np.ma.masked
        return
    ordered = np.sort(covered)
    rank = max(1, math.floor(phi * len(ordered)))
    if len(covered) <= 150:
        assert answer == low == high == ordered[rank - 1]
        return
    assert low <= answer <= high
    error = 3 * RANK_ERROR * len(ordered) + 1
    assert np.searchsorted(ordered, answer, "left") + 1 <= rank + error
    assert np.searchsorted(ordered, answer, "right") >= rank - error


def check_distinct(structure, covered: np.ndarray, left: int, right: int) -> None:
    answer, low, high = (part[0] for part in structure.lookup_with_bounds(left, right))
    different = len(set(covered.tolist()))
    if different <= 100:
        assert answer == low == high == different
    else:
        assert low <= answer <= high
        assert abs(answer - different) <= 0.1 * different


def check_top(structure, covered: np.ndarray, left: int, right: int) -> None:
    """The count of the most frequent value, exact over few different ones."""
    answer, low, high = (part[0] for part in structure.lookup_with_bounds(left, right, 1))
    most = max(Counter(covered.tolist()).values(), default=0)
    assert low <= most <= answer == high
    assert len(set(covered.tolist())) > 700 or low == high


class Run:
    """A structure beside the list of all its values, NULL as None."""

    def __init__(self, name: str, aggregate: str, windows: list[tuple[int, int]]) -> None:
        self.structure = build(name, aggregate, windows, type=Type.DOUBLE)
        self.aggregate = aggregate
        self.values = np.empty(0)
        self.valid = np.empty(0, np.bool_)

    def update(self, values: np.ndarray, valid: np.ndarray) -> None:
        self.structure.update(np.ma.MaskedArray(values, ~valid))
        self.values = np.concatenate([self.values, values])
        self.valid = np.concatenate([self.valid, valid])
        self.structure.check_invariants()

    def look(self, left: int, right: int) -> None:
        end = len(self.values)
        low, high = max(end - left, 0), max(end - right, 0)
        covered = self.values[low:high][self.valid[low:high]]
        if self.aggregate == "approx_quantile":
            check_quantile(self.structure, covered, left, right, 0.5)
        elif self.aggregate == "approx_top_count":
            check_top(self.structure, covered, left, right)
        else:
            check_distinct(self.structure, covered, left, right)


@pytest.mark.parametrize("aggregate", ["approx_quantile", "approx_count_distinct", "approx_top_count"])
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(25), deadline=None)
@given(windows=windows_of_streams, data=st.data())
def test_any_window_after_any_updates(name: str, aggregate: str, windows: list, data: st.DataObject) -> None:
    run = Run(name, aggregate, windows)
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, 8))):
        size = data.draw(st.one_of(st.integers(0, 10), st.integers(50, 900)))
        nulls = data.draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
        run.update(random.integers(0, 400, size) / 4, random.random(size) >= nulls)
        match data.draw(st.integers(0, 4)):
            case 0:
                run.structure = restore(run.structure.snapshot())
            case 1:
                window = data.draw(windows_of_streams)[0]
                if run.structure.is_held(*window)[0]:
                    run.structure.add_window(*window)
            case 2 if len(run.structure.windows) > 1:
                run.structure.remove_window(*data.draw(st.sampled_from(run.structure.windows)))
        run.structure.check_invariants()
        for left, right in run.structure.windows:
            if run.structure.is_held(left, right)[0]:
                run.look(left, right)
        if name == "base_intervals":
            left = data.draw(st.integers(1, run.structure.largest))
            right = data.draw(st.integers(0, left - 1))
            if run.structure.is_held(left, right)[0]:
                run.look(left, right)


@pytest.mark.parametrize("name", NAMES)
def test_many_lookups_with_a_phi_each(name: str) -> None:
    values = np.random.default_rng(2).normal(size=6000)
    structure = build(name, "approx_quantile", [(4000, 0), (100, 0)])
    structure.update(values)
    answers = structure.lookup([4000, 4000, 100], [0, 0, 0], [0.1, 0.9, 0.5])
    ordered = np.sort(values[-4000:])
    for answer, phi in zip(answers[:2], (0.1, 0.9)):
        assert abs(np.searchsorted(ordered, answer) / 4000 - phi) <= 3 * RANK_ERROR
    assert answers[2] == np.sort(values[-100:])[49]
    with pytest.raises(PanewiseError, match="APPROX_QUANTILE needs phi"):
        structure.lookup(100)
    with pytest.raises(PanewiseError, match="at every event is not offered"):
        structure.answers_at_every_event([1.0])


@pytest.mark.parametrize("name", NAMES)
def test_the_most_frequent_values_with_a_rank_each(name: str) -> None:
    values = np.repeat([-3, 5, 8], [100, 300, 200])
    structure = build(name, "approx_top_item", [(600, 0), (50, 0)])
    structure.update(values)
    answers = structure.lookup([600, 600, 600, 600, 50], [0] * 5, [1, 2, 3, 4, 1])
    assert answers.tolist() == [5, 8, -3, None, 8]
    assert structure.lookup(600, 0, 2).tolist() == [8]
    for wrong in (None, 0, 101, 1.5):
        with pytest.raises(PanewiseError, match="APPROX_TOP_ITEM needs a rank from 1 to 100"):
            structure.lookup(600, 0, wrong)


@pytest.mark.parametrize("name", NAMES)
def test_a_lookup_takes_few_unions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from panewise.structures import sketch_column

    structure = build(name, "approx_count_distinct", [(1 << 14, 0)])
    structure.update(np.arange(40_000))
    parts: list[int] = []
    real = sketch_column.union

    def counted(kind, given, **more):
        given = list(given)
        parts.append(len(given))
        return real(kind, given, **more)

    monkeypatch.setattr(sketch_column, "union", counted)
    structure.lookup(1 << 14)
    most = 2 * (1 << 14) // LEAF
    assert len(parts) == 1
    assert parts[0] <= (1 + 2 * most.bit_length() if name == "base_intervals" else 4)
    assert structure.nbytes < 40 * 2**20


def test_a_width_without_a_partition_is_refused() -> None:
    structure = build("landmark_intervals", "approx_quantile", [(1000, 0)])
    structure.update(np.arange(3000.0))
    with pytest.raises(WindowError, match=r"no partition for window \(100, 0\): it serves widths of 512 to 1023"):
        structure.lookup(100, 0, 0.5)


def test_exact_aggregates_have_themselves_as_bounds() -> None:
    structure = build("base_intervals", "max", [(3, 0)])
    structure.update([4, 9, 2])
    assert [part.tolist() for part in structure.lookup_with_bounds(3)] == [[9], [9], [9]]


def test_before_any_value() -> None:
    assert build("base_intervals", "approx_count_distinct", [(3, 0)]).lookup(3).tolist() == [0]
    assert build("base_intervals", "approx_top_count", [(3, 0)]).lookup(3, 0, 1).tolist() == [0]
    assert build("base_intervals", "approx_quantile", [(3, 0)]).lookup(3, 0, 0.5).tolist() == [None]


def test_others_do_not_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(BY_NAME) - set(NAMES):
        with pytest.raises(PanewiseError, match="cannot hold the quantiles that APPROX_QUANTILE is made of"):
            build(name, "approx_quantile", [(3, 0)])
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="pip install"):
        build("base_intervals", "approx_quantile", [(3, 0)])
