"""HAVING of plain thresholds passes the groups that a group by group comparison passes."""

from __future__ import annotations

import pytest

import panewise

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x DOUBLE, n BIGINT) TIMESTAMP BY t;\n"
NAN = float("nan")
GROUPS = {1: [1.0, 5.0], 2: [None, None], 3: [NAN, 2.0], 4: [-1.0], 5: [7.5, 7.5, None]}
BIG = 2**62
HAVING = {
    "MAX(x) > 5": [3, 5],
    "MAX(x) >= 5": [1, 3, 5],
    "MIN(x) < 2": [1, 4],
    "MIN(x) <> 2": [1, 4, 5],
    "COUNT(*) = 2": [1, 2, 3],
    "COUNT(x) <= 1": [2, 4],
    "COUNT(*) > 1.5": [1, 2, 3, 5],
    "MAX(x) > 5 AND COUNT(*) = 3": [5],
    "MAX(x) > 7 OR COUNT(x) = 0": [2, 3, 5],
    "NOT MAX(x) > 5": [1, 4],
    "5 < MAX(x)": [3, 5],
    "MAX(x) > MIN(x)": [1, 3],
    "k > 2 AND COUNT(*) < 3": [3, 4],
    f"MAX(n) > {BIG}": [5],
    f"MAX(n) = {BIG}": [4],
}


@pytest.mark.parametrize("having", HAVING)
def test_groups_that_pass(having: str) -> None:
    engine = panewise.Engine(
        STREAM + f"CREATE QUERY q AS SELECT SUM(n), STDDEV_POP(x) FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k "
        f"HAVING {having};"
    )
    rows = [(key, value) for key, values in GROUPS.items() for value in values]
    # Next to each other as integers, and the same as doubles.
    numbers = [{4: BIG, 5: BIG // 3 + 1}.get(key, key) if key != 5 else BIG + 1 if place == len(rows) - 1 else 0
               for place, (key, _) in enumerate(rows)]  # fmt: skip
    engine.push("s", {"t": [0] * len(rows), "k": [k for k, _ in rows], "x": [x for _, x in rows], "n": numbers})
    answers = engine.advance("s", US).tables["q"].to_pydict()
    assert answers["k"] == HAVING[having]
    assert answers["SUM(n)"] == [{1: 2, 2: 4, 3: 6, 4: BIG, 5: BIG + 1}[key] for key in HAVING[having]]
