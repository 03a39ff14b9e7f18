"""Alerts that differ in a threshold are decided together: each has the answers that it has by itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.engine.test_moving import MOVING, NEVER, settings_of
from tests.thoroughness import examples

import panewise

US = 1_000_000
CONDITIONS = [
    f"{aggregate} {operator} {limit}"
    for aggregate in ("SUM(x)", "MAX(y)", "COUNT(*)")
    for operator in (">", ">=", "<", "<=", "=")
    for limit in ("2", "3", "2.5", "9007199254740993")
] + ["SUM(x) > 2 AND SUM(x) < 5", "COUNT(*) > 1 AND SUM(x) > 3", "SUM(x) > 4 OR COUNT(*) > 2", "SUM(x) > MIN(x)"]
TEXT = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;" + "".join(
    f"CREATE QUERY q{number} AS SELECT k, COUNT(*) FROM s [RANGE {3 + number % 2} SECONDS SLIDE 1 SECOND] GROUP BY k "
    f"HAVING {condition};"
    for number, condition in enumerate(CONDITIONS)
)
WHOLE = st.none() | st.integers(0, 4) | st.sampled_from([2**53 + 1, 2**53, 2**62])
REAL = st.none() | st.sampled_from([0.0, 2.0, 2.5, 3.0, math.nan, math.inf, -math.inf])
events = st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), WHOLE, REAL), max_size=6)


@pytest.mark.parametrize("changed", [MOVING, NEVER], ids=["moving", "folded"])
@settings(max_examples=examples(25), deadline=None)
@given(steps=st.lists(st.tuples(events, st.integers(1, 2)), max_size=6))
def test_each_alert_has_its_own_answers(changed: dict[str, float], steps) -> None:
    workload = panewise.read(TEXT)
    with settings_of(changed):
        engine = panewise.Engine(workload)
        taken: list[dict] = []
        now, watermark = 0, None
        for some, more in [*steps, ([], 5)]:
            rows = [{"t": (now + d) * US, "k": k, "x": x, "y": y} for d, k, x, y in some]
            engine.push("s", as_table(workload.streams["s"], rows))
            taken += rows
            now += more
            expected = [
                answer
                for query in workload.queries.values()
                for answer in oracle.closed_answers(query, "t", taken, now * US, watermark)
            ]
            oracle.assert_same_answers(to_answers(engine.advance("s", now * US), workload), expected)
            watermark = now * US


def test_sums_that_do_not_fit_count_for_each_alert() -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY a AS SELECT SUM(x) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] HAVING SUM(x) > 10;"
        "CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] HAVING SUM(x) > 20;"
    )
    engine.push("s", {"t": [0, 1], "x": [2**63 - 1, 2**63 - 1]})
    assert engine.advance("s", 2 * US).num_rows == 0
    explained = engine.explain(analyze=True)
    assert "a 2" in explained
    assert "b 2" in explained
