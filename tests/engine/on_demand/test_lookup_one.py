"""Lookups of one group as plain values: keys in every form, NULLs, groups that do not exist, HAVING, wrong keys."""

from __future__ import annotations

import math
from unittest.mock import patch

import pytest

import panewise
from panewise.errors import HistoryError

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t;"


def engine_of(*queries: str) -> panewise.Engine:
    texts = [f"CREATE QUERY q{place} AS SELECT {query};" for place, query in enumerate(queries)]
    return panewise.Engine(panewise.read(STREAM + " ".join(texts)))


def push(engine: panewise.Engine, seconds: list[int], **columns) -> None:
    size = len(seconds)
    filled = {"k": ["a"] * size, "g": [1] * size, "n": [1] * size, "x": [1.0] * size, **columns}
    engine.push("s", {"t": [second * US for second in seconds], **filled})


def test_values_are_int_where_they_are_exact_and_none_where_they_are_null() -> None:
    engine = engine_of("k, COUNT(*), COUNT(x), SUM(n) AS total, AVG(n), MAX(x), MAX(t) FROM s [ROWS 9] GROUP BY k")
    push(engine, [1, 2, 3], k=["a", "b", "a"], n=[2**60 + 1, 5, 2], x=[None, None, 2.5])
    for watermark in (0, 2, 9):
        engine.advance("s", watermark * US)
        found = engine.lookup_one("q0", "a")
        exact = {"COUNT(*)": 2, "COUNT(x)": 1, "total": 2**60 + 3, "AVG(n)": (2**60 + 3) / 2, "MAX(x)": 2.5}
        assert found == {**exact, "MAX(t)": 3 * US}
        assert [type(value) for value in found.values()] == [int, int, int, float, float, int]
        assert engine.lookup_one("q0", "b") == {
            "COUNT(*)": 1, "COUNT(x)": 0, "total": 5, "AVG(n)": 5.0, "MAX(x)": None, "MAX(t)": 2 * US,
        }  # fmt: skip


def test_a_variance_of_too_few_values_is_null() -> None:
    engine = engine_of("k, VAR_SAMP(x), STDDEV_POP(x) FROM s [ROWS 9] GROUP BY k")
    push(engine, [1, 2, 3], k=["a", "b", "a"], x=[1.0, 7.0, 4.0])
    for watermark in (0, 2, 9):
        engine.advance("s", watermark * US)
        assert engine.lookup_one("q0", "a") == {"VAR_SAMP(x)": 4.5, "STDDEV_POP(x)": 1.5}
        assert engine.lookup_one("q0", "b") == {"VAR_SAMP(x)": None, "STDDEV_POP(x)": 0.0}


def test_keys_in_every_form() -> None:
    engine = engine_of(
        "k, g, SUM(n) FROM s [RANGE 100 SECONDS] GROUP BY g, k", "g, COUNT(*) FROM s [ROWS 9] GROUP BY g"
    )
    push(engine, [1, 2, 3, 4, 4], k=["a", "b", "a", None, "a"], g=[1, 1, 2, 3, None], n=[1, 10, 100, 1000, 10_000])
    engine.advance("s", 9 * US)
    for _ in range(2):
        assert engine.lookup_one("q0", (1, "a")) == engine.lookup_one("q0", {"k": "a", "g": 1}) == {"SUM(n)": 1}
        assert engine.lookup_one("q0", (2, "a")) == {"SUM(n)": 100}
        assert engine.lookup_one("q0", (3, None)) == {"SUM(n)": 1000}
        assert engine.lookup_one("q0", (2, "b")) is engine.lookup_one("q0", (7, "z")) is None
        assert engine.lookup_one("q1", 1) == engine.lookup_one("q1", 1.0) == {"COUNT(*)": 2}
        assert engine.lookup_one("q1", None) == {"COUNT(*)": 1}
        assert engine.lookup_one("q1", 9) is None


def test_doubles_as_keys() -> None:
    engine = engine_of("x, SUM(n) FROM s [ROWS 9] GROUP BY x")
    push(engine, [1, 2, 3, 4], x=[0.0, -0.0, math.nan, 0.5], n=[1, 2, 3, 4])
    engine.advance("s", 9 * US)
    assert engine.lookup_one("q0", 0.0) == engine.lookup_one("q0", -0.0) == engine.lookup_one("q0", 0) == {"SUM(n)": 3}
    assert engine.lookup_one("q0", math.nan) == {"SUM(n)": 3}
    assert engine.lookup_one("q0", 0.5) == {"SUM(n)": 4}


def test_without_group_by_there_is_always_an_answer() -> None:
    engine = engine_of("COUNT(*), SUM(n), MEDIAN(n) FROM s [RANGE 5 SECONDS]")
    nothing = {"COUNT(*)": 0, "SUM(n)": None, "MEDIAN(n)": None}
    assert engine.lookup_one("q0") == nothing
    push(engine, [1, 2], n=[3, 4])
    assert engine.lookup_one("q0") == {"COUNT(*)": 2, "SUM(n)": 7, "MEDIAN(n)": 3}
    engine.advance("s", 2 * US)
    assert engine.lookup_one("q0", at=5 * US) == {"COUNT(*)": 2, "SUM(n)": 7, "MEDIAN(n)": 3}
    assert engine.lookup_one("q0", at=50 * US) == nothing


def test_a_group_outside_the_window_is_not_there() -> None:
    engine = engine_of("k, SUM(n) FROM s [RANGE 5 SECONDS] GROUP BY k")
    assert engine.lookup_one("q0", "a") is None
    push(engine, [1, 20], k=["a", "b"])
    assert engine.lookup_one("q0", "a") is None
    assert engine.lookup_one("q0", "a", at=3 * US) == {"SUM(n)": 1}
    assert engine.lookup_one("q0", "b", at=3 * US) is None


def test_a_group_that_does_not_pass_having_is_not_there() -> None:
    engine = engine_of(
        "k, SUM(n) FROM s [ROWS 9] GROUP BY k HAVING COUNT(*) > 1", "SUM(n) FROM s [ROWS 9] HAVING COUNT(*) > 5"
    )
    push(engine, [1, 2, 3], k=["a", "b", "a"])
    assert engine.lookup_one("q0", "a") == {"SUM(n)": 2}
    assert engine.lookup_one("q0", "b") is engine.lookup_one("q1") is None


def test_queries_that_no_structure_answers() -> None:
    engine = engine_of("k, MODE(n) FROM s [ROWS 9] GROUP BY k", "SUM(n) FROM s [RANGE 60 SECONDS] WITHIN 10 PERCENT")
    push(engine, [1, 2, 3], k=["a", "b", "a"], n=[7, 8, 7])
    engine.advance("s", 9 * US)
    assert engine.lookup_one("q0", "a") == {"MODE(n)": 7}
    assert engine.lookup_one("q0", "z") is None
    assert engine.lookup_one("q1")["SUM(n)"] == pytest.approx(22, rel=0.1)


def test_sums_of_two_words() -> None:
    engine = engine_of("k, SUM(n), AVG(n) FROM s [ROWS 9] GROUP BY k")
    push(engine, [1, 2, 3, 4, 5, 6], k=["a", "a", "a", "b", "b", "c"], n=[2**62, 2**62, -5, 2**62, 2**62, 1])
    for watermark in (0, 2, 4, 9):
        engine.advance("s", watermark * US)
        assert engine.lookup_one("q0", "a") == {"SUM(n)": 2**63 - 5, "AVG(n)": (2**63 - 5) / 3}
        assert engine.lookup_one("q0", "b") == {"SUM(n)": None, "AVG(n)": 2.0**62}
        # If all groups are answered together, a group that overflows must not disturb the others.
        with (
            patch("panewise.engine.on_demand.shared_structures.FEWEST_TOGETHER", 1),
            patch("panewise.engine.on_demand.kernel_answers.FEWEST_TOGETHER", 1),
        ):
            assert engine.lookup_many("q0", ["c", "a"])["SUM(n)"].tolist() == [1, 2**63 - 5]


def test_codes_of_keys_are_forgotten_with_the_structures() -> None:
    engine = engine_of("k, SUM(n) FROM s [RANGE 5 SECONDS] GROUP BY k")
    push(engine, [1, 2], k=["a", "b"], n=[1, 2])
    engine.advance("s", 3 * US)
    assert engine.lookup_one("q0", "b") == {"SUM(n)": 2}
    engine.add("CREATE QUERY more AS SELECT k, MAX(x) FROM s [RANGE 5 SECONDS] GROUP BY k;")
    push(engine, [4], k=["b"], n=[40])
    engine.advance("s", 100 * US)
    push(engine, [101, 102], k=["b", "a"], n=[5, 6])
    engine.advance("s", 103 * US)
    assert engine.lookup_one("q0", "b") == {"SUM(n)": 5}
    assert engine.lookup_one("q0", "a") == {"SUM(n)": 6}
    engine.remove("q0")
    with pytest.raises(panewise.PanewiseError, match="no query named 'q0'"):
        engine.lookup_one("q0", "a")
    engine.add("CREATE QUERY q0 AS SELECT k, COUNT(*) FROM s [RANGE 5 SECONDS] GROUP BY k;")
    push(engine, [120], k=["a"])
    assert engine.lookup_one("q0", "a") == {"COUNT(*)": 1}


@pytest.mark.parametrize(
    ("query", "key", "said"),
    [
        ("q0", (), "has 0 values, and GROUP BY has 2: k, g"),
        ("q0", "a", "has 1 values, and GROUP BY has 2: k, g"),
        ("q0", {"k": "a"}, "'g' is missing"),
        ("q0", {"k": ["a", "b"], "g": 1}, "names 2 groups, and lookup_one answers 1; use lookup_many"),
        ("q0", ("a", "b"), "column 'g'"),
        ("q1", "a", "has no GROUP BY"),
        ("q2", "a", "slides, so its answers come from advance"),
        ("q3", "a", "no query named 'q3'"),
    ],
)
def test_keys_that_are_wrong(query: str, key: object, said: str) -> None:
    engine = engine_of(
        "k, g, SUM(n) FROM s [ROWS 5] GROUP BY k, g",
        "SUM(n) FROM s [ROWS 5]",
        "k, SUM(n) FROM s [ROWS 5 SLIDE 5] GROUP BY k",
    )
    push(engine, [1])
    with pytest.raises(panewise.PanewiseError, match=said):
        engine.lookup_one(query, key)


def test_a_lookup_of_the_past_that_is_not_held_says_so() -> None:
    engine = engine_of("k, SUM(n) FROM s [RANGE 5 SECONDS] GROUP BY k")
    push(engine, list(range(100)))
    engine.advance("s", 99 * US)
    for key in ("a", "z"):
        with pytest.raises(HistoryError, match="not held"):
            engine.lookup_one("q0", key, at=10 * US)
