"""Windows that move from edge to edge: every answer is the oracle's, and changes cost and tell what changed."""

from __future__ import annotations

import math
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.engine.moving import MovingWindow

US = 1_000_000
MOVING = {"MOVED_ROWS": 0.0, "FEWEST_CLOSINGS": 0}
IN_ORDER = MOVING | {"FEWEST_KEPT": 0}
NEVER = {"FEWEST_CLOSINGS": 10**9}
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(y) AS top
  FROM s [RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT k, MIN(y) AS least, AVG(y) AS mean
  FROM s [RANGE 7 SECONDS SLIDE 1 SECONDS] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY alert AS SELECT k, SUM(x) AS total
  FROM s [RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY k HAVING SUM(x) > 6;
CREATE QUERY high_alert AS SELECT k, COUNT(*) AS n
  FROM s [RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY k HAVING SUM(x) > 9;
CREATE QUERY c AS SELECT COUNT(*) AS n, STDDEV(y) AS spread FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE x > 1;
CREATE QUERY lists AS SELECT k, COLLECT(x, 2) AS some, LAST_K(x, 2) AS newest, COUNT(*) AS n
  FROM s [RANGE 5 SECONDS SLIDE 1 SECONDS] GROUP BY k;
CREATE QUERY strings AS SELECT MAX(k) AS top, LAST(k) AS newest, MODE(k) AS usual
  FROM s [RANGE 5 SECONDS SLIDE 1 SECONDS];
"""


@contextmanager
def settings_of(changed: dict[str, float]):
    with ExitStack() as patches:
        for name, value in changed.items():
            patches.enter_context(patch(f"panewise.engine.moved_windows.{name}", value))
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
@settings(max_examples=examples(40), deadline=None)
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


@pytest.mark.parametrize("first", [None, 1.0])
def test_counts_of_values_are_held_apart_once_a_value_is_null(first: float | None) -> None:
    with settings_of(MOVING):
        engine = panewise.Engine(
            "CREATE STREAM s (t TIMESTAMP, k BIGINT, y DOUBLE) TIMESTAMP BY t ON LATE CORRECT 2 SECONDS;"
            "CREATE QUERY q AS SELECT k, COUNT(*) AS n, COUNT(y) AS known FROM s "
            "[RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k"
        )
        held: list[tuple[int, int, float | None]] = []
        tree = engine._streams["s"].generations[0].trees[0]
        for now in range(20):
            # A late NULL comes first, then some in time, and in the end none.
            some = [(now, key, None if 12 <= now < 14 and key == 2 else 1.0) for key in range(3)]
            some += [(now - 2, 1, first)] * (now == 8)
            held += some
            times, keys, values = zip(*some)
            engine.push("s", {"t": np.array(times) * US, "k": keys, "y": pa.array(values, pa.float64())})
            rows = engine.advance("s", (now + 1) * US).tables["q"].to_pylist()
            newest = {row["k"]: (row["n"], row["known"]) for row in rows if row["window_end"].second == now + 1}
            covered = [(key, value) for time, key, value in held if now - 3 <= time]
            assert newest == {
                key: (sum(k == key for k, _ in covered), sum(k == key and y is not None for k, y in covered))
                for key in range(3)
            }
            tree.store.check_invariants()
            (moving,) = tree.store._moved._moving.values()
            if now == 7:
                assert len(moving._totals) == 1
        assert len(moving._totals) == 2


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
        moving = next(window for window in state.store._moved._moving.values() if isinstance(window, MovingWindow))
        assert len(fold)
        list(state.close(3 * US, 6 * US))
        with pytest.raises(AssertionError, match="has moved on"):
            fold.component(next(iter(moving.components)))


LATE = """
CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT, y DOUBLE) TIMESTAMP BY t ON LATE CORRECT 6 SECONDS;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, SUM(x) AS total, MAX(y) AS top, SUM(y) AS sum
  FROM s [RANGE 9 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY b AS SELECT k, MIN(y) AS least, AVG(y) AS mean, STDDEV(y) AS spread
  FROM s [RANGE 20 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY c AS SELECT COUNT(*) AS n, MAX(y) AS top FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE x > 1;
CREATE QUERY d AS SELECT k, MEDIAN(y) AS middle, COUNT(DISTINCT x) AS different, MODE(x) AS most, MAX(x) AS top
  FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] WHERE x < 4 GROUP BY k;
"""
late_event = st.tuples(
    st.integers(-6, 3), st.integers(0, 3), st.integers(0, 5), st.sampled_from([0.1, 0.2, 0.7, 1e9, -3.3])
)
late_steps = st.lists(st.tuples(st.lists(late_event, max_size=5), st.integers(0, 3)), min_size=8, max_size=24)


def rows_of(table) -> list:
    return sorted(
        repr([(name, round(value, 6) if isinstance(value, float) else value) for name, value in row.items()])
        for row in table.to_pylist()
    )


@pytest.mark.parametrize("changed_only", [False, True])
@settings(max_examples=examples(12), deadline=None)
@given(steps=late_steps)
def test_late_rows_and_multisets_move_to_the_answers_of_windows_folded_anew(steps, changed_only: bool) -> None:
    engines = [(panewise.Engine(LATE), changed) for changed in (MOVING, IN_ORDER, NEVER)]
    now = 0
    for some, more in steps:
        columns = zip(*[((now + d) * US, k, x, y) for d, k, x, y in some], strict=True)
        events = dict(zip("tkxy", map(list, columns), strict=True)) if some else None
        now += more
        found = []
        for engine, changed in engines:
            with settings_of(changed):
                if events is not None:
                    engine.push("s", events)
                found.append(engine.advance("s", now * US, changed_only=changed_only).tables)
                for tree in engine._streams["s"].generations[0].trees:
                    tree.store.check_invariants()
        for name, table in found[-1].items():
            assert [rows_of(moved[name]) for moved in found[:-1]] == [rows_of(table)] * 2


def test_a_group_ends_in_a_window_without_events_that_closes_with_the_one_before() -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 3 SECONDS SLIDE 1 SECOND]"
    )
    with settings_of(MOVING):
        for second in range(5):
            engine.push("s", {"t": [second * US]})
            engine.advance("s", (second + 1) * US, changed_only=True)
        engine.advance("s", 6 * US, changed_only=True)
        rows = engine.advance("s", 8 * US, changed_only=True).tables["q"].to_pylist()
    assert [(row["n"], row["ended"]) for row in rows] == [(1, False), (None, True)]


def test_an_answer_that_equals_the_one_before_its_correction_is_told() -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t ON LATE CORRECT 9 SECONDS;"
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS]"
    )
    with settings_of(MOVING):
        engine.push("s", {"t": [8 * US, 11 * US]})
        engine.advance("s", 12 * US, changed_only=True)
        # It is in the window that was reported last, and no longer in the next one.
        engine.push("s", {"t": [7 * US]})
        rows = engine.advance("s", 14 * US, changed_only=True).tables["q"].to_pylist()
    assert [(row["window_end"].second, row["n"]) for row in rows] == [(8, 1), (10, 2), (12, 3), (14, 2)]


def live_engine(select: str, late: str = "", keys: int = 200, minutes: int = 50, having: int = 0) -> panewise.Engine:
    """An engine whose one window moves; a tenth of the keys has an event in each minute."""
    engine = panewise.Engine(
        f"CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT, y DOUBLE) TIMESTAMP BY t {late};"
        f"CREATE QUERY q AS SELECT k, {select} FROM s [RANGE 30 MINUTES SLIDE 1 MINUTE] GROUP BY k "
        f"HAVING COUNT(*) > {having}"
    )
    for minute in range(minutes):
        push_minute(engine, minute, keys)
        engine.advance("s", (minute + 1) * 60 * US, changed_only=True)
    return engine


def push_minute(engine: panewise.Engine, minute: int, keys: int = 200) -> None:
    some = np.arange(keys // 10) * 10 + minute % 10
    times = np.full(len(some), minute * 60 * US)
    engine.push("s", {"t": times, "k": some, "x": some * 10**16, "y": np.sqrt(some + minute)})


@pytest.mark.parametrize("having", [0, 10**9], ids=["all pass", "none passes"])
def test_changes_do_not_look_at_all_keys(having: int) -> None:
    engine = live_engine("SUM(y) AS total, MAX(y) AS top", having=having)
    with patch.object(MovingWindow, "present", side_effect=AssertionError("all keys are looked at")):
        push_minute(engine, 50)
        changed = engine.advance("s", 51 * 60 * US, changed_only=True).tables["q"]
        assert sorted(changed.column("k").to_pylist()) == ([] if having else list(range(0, 200, 10)))
        push_minute(engine, 51)
        with pytest.raises(AssertionError, match="all keys are looked at"):
            engine.advance("s", 52 * 60 * US).tables["q"]


def test_an_answer_of_a_multiset_is_made_anew_only_where_a_row_came_or_left() -> None:
    engine = live_engine("MEDIAN(y) AS middle")
    store = engine._streams["s"].generations[0].trees[0].store
    before = store.folded
    push_minute(engine, 50)
    engine.advance("s", 51 * 60 * US)
    # A tenth of the keys has changed, each with three rows; twenty rows came and left, and all keys are answered.
    assert store.folded - before <= 20 * 3 + 2 * 20 + 200


def test_a_window_moves_on_after_all_groups_were_gone() -> None:
    """Their answers are gone with them, and tell nothing about those of the groups that come next."""
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT k, MEDIAN(x), MAX(k) FROM s [RANGE 4 SECONDS SLIDE 1 SECOND] GROUP BY k"
    )
    with settings_of(MOVING):
        for second in range(26):
            if second < 10 or second >= 18:
                engine.push("s", {"t": [second * US] * 2, "k": ["a", "b"], "x": [second, 1]})
            found = engine.advance("s", second * US).tables["q"]
    assert found.drop_columns(["window_start", "window_end"]).to_pylist() == [
        {"k": "a", "MEDIAN(x)": 22, "MAX(k)": "a"},
        {"k": "b", "MEDIAN(x)": 1, "MAX(k)": "b"},
    ]


def test_a_late_event_costs_the_rows_of_its_key_and_the_window_moves_on() -> None:
    engine = live_engine("SUM(y) AS total, MAX(y) AS top", "ON LATE CORRECT 10 MINUTES")
    tree = engine._streams["s"].generations[0].trees[0]
    (moving,) = tree.store._moved._moving.values()
    before = tree.store.folded
    engine.push("s", {"t": [45 * 60 * US + 1], "k": [7], "x": [1], "y": [99.0]})
    corrected = engine.advance("s", 50 * 60 * US).tables["q"].to_pylist()
    assert [(row["k"], row["top"]) for row in corrected] == [(7, 99.0)] * 5
    # Five windows of one key, with three rows and the late one, before and after; and twenty rows that left, whose
    # keys have two others.
    assert tree.store.folded - before <= 5 * (3 + 4 + 2) + 3 * 20
    assert list(tree.store._moved._moving.values()) == [moving]
    tree.store.check_invariants()


def test_sums_that_do_not_fit_are_counted_in_each_window_with_changes_only() -> None:
    counted = []
    for changed_only in (False, True):
        engine = panewise.Engine(
            "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t;"
            "CREATE QUERY q AS SELECT k, SUM(x) AS total FROM s [RANGE 30 SECONDS SLIDE 1 SECOND] GROUP BY k"
        )
        with settings_of(MOVING):
            for second in range(40):
                large = 2**62 if second in (9, 10, 11) else 1
                engine.push("s", {"t": [second * US] * 2, "k": [1 if large > 1 else 2, 3], "x": [large, second]})
                engine.advance("s", (second + 1) * US, changed_only=changed_only)
        counted.append(engine.statistics()["streams"]["s"]["overflown_answers"]["q"])
    assert counted[0] == counted[1] > 20


def test_a_store_forgets_windows_that_no_query_has() -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t GRANULARITY 1 SECOND;"
        "CREATE QUERY q AS SELECT COUNT(*) AS n FROM s [RANGE 900 SECONDS SLIDE 1 SECOND]"
    )
    for second in range(200):
        engine.push("s", {"t": [second * US]})
        engine.add(f"CREATE QUERY p{second} AS SELECT COUNT(*) AS n FROM s [RANGE {second + 2} SECONDS SLIDE 1 SECOND]")
        engine.advance("s", (second + 1) * US)
        engine.remove(f"p{second}")
    stores = [tree.store for generation in engine._streams["s"].generations for tree in generation.trees]
    assert max(len(store._moved._closed) for store in stores) <= 2
    assert max(len(store._moved._moving) for store in stores) <= 2
