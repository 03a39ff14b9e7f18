"""Answers: wide tables, families, the same window by window, and changes that rebuild every answer."""

from __future__ import annotations

import gc
import math
import weakref
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table, programs
from tests.thoroughness import examples
from tests.wide_answers import as_plain, plain

import panewise

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*) AS n, MAX(t) AS last FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT k AS who, SUM(x), AVG(x) AS mean FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY c AS SELECT SUM(x) AS n FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 3 GROUP BY k;
CREATE QUERY d AS SELECT COUNT(*) FROM s [RANGE 3 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY e AS SELECT COUNT(*) FROM s [ROWS 4 SLIDE 2];
CREATE QUERY f AS SELECT COUNT(*) FROM s [RANGE 2 SECONDS];
"""
FAMILY = "s_by_k_every_2_seconds"


def engine_of(text: str = TEXT, **options) -> panewise.Engine:
    engine = panewise.Engine(text, **options)
    engine.push("s", {"t": np.arange(10) * US, "k": ["a", "b"] * 5, "x": np.arange(10)})
    return engine


def test_a_table_has_the_types_of_its_query() -> None:
    answers = engine_of().advance("s", 10 * US)
    assert list(answers.tables) == ["a", "b", "c", "d", "e"], "what is looked up has no table"
    table = answers.tables["b"]
    assert table.schema.types == [*[pa.timestamp("us", "UTC")] * 2, pa.string(), pa.int64(), pa.float64()]
    assert table.column_names == ["window_start", "window_end", "who", "SUM(x)", "mean"]
    assert answers.tables["a"].schema.field("last").type == pa.timestamp("us", "UTC")
    assert table is answers.tables["b"], "a table is made once"


def test_queries_that_end_together_share_a_table() -> None:
    answers = engine_of().advance("s", 10 * US)
    assert list(answers.families) == [FAMILY, f"{FAMILY}_from_1_second", "s_every_2_rows"]
    family = answers.families[FAMILY]
    # Two queries give the name n, so both columns say which query they are of.
    assert family.column_names == ["window_end", "k", "a__n", "last", "b__SUM(x)", "mean", "c__n"]
    rows = [list(row.values())[1:] for row in family.set_column(3, "last", family["last"].cast(pa.int64())).to_pylist()]
    assert rows[:4] == [
        ["a", 1, 0, 0, 0.0, None],
        ["b", 1, US, 1, 1.0, None],
        ["a", 2, 2 * US, 2, 2.0, None],
        ["b", 2, 3 * US, 3, 3.0, None],
    ]
    assert rows[4] == ["a", 3, 4 * US, 4, 4.0, 4]


def test_without_a_window_that_closes_tables_have_their_columns() -> None:
    full, empty = engine_of().advance("s", 10 * US), engine_of().advance("s", 0)
    assert empty.num_rows == empty.long().num_rows == 0
    assert all(empty.tables[name].schema == table.schema for name, table in full.tables.items())
    assert all(empty.families[name].schema == table.schema for name, table in full.families.items())
    assert panewise.Engine(TEXT).advance("s").families[FAMILY].num_rows == 0


def test_answers_show_themselves_and_say_what_is_there() -> None:
    answers = engine_of().advance("s", 10 * US)
    assert repr(answers) == f"Answers(5 queries, {answers.num_rows} rows)"
    assert FAMILY in answers._repr_html_()
    assert "nope" not in answers.tables
    with pytest.raises(panewise.PanewiseError, match=r"no sliding query named 'nope' is here; there are: a, b"):
        answers.tables["nope"]
    with pytest.raises(KeyError, match="no family named"):
        answers.families["a"]


def test_answers_stay_as_they_were_while_the_engine_goes_on() -> None:
    engine = engine_of()
    answers, expected = engine.advance("s", 10 * US), engine_of().advance("s", 10 * US)
    engine.push("s", {"t": [20 * US, 21 * US], "k": ["new", "a"], "x": [1, 2]})
    engine.remove("a")
    engine.advance("s", panewise.END_OF_STREAM)
    assert answers.families[FAMILY].equals(expected.families[FAMILY])


def test_answers_that_nobody_holds_are_freed_at_once() -> None:
    gc.disable()
    try:
        answers = engine_of().advance("s", 10 * US)
        assert answers.families[FAMILY].num_rows > 0
        assert answers.tables["a"].num_rows > 0
        part = weakref.ref(answers._content)
        del answers
        assert part() is None, "a cycle keeps them until the collector runs, and a long closing grows"
    finally:
        gc.enable()


def test_groups_of_several_trees_and_orders_are_joined() -> None:
    engine = panewise.Engine("""
        CREATE STREAM s (t TIMESTAMP, k STRING, j BIGINT) TIMESTAMP BY t;
        CREATE QUERY a AS SELECT COUNT(*) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k, j;
    """)
    engine.push("s", {"t": [0, 1], "k": ["x", None], "j": [None, 5]})
    engine.add("CREATE QUERY b AS SELECT COUNT(*) FROM s [RANGE 1 SECOND SLIDE 1 SECOND] WHERE j > 5 GROUP BY j, k;")
    engine.push("s", {"t": [5 * US, 5 * US], "k": ["y", "x"], "j": [6, 7]})
    answers = engine.advance("s", panewise.END_OF_STREAM)
    (family,) = answers.families.values()
    rows = {tuple(row.values())[1:] for row in family.to_pylist()}
    assert rows >= {("x", None, 1, None), (None, 5, 1, None), ("y", 6, 1, 1), ("x", 7, 1, 1)}
    to_answers(answers, engine.workload)


# Drawn times are microseconds of 1970, and some look like seconds.
@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")
@settings(max_examples=examples(60), deadline=None)
@given(programs(), st.sampled_from([40, 400]), st.booleans())
def test_a_long_past_in_parts_is_the_same(program, cells, by_closing) -> None:
    _, workload, stream, steps = program
    rows = [row for step in steps if step[0] == "push" for row in step[1]]
    engine = panewise.Engine(workload)
    engine.push(stream.name, as_table(stream, rows))
    with patch("panewise.engine.cuts.CELLS", cells):
        if by_closing:
            found, newest = [], -math.inf
            for closed in engine.closing(stream.name, panewise.END_OF_STREAM):
                answers = to_answers(closed, workload)
                time_answers = [one for one in answers if not hasattr(workload.queries[one.query].window, "rows")]
                assert min((one.window_end for one in time_answers), default=newest) >= newest
                newest = max([newest, *(one.window_end for one in time_answers)])
                found += answers
        else:
            found = to_answers(engine.advance(stream.name, panewise.END_OF_STREAM), workload)
    expected = [
        answer
        for query in workload.queries.values()
        if query.window.is_sliding
        for answer in oracle.closed_answers(query, stream.timestamp, rows, None, None)
    ]
    oracle.assert_same_answers(found, expected)


def test_closing_stops_where_the_reader_stops() -> None:
    with patch("panewise.engine.cuts.CELLS", 4):
        engine, whole = engine_of(), engine_of().advance("s", panewise.END_OF_STREAM)
        closing = engine.closing("s", panewise.END_OF_STREAM)
        first = next(closing)
        assert 0 < first.num_rows < whole.num_rows
        rest = engine.advance("s", panewise.END_OF_STREAM)
        joined = pa.concat_tables([first.families[FAMILY], rest.families[FAMILY]])
        assert joined.equals(whole.families[FAMILY])
        assert sum(late.num_rows for late in closing) == 0, "advance has taken the rest"
    with pytest.raises(panewise.PanewiseError, match="cannot go back"):
        engine.closing("s", 0)


CHANGING = """
CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t {late};
CREATE QUERY a AS SELECT k, COUNT(*), MAX(x) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 2 SECONDS SLIDE 2 SECONDS] GROUP BY k HAVING SUM(x) > 1;
CREATE QUERY c AS SELECT MIN(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 0 GROUP BY k;
CREATE QUERY d AS SELECT COUNT(*) FROM s [RANGE 4 SECONDS SLIDE 4 SECONDS];
"""
values = st.sampled_from([0.0, 1.0, 2.0, None, math.nan])
events = st.lists(st.tuples(st.integers(-3, 8), st.sampled_from(["a", "b", None]), values), max_size=6)


def rows_by_place(table: pa.Table) -> dict:
    """The aggregates of each window end and group, and whether the group has ended."""
    names = [name for name in table.column_names if name not in ("window_start", "window_end", "k", "ended")]
    columns = [as_plain(table.column(name)) for name in names]
    groups = table.column("k").to_pylist() if "k" in table.column_names else [None] * table.num_rows
    ended = table.column("ended").to_pylist() if "ended" in table.column_names else [False] * table.num_rows
    ends = table.column("window_end").to_pylist()
    return {
        (end, plain(group)): (tuple(column[row] for column in columns), ended[row])
        for row, (end, group) in enumerate(zip(ends, groups, strict=True))
    }


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.tuples(events, st.integers(0, 9)), max_size=6), st.sampled_from([2, 10**6]))
def test_the_changes_of_a_family_rebuild_its_answers(steps, cells) -> None:
    workload = panewise.read(CHANGING.format(late=""))
    full, only = panewise.Engine(workload), panewise.Engine(workload)
    known: dict = {}
    now = 0
    with patch("panewise.engine.cuts.CELLS", cells):
        for some, more in steps:
            rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
            now += more
            answers = []
            for engine, changed_only in ((full, False), (only, True)):
                engine.push("s", as_table(workload.streams["s"], rows))
                answers.append(engine.advance("s", now * US, changed_only=changed_only))
                to_answers(answers[-1], workload)
            for kind in ("families", "tables"):
                for name, table in getattr(answers[1], kind).items():
                    expected = rows_by_place(getattr(answers[0], kind)[name])
                    mine = known.setdefault((kind, name), {})
                    assert_follows(mine, table, expected)


def assert_follows(known: dict, changed: pa.Table, expected: dict) -> None:
    """At the last end that has answers, what is known from the changes is what is answered, and NULL elsewhere."""
    reported = rows_by_place(changed)
    ends = sorted({end for end, _ in (*reported, *expected)})
    for end in ends:
        for (at, group), (items, ended) in reported.items():
            if at == end:
                known.pop(group, None)
                if not ended:
                    known[group] = items
        answered = {group: items for (at, group), (items, _) in expected.items() if at == end}
        assert shown(known) == shown(answered), end


def shown(groups: dict) -> dict:
    """A group whose answers are all NULL is the same as one without answers."""
    return {group: items for group, items in groups.items() if set(items) != {None}}


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(events, st.integers(0, 4), st.booleans()), max_size=8))
def test_corrected_rows_of_a_family_have_the_answers_of_all_its_queries(steps) -> None:
    workload = panewise.read(CHANGING.format(late="ON LATE CORRECT 5 SECONDS"))
    engine, told, taken, now = panewise.Engine(workload), {}, [], 0
    watermark = None
    for some, more, _ in steps:
        rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
        engine.push("s", as_table(workload.streams["s"], rows))
        taken += [row for row in rows if watermark is None or row["t"] >= watermark - 5 * US]
        now += more
        watermark = now * US
        answers = engine.advance("s", watermark)
        to_answers(answers, workload)
        for place, (items, ended) in rows_by_place(answers.families[FAMILY]).items():
            assert ended <= (set(items) == {None})
            told[place] = items
        fresh = panewise.Engine(workload)
        fresh.push("s", as_table(workload.streams["s"], taken))
        expected = rows_by_place(fresh.advance("s", watermark).families[FAMILY])
        assert shown(told) == shown({place: items for place, (items, _) in expected.items()})


def test_an_ended_group_is_marked() -> None:
    engine = engine_of()
    engine.advance("s", 10 * US, changed_only=True)
    answers = engine.advance("s", 40 * US, changed_only=True)
    family = answers.families[FAMILY]
    assert family.column_names[-1] == "ended"
    ended = family.filter(family["ended"]).select(["window_end", "k", "a__n"])
    ends = ended["window_end"].cast(pa.int64()).to_pylist()
    assert (ends, ended["k"].to_pylist(), ended["a__n"].to_pylist()) == ([16 * US] * 2, ["a", "b"], [None, None])


def test_a_column_named_ended_cannot_be_marked() -> None:
    engine = engine_of(TEXT.replace("AS mean", "AS ended"))
    answers = engine.advance("s", 10 * US, changed_only=True)
    with pytest.raises(panewise.PanewiseError, match=r"b: a column of its answers is named 'ended'.*after AS"):
        answers.tables["b"]
    assert "b__ended" in answers.families[FAMILY].column_names


def test_answers_that_do_not_fit_are_refused_and_can_be_taken_as_they_come() -> None:
    limit = 200_000
    rows = 5_000
    text = """
    CREATE STREAM s (t TIMESTAMP, k BIGINT) TIMESTAMP BY t;
    CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 1 SECOND] GROUP BY k;
    """
    engine = panewise.Engine(text, rate=1, groups={"k": 10}, memory_limit=limit)
    engine.push("s", {"t": np.arange(rows) * US, "k": np.arange(rows) % 10})
    with patch("panewise.engine.cuts.CELLS", 500):
        with pytest.raises(panewise.PanewiseError, match=r"do not fit into 200\.0 kB.*closing\(\).*write\(\)"):
            engine.advance("s", panewise.END_OF_STREAM)
        found = [closed.num_rows for closed in engine.closing("s", panewise.END_OF_STREAM)]
    assert sum(found) == 10 * rows
    assert len(found) > 50
    assert max(found) < 2_000
