"""Sessions of the engine agree with the oracle: as they close, cut at MAX, with queries that come while it runs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.standing import check_lookups
from tests.thoroughness import examples

import panewise

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t{};"
QUERIES = """
    CREATE QUERY short AS SELECT k, COUNT(*), SUM(x), MEDIAN(x), FIRST(x) FROM s
      [SESSION GAP 30 MICROSECONDS MAX 120 MICROSECONDS] GROUP BY k;
    CREATE QUERY long AS SELECT k, COUNT(*), MAX(x) - MIN(x) AS span FROM s
      [SESSION GAP 70 MICROSECONDS MAX 300 MICROSECONDS] GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY some AS SELECT k, COUNT(*), AVG(x) FROM s
      [SESSION GAP 50 MICROSECONDS MAX 50 MICROSECONDS] WHERE x > 0 GROUP BY k;
    CREATE QUERY everyone AS SELECT COUNT(*), COUNT(DISTINCT k) FROM s
      [SESSION GAP 40 MICROSECONDS MAX 400 MICROSECONDS];
    CREATE QUERY fixed AS SELECT k, COUNT(*) FROM s [RANGE 60 MICROSECONDS SLIDE 20 MICROSECONDS] GROUP BY k;
"""
LATER = """CREATE QUERY later AS SELECT k, COUNT(*), SUM(x) FROM s
    [SESSION GAP {} MICROSECONDS MAX 120 MICROSECONDS] GROUP BY k"""

# Slots are ten microseconds long: events lie a gap apart, or anywhere within slots.
times = st.integers(0, 120).map(lambda n: 10 * n + 3) | st.integers(0, 1200)
event = st.fixed_dictionaries({"t": times, "k": st.sampled_from("ab"), "x": st.none() | st.integers(-2, 5)})
steps = st.lists(st.tuples(st.lists(event, max_size=12), st.integers(-3, 1300)), min_size=1, max_size=8)


@pytest.mark.filterwarnings("ignore::panewise.LateWarning")
@settings(max_examples=examples(60), deadline=None)
@given(steps, st.integers(0, 4), st.sampled_from([20, 50, 90]))
def test_sessions_agree_with_the_oracle(program, added_at: int, gap: int) -> None:
    """A query that comes later reports the sessions that surely lie behind what it missed, and no wrong ones."""
    engine = panewise.Engine(STREAM.format("") + QUERIES)
    accepted: list[dict] = []
    watermark, missed = None, -1000
    for place, (rows, mark) in enumerate([*program, ([], None)]):
        engine.push("s", as_table(engine.workload.streams["s"], rows))
        accepted += [row for row in rows if watermark is None or row["t"] >= watermark]
        if place == added_at:
            engine.add(LATER.format(gap))
            missed = max([-1000 if watermark is None else watermark, *(row["t"] for row in accepted)])
        past = missed + 120 + 2 * gap
        check_lookups(engine, accepted, watermark, lambda one, past=past: one.window_end > past)
        if mark is not None and watermark is not None and mark < watermark:
            continue
        found = to_answers(engine.advance("s", panewise.END_OF_STREAM if mark is None else mark), engine.workload)
        expected = [
            answer
            for query in engine.workload.queries.values()
            for answer in oracle.closed_answers(query, "t", accepted, mark, watermark)
        ]
        # However long the run may be that it is a piece of.
        sure = [one for one in expected if one.query != "later" or one.window_end > missed + 120 + 2 * gap]
        oracle.assert_same_answers([one for one in found if one.query != "later" or one in sure], sure)
        assert [one for one in found if one not in expected and one.query == "later"] == []
        watermark = mark
        for generation in engine._streams["s"].generations:
            for tree in generation.trees:
                tree.store.check_invariants()
        engine = panewise.Engine.restore(engine.snapshot())
    assert fragments(engine) == 0


def fragments(engine: panewise.Engine) -> int:
    """How many rows the trees of sessions hold."""
    trees = [tree for generation in engine._streams["s"].generations for tree in generation.trees]
    return sum(tree.store.live_rows for tree in trees if tree.tree.session_gap_us)


def closed(engine: panewise.Engine, mark: int, **options: bool) -> list[tuple]:
    table = engine.advance("s", mark, **options).tables["q"]
    return [(row["k"], *(in_us(row[name]) for name in ("window_start", "window_end"))) for row in table.to_pylist()]


def in_us(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)).microseconds


QUERY = "CREATE QUERY q AS SELECT k, COUNT(*) FROM s [SESSION GAP 10 MICROSECONDS MAX 100 MICROSECONDS] GROUP BY k;"


def columns(times: list[int], key: str = "a") -> dict[str, list]:
    return {"t": times, "k": [key] * len(times), "x": [1] * len(times)}


def test_a_session_closes_to_the_microsecond() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    engine.push("s", columns([3, 12]))
    # An event at 22 would still belong to it.
    assert closed(engine, 22) == []
    assert closed(engine, 23) == [("a", 3, 22)]
    engine.push("s", columns([23, 33]))
    assert closed(engine, 100) == [("a", 23, 43)]


def test_a_group_that_never_pauses_is_cut_at_multiples_of_max() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    engine.push("s", columns([*range(150, 555, 5)]))
    # Only past 250 is it known that this is no session of 150 to, say, 250.
    assert closed(engine, 250) == []
    assert closed(engine, 251) == [("a", 150, 200)]
    assert closed(engine, 400) == [("a", 200, 300)]
    assert closed(engine, panewise.END_OF_STREAM) == [("a", 300, 400), ("a", 400, 500), ("a", 500, 560)]


def test_the_next_closing_is_that_of_the_newest_event() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    engine.push("s", columns([3, 12]))
    assert engine.next_closing("s").end_us == 22
    engine.advance("s", 23)
    assert engine.next_closing("s").query is None
    empty = panewise.Engine(STREAM.format("") + QUERY.replace("GROUP", "WHERE x > 5 GROUP"))
    empty.push("s", columns([3]))
    with pytest.warns(panewise.NothingClosedWarning, match="no event passed WHERE"):
        empty.advance("s", panewise.END_OF_STREAM)


def test_what_never_pauses_is_not_kept_forever() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    for start in range(0, 3000, 50):
        engine.push("s", columns([*range(start, start + 50, 5)]))
        engine.advance("s", start + 50)
    assert fragments(engine) < 30


def test_changes_have_each_session_once() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    engine.push("s", columns([1, 30, 60]))
    assert closed(engine, 45, changed_only=True) == [("a", 1, 11), ("a", 30, 40)]
    assert closed(engine, 200, changed_only=True) == [("a", 60, 70)]


def test_a_sum_that_does_not_fit_loses_no_session() -> None:
    large = QUERY.replace("QUERY q", "QUERY large").replace("COUNT(*)", "SUM(x)").replace(";", " ON OVERFLOW ERROR;")
    engine = panewise.Engine(STREAM.format("") + large + QUERY)
    engine.push("s", {"t": [1, 2, 500], "k": ["a"] * 3, "x": [2**62, 2**62, 1]})
    with pytest.raises(panewise.AnswerOverflowError):
        engine.advance("s", 60)
    engine.remove("large")
    assert closed(engine, 60) == [("a", 1, 12)]


def test_sessions_with_one_gap_share_a_table() -> None:
    same = QUERY.replace("QUERY q", "QUERY p").replace("COUNT(*)", "SUM(x)")
    other = QUERY.replace("QUERY q", "QUERY o").replace(" GROUP", " WHERE x > 1 GROUP")
    engine = panewise.Engine(STREAM.format("") + QUERY + same + other)
    engine.push("s", columns([1, 5]))
    families = engine.advance("s", 50).families
    assert families["s_by_k_sessions_of_10_microseconds"].column_names[2:] == ["q__COUNT(*)", "p__SUM(x)"]
    assert len(families) == 2
    fixed = "CREATE QUERY f AS SELECT k, COUNT(*) FROM s [RANGE 4 MICROSECONDS SLIDE 2 MICROSECONDS] GROUP BY k;"
    plan = panewise.optimize(panewise.read(STREAM.format("") + QUERY + same + other + fixed))
    assert [len(tree.queries) for tree in plan.trees] == [3, 1]
    assert "sessions have a tree of their own" in plan.explain()


def test_a_lookup_sees_the_session_as_it_stands() -> None:
    engine = panewise.Engine(STREAM.format("") + QUERY)
    assert engine.lookup("q").num_rows == 0
    assert engine.lookup_one("q", "a") is None
    engine.push("s", {"t": [3, 12, 1, 15], "k": ["a", "a", "b", "c"], "x": [1] * 4})
    table = engine.lookup("q")
    assert sorted(zip(table["k"].to_pylist(), table["COUNT(*)"].to_pylist(), strict=True)) == [("a", 2), ("c", 1)]
    assert [in_us(table[name][0].as_py()) for name in ("window_start", "window_end")] == [3, 22]
    assert engine.lookup("q", keys={"k": "b"}).num_rows == 0
    assert engine.lookup_one("q", ("a",), at=21) == {"COUNT(*)": 2}
    assert engine.lookup_one("q", "a", at=22) is None
    assert engine.lookup_many("q", ["c", "z", "a", "a"], at=20)["COUNT(*)"].tolist() == [1, None, 2, 2]
    engine.push("s", columns([20]))
    assert engine.lookup_one("q", {"k": "a"}) == {"COUNT(*)": 3}
    engine.advance("s", 25)
    with pytest.raises(panewise.HistoryError, match=r"q is looked up as it stands, from .* on; .*training_set"):
        engine.lookup("q", at=24)
    with pytest.raises(panewise.QueryKindError, match="q is looked up as it stands now, with lookup or lookup_many"):
        engine.lookup_at("q", ["a"], [30])
    with pytest.raises(panewise.KeysError, match="k"):
        engine.lookup("q", keys={"x": [1]})
    assert engine.lookup_one("q", "a") == {"COUNT(*)": 3}
    engine.advance("s", panewise.END_OF_STREAM)
    assert engine.lookup("q").num_rows == 0


def test_sessions_are_not_corrected() -> None:
    with pytest.raises(panewise.StatementError, match="has ON LATE CORRECT, and sessions are not corrected") as caught:
        panewise.read(STREAM.format(" ON LATE CORRECT 1 HOUR") + QUERY)
    assert "without it for this query" in str(caught.value)
