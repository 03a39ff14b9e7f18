"""HAVING of on-demand queries through collective indexes: the same answers for any disorder and history."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.engine.on_demand import candidates
from panewise.engine.on_demand.served import Served
from panewise.errors import PanewiseWarning

STREAM = "CREATE STREAM t (at TIMESTAMP, sym STRING, v BIGINT, p DOUBLE) TIMESTAMP BY at WATERMARK 0 SECONDS;"
QUERIES = """
CREATE QUERY sums AS SELECT sym, SUM(v), MAX(p) FROM t [RANGE 20 MICROSECONDS] WHERE v > 0 GROUP BY sym
  HAVING SUM(v) >= 9;
CREATE QUERY more AS SELECT sym, SUM(v) FROM t [RANGE 9 MICROSECONDS] WHERE v > 0 GROUP BY sym HAVING 5 < SUM(v);
CREATE QUERY busy AS SELECT sym, COUNT(*) FROM t [RANGE 12 MICROSECONDS] GROUP BY sym
  HAVING COUNT(*) > 2 AND MAX(p) < 7.0;
CREATE QUERY valued AS SELECT COUNT(v), AVG(p) FROM t [RANGE 15 MICROSECONDS] GROUP BY sym HAVING COUNT(v) >= 2;
CREATE QUERY high AS SELECT sym, MAX(p) FROM t [RANGE 20 MICROSECONDS] GROUP BY sym HAVING MAX(p) > 4.0;
CREATE QUERY low AS SELECT sym, MIN(v) FROM t [RANGE 20 MICROSECONDS] GROUP BY sym HAVING MIN(v) <= -1;
"""
RATE = 1e9
"""Events a second: these windows are microseconds long, and at the usual rate reading them would be cheaper."""

values = st.none() | st.integers(-2, 6)
prices = st.none() | st.sampled_from([0.5, 3.0, 5.0, 8.0, float("nan"), float("inf")])
rows = st.tuples(st.integers(-3, 8), st.sampled_from(["a", "b", "c", None]), values, prices)


@settings(max_examples=examples(150))
@given(data=st.data())
def test_lookups_agree_with_the_oracle(data: st.DataObject) -> None:
    workload = panewise.read(STREAM + QUERIES)
    plan = panewise.optimize(workload, rate=RATE)
    assert all(having.filter is not None for having in plan.having.values())
    (stream,) = workload.streams.values()
    engine = panewise.Engine(workload, rate=RATE)
    accepted: list[dict[str, object]] = []
    clock, watermark = 1000, -1
    for _ in range(data.draw(st.integers(1, 8))):
        clock += data.draw(st.integers(0, 12))
        batch = [
            {"at": clock + offset, "sym": sym, "v": v, "p": p}
            for offset, sym, v, p in data.draw(st.lists(rows, max_size=12))
        ]
        engine.push("t", as_table(stream, batch))
        accepted += [row for row in batch if row["at"] >= watermark]  # type: ignore[operator]
        watermark = max(watermark, clock - data.draw(st.integers(0, 4)))
        engine.advance("t", watermark)
        if data.draw(st.booleans(), label="snapshot"):
            engine = panewise.Engine.restore(engine.snapshot())
        at = watermark + data.draw(st.integers(0, 12))
        for query in workload.queries.values():
            expected = oracle.lookup(query, "at", accepted, at)
            oracle.assert_same_answers(
                to_answers(engine.lookup(query.name, at), workload, query.name), expected, query.name
            )


def test_structures_answer_only_the_groups_that_the_index_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    original = Served.candidates

    def spy(self, *arguments):
        codes = original(self, *arguments)
        asked.append(self.groups.decode(codes)["sym"].to_pylist())
        return codes

    monkeypatch.setattr(Served, "candidates", spy)
    engine = panewise.Engine(panewise.read(STREAM + QUERIES), rate=RATE)
    symbols = ["a", "b", "a", "c", "a", "b"]
    engine.push(
        "t", {"at": np.arange(1, 7).astype("datetime64[us]"), "sym": symbols, "v": [4, 1, 4, 2, 3, 1], "p": [1.0] * 6}
    )
    engine.advance("t", 10)
    assert engine.lookup("sums", 10).to_pylist()[0]["SUM(v)"] == 11
    assert asked == [["a"]]
    # A pending event may make its group pass, so that the group is always checked.
    engine.push("t", {"at": np.array([11], "datetime64[us]"), "sym": ["b"], "v": [9], "p": [1.0]})
    assert [row["SUM(v)"] for row in engine.lookup("sums", 11).to_pylist()] == [11, 11]
    assert asked[1:] == [["a", "b"]]
    # The index has passed this time: all groups are checked.
    assert engine.lookup("sums", 5).to_pylist()[0]["SUM(v)"] == 11
    assert asked[2:] == [["a", "b", "c"]]


def test_queries_that_come_and_go_share_an_index() -> None:
    engine = panewise.Engine(panewise.read(STREAM), rate=RATE)
    engine.add("CREATE QUERY one AS SELECT sym, COUNT(*) FROM t [RANGE 5 SECONDS] GROUP BY sym HAVING COUNT(*) > 1")
    engine.push(
        "t", {"at": np.array([1, 2, 3], "datetime64[s]"), "sym": ["a", "a", "b"], "v": [1, 2, 3], "p": [1.0] * 3}
    )
    engine.advance("t", 4_000_000)
    engine.add("CREATE QUERY two AS SELECT sym, COUNT(*) FROM t [RANGE 3 SECONDS] GROUP BY sym HAVING COUNT(*) >= 1")
    (structures,) = [state.structures for state in engine._streams.values()]
    (sequence,) = structures._sequences.values()
    (index,) = sequence.indexes.values()
    assert engine.lookup("two", 4_000_000).num_rows == 2
    assert engine.lookup("one", 4_000_000).num_rows == 1
    assert index.lookups == 2
    engine.remove("one")
    assert list(index.queries) == ["two"]
    engine.remove("two")
    assert not sequence.indexes
    assert not structures._sequences


def test_sums_beyond_the_index_are_checked_one_by_one() -> None:
    engine = panewise.Engine(panewise.read(STREAM + QUERIES), rate=RATE)
    events = {"at": np.array([5, 6], "datetime64[us]"), "sym": ["a", "b"], "v": [2**62, 10], "p": [1.0, 1.0]}
    engine.push("t", events)
    engine.advance("t", 10)
    with pytest.warns(PanewiseWarning, match="every group of a HAVING is checked"):
        assert engine.lookup("sums", 10).num_rows == 2
    assert engine.lookup("sums", 10).num_rows == 2


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("[RANGE 1 HOUR] GROUP BY sym HAVING SUM(v) > 5", "may be zero or negative; add WHERE v > 0 to use it"),
        ("[RANGE 1 HOUR] WHERE v >= 0 GROUP BY sym HAVING SUM(v) > 5", "go down to 0"),
        ("[RANGE 1 HOUR] WHERE p > 0 GROUP BY sym HAVING SUM(p) > 5", "takes integers, and the values are doubles"),
        ("[RANGE 1 HOUR] GROUP BY sym HAVING AVG(v) > 5", "no collective index follows AVG(v)"),
        ("[RANGE 1 HOUR] GROUP BY sym HAVING COUNT(*) = 5", "no part of HAVING compares"),
        ("[RANGE 1 HOUR] GROUP BY sym HAVING COUNT(*) > 5 OR MAX(v) > 1", "no part of HAVING compares"),
        ("[RANGE 1 HOUR] HAVING COUNT(*) > 5", "there is only one group"),
        ("[ROWS 5] GROUP BY sym HAVING COUNT(*) > 5", "windows of time that end now"),
        ("[RANGE BETWEEN 2 HOURS PRECEDING AND 1 HOUR PRECEDING] GROUP BY sym HAVING COUNT(*) > 5", "that end now"),
        ("[RANGE 1 MILLISECOND] GROUP BY sym HAVING COUNT(*) > 5", "checking each of 1 groups takes 3"),
        ("[RANGE 1 HOUR] GROUP BY sym HAVING COUNT(*) > 5 AND MODE(v) > 3", "the window's events are read"),
        (
            "[RANGE 1 HOUR] WHERE v > 0 GROUP BY sym HAVING SUM(v) > 5",
            "collective_sum finds the groups with SUM(v) > 5",
        ),
        ("[RANGE 1 HOUR] GROUP BY sym HAVING MIN(p) < 5 AND AVG(p) > 1", "collective_min finds the groups"),
    ],
)
def test_the_plan_says_which_and_why(query: str, reason: str) -> None:
    plan = panewise.optimize(panewise.read(f"{STREAM} CREATE QUERY q AS SELECT COUNT(*) FROM t {query};"))
    assert reason in plan.having["q"].reason
    assert reason in plan.explain()
    assert reason in plan.to_dict()["on_demand"][0]["having"]


def test_the_cheap_direction_of_the_least_value_is_below() -> None:
    """Few groups pass MIN(v) < 3, and the index finds them; nearly all groups with events have MIN(v) > 3."""
    reasons = {}
    for comparison in ("<", ">"):
        query = f"SELECT COUNT(*) FROM t [RANGE 10 SECONDS] GROUP BY sym HAVING MIN(v) {comparison} 3"
        plan = panewise.optimize(panewise.read(f"{STREAM} CREATE QUERY q AS {query};"))
        reasons[comparison] = plan.having["q"].reason
    assert "collective_min finds the groups" in reasons["<"]
    assert "each group is checked" in reasons[">"]


def test_a_lookup_in_the_past_misses_no_event_that_where_keeps() -> None:
    """Events that WHERE drops advance the watermark, but nothing that earlier lookups need may be dropped then."""
    queries = """
    CREATE QUERY q AS SELECT sym, COUNT(*) FROM t [RANGE 20 MICROSECONDS] WHERE v > 0 GROUP BY sym HAVING COUNT(*) > 2;
    CREATE QUERY long AS SELECT COUNT(*) FROM t [RANGE 1000 MICROSECONDS];
    """
    engine = panewise.Engine(panewise.read(STREAM + queries), rate=RATE)
    times = [*range(1, 11), 28]
    engine.push(
        "t",
        {
            "at": np.array(times).astype("datetime64[us]"),
            "sym": ["a"] * 11,
            "v": [1] * 10 + [0],
            "p": [1.0] * 11,
        },
    )
    engine.advance("t", 29)
    assert engine.lookup("q", 12).to_pylist()[0]["COUNT(*)"] == 10


@pytest.mark.parametrize("having", ["COUNT(v) < 2", "COUNT(v) <= 0", "COUNT(v) >= 0", "COUNT(v) > -1"])
def test_groups_of_nothing_but_nulls_are_found_where_zero_passes(having: str) -> None:
    engine = panewise.Engine(
        STREAM + f"CREATE QUERY q AS SELECT COUNT(v) FROM t [RANGE 1 MINUTE] GROUP BY sym HAVING {having};", rate=RATE
    )
    engine.push("t", {"at": [1, 2], "sym": ["a", "b"], "v": [None, None], "p": [1.0, 1.0]})
    engine.advance("t", 10)
    assert engine.lookup("q", at=10).column("sym").to_pylist() == ["a", "b"]


def test_a_large_double_is_compared_as_having_does_it() -> None:
    bound = float(2**60)
    engine = panewise.Engine(
        STREAM + f"CREATE QUERY q AS SELECT MAX(v) FROM t [RANGE 1 MINUTE] GROUP BY sym HAVING MAX(v) >= {bound!r};",
        rate=RATE,
    )
    engine.push("t", {"at": [1, 2], "sym": ["a", "b"], "v": [2**60 - 1, 2**59], "p": [1.0, 1.0]})
    engine.advance("t", 10)
    assert engine.lookup("q", at=10).column("sym").to_pylist() == ["a"]


def test_an_index_has_the_levels_that_fit_its_thresholds_and_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "FEWEST_USES", 500)
    text = """
        CREATE QUERY busy AS SELECT sym, COUNT(*) FROM t [RANGE 1 SECOND] GROUP BY sym HAVING COUNT(*) > 5;
        CREATE QUERY calm AS SELECT sym, COUNT(*) FROM t [RANGE 1 SECOND] GROUP BY sym HAVING COUNT(*) <= 3;
    """
    engine = panewise.Engine(panewise.read(STREAM + text), rate=RATE)
    second = 0

    def run(seconds: int, events: int, lookups: int) -> None:
        """Seconds in which each of 200 groups has 5 events, but the first has 11."""
        nonlocal second
        for _ in range(seconds):
            second += 1
            symbols = [f"s{place % 200}" for place in range(events)] + ["s0"] * 6
            times = second * 1_000_000 + np.arange(len(symbols))
            engine.push(
                "t",
                {
                    "at": times.astype("datetime64[us]"),
                    "sym": symbols,
                    "v": [1] * len(symbols),
                    "p": [1.0] * len(symbols),
                },
            )
            engine.advance("t", int(times[-1]))
            for _ in range(lookups):
                assert engine.lookup("busy").column("sym").to_pylist() == ["s0"]
                assert engine.lookup("calm").num_rows == 0

    run(1, 1000, 1)
    (structures,) = [state.structures for state in engine._streams.values()]
    (index,) = [index for sequence in structures._sequences.values() for index in sequence.indexes.values()]
    assert index.levels_per_size == candidates.FIRST_LEVELS
    # 199 groups nearly pass, and are looked at in each lookup.
    run(5, 1000, 200)
    assert index.levels_per_size == 6
    # Hardly anybody asks.
    run(6, 1000, 1)
    assert index.levels_per_size == 1
    # With three levels of one event each, a lookup of at least 2 is exact.
    engine = panewise.Engine(panewise.read(STREAM + text.replace("> 5", ">= 2")), rate=RATE)
    run(1, 1000, 0)
    assert engine.lookup("busy").num_rows == 200
    (structures,) = [state.structures for state in engine._streams.values()]
    (index,) = [index for sequence in structures._sequences.values() for index in sequence.indexes.values()]
    assert index.levels_per_size == 3
