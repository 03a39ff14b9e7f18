"""Functions, FILTER and arithmetic on aggregates: one question, of closing windows, of lookups and of labels."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import panewise

HOUR = 3_600_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE, n BIGINT) TIMESTAMP BY t;"
SELECT = """SELECT k,
    ROUND(SUM(COALESCE(x, 0)) / COUNT(*), 2) AS mean,
    MAX(LENGTH(CONCAT(UPPER(k), '!'))) + MIN(ABS(n)) AS mixed,
    COUNT(DISTINCT LOWER(k)) FILTER (WHERE EXTRACT(HOUR FROM t) >= 2) AS late,
    CAST(MAX(DATE_TRUNC('DAY', t)) AS BIGINT) AS day,
    GREATEST(MAX(SQRT(n)), COUNT_IF(x IS NULL)) AS top
"""
EVENTS = {
    "t": [1 * HOUR, 2 * HOUR, 3 * HOUR, 3 * HOUR + 1],
    "k": ["a", "a", "B", "a"],
    "x": [1.0, None, 7.5, 2.345],
    "n": [4, -9, 16, None],
}
# SQRT(-9) is NaN, which is above all numbers.
WANTED = {
    "a": {"mean": 1.12, "mixed": 6.0, "late": 1, "day": 0, "top": math.nan},
    "B": {"mean": 7.5, "mixed": 18.0, "late": 1, "day": 0, "top": 4.0},
}


def shown(row: dict[str, object]) -> str:
    return repr({name: row[name] for name in WANTED["a"]})


@pytest.mark.parametrize("having", ["", "HAVING mean > 1 AND (late > 0 OR COALESCE(top, 0) > 1)"])
def test_the_same_answers_everywhere(having: str) -> None:
    engine = panewise.Engine(f"""{STREAM}
        CREATE QUERY sliding AS {SELECT} FROM s [RANGE 6 HOURS SLIDE 6 HOURS] GROUP BY k {having};
        CREATE QUERY asked AS {SELECT} FROM s [RANGE 6 HOURS] GROUP BY k {having};
    """)
    engine.push("s", EVENTS)
    for pending in (True, False):
        for key, wanted in WANTED.items():
            (row,) = engine.lookup("asked", at=4 * HOUR, keys={"k": [key]}).to_pylist()
            assert shown(row) == repr(wanted)
            assert shown(engine.lookup_one("asked", key, at=4 * HOUR)) == repr(wanted)
            many = engine.lookup_many("asked", [key, "none"], at=4 * HOUR)
            assert shown({name: values[0].item() for name, values in many.items()}) == repr(wanted)
        found = {row["k"]: shown(row) for row in engine.lookup("asked", at=4 * HOUR).to_pylist()}
        assert found == {key: repr(wanted) for key, wanted in WANTED.items()}
        if pending:
            closed = engine.advance("s", 4 * HOUR)
            assert closed.tables["sliding"].num_rows == 0
    closed = engine.advance("s", 6 * HOUR)
    assert {row["k"]: shown(row) for row in closed.tables["sliding"].to_pylist()} == found


def test_a_training_set_has_them_too() -> None:
    workload = panewise.read(f"{STREAM} CREATE QUERY asked AS {SELECT} FROM s [RANGE 6 HOURS] GROUP BY k;")
    labels = {"t": [4 * HOUR, 4 * HOUR, 0], "k": ["a", "B", "a"]}
    rows = panewise.training_set(pa.table(labels), pa.table(EVENTS), workload).to_pylist()
    for row, wanted in zip(rows, [*WANTED.values(), dict.fromkeys(WANTED["a"])], strict=True):
        assert shown({name.removeprefix("asked__"): value for name, value in row.items()}) == repr(wanted)
