"""Row queries in a running engine: sharing, coming and going, choice, statistics, and what is refused."""

from __future__ import annotations

import pytest

import panewise
from panewise.indexes import EVERY_INDEX, EVERY_RING, EVERY_STORAGE
from panewise.language.words import INDEXES, RINGS, STORAGES
from panewise.spark.job import check_workload

STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x DOUBLE) TIMESTAMP BY t;\n"
WINDOW = "[RANGE 4 MICROSECONDS SLIDE 2 MICROSECONDS]"


def engine_of(*selects: str) -> panewise.Engine:
    return panewise.Engine(
        STREAM + ";\n".join(f"CREATE QUERY q{i} AS SELECT {select}" for i, select in enumerate(selects))
    )


def push(engine: panewise.Engine, times: list[int], keys: list[int | None]) -> None:
    engine.push("s", {"t": times, "k": keys, "x": [float(time) for time in times]})


def test_the_names_of_using_are_those_of_the_indexes() -> None:
    assert tuple(each.sheet.name for each in EVERY_STORAGE) == STORAGES
    assert tuple(each.sheet.name for each in EVERY_INDEX) == INDEXES
    assert tuple(each.sheet.name for each in EVERY_RING) == RINGS


def test_queries_of_one_window_share_one_index() -> None:
    engine = engine_of(
        f"HISTOGRAM(k) FROM s {WINDOW}",
        f"TOP_K(k, 2) FROM s {WINDOW}",
        f"TOP_K(k, 1) FROM s {WINDOW}",
        f"HISTOGRAM(k) FROM s {WINDOW} WHERE x > 1",
        f"HISTOGRAM(k, 2) FROM s {WINDOW}",
        f"x FROM s {WINDOW} ORDER BY k",
        f"x FROM s {WINDOW} ORDER BY k DESC LIMIT 1",
    )
    assert [len(operator.outputs) for operator in engine._row_queries.operators] == [3, 1, 1, 2]
    engine.add(f"CREATE QUERY late AS SELECT TOP_K(k, 3) FROM s {WINDOW}; DROP QUERY q0")
    assert next(list(operator.outputs) for operator in engine._row_queries.operators) == ["q1", "q2", "late"]


def test_a_query_that_comes_late_begins_with_the_next_basic_window() -> None:
    engine = engine_of()
    push(engine, [1, 5], [1, 1])
    engine.advance("s", 3)
    engine.add(f"CREATE QUERY q AS SELECT HISTOGRAM(k) FROM s {WINDOW}")
    assert engine.exact_from("q") == 6
    push(engine, [5, 6, 7, 9], [7, 8, 8, 9])
    engine.advance("s", panewise.END_OF_STREAM)
    rows = engine.rows("q").select(["value", "count"]).to_pylist()
    # [6, 10), [8, 12): it has not seen the earlier windows whole.
    assert rows == [{"value": 8, "count": 2}, {"value": 9, "count": 1}, {"value": 9, "count": 1}]
    engine.add(f"CREATE QUERY shares AS SELECT TOP_K(k, 1) FROM s {WINDOW}")
    assert engine.exact_from("shares") == 6


def test_rows_are_given_once_and_survive_a_snapshot() -> None:
    engine = engine_of(f"HISTOGRAM(k) FROM s {WINDOW}", "k FROM s WHERE x > 1", "k FROM s INTO [ROWS 2]")
    push(engine, [0, 1, 2, 3], [5, 5, 6, None])
    engine.advance("s", 4)
    engine = panewise.Engine.restore(engine.snapshot())
    assert engine.rows("q0").num_rows == 3
    assert engine.rows("q0").num_rows == 0
    assert engine.rows("q1").column("k").to_pylist() == [6, None]
    assert engine.lookup("q2").column("k").to_pylist() == [6, None]
    assert engine.lookup("q2").num_rows == 2


def test_removed_queries_leave_nothing_behind() -> None:
    engine = engine_of(f"HISTOGRAM(k) FROM s {WINDOW}", f"TOP_K(k, 1) FROM s {WINDOW}")
    push(engine, [1], [1])
    engine.remove("q0")
    assert len(engine._row_queries.operators) == 1
    engine.remove("q1")
    assert not engine._row_queries.operators
    assert not engine._row_queries.feeds
    assert not engine.workload.row_queries
    with pytest.raises(panewise.PanewiseError, match="no query named 'q1'"):
        engine.rows("q1")


def test_statistics_count_basic_windows_and_evaluations() -> None:
    engine = engine_of("HISTOGRAM(k) FROM s [RANGE 6 MICROSECONDS SLIDE 4 MICROSECONDS]", "k FROM s")
    push(engine, list(range(20)), [1] * 20)
    engine.advance("s", 20)
    found = engine.statistics()["row_queries"]["q0"]
    # Basic windows of 2; windows end at 2, 6, 10, 14 and 18.
    assert found["basic_windows_attached"] == 10
    assert found["evaluations"] == 5
    assert found["most_basic_windows_between_evaluations"] == 2
    assert found["nodes"] == 1
    assert found["bytes"] > 0
    assert found["index"] in INDEXES
    assert engine.statistics()["row_queries"]["q1"]["index"] is None


def test_the_index_follows_what_is_observed() -> None:
    """Nothing is known at first; then a window of few values that repeat much, and the choice is made again."""
    selects = ("HISTOGRAM(k) FROM s [ROWS 4000 SLIDE 1000]", "x FROM s [ROWS 4000 SLIDE 1000] ORDER BY k")
    engine = engine_of(*selects)
    before = [engine.statistics()["row_queries"][name] for name in ("q0", "q1")]
    push(engine, list(range(8000)), [1] * 8000)
    engine.advance("s", panewise.END_OF_STREAM)
    after = [engine.statistics()["row_queries"][name] for name in ("q0", "q1")]
    engine._row_queries.check_invariants()
    assert [b["index"] for b in before] != [a["index"] for a in after] or before[0]["storage"] != after[0]["storage"]
    assert engine.rows("q0").column("count").to_pylist() == [1000, 2000, 3000, 4000, 4000, 4000, 4000, 4000]
    restored = panewise.Engine.restore(engine.snapshot()).statistics()["row_queries"]
    assert [restored[name]["index"] for name in ("q0", "q1")] == [a["index"] for a in after]


def test_ranges_of_infinities_and_nan() -> None:
    engine = engine_of("HISTOGRAM(x, 1) FROM s [ROWS 5 SLIDE 5]")
    values = [float("inf"), float("-inf"), float("nan"), 0.5, -0.5]
    engine.push("s", {"t": list(range(5)), "k": [1] * 5, "x": values})
    engine.advance("s", panewise.END_OF_STREAM)
    rows = engine.rows("q0")
    assert rows.column("count").to_pylist() == [1] * 5
    low, high = rows.column("low").to_pylist(), rows.column("high").to_pylist()
    assert low[0] == float("-inf")
    assert (low[1:3], high[1:3]) == ([-1.0, 0.0], [0.0, 1.0])
    assert high[3] == float("inf")
    assert low[4] != low[4]


def test_what_a_query_is_not_asked_for() -> None:
    windowed = (f"COUNT(*) FROM s {WINDOW}", f"HISTOGRAM(k) FROM s {WINDOW}")
    engine = engine_of("k FROM s", "k FROM s INTO [ROWS 5]", *windowed)
    with pytest.raises(panewise.PanewiseError, match=r"its rows come from rows\('q0'\)"):
        engine.lookup("q0")
    with pytest.raises(panewise.PanewiseError, match=r"read them with lookup\('q1'\)"):
        engine.rows("q1")
    with pytest.raises(panewise.PanewiseError, match="answers with aggregates"):
        engine.rows("q2")
    with pytest.raises(panewise.PanewiseError, match="leave out `at`"):
        engine.lookup("q3", at=5)
    with pytest.raises(panewise.PanewiseError, match=r"answer with rows.*q0, q3; read them"):
        check_workload(engine.workload)


def test_the_plan_tells_index_and_reasons() -> None:
    text = panewise.optimize(
        engine_of(
            f"HISTOGRAM(k) FROM s {WINDOW}",
            f"TOP_K(k, 1) FROM s {WINDOW}",
            "a.k FROM s [ROWS 10] AS a JOIN s [RANGE 50 MICROSECONDS] AS b ON a.k = b.k USING backward OVER l_index",
            "k FROM s INTO [ROWS 5]",
        ).workload
    ).explain()
    assert "s [RANGE 4 MICROSECONDS SLIDE 2 MICROSECONDS]: 2 basic windows of 2 MICROSECONDS, evaluated every 1" in text
    assert "shared with q0" in text
    assert "backward over l_index" in text
    assert "backward was asked for" in text
    assert "into        [ROWS 5]" in text


def test_sorted_ties_keep_the_order_of_the_stream_both_ways() -> None:
    window = "[ROWS 4 SLIDE 4]"
    engine = engine_of(f"x FROM s {window} ORDER BY k", f"x FROM s {window} ORDER BY k DESC")
    push(engine, [3, 1, 2, 0], [7, None, 7, 5])
    engine.advance("s", panewise.END_OF_STREAM)
    assert engine.rows("q0").column("x").to_pylist() == [1.0, 0.0, 2.0, 3.0]
    assert engine.rows("q1").column("x").to_pylist() == [2.0, 3.0, 0.0, 1.0]


def test_an_intersection_waits_for_the_stream_that_lags() -> None:
    """Rows of the stream that is ahead keep their times until the other has as many."""
    window = "[ROWS 2 SLIDE 2]"
    engine = panewise.Engine(
        f"{STREAM} CREATE STREAM z (t TIMESTAMP, k BIGINT) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT k FROM s {window} INTERSECT SELECT k FROM z {window}"
    )
    push(engine, list(range(20)), [9] * 18 + [1, 2])
    engine.advance("s", 20)
    engine.push("z", {"t": [100, 101, 102], "k": [9, 8, 9]})
    engine.advance("z", panewise.END_OF_STREAM)
    (row,) = engine.rows("q").to_pylist()
    assert (row["value"], row["left_count"], row["right_count"]) == (9, 2, 1)
    assert (row["window_start"].microsecond, row["window_end"].microsecond) == (0, 101)


def test_a_join_of_events_without_keys_is_empty_however_long_it_runs() -> None:
    engine = engine_of("a.k FROM s [ROWS 2] AS a JOIN s [RANGE 3 MICROSECONDS] AS b ON a.k = b.k")
    push(engine, list(range(50)), [None] * 50)
    engine.advance("s", panewise.END_OF_STREAM)
    assert engine.rows("q0").num_rows == 0
    assert engine.statistics()["row_queries"]["q0"]["nodes"] == 0
