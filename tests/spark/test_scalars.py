"""Scalar functions: the engine's values, our Spark columns and Spark's own functions agree, in one job."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.language.printer import print_expression
from panewise.language.reader import read
from panewise.language.row_queries import SelectionQuery
from panewise.spark.columns import to_column

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (t TIMESTAMP, x DOUBLE, y DOUBLE, n BIGINT, s STRING, b BOOLEAN) TIMESTAMP BY t;"
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
DOUBLES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.285, 1.005, -1.2345678, 1e20, -1e20, 2.0**63, 1e-320]
DOUBLES += [-(2.0**63), -(2.0**63) - 2048.0, 2.0**63 - 1024.0]
DOUBLES += [math.nan, math.inf, -math.inf, 123456.789, 4503599627370497.5, None]
INTEGERS = [0, 1, -1, 7, -7, 2**53 + 1, INT64_MAX, INT64_MIN + 1, None, 12]
STRINGS = [
    "",
    "abc",
    "ABC def",
    "Öre",
    "straße",
    "İx",
    "\U0001f600ab",
    " 42 ",
    "-7",
    "1.5e3",
    "9223372036854775808",
    "x1",
]
STRINGS += [None, "+5", ".5", "1d"]
START = datetime(1970, 1, 1, tzinfo=UTC)
TIMES = [
    *(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(1970, 1, 1, tzinfo=UTC), None),
    *(datetime(2024, 2, 29, 12, 30, 1, 250_000, UTC), datetime(2026, 3, 29, 1, 59, 59, 1, UTC)),
    *(datetime(1900, 3, 1, 6, 7, 8, 9, UTC), datetime(2021, 1, 3, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC)),
    *(datetime(2020, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(1582, 10, 15, 1, tzinfo=UTC)),
]
ROWS = 64
FITS = "x >= -POWER(2D, 63) AND x < POWER(2D, 63)"
"""Spark gives the greatest BIGINT for 2**63, or an error, where ours is NULL."""

SAME = [
    *("COALESCE(x, y)", "COALESCE(n, x)", "COALESCE(s, 'none')", "NULLIF(x, y)", "NULLIF(n, 7)", "NULLIF(s, '')"),
    *("LEAST(x, y)", "GREATEST(x, y, 0.5)", "LEAST(n, 3)", "GREATEST(s, 'b')", "LEAST(x, n)", "GREATEST(NULL, x)"),
    *("ABS(x)", "ABS(n)", "ROUND(x)", "ROUND(x, 2)", "ROUND(y, 5)", "ROUND(n, 1)", "FLOOR(n)", "CEILING(n)"),
    *("SQRT(x)", "LN(x)", "EXP(x)", "POWER(x, y)", "POWER(x, 2)", "SQRT(n)", "LN(n)"),
    *("LENGTH(s)", "LOWER(s)", "UPPER(s)", "CONCAT(s, '-', s)", "SUBSTRING(s, 2)", "SUBSTRING(s, 0, 2)"),
    *("SUBSTRING(s, -2)", "SUBSTRING(s, -5, 3)", "SUBSTRING(s, 3, 0)", "UPPER(SUBSTRING(s, 1, 1))", "LENGTH('é')"),
    *(f"EXTRACT({field} FROM t)" for field in ("SECOND", "MINUTE", "HOUR", "DAY", "DOY", "WEEK", "MONTH", "QUARTER")),
    *("EXTRACT(YEAR FROM t)", "EXTRACT(DAYOFWEEK FROM t)"),
    *("CASE WHEN b THEN x WHEN n > 3 THEN n ELSE 0 END", "CASE WHEN x > 0 THEN s END", "CAST(n AS DOUBLE)"),
    *("CAST(b AS BIGINT)", "CAST(n AS STRING)", "CAST(b AS STRING)", "CAST(x AS BOOLEAN)", "CAST(n AS BOOLEAN)"),
    *("CAST(t AS BIGINT)", "CAST(NULL AS DOUBLE)", "CAST(b AS DOUBLE)"),
]
"""Written for Spark as for us."""
OTHER = {
    "CAST(s AS BIGINT)": "TRY_CAST(s AS BIGINT)",
    "CAST(x AS BIGINT)": f"CASE WHEN {FITS} THEN TRY_CAST(x AS BIGINT) END",
    "CAST(s AS DOUBLE)": "CASE WHEN s NOT LIKE '%d' THEN TRY_CAST(s AS DOUBLE) END",
    **{
        f"DATE_TRUNC('{unit}', t)": f"UNIX_MICROS(DATE_TRUNC('{unit}', t))"
        for unit in ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    },
    "FLOOR(x)": f"CASE WHEN {FITS} THEN FLOOR(x) END",
    "CEIL(x)": f"CASE WHEN {FITS} THEN CEIL(x) END",
    "ABS(n - n)": "CAST(n - n AS DOUBLE)",
    "CAST(EXTRACT(HOUR FROM t) AS DOUBLE)": "CAST(HOUR(t) AS DOUBLE)",
}
"""Ours, and what it is in Spark."""


def expression_of(text: str) -> Expression:
    (query,) = read(f"{STREAM} CREATE QUERY q AS SELECT {text} AS c FROM s;").row_queries.values()
    assert isinstance(query, SelectionQuery)
    return query.columns[0].expression


def same(found: Any, wanted: Any) -> bool:
    if found is None or wanted is None or isinstance(wanted, str | bool):
        return found is wanted or found == wanted
    if isinstance(found, int) and not isinstance(found, bool):
        return int(wanted) == found
    one, other = float(found), float(wanted)
    # Java and NumPy differ in the last digit of EXP and POWER.
    return math.isnan(one) == math.isnan(other) and (
        math.isnan(one) or one == other or math.isclose(one, other, rel_tol=4e-16)
    )


def test_every_function_agrees_with_spark(spark: SparkSession) -> None:
    times = [None if time is None else (time - START) // timedelta(microseconds=1) for time in TIMES]
    every = {"x": DOUBLES, "y": DOUBLES[::-1] + DOUBLES[3:8], "n": INTEGERS, "s": STRINGS, "b": [True, False, None]}
    rows = {name: [values[i % len(values)] for i in range(ROWS)] for name, values in every.items()}
    rows["t"] = [times[i % len(times)] for i in range(ROWS)]
    types = read(STREAM).streams["s"].attributes
    columns = {
        name: pa.array(values, {"x": pa.float64(), "y": pa.float64(), "n": pa.int64(), "t": pa.int64()}.get(name))
        for name, values in rows.items()
    }
    native = {**{text: text for text in SAME}, **OTHER}
    expressions = {text: expression_of(text) for text in native}
    schema = "row INT, x DOUBLE, y DOUBLE, n BIGINT, s STRING, b BOOLEAN, t BIGINT"
    names = ["x", "y", "n", "s", "b", "t"]
    frame = spark.createDataFrame([(i, *(rows[name][i] for name in names)) for i in range(ROWS)], schema)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        ours = [to_column(one, types).alias(f"ours_{i}") for i, one in enumerate(expressions.values())]
        timed = frame.select("row", *names[:5], F.timestamp_micros("t").alias("t"))
        theirs = [F.expr(text).alias(f"theirs_{i}") for i, text in enumerate(native.values())]
        joined = frame.select("row", *ours).join(timed.select("row", *theirs), "row").orderBy("row")
        found = joined.collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    wrong = []
    for i, (text, expression) in enumerate(expressions.items()):
        values = evaluate(expression, columns, types).to_pylist()
        encoded = {**columns, "s": columns["s"].dictionary_encode()}
        assert repr(evaluate(expression, encoded, types).to_pylist()) == repr(values)
        assert expression_of(print_expression(expression)) == expression
        for row in range(ROWS):
            given = {name: rows[name][row] for name in names}
            wanted = found[row][f"theirs_{i}"]
            if not same(values[row], wanted) or not same(found[row][f"ours_{i}"], wanted):
                wrong.append((text, given, values[row], found[row][f"ours_{i}"], wanted))
    assert not wrong, "\n".join(map(str, wrong[:30]))
