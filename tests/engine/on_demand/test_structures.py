"""Shared structures in the engine: what is shared, what comes and goes, keys, errors, adaptation."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from tests.answers import lookup_rows

import panewise
from panewise.errors import HistoryError, StructureChoiceError

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t;"


def engine_of(*queries: str, **options) -> panewise.Engine:
    texts = [f"CREATE QUERY q{place} AS SELECT {query};" for place, query in enumerate(queries)]
    return panewise.Engine(panewise.read(STREAM + " ".join(texts)), **options)


def push(engine: panewise.Engine, seconds: list[int], **columns) -> None:
    size = len(seconds)
    filled = {"k": ["a"] * size, "g": [1] * size, "n": [1] * size, "x": [1.0] * size, **columns}
    engine.push("s", {"t": [second * US for second in seconds], **filled})


def held(engine: panewise.Engine) -> list[dict]:
    return engine.statistics()["structures"]["s"]


def values(engine: panewise.Engine, query: str, **options) -> list:
    return [row["value"] for row in lookup_rows(engine.lookup(query, **options), engine.workload.queries[query])]


def test_a_thousand_windows_share_one_structure() -> None:
    engine = engine_of(*(f"SUM(x), AVG(x), MAX(n) FROM s [RANGE {place + 1} SECONDS]" for place in range(1000)))
    push(engine, list(range(100)))
    engine.advance("s", 100 * US)
    assert values(engine, "q9", at=99 * US) == [10.0, 1.0, 1.0]
    assert values(engine, "q49", at=99 * US) == [50.0, 1.0, 1.0]
    assert [(one["holds"], one["queries"], one["updates"]) for one in held(engine)] == [
        ("SUM", 1000, 100),
        ("MAX", 1000, 100),
    ]
    assert all(one["bytes"] > 0 for one in held(engine))


def test_groups_predicates_and_forced_structures_are_apart() -> None:
    engine = engine_of(
        "SUM(x) FROM s [ROWS 5]",
        "SUM(x) FROM s [ROWS 5] WHERE n > 0",
        "k, SUM(x) FROM s [ROWS 5] GROUP BY k",
        "SUM(x) FROM s [ROWS 7] USING search_tree",
        "SUM(x) FROM s [ROWS 9] USING search_tree",
    )
    found = [(one["where"], one["group_by"], one["structure"], one["queries"]) for one in held(engine)]
    assert found == [
        (None, [], "running_intervals", 1),
        (None, [], "search_tree", 2),
        ("n > 0", [], "running_intervals", 1),
        (None, ["k"], "running_intervals", 1),
    ]


def test_what_only_a_removed_query_needed_goes() -> None:
    engine = engine_of(
        "SUM(x) FROM s [ROWS 5]", "SUM(x), MAX(x) FROM s [ROWS 9]", "k, SUM(x) FROM s [ROWS 5] GROUP BY k"
    )
    push(engine, [1, 2, 3])
    engine.advance("s", 3 * US)
    assert values(engine, "q1") == [3.0, 1.0]
    engine.remove("q1")
    assert [one["holds"] for one in held(engine)] == ["SUM", "SUM"]
    engine.add("DROP QUERY q2")
    assert [one["group_by"] for one in held(engine)] == [[]]
    engine.add("CREATE QUERY again AS SELECT MAX(x) FROM s [ROWS 2]")
    assert values(engine, "again") == [1.0]
    assert values(engine, "q0") == [3.0]


def test_a_using_that_cannot_be_changes_nothing() -> None:
    engine = engine_of("SUM(x) FROM s [ROWS 5]")
    with pytest.raises(StructureChoiceError, match="cannot answer MAX"):
        engine.add("DROP QUERY q0; CREATE QUERY bad AS SELECT MAX(x) FROM s [ROWS 5] USING running_intervals")
    push(engine, [1])
    assert values(engine, "q0") == [1.0]


def test_pending_values_are_put_on_top() -> None:
    engine = engine_of("MIN(x), MAX(x), SUM(x), COUNT(x), MEDIAN(x), VAR_POP(x) FROM s [RANGE 100 SECONDS]")
    push(engine, [1, 2], x=[None, None])
    engine.advance("s", 3 * US)
    assert values(engine, "q0") == [None, None, None, 0.0, None, None]
    push(engine, [5, 4], x=[2.0, -4.0])
    assert values(engine, "q0") == [-4.0, 2.0, -2.0, 2.0, -4.0, 9.0]
    engine.advance("s", 5 * US)
    assert values(engine, "q0") == [-4.0, 2.0, -2.0, 2.0, -4.0, 9.0]
    push(engine, [6], x=[math.nan])
    minimum, maximum, total, *_ = values(engine, "q0")
    assert minimum == -4.0
    assert math.isnan(maximum)
    assert math.isnan(total)


def test_sums_of_integers_are_exact_or_null() -> None:
    engine = engine_of("SUM(n), AVG(n) FROM s [ROWS 2]", "k, SUM(n) FROM s [PARTITION BY k ROWS 2] GROUP BY k")
    push(engine, [1, 2, 3], n=[2**62, 2**62 - 1, 1])
    engine.advance("s", 3 * US)
    assert engine.lookup("q0", at=2 * US).column("SUM(n)").to_pylist() == [2**63 - 1]
    assert engine.lookup("q1", at=2 * US, keys={"k": "a"}).column("SUM(n)").to_pylist() == [2**63 - 1]
    push(engine, [4, 5], n=[2**62, 2**62])
    for query, keys in (("q0", None), ("q1", {"k": "a"}), ("q1", None)):
        assert engine.lookup(query, keys=keys).column("SUM(n)").to_pylist() == [None]
    assert values(engine, "q0") == [None, 2.0**62]
    assert engine.statistics()["streams"]["s"]["overflown_answers"] == {"q0": 2, "q1": 2}


def test_a_query_over_rows_that_came_later_covers_the_rows_since_then() -> None:
    # The log keeps the three rows of the old key, which are older than what a new query sees.
    engine = engine_of("SUM(n) FROM s [RANGE 2 SECONDS]", "k, SUM(n) FROM s [PARTITION BY k ROWS 3] GROUP BY k")
    push(engine, list(range(40)), k=["old"] * 10 + ["a"] * 30)
    engine.advance("s", 40 * US)
    assert values(engine, "q1") == [3.0, 3.0]
    engine.add("CREATE QUERY rows AS SELECT COUNT(*), SUM(n) FROM s [ROWS 1000]")
    engine.add("CREATE QUERY parts AS SELECT k, COUNT(*) FROM s [PARTITION BY k ROWS 1000] GROUP BY k")
    since = engine.exact_from("rows")
    assert since is not None
    push(engine, [41, 42])
    wanted = len([second for second in [*range(40), 41, 42] if second * US >= since])
    assert values(engine, "rows") == [wanted, wanted]
    assert values(engine, "parts") == [wanted]
    with pytest.raises(HistoryError):
        engine.lookup("rows", at=1 * US)


def test_structures_let_go_of_what_the_log_lets_go_of() -> None:
    engine = engine_of("k, SUM(n), MAX(n) FROM s [RANGE 10 SECONDS] GROUP BY k", "MEDIAN(n) FROM s [RANGE 5 SECONDS]")
    with patch("panewise.engine.on_demand.event_sequence.MOST_BEHIND", 1):
        for second in range(200):
            push(engine, [second], k=[f"key {second}"], n=[second])
            engine.advance("s", second * US)
            assert values(engine, "q1", at=second * US) == [max(0, second - 2 if second >= 4 else second // 2)]
    assert all(one["elements"] < 100 for one in held(engine))
    assert all(one["rebuilds"] > 0 for one in held(engine))
    assert len(values(engine, "q0")) == 20


def test_keys_in_every_form() -> None:
    engine = engine_of("k, g, SUM(n), COUNT(*) FROM s [RANGE 100 SECONDS] GROUP BY k, g HAVING COUNT(*) > 0")
    push(engine, [1, 2, 3, 4], k=["a", "b", "a", None], g=[1, 1, 2, 3], n=[1, 10, 100, 1000])
    engine.advance("s", 4 * US)

    def look(keys) -> list[tuple]:
        rows = engine.lookup("q0", keys=keys).to_pylist()
        return sorted((str(row["k"]), row["g"], row["SUM(n)"]) for row in rows)

    assert look([("a", 1)]) == look({"k": "a", "g": 1}) == [("a", 1, 1)]
    assert look({"k": "a", "g": [1, 2, 3]}) == look([("a", 1), ("a", 2), ("a", 2)]) == [("a", 1, 1), ("a", 2, 100)]
    assert look([(None, 3)]) == [("None", 3, 1000)]
    assert look([("z", 1), ("a", 3)]) == look([]) == []
    arrays = engine.lookup_many("q0", {"k": np.array(["b", "z", "b"]), "g": 1})
    assert arrays["SUM(n)"].tolist() == [10, None, 10]
    assert arrays["COUNT(*)"].tolist() == [1, None, 1]
    assert len(engine.lookup("q0", keys=[("z", 1)])) == 0


def test_one_key_by_a_kernel_gives_the_same_table() -> None:
    select = "k, SUM(x), MAX(n), COUNT(*), AVG(n), MEDIAN(n)"
    engine = engine_of(f"{select} FROM s [RANGE 9 SECONDS] GROUP BY k", "g, MIN(x) FROM s [ROWS 3] GROUP BY g")
    push(engine, [1, 2, 3, 4], k=["a", "b", "a", "c"], g=[1, 2, 1, 3], x=[1.5, None, 4.0, None], n=[4, 5, 6, None])
    for watermark in (0, 3, 100):
        engine.advance("s", watermark * US)
        for query, name, keys in (("q0", "k", ["a", "b", "c", "z"]), ("q1", "g", [1, 2, 3, 4])):
            for key in keys:
                every = engine.lookup(query, at=4 * US)
                wanted = every.filter(np.array([one == key for one in every.column(name).to_pylist()], np.bool_))
                assert engine.lookup(query, at=4 * US, keys={name: key}).to_pylist() == wanted.to_pylist()
                assert engine.lookup(query, at=4 * US, keys=[key]).schema == every.schema


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"k": "a"}, "'g' is missing"),
        ({"k": "a", "g": 1, "n": 1}, "'n' is not grouped by"),
        ({"k": ["a", "b"], "g": [1, 2, 3]}, "differ in length"),
        ([("a",)], "has 1 values, and GROUP BY has 2: k, g"),
        ("a", "list of tuples in the order of GROUP BY"),
        ([("a", "b")], "column 'g'"),
    ],
)
def test_keys_that_are_wrong(keys, said: str) -> None:
    engine = engine_of("k, g, SUM(n) FROM s [ROWS 5] GROUP BY k, g", "SUM(n) FROM s [ROWS 5]")
    push(engine, [1])
    with pytest.raises(panewise.PanewiseError, match=said):
        engine.lookup("q0", keys=keys)
    with pytest.raises(panewise.PanewiseError, match=said):
        engine.lookup_many("q0", keys)
    with pytest.raises(panewise.PanewiseError, match="no GROUP BY"):
        engine.lookup("q1", keys=keys)


def test_keys_of_queries_that_read_the_log() -> None:
    engine = engine_of(
        "k, MODE(n) FROM s [RANGE 100 SECONDS] GROUP BY k", "k, COUNT(DISTINCT k) FROM s [ROWS 9] GROUP BY k"
    )
    push(engine, [1, 2, 3], k=["a", "b", "a"], n=[7, 8, 7])
    assert held(engine) == []
    assert values(engine, "q0", keys={"k": "a"}) == [7.0]
    assert values(engine, "q1", keys=[("b",), ("z",)]) == [1.0]
    assert engine.lookup_many("q0", ["b", "z", "a", "b"])["MODE(n)"].tolist() == [8, None, 7, 8]
    assert engine.lookup_many("q0", ["z"])["MODE(n)"].tolist() == [None]


def test_lookups_before_any_event() -> None:
    engine = engine_of("k, SUM(n) FROM s [RANGE 100 SECONDS] GROUP BY k", "COUNT(*) FROM s [ROWS 9]")
    assert len(engine.lookup("q0", keys={"k": "a"})) == 0
    assert engine.lookup_many("q0", ["a", "b"])["SUM(n)"].tolist() == [None, None]
    assert values(engine, "q1") == [0.0]


def test_a_structure_changes_when_another_would_take_far_less_work() -> None:
    """Windows that were expected to cover two events need no structure; these cover hundreds."""
    queries = "MAX(x) FROM s [RANGE 20 SECONDS]", "MAX(n) FROM s [RANGE 20 SECONDS] USING recompute"
    engine = engine_of(*queries, rate=0.1)
    assert [one["structure"] for one in held(engine)] == ["recompute", "recompute"]
    rng = np.random.default_rng(8)
    expected: list[float] = []
    with patch("panewise.engine.on_demand.adaptation.FEWEST_USES", 100):
        for step in range(30):
            x = rng.random(20)
            expected += x.tolist()
            push(engine, [step] * 20, x=x.tolist(), n=list(range(20)))
            engine.advance("s", (step + 1) * US)
            for _ in range(50):
                assert values(engine, "q0") == [max(expected[-380:])]
            engine.lookup("q1")
        automatic, forced = held(engine)
        assert (automatic["structure"], automatic["switches"]) == ("base_intervals", 1)
        assert (forced["structure"], forced["switches"]) == ("recompute", 0)
        again = panewise.Engine.restore(engine.snapshot())
        assert values(again, "q0") == [max(expected[-380:])]
