"""The table of a lookup: a typed column for each SELECT item, whichever way found the answers."""

from __future__ import annotations

import pyarrow as pa
import pytest

import panewise

US = 1_000_000
UTC_US = pa.timestamp("us", "UTC")
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, b BOOLEAN, x DOUBLE) TIMESTAMP BY t WATERMARK 0 SECONDS;"
EVENTS = {
    "t": [1 * US, 2 * US, 3 * US, 4 * US],
    "k": ["a", "a", "b", None],
    "g": [2**62, 2**62, 5, None],
    "b": [True, False, True, None],
    "x": [1.5, None, 3.5, None],
}
SELECT = "k AS who, MAX(t) AS last, SUM(g), AVG(x) AS mean, COUNT(*), MIN(g)"
TYPES = {
    "window_start": UTC_US,
    "window_end": UTC_US,
    "who": pa.string(),
    "last": UTC_US,
    "SUM(g)": pa.int64(),
    "mean": pa.float64(),
    "COUNT(*)": pa.int64(),
    "MIN(g)": pa.int64(),
}
WINDOWS = ["[RANGE 1 HOUR]", "[ROWS 10]", "[PARTITION BY k ROWS 5]"]


def engine_of(query: str, events: dict | None = EVENTS) -> panewise.Engine:
    engine = panewise.Engine(f"{STREAM} CREATE QUERY q AS SELECT {query};")
    if events is not None:
        engine.push("s", events)
    return engine


@pytest.mark.parametrize("watermark", [0, 3 * US, 10 * US])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("mode", ["", ", MODE(g)"], ids=["structures", "log"])
def test_columns_are_typed_and_named_as_selected(window: str, watermark: int, mode: str) -> None:
    engine = engine_of(f"{SELECT}{mode} FROM s {window} GROUP BY k")
    engine.advance("s", watermark)
    types = TYPES | ({"MODE(g)": pa.int64()} if mode else {})
    every = engine.lookup("q")
    asked = {"k": ["a", "b", None, "z"]}
    for table in (every, engine.lookup("q", keys=asked), engine.lookup("q", keys={"k": "a"})):
        assert dict(zip(table.schema.names, table.schema.types)) == types
        assert table.schema.names == list(types)
    assert engine.lookup("q", keys={"k": "z"}).equals(every.slice(0, 0))
    rows = {row["who"]: row for row in every.to_pylist()}
    assert {who: (row["SUM(g)"], row["mean"], row["COUNT(*)"], row["MIN(g)"]) for who, row in rows.items()} == {
        "a": (None, 1.5, 2, 2**62),  # the sum does not fit
        "b": (5, 3.5, 1, 5),
        None: (None, None, 1, None),
    }
    assert {who: row["last"].timestamp() for who, row in rows.items()} == {"a": 2.0, "b": 3.0, None: 4.0}
    for who in rows:
        assert engine.lookup("q", keys=[(who,)]).to_pylist() == [rows[who]]
    assert engine.statistics()["streams"]["s"]["overflown_answers"]["q"] >= 3


def test_groups_that_are_not_selected_come_before_the_items_and_a_group_may_come_twice() -> None:
    engine = engine_of("COUNT(*) AS n, b AS flag, b AS again FROM s [RANGE 1 HOUR] GROUP BY k, b")
    wanted = ["window_start", "window_end", "k", "n", "flag", "again"]
    for keys in (None, {"k": "a", "b": True}, [("a", True), ("b", True)]):
        table = engine.lookup("q", keys=keys)
        assert table.schema.names == wanted
        assert table.schema.field("flag").type == table.schema.field("again").type == pa.bool_()
        (row,) = (row for row in table.to_pylist() if row["k"] == "a" and row["flag"])
        assert (row["n"], row["again"]) == (1, True)


def test_without_events_a_grouped_query_has_columns_and_no_row() -> None:
    engine = engine_of(f"{SELECT} FROM s [RANGE 1 HOUR] GROUP BY k", None)
    for table in (engine.lookup("q"), engine.lookup("q", keys={"k": "a"}), engine.lookup("q", at=5)):
        assert dict(zip(table.schema.names, table.schema.types)) == TYPES
        assert table.num_rows == 0


def test_what_having_leaves_out_has_no_row_and_an_ungrouped_query_may_have_none() -> None:
    engine = engine_of("k, COUNT(*) FROM s [RANGE 1 HOUR] GROUP BY k HAVING COUNT(*) > 1")
    assert engine.lookup("q").select(["k", "COUNT(*)"]).to_pylist() == [{"k": "a", "COUNT(*)": 2}]
    assert engine.lookup("q", keys={"k": "b"}).num_rows == 0
    whole = engine_of("COUNT(*) FROM s [RANGE 1 HOUR] HAVING COUNT(*) > 9")
    assert whole.lookup("q").num_rows == 0
    assert whole.lookup("q").schema.names == ["window_start", "window_end", "COUNT(*)"]


def test_a_mode_of_times_keeps_its_type() -> None:
    engine = engine_of("k, MODE(t) AS t FROM s [RANGE 1 HOUR] GROUP BY k")
    for table in (engine.lookup("q"), engine.lookup("q", keys={"k": "b"})):
        assert table.schema.field("t").type == UTC_US
        (row,) = (row for row in table.to_pylist() if row["k"] == "b")
        assert row["t"].timestamp() == 3.0


def test_an_answer_that_may_be_an_interval_has_bounds_for_one_group_as_for_all() -> None:
    text = "k, APPROX_COUNT_DISTINCT(g) AS about, COUNT(*) FROM s [RANGE 1 HOUR] GROUP BY k"
    engine = engine_of(text)
    every = engine.lookup("q")
    assert every.schema.names[2:] == ["k", "about", "about low", "about high", "COUNT(*)"]
    for row in every.to_pylist():
        (alone,) = engine.lookup("q", keys=[(row["k"],)]).to_pylist()
        assert alone == row
        assert row["about low"] <= row["about"] <= row["about high"]
    assert every.schema.field("about").type == pa.int64()


def test_a_query_that_came_again_under_its_name_has_its_own_columns() -> None:
    engine = engine_of("k, COUNT(*) AS n FROM s [RANGE 1 HOUR] GROUP BY k")
    assert engine.lookup("q", keys={"k": "a"}).schema.names[2:] == ["k", "n"]
    engine.add("DROP QUERY q; CREATE QUERY q AS SELECT g, MAX(x) AS most FROM s [ROWS 9] GROUP BY g;")
    assert engine.lookup("q", keys={"g": 7}).select(["g", "most"]).to_pylist() == []
    engine.push("s", {name: values[2:3] for name, values in EVENTS.items()} | {"t": [9 * US]})
    assert engine.lookup("q", keys={"g": 5}).select(["g", "most"]).to_pylist() == [{"g": 5, "most": 3.5}]
    engine.remove("q")
    engine.add("CREATE QUERY q AS SELECT COUNT(*) AS events FROM s [ROWS 9]")
    assert engine.lookup("q").schema.names[2:] == ["events"]


def test_a_lookup_at_the_end_of_a_window_is_that_windows_table() -> None:
    """`[RANGE r]` at t covers (t - r, t], a window that closes at t covers [t - r, t)."""
    select = "k AS who, SUM(g) AS total, AVG(x) AS mean FROM s"
    engine = panewise.Engine(
        f"{STREAM} CREATE QUERY now AS SELECT {select} [RANGE 5 SECONDS] GROUP BY k;"
        f"CREATE QUERY sliding AS SELECT {select} [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k;"
    )
    engine.push("s", EVENTS)
    closed = engine.advance("s", 5 * US).tables["sliding"]
    looked = engine.lookup("now", at=5 * US - 1)
    assert looked.schema == closed.schema
    times = ["window_start", "window_end"]
    assert looked.drop_columns(times).sort_by("who") == closed.drop_columns(times).sort_by("who")
