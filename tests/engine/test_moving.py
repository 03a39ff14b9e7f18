"""Windows that move from edge to edge: every answer is the oracle's, and changes cost and tell what changed."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.test_conformance import as_table

import panewise
from panewise.engine.moving import MovingWindow

US = 1_000_000
MOVING = {"MOVED_ROWS": 0.0, "FEWEST_CLOSINGS": 0}
NEVER = {"FEWEST_CLOSINGS": 10**9}
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(y) AS top
  FROM s [RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT k, MIN(y) AS least, AVG(y) AS mean
  FROM s [RANGE 7 SECONDS SLIDE 1 SECONDS] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY c AS SELECT COUNT(*) AS n, STDDEV(y) AS spread FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE x > 1;
"""


@contextmanager
def settings_of(changed: dict[str, float]):
    with ExitStack() as patches:
        for name, value in changed.items():
            patches.enter_context(patch(f"panewise.engine.slot_store.{name}", value))
        yield


values = st.none() | st.integers(0, 5).map(float) | st.sampled_from([math.nan, math.inf, -0.5])
event = st.tuples(st.integers(0, 3), st.sampled_from("abcdef"), st.none() | st.integers(0, 5), values)
steps = st.lists(st.tuples(st.lists(event, max_size=6), st.integers(1, 3)), max_size=14)


def changed_state(state: dict, tables) -> None:
    """Apply a report of changes to what a reader knows."""
    for name, table in tables.items():
        for row in table.to_pylist():
            group = name, row.get("k")
            if row.pop("ended"):
                assert group in state, f"{group} ended, and was never reported"
            shown = comparable(row)
            assert state.get(group) != shown, f"{group} is reported, and did not change"
            # A group whose answers are all NULL is as good as none.
            state[group] = shown
            if shown is None:
                del state[group]


def comparable(row: dict) -> tuple | None:
    shown = [value for name, value in row.items() if name not in ("window_start", "window_end", "k")]
    if all(value is None for value in shown):
        return None
    return tuple("NaN" if value != value else round(value, 9) if isinstance(value, float) else value for value in shown)


@pytest.mark.parametrize("changed", [MOVING, NEVER, {}], ids=["moving", "never", "usual"])
@settings(max_examples=40, deadline=None)
@given(steps=steps)
def test_a_reader_of_changes_knows_every_answer(changed: dict[str, float], steps) -> None:
    workload = panewise.read(TEXT)
    with settings_of(changed):
        engine, whole = panewise.Engine(workload), panewise.Engine(workload)
        state: dict = {}
        now = 0
        for some, more in [*steps, ([], 9)]:
            rows = [{"t": (now + d) * US, "k": k, "x": x, "y": y} for d, k, x, y in some]
            for one in (engine, whole):
                one.push("s", as_table(workload.streams["s"], rows))
            for _ in range(more):
                now += 1
                changed_state(state, engine.advance("s", now * US, changed_only=True).tables)
                for name, table in whole.advance("s", now * US).tables.items():
                    if name == "c" and now % 2:
                        continue
                    known = {group: value for group, value in state.items() if group[0] == name}
                    found = {(name, row.get("k")): comparable(row) for row in table.to_pylist()}
                    assert known == {group: shown for group, shown in found.items() if shown is not None}


def test_a_window_that_moves_does_not_visit_what_it_covers() -> None:
    visited = {}
    for minutes in (30, 300):
        engine = panewise.Engine(
            "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT, y DOUBLE) TIMESTAMP BY t;"
            f"CREATE QUERY q AS SELECT k, SUM(x), MAX(y) FROM s [RANGE {minutes} MINUTES SLIDE 1 MINUTE] GROUP BY k"
        )
        times = np.arange(0, 60 * (minutes + 90), dtype=np.int64) * US
        events = {"t": times, "k": times // US % 7, "x": times // US, "y": (times // US % 11).astype(float)}
        store = engine._streams["s"].generations[0].trees[0].store
        for minute in range(minutes + 90):
            some = slice(60 * minute, 60 * (minute + 1))
            engine.push("s", {name: column[some] for name, column in events.items()})
            before = store.folded
            engine.advance("s", int(times[some.stop - 1]) + US)
            if minute >= minutes + 60:
                visited[minutes] = visited.get(minutes, 0) + store.folded - before
        store.check_invariants()
    assert visited[300] <= 1.5 * visited[30]


def test_keys_that_left_give_their_numbers_back() -> None:
    with settings_of(MOVING):
        engine = panewise.Engine(
            "CREATE STREAM s (t TIMESTAMP, k BIGINT, y DOUBLE) TIMESTAMP BY t;"
            "CREATE QUERY q AS SELECT k, COUNT(*) AS n, MAX(y) AS top "
            "FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k"
        )
        store = engine._streams["s"].generations[0].trees[0].store
        for now in range(60):
            keys = np.arange(20) + 20 * now
            engine.push("s", {"t": np.full(20, now * US), "k": keys, "y": keys.astype(float)})
            rows = engine.advance("s", (now + 1) * US).tables["q"].to_pylist()
            assert sorted((row["k"], row["n"], row["top"]) for row in rows) == [
                (k, 1, float(k)) for k in range(20 * max(now - 2, 0), 20 * (now + 1))
            ]
            store.check_invariants()
        assert store.live_keys < 200


def test_what_is_read_is_read_before_the_window_moves_on() -> None:
    with settings_of(MOVING):
        engine = panewise.Engine(TEXT)
        engine.push("s", {"t": [0, US], "k": ["a", "b"], "x": [1, 2], "y": [1.0, 2.0]})
        state = engine._streams["s"].generations[0].trees[0]
        engine.advance("s", 2 * US)
        (fold,) = [closed.fold for closed in state.close(2 * US, 3 * US) if closed.planned.query.name == "a"]
        moving = next(window for window in state.store._moving.values() if isinstance(window, MovingWindow))
        assert len(fold)
        list(state.close(3 * US, 6 * US))
        with pytest.raises(AssertionError, match="has moved on"):
            fold.component(next(iter(moving.components)))
