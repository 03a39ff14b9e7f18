"""Windows from the start agree with the oracle, as slides end and looked up; what is held does not grow with events."""

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
from panewise.engine import partial_store

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;"
SLIDING = """
    CREATE QUERY total AS SELECT k, COUNT(*), SUM(x), MIN(y), FIRST(x), LAST(x) FROM s
      [UNBOUNDED SLIDE 20 MICROSECONDS] GROUP BY k;
    CREATE QUERY many AS SELECT k, COUNT(DISTINCT x), MAX(x) - MIN(x) AS spread FROM s
      [UNBOUNDED SLIDE 30 MICROSECONDS OFFSET 10 MICROSECONDS] WHERE x > 0 GROUP BY k HAVING COUNT(*) > 2;
    CREATE QUERY everyone AS SELECT COUNT(*), MEDIAN(x), LAST_K(k, 2) FROM s [UNBOUNDED SLIDE 20 MICROSECONDS];
    CREATE QUERY fixed AS SELECT k, COUNT(*) FROM s [RANGE 60 MICROSECONDS SLIDE 20 MICROSECONDS] GROUP BY k;
"""
LATER = "CREATE QUERY later AS SELECT k, COUNT(*), SUM(x) FROM s [UNBOUNDED SLIDE 20 MICROSECONDS] GROUP BY k"

event = st.fixed_dictionaries(
    {
        "t": st.integers(-200, 1200),
        "k": st.sampled_from("abc"),
        "x": st.none() | st.integers(-2, 5),
        "y": st.none() | st.sampled_from([0.5, -0.0, 1e300, float("nan"), float("inf")]),
    }
)
steps = st.lists(st.tuples(st.lists(event, max_size=10), st.integers(-250, 1300)), min_size=1, max_size=8)


@pytest.fixture(autouse=True)
def gathers_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial_store, "FEWEST_GATHERED", 1)


@pytest.mark.filterwarnings("ignore::panewise.LateWarning")
@settings(max_examples=examples(60), deadline=None)
@given(steps, st.integers(0, 4), st.booleans())
def test_slides_from_the_start_agree_with_the_oracle(program, added_at: int, changed_only: bool) -> None:
    """A query that comes later begins with the events that are pushed from then on."""
    engine = panewise.Engine(STREAM + SLIDING)
    accepted: list[dict] = []
    later: list[dict] = []
    watermark = None
    for place, (rows, mark) in enumerate([*program, ([], None)]):
        if place == added_at:
            engine.add(LATER)
        engine.push("s", as_table(engine.workload.streams["s"], rows))
        kept = [row for row in rows if watermark is None or row["t"] >= watermark]
        accepted += kept
        later += kept if place >= added_at else []
        if mark is not None and watermark is not None and mark < watermark:
            continue
        until = panewise.END_OF_STREAM if mark is None else mark
        found = to_answers(engine.advance("s", until, changed_only=changed_only), engine.workload)
        seen = {"later": later}
        expected = [
            answer
            for name, query in engine.workload.queries.items()
            for answer in oracle.closed_answers(query, "t", seen.get(name, accepted), mark, watermark)
        ]
        if changed_only:
            found, expected = ([one for one in some if one.query != "fixed"] for some in (found, expected))
        oracle.assert_same_answers(found, expected)
        watermark = mark
        for generation in engine._streams["s"].generations:
            for tree in generation.trees:
                tree.store.check_invariants()
        engine = panewise.Engine.restore(engine.snapshot())


def test_what_is_held_does_not_grow_with_events() -> None:
    engine = panewise.Engine(STREAM + SLIDING)
    for begin in range(0, 20_000, 500):
        times = list(range(begin, begin + 500))
        engine.push("s", {"t": times, "k": ["a", "b"] * 250, "x": [1, 2] * 250, "y": [1.0] * 500})
        engine.advance("s", begin + 500)
    trees = [tree for generation in engine._streams["s"].generations for tree in generation.trees]
    # Two groups, or one, with up to two shards.
    assert max(tree.store.live_rows for tree in trees if tree.tree.is_unbounded) <= 60


ON_DEMAND = """
    CREATE QUERY total AS SELECT k, COUNT(*), SUM(x), MIN(y), LAST(x), MEDIAN(x) FROM s [UNBOUNDED] GROUP BY k;
    CREATE QUERY some AS SELECT k, MAX(x) / COUNT(*) AS share FROM s [UNBOUNDED] WHERE x > 0 GROUP BY k
      HAVING COUNT(*) > 2;
    CREATE QUERY everyone AS SELECT COUNT(*), SUM(y), COUNT(DISTINCT k) FROM s [UNBOUNDED];
    CREATE QUERY recent AS SELECT COUNT(*) FROM s [RANGE 50 MICROSECONDS];
"""


@pytest.mark.filterwarnings("ignore::panewise.LateWarning")
@settings(max_examples=examples(60), deadline=None)
@given(steps, st.lists(st.integers(0, 1500), min_size=1, max_size=3), st.sets(st.sampled_from("abcd"), min_size=1))
def test_lookups_from_the_start_agree_with_the_oracle(program, ats, keys) -> None:
    engine = panewise.Engine(STREAM + ON_DEMAND)
    stream = engine.workload.streams["s"]
    accepted: list[dict] = []
    watermark = None
    for rows, mark in program:
        engine.push("s", as_table(stream, rows))
        accepted += [row for row in rows if watermark is None or row["t"] >= watermark]
        if watermark is None or mark >= watermark:
            engine.advance("s", mark)
            watermark = mark
        engine = panewise.Engine.restore(engine.snapshot())
        final = max((row["t"] for row in accepted if row["t"] < watermark), default=-1000)
        for at in ats:
            for name, query in engine.workload.queries.items():
                if at < final and name != "recent":
                    with pytest.raises(panewise.HistoryError, match="held as one row for each group"):
                        engine.lookup(name, at=at)
                    continue
                if name == "recent" and at < watermark:
                    continue
                wanted = oracle.lookup(query, "t", accepted, at)
                oracle.assert_same_answers(to_answers(engine.lookup(name, at=at), engine.workload, name), wanted)
                if query.group_by:
                    found = to_answers(engine.lookup(name, at=at, keys={"k": sorted(keys)}), engine.workload, name)
                    oracle.assert_same_answers(found, [one for one in wanted if dict(one.group)["k"] in keys])
        if max(ats) >= final:
            check_other_lookups(engine, accepted, max(ats), keys)


def check_other_lookups(engine: panewise.Engine, accepted: list[dict], at: int, keys: set[str]) -> None:
    """Lookups of one group, of many, and of many at their times."""
    counts = {key: sum(row["k"] == key and row["t"] <= at for row in accepted) for key in sorted(keys)}
    one = [engine.lookup_one("total", key, at=at) for key in counts]
    assert [None if found is None else found["COUNT(*)"] for found in one] == [n or None for n in counts.values()]
    many = engine.lookup_many("total", {"k": list(counts)}, at=at)["COUNT(*)"]
    assert many.tolist() == [n or None for n in counts.values()]
    times = [at + place % 2 for place in range(len(counts))]
    found = engine.lookup_at("total", {"k": list(counts)}, times)["COUNT(*)"]
    later = {key: sum(row["k"] == key and row["t"] <= t for row in accepted) for key, t in zip(counts, times)}
    assert found.tolist() == [n or None for n in later.values()]
    everyone = [sum(row["t"] <= t for row in accepted) for t in times]
    assert engine.lookup_at("everyone", None, times)["COUNT(*)"].tolist() == everyone


def test_answers_at_times_before_the_first_event_take_no_digits_from_those_behind_it() -> None:
    """Nothing has no type of its own: it is that of the answers."""
    engine = panewise.Engine(
        f"""{STREAM} CREATE QUERY each AS SELECT k, SUM(x) AS total, MAX(k) AS top FROM s [UNBOUNDED] GROUP BY k;
        CREATE QUERY everyone AS SELECT SUM(x) AS total, MAX(k) AS top, AVG(y) AS mean FROM s [UNBOUNDED];"""
    )
    assert engine.lookup_at("everyone", None, [])["total"].dtype == np.int64
    engine.push("s", {"t": [10, 20], "k": ["a", "b"], "x": [2**53 + 1, 1], "y": [0.5, 1.5]})
    found = engine.lookup_at("each", ["a", "a", "b"], [5, 15, 25])
    assert {name: column.tolist() for name, column in found.items()} == {
        "total": [None, 2**53 + 1, 1],
        "top": [None, "a", "b"],
    }
    found = engine.lookup_at("everyone", None, [5, 15, 25])
    assert {name: column.tolist() for name, column in found.items()} == {
        "total": [None, 2**53 + 1, 2**53 + 2],
        "top": [None, "a", "b"],
        "mean": [None, 0.5, 1.0],
    }


@settings(max_examples=examples(20), deadline=None)
@given(st.lists(event, max_size=30), st.lists(event, max_size=8), st.sampled_from([None, 2_000]))
def test_labels_see_everything_since_the_start(rows, labels, memory_limit) -> None:
    workload = panewise.read(STREAM + ON_DEMAND + "DROP QUERY recent;" + SLIDING.replace("QUERY ", "QUERY s_"))
    stream = workload.streams["s"]
    labels = [{"t": label["t"], "k": label["k"]} for label in labels]
    table = panewise.training_set(
        as_table(stream, [{**label, "x": None, "y": None} for label in labels]).select(["t", "k"]),
        as_table(stream, rows),
        workload,
        edge="at",
        memory_limit=memory_limit,
    )
    for label, found in zip(labels, table.to_pylist(), strict=True):
        seen = [row for row in rows if row["t"] <= label["t"]]
        (count,) = [one.value for one in oracle.lookup(workload.queries["everyone"], "t", rows, label["t"])][:1]
        assert found["everyone__COUNT(*)"] == count
        mine = [row for row in seen if row["k"] == label["k"]]
        assert found["total__COUNT(*)"] == (len(mine) or None)
        # The newest slide that had ended when the newest event came.
        newest = max((row["t"] for row in seen), default=-1000)
        closed = [row for row in mine if row["t"] < newest // 20 * 20]
        assert found["s_total__COUNT(*)"] == (len(closed) or None)
        values = [row["x"] for row in closed if row["x"] is not None]
        assert found["s_total__SUM(x)"] == (sum(values) if values else None)


def test_mistakes_name_the_cure() -> None:
    def refused(query: str, options: str = "") -> str:
        with pytest.raises(panewise.StatementError) as caught:
            panewise.read(f"{STREAM[:-1]} {options}; CREATE QUERY q AS SELECT {query}")
        return str(caught.value)

    assert "put it into a query of its own" in refused("COUNT(*) OVER [UNBOUNDED] FROM s SLIDE 1 HOUR")
    assert "leave out USING" in refused("COUNT(*) FROM s [UNBOUNDED] USING base_intervals")
    assert "needs a window of a fixed length" in refused("HISTOGRAM(x) FROM s [UNBOUNDED SLIDE 1 HOUR]")
    assert "s [UNBOUNDED]" in refused("COUNT(*) FROM s [RANGE UNBOUNDED]")
    assert "SLIDE must be positive" in refused("COUNT(*) FROM s [UNBOUNDED SLIDE 0 HOURS]")
    late = refused("COUNT(*) FROM s [UNBOUNDED SLIDE 1 HOUR]", "ON LATE CORRECT 1 HOUR")
    assert "what goes back to the start is not corrected" in late
