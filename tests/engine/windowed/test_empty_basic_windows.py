"""Empty basic windows cost nothing: work follows the events, for any number of basic windows."""

from __future__ import annotations

import pytest

import panewise
from panewise.indexes import RingWindow, SetWindow

MINUTE = 60_000_000
STREAMS = """
CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT) TIMESTAMP BY t;
CREATE STREAM z (t TIMESTAMP, k STRING, n BIGINT) TIMESTAMP BY t;
"""
QUERIES = {
    "sorted": "SELECT n, k FROM s [{window}] ORDER BY n",
    "histogram": "SELECT HISTOGRAM(n) FROM s [{window}]",
    "ranges": "SELECT HISTOGRAM(n, 4) FROM s [{window}]",
    "top": "SELECT TOP_K(k, 2) FROM s [{window}]",
    "both": "SELECT n FROM s [{window}] INTERSECT SELECT n FROM z [{window}]",
}
EVENTS = {"t": [m * MINUTE for m in (0, 1, 2, 50, 51, 90, 91, 92)], "k": list("abcabcab"), "n": list(range(4)) * 2}


def ran(query: str, hours: int) -> panewise.Engine:
    window = f"RANGE {hours} HOURS SLIDE 1 MINUTE"
    engine = panewise.Engine(f"{STREAMS} CREATE QUERY q AS {QUERIES[query].format(window=window)}")
    for stream in ("s", "z"):
        engine.push(stream, EVENTS)
        engine.advance(stream, panewise.END_OF_STREAM)
    return engine


@pytest.mark.parametrize("query", QUERIES)
def test_work_follows_the_events_and_not_the_basic_windows(query: str) -> None:
    few, many = (ran(query, hours) for hours in (6, 600))
    # Each event comes and leaves alone, and in between the windows are answered together.
    sides = 2 if query == "both" else 1
    done = many.statistics()["row_queries"]["q"]
    assert done["moves"] == few.statistics()["row_queries"]["q"]["moves"] <= 4 * len(EVENTS["t"]) * sides
    assert done["basic_windows_attached"] == 600 * 60 + 92 + 1
    rows = many.rows("q")
    assert len(rows.column("window_end").unique()) == 600 * 60 + 92


@pytest.mark.parametrize("query", QUERIES)
def test_windows_that_are_answered_together_are_those_answered_one_by_one(query: str) -> None:
    together = ran(query, 3).rows("q")
    engine = panewise.Engine(
        f"{STREAMS} CREATE QUERY q AS {QUERIES[query].format(window='RANGE 3 HOURS SLIDE 1 MINUTE')}"
    )
    for stream in ("s", "z"):
        engine.push(stream, EVENTS)
    for minute in range(300):
        for stream in ("s", "z"):
            engine.advance(stream, minute * MINUTE)
        if minute % 40 == 7:
            engine = panewise.Engine.restore(engine.snapshot())
    assert engine.rows("q").equals(together)


@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")
def test_a_join_jumps_over_empty_basic_windows() -> None:
    engine = panewise.Engine(
        f"{STREAMS} CREATE QUERY j AS SELECT s.k, z.k AS other "
        "FROM s [RANGE 600 HOURS] JOIN z [RANGE 600 HOURS] ON s.n = z.n"
    )
    far = {"t": [0, 10**9 * MINUTE], "k": ["a", "b"], "n": [1, 1]}
    for stream in ("s", "z"):
        engine.push(stream, far)
        engine.advance(stream, panewise.END_OF_STREAM)
    assert len(engine.rows("j")) == 2
    (operator,) = engine._row_queries.operators
    assert all(side.ring.statistics()["visited"] <= 1 for side in operator.sides)


@pytest.mark.parametrize("count", [10**3, 10**15])
def test_an_index_visits_only_basic_windows_that_hold_something(count: int) -> None:
    ring, values = RingWindow(count), SetWindow(count)
    for window in (ring, values):
        window.append([3, 1])
        window.attach(count // 2)
        window.append([2])
        window.attach(count // 4)
        window.attach(1)
    assert ring.sorted_rows().tolist() == [1, 2, 0]
    assert values.histogram().values.tolist() == [1, 2, 3]
    for window in (ring, values):
        window.attach(count // 2)
        assert window.statistics()["tuples"] == 1
        assert window.statistics()["visited"] == 2
