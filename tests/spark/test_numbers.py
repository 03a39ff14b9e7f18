"""Spark gives the same right sums and variances of awkward numbers as the engine, in a batch."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_numbers import ALL, DOUBLES, INTEGERS, SOME, events_of, functions_of, workload_of
from tests.spark.streaming import public_table

from panewise import spark as panewise_spark

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("groups", [INTEGERS, DOUBLES], ids=["integers", "doubles"])
def test_a_batch(spark: SparkSession, groups: dict[str, list]) -> None:
    some = {name: values[:30] for name, values in groups.items()}
    for window in (ALL, SOME):
        workload, rows = workload_of(some, window, functions_of(groups)), events_of(some)
        frame = spark.createDataFrame(public_table(workload.streams["s"], rows))
        found = to_answers(panewise_spark.answers(frame, workload).toArrow(), workload)
        oracle.assert_same_answers(found, oracle.closed_answers(workload.queries["q"], "t", rows, None))
