"""Windows from one event to another agree with the oracle: as they close, with queries that come while it runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.standing import FROM_EVENT_TO_EVENT, check_lookups
from tests.thoroughness import examples

import panewise
from panewise.language.printer import print_query

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, e STRING, x BIGINT) TIMESTAMP BY t{};"
QUERIES = (
    FROM_EVENT_TO_EVENT
    + """
    CREATE QUERY fixed AS SELECT k, COUNT(*) FROM s [RANGE 60 MICROSECONDS SLIDE 20 MICROSECONDS] GROUP BY k;
"""
)
LATER = """CREATE QUERY later AS SELECT k, COUNT(*) FROM s
    [FROM WHEN e = 'on' UNTIL WHEN x = 0 OR e IS NULL MAX 40 MICROSECONDS] GROUP BY k"""
LATER_MAX = 40

event = st.fixed_dictionaries(
    {
        "t": st.integers(0, 300),
        "k": st.sampled_from("ab"),
        "e": st.sampled_from(["on", "off", "", None, "on", ""]),
        "x": st.none() | st.integers(-1, 5),
    }
)
steps = st.lists(st.tuples(st.lists(event, max_size=14), st.integers(-3, 400)), min_size=1, max_size=6)


@pytest.mark.filterwarnings("ignore::panewise.LateWarning")
@settings(max_examples=examples(80), deadline=None)
@given(steps, st.integers(0, 4))
def test_windows_from_event_to_event_agree_with_the_oracle(program, added_at: int) -> None:
    """A query that comes later reports the windows that surely begin behind what it missed, and no wrong ones."""
    engine = panewise.Engine(STREAM.format("") + QUERIES)
    accepted: list[dict] = []
    watermark, missed = None, -1000
    for place, (rows, mark) in enumerate([*program, ([], None)]):
        engine.push("s", as_table(engine.workload.streams["s"], rows))
        accepted += [row for row in rows if watermark is None or row["t"] >= watermark]
        if place == added_at:
            engine.add(LATER)
            missed = max([-1000 if watermark is None else watermark, *(row["t"] for row in accepted)])
        past = missed + LATER_MAX
        check_lookups(engine, accepted, watermark, lambda one, past=past: one.window_start > past)
        if mark is not None and watermark is not None and mark < watermark:
            continue
        found = to_answers(engine.advance("s", panewise.END_OF_STREAM if mark is None else mark), engine.workload)
        expected = [
            answer
            for query in engine.workload.queries.values()
            for answer in oracle.closed_answers(query, "t", accepted, mark, watermark)
        ]
        sure = [one for one in expected if one.query != "later" or one.window_start > missed + LATER_MAX]
        oracle.assert_same_answers([one for one in found if one.query != "later" or one in sure], sure)
        assert [one for one in found if one not in expected and one.query == "later"] == []
        watermark = mark
        for generation in engine._streams["s"].generations:
            for tree in generation.trees:
                tree.store.check_invariants()
        engine = panewise.Engine.restore(engine.snapshot())


def test_single_events_feed_nothing_else_so_that_a_snapshot_can_be_restored() -> None:
    """Whatever queries come later, and however long the slots of others are."""
    runs = (
        "CREATE QUERY runs AS SELECT k, COUNT(*) FROM s [FROM WHEN x = 1 UNTIL WHEN x = 2 MAX 60 MICROSECONDS] "
        "GROUP BY k;"
    )
    fixed = "CREATE QUERY fixed AS SELECT k, COUNT(*) FROM s [RANGE 5 MICROSECONDS SLIDE 1 MICROSECOND] GROUP BY k;"
    bits = "".join(
        f"CREATE QUERY x_{x} AS SELECT k, COUNT(*) FROM s [RANGE 5 MICROSECONDS SLIDE 1 MICROSECOND] WHERE x = {x} "
        "GROUP BY k;"
        for x in (1, 2)
    )
    slides = "CREATE QUERY slides AS SELECT k, COUNT(*) FROM s [UNBOUNDED SLIDE 5 MICROSECONDS] GROUP BY k;"
    for first, later in ((runs, fixed), (runs, slides), (runs, bits), (bits, runs), (runs + fixed, slides + bits)):
        engine = panewise.Engine(STREAM.format("") + first)
        for begin in (0, 100):
            events = {"t": [begin, begin + 1, begin + 2], "k": ["a"] * 3, "e": [None] * 3, "x": [1, 0, 2]}
            engine.push("s", events)
            if not begin:
                engine.add(later)
        restored = panewise.Engine.restore(engine.snapshot())
        found, again = (one.advance("s", panewise.END_OF_STREAM).tables for one in (engine, restored))
        assert {name: table.to_pylist() for name, table in again.items()} == {
            name: table.to_pylist() for name, table in found.items()
        }
        assert found["runs"].num_rows


def test_windows_that_close_together_are_in_the_order_of_their_ends() -> None:
    """What opens the next window ends one a microsecond earlier than what only closes it."""
    query = "[FROM WHEN x = 1 UNTIL WHEN x > 0 MAX 60 MICROSECONDS]"
    engine = panewise.Engine(f"{STREAM.format('')} CREATE QUERY q AS SELECT k, COUNT(*) FROM s {query} GROUP BY k")
    engine.push("s", {"t": [0, 5, 0, 5], "k": ["a", "a", "b", "b"], "e": [None] * 4, "x": [1, 2, 1, 1]})
    rows = engine.advance("s", 10).tables["q"].to_pylist()
    assert [(row["k"], row["window_end"].microsecond) for row in rows] == [("b", 5), ("a", 6)]


def test_what_opens_the_next_window_belongs_to_that_one() -> None:
    """And what only closes belongs to the window that it closes."""
    engine = panewise.Engine(STREAM.format("") + QUERIES)
    rows = [(10, "on", 1), (20, "", 4), (30, "off", 2), (40, "on", 5)]
    events = [{"t": t, "k": "a", "e": e, "x": x} for t, e, x in rows]
    engine.push("s", as_table(engine.workload.streams["s"], events))
    tables = engine.advance("s", panewise.END_OF_STREAM).tables
    assert [row["COUNT(*)"] for row in tables["runs"].to_pylist()] == [3, 1]
    assert [row["window_end"].microsecond for row in tables["runs"].to_pylist()] == [31, 100]
    assert [row["window_end"].microsecond for row in tables["large"].to_pylist()] == [40, 90]


def test_the_text_of_a_window_means_the_same() -> None:
    workload = panewise.read(STREAM.format("") + QUERIES)
    texts = [print_query(query) for query in workload.queries.values()]
    again = panewise.read(STREAM.format("") + ";".join(texts))
    assert again.queries == workload.queries


def test_mistakes_name_the_cure() -> None:
    def refused(query: str, options: str = "") -> str:
        with pytest.raises(panewise.StatementError) as caught:
            panewise.read(STREAM.format(options) + f"CREATE QUERY q AS SELECT {query}")
        return str(caught.value)

    assert "MAX 1 DAY" in refused("COUNT(*) FROM s [FROM WHEN e = 'on' UNTIL WHEN e = 'off']")
    assert "FROM WHEN needs a condition, e is STRING" in refused(
        "COUNT(*) FROM s [FROM WHEN e UNTIL WHEN x = 1 MAX 1 DAY]"
    )
    assert "UNTIL WHEN cannot use an aggregate" in refused(
        "COUNT(*) FROM s [FROM WHEN x = 1 UNTIL WHEN MAX(x) > 1 MAX 1 DAY]"
    )
    window = "[FROM WHEN x = 1 UNTIL WHEN x = 2 MAX 1 DAY]"
    assert "are not corrected" in refused(f"COUNT(*) FROM s {window}", " ON LATE CORRECT 1 HOUR")
    assert "needs a window of a fixed length" in refused(f"HISTOGRAM(x) FROM s {window}")
    assert "MAX must be positive" in refused(f"COUNT(*) FROM s {window.replace('1 DAY', '0 DAYS')}")


def test_a_lookup_sees_the_window_that_is_open() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERIES)
    assert engine.lookup("runs").num_rows == 0
    rows = [
        {"t": t, "k": k, "e": e, "x": t} for t, k, e in [(1, "a", "on"), (3, "b", "on"), (5, "a", ""), (6, "b", "off")]
    ]
    engine.push("s", as_table(engine.workload.streams["s"], rows))
    assert engine.lookup_one("runs", "a") == {"COUNT(*)": 2, "SUM(x)": 6, "LAST(e)": ""}
    assert engine.lookup_one("runs", "b") == {"COUNT(*)": 2, "SUM(x)": 9, "LAST(e)": "off"}
    assert engine.lookup("runs", keys={"k": ["b"]}, at=7).num_rows == 0
    assert engine.lookup_many("runs", ["b", "c", "a"], at=60)["SUM(x)"].tolist() == [None, None, 6]
    assert engine.lookup_one("runs", "a", at=61) is None
