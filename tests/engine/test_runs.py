"""Runs hold what was added and not forgotten, in whatever way they are merged."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.aggregates.components import Component, Kind
from panewise.engine.packed_rows import NO_SLOT
from panewise.engine.rows import Rows
from panewise.engine.runs import Runs

COMPONENTS = (Component(Kind.ROWS), Component(Kind.MAX, 0))
given_rows = st.lists(
    st.tuples(st.integers(0, 5), st.integers(-3, 9), st.integers(0, 2), st.integers(-9, 9)), max_size=12
)
steps = st.lists(
    st.tuples(st.just("add"), given_rows)
    | st.tuples(st.just("forget"), st.integers(-4, 10))
    | st.tuples(st.sampled_from(["as_one", "compact", "renumber"]), st.none()),
    max_size=25,
)


def rows_of(given) -> Rows:
    keys, slots, shards, values = np.array(given, np.int64).reshape(-1, 4).T.copy()
    return Rows(keys, slots, shards, {"rows": np.ones(len(keys), np.int64), "max_0": values})


def held_by(runs: Runs) -> dict:
    """What several runs hold together: the rows and the greatest value of each key, slot and shard."""
    found: dict = {}
    for run in runs:
        rows = run.unpacked(run.live)
        places = zip(rows.keys.tolist(), rows.slots.tolist(), rows.shards.tolist())
        for place, count, most in zip(places, rows.columns["rows"].tolist(), rows.columns["max_0"].tolist()):
            before = found.get(place, (0, -(2**63)))
            found[place] = before[0] + count, max(before[1], most)
    return found


@settings(max_examples=examples(150), deadline=None)
@given(steps, st.sampled_from([0, 6, 1000]))
def test_what_is_held(steps, small: int) -> None:
    empty = rows_of([])
    with patch("panewise.engine.runs.SMALL", small):
        runs = Runs(COMPONENTS)
        model: list[tuple[int, int, int, int]] = []
        for kind, what in steps:
            match kind:
                case "add":
                    runs.add(rows_of(what))
                    model += what
                case "forget":
                    before, left = runs.live_rows, runs.forget(what)
                    assert left == before - runs.live_rows
                    assert bool(left) == any(row[1] < what for row in model)
                    model = [row for row in model if row[1] >= what]
                case "as_one":
                    assert len(runs.as_one(empty)) == len({row[:3] for row in model})
                case "compact":
                    runs.compact(empty)
                    assert sum(map(len, runs)) == runs.live_rows == len({row[:3] for row in model})
                case "renumber":
                    runs.renumber(np.arange(1, 100, dtype=np.uint32))
                    model = [(key + 1, *rest) for key, *rest in model]
            runs.check_invariants()
            expected: dict = {}
            for *place, value in model:
                before = expected.get(tuple(place), (0, -(2**63)))
                expected[tuple(place)] = before[0] + 1, max(before[1], value)
            assert held_by(runs) == expected
            assert runs.lowest_slot == min((row[1] for row in model), default=NO_SLOT)
            assert set(runs.used_keys(100).tolist()) >= {row[0] for row in model}


def test_what_is_new_does_not_move_what_is_old() -> None:
    with patch("panewise.engine.runs.SMALL", 100):
        runs = Runs(COMPONENTS)
        for slot in range(10):
            runs.add(rows_of([(key, slot, 0, key) for key in range(80)]))
        before = list(runs)
        assert len(before) == 10
        runs.add(rows_of([(1, 3, 0, 50)]))
        assert [*before, list(runs)[-1]] == list(runs)
        assert runs.forget(5)
        assert list(runs) == before[5:]


def test_small_runs_do_not_pile_up() -> None:
    runs = Runs(COMPONENTS)
    for slot in range(1_000):
        runs.add(rows_of([(key, slot, 0, key) for key in range(3)]))
    assert len(list(runs)) < 12
    runs.add(rows_of([(key, 0, 0, 1) for key in range(20_000)]))
    assert len(list(runs)) == 1
