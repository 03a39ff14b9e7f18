"""Panewise on Spark, batch and streaming, and the engine, against Spark's own windows over a month of flights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.flights import STREAM, flights_before
from tests.spark.streaming import run_stream

import panewise
from panewise import spark as panewise_spark
from panewise.cli.demo.compare import first_difference
from panewise.cli.demo.flights import write_replay

pytestmark = pytest.mark.spark

WORKLOAD = panewise.read(
    STREAM
    + """
CREATE QUERY traffic AS
  SELECT COUNT(*), AVG(delay), MAX(delay), MIN(delay) FROM flights [RANGE 3 HOURS SLIDE 20 MINUTES];
CREATE QUERY range_no_multiple_of_slide AS
  SELECT origin, SUM(distance), COUNT(arrival_delay)
  FROM flights [RANGE 5 HOURS SLIDE 2 HOURS] WHERE delay > 0 GROUP BY origin;
CREATE QUERY spread AS
  SELECT carrier, VAR_POP(delay), VAR_SAMP(delay), STDDEV_POP(air_time), STDDEV_SAMP(arrival_delay)
  FROM flights [RANGE 12 HOURS SLIDE 3 HOURS] GROUP BY carrier;
CREATE QUERY only_bad_windows AS
  SELECT origin, carrier, COUNT(*), AVG(delay) FROM flights [RANGE 1 DAY SLIDE 1 HOUR]
  WHERE distance BETWEEN 300 AND 2000 AND dest <> 'ORD' GROUP BY origin, carrier
  HAVING COUNT(*) >= 10 AND AVG(delay) > 20;
CREATE QUERY quantiles AS
  SELECT origin, MEDIAN(delay), QUANTILE(arrival_delay, 0.9)
  FROM flights [RANGE 6 HOURS SLIDE 1 HOUR] GROUP BY origin;
CREATE QUERY planes AS
  SELECT dest, COUNT(DISTINCT tailnum), MAX(distance * 60 / air_time)
  FROM flights [RANGE 2 DAYS SLIDE 12 HOURS] GROUP BY dest;
"""
)


def element(column: str, phi: str) -> Column:
    """Panewise's QUANTILE: the element at the 1-based position max(1, floor(phi * n)); collect_list skips NULL."""
    position = f"greatest(1, CAST(floor({phi} * count({column})) AS INT))"
    return F.expr(f"element_at(sort_array(collect_list({column})), {position})")


def native(flights: DataFrame, name: str) -> DataFrame:
    """Each query once more, as one writes it for Spark."""

    def windows(range_: str, slide: str, *keys: str, of: DataFrame = flights, by: Sequence[Column] = ()) -> DataFrame:
        return of.groupBy(F.window("scheduled", range_, slide), *keys).agg(*by)

    match name:
        case "traffic":
            by = [F.count("*"), F.avg("delay"), F.max("delay"), F.min("delay")]
            found = windows("3 hours", "20 minutes", by=by)
        case "range_no_multiple_of_slide":
            late = flights.where("delay > 0")
            found = windows("5 hours", "2 hours", "origin", of=late, by=[F.sum("distance"), F.count("arrival_delay")])
        case "spread":
            by = [
                *(F.var_pop("delay"), F.var_samp("delay")),
                *(F.stddev_pop("air_time"), F.stddev_samp("arrival_delay")),
            ]
            found = windows("12 hours", "3 hours", "carrier", by=by)
        case "only_bad_windows":
            some = flights.where("distance BETWEEN 300 AND 2000 AND dest <> 'ORD'")
            by = [F.count("*").alias("flights"), F.avg("delay").alias("average")]
            found = windows("1 day", "1 hour", "origin", "carrier", of=some, by=by)
            found = found.where("flights >= 10 AND average > 20")
        case "quantiles":
            by = [F.expr("percentile_disc(0.5) WITHIN GROUP (ORDER BY delay)"), element("arrival_delay", "0.9")]
            found = windows("6 hours", "1 hour", "origin", by=by)
        case "planes":
            by = [F.countDistinct("tailnum"), F.max(F.col("distance") * 60 / F.col("air_time"))]
            found = windows("2 days", "12 hours", "dest", by=by)
    return found.select("window.start", "window.end", "*").drop("window")


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return flights_before(month=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, flights: pa.Table) -> Path:
    folder = tmp_path_factory.mktemp("flights") / "flights"
    write_replay(flights, folder, files=3)
    return folder


@pytest.fixture(scope="module")
def expected(spark: SparkSession, folder: Path) -> dict[str, pa.Table]:
    """Spark's own answers."""
    frame = spark.read.parquet(str(folder))
    return {name: native(frame, name).toArrow() for name in WORKLOAD.queries}


def assert_same(answers: pa.Table, expected: dict[str, pa.Table]) -> None:
    for name, query in WORKLOAD.queries.items():
        assert expected[name].num_rows > 50
        ours = panewise.wide(answers, WORKLOAD, name)
        assert first_difference(ours, expected[name], 2 + len(query.group_by)) is None, name


def test_batch(spark: SparkSession, folder: Path, expected: dict[str, pa.Table]) -> None:
    frame = spark.read.parquet(str(folder))
    assert_same(panewise_spark.answers(frame, WORKLOAD).toArrow(), expected)


def test_streaming(spark: SparkSession, folder: Path, flights: pa.Table, expected: dict[str, pa.Table]) -> None:
    answers, metrics = run_stream(spark, folder, WORKLOAD)
    assert sum(metric.late_events for metric in metrics) == 0
    newest_us = pc.max(flights.column("scheduled").cast(pa.int64())).as_py()
    watermark_us = newest_us - WORKLOAD.streams["flights"].watermark_us
    closed = {
        name: table.filter(pc.less_equal(table.column("end").cast(pa.int64()), watermark_us))
        for name, table in expected.items()
    }
    assert_same(answers, closed)


def test_engine(flights: pa.Table, expected: dict[str, pa.Table]) -> None:
    engine = panewise.Engine(WORKLOAD)
    engine.push("flights", flights)
    assert_same(engine.advance("flights", panewise.END_OF_STREAM).long(), expected)
