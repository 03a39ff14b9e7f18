"""Native columns beside the engine's own evaluation: NULL as a literal, whatever it is compared with."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import panewise
from panewise.language.evaluate import evaluate
from panewise.spark.columns import to_condition

pytestmark = pytest.mark.spark

ATTRIBUTES = "t TIMESTAMP, b BOOLEAN, i BIGINT, d DOUBLE, s STRING"
COMPARED = [f"{name} {operator} NULL" for name in "tbids" for operator in ("=", "<>", "<", "<=", ">", ">=")]
CONDITIONS = [
    *COMPARED,
    "NULL",
    "NOT NULL",
    "b AND NULL",
    "b OR NULL",
    "NOT (NULL OR i = 2)",
    "NULL IS NULL",
    "NULL = NULL",
    "NULL IN (1, 2)",
    "i + NULL > 1",
    "-NULL < d",
]


def test_null_has_the_truth_that_the_engine_gives_it(spark: SparkSession) -> None:
    queries = [
        f"CREATE QUERY q{place} AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] WHERE {condition};"
        for place, condition in enumerate(CONDITIONS)
    ]
    workload = panewise.read(f"CREATE STREAM s ({ATTRIBUTES}) TIMESTAMP BY t;\n" + "\n".join(queries))
    types = workload.streams["s"].attributes
    columns = {
        "t": pa.array([0, 1, None], pa.int64()),
        "b": pa.array([True, False, None]),
        "i": pa.array([1, 2, None]),
        "d": pa.array([0.5, float("nan"), None], pa.float64()),
        "s": pa.array(["EWR", "JFK", None]),
    }
    wheres = [query.where for query in workload.queries.values()]
    frame = spark.createDataFrame(pa.table(columns))
    chosen = [to_condition(where, types).alias(f"c{place}") for place, where in enumerate(wheres)]
    given = frame.select(*chosen).toArrow()
    for place, (condition, where) in enumerate(zip(CONDITIONS, wheres, strict=True)):
        expected = evaluate(where, columns, types)
        assert given.column(f"c{place}").to_pylist() == expected.to_pylist(), condition
