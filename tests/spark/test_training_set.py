"""Training sets on Spark have the cells of those in one process, which agree with the oracle."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.answers import microseconds

import panewise
from panewise import spark as panewise_spark

WORKLOAD = """
CREATE STREAM payments (ts TIMESTAMP, card BIGINT, shop STRING, rate DOUBLE, amount DOUBLE, points BIGINT)
  TIMESTAMP BY ts WATERMARK 3 SECONDS;
CREATE QUERY card AS SELECT card, COUNT(*) AS n, SUM(points) AS points, AVG(amount) AS mean, MAX(ts) AS newest
  FROM payments [RANGE 20 SECONDS] WHERE amount > 1.0 GROUP BY card;
CREATE QUERY past AS SELECT MIN(points) AS least, COUNT(DISTINCT shop) AS shops
  FROM payments [RANGE BETWEEN 30 SECONDS PRECEDING AND 10 SECONDS PRECEDING] GROUP BY card HAVING COUNT(*) > 1;
CREATE QUERY rated AS SELECT QUANTILE(amount, 0.5) AS middle FROM payments [RANGE 20 SECONDS] GROUP BY rate;
CREATE QUERY rows AS SELECT SUM(points) AS points FROM payments [PARTITION BY shop ROWS 4] GROUP BY shop, card;
CREATE QUERY slides AS SELECT COUNT(*) AS n, SUM(points) AS points FROM payments [RANGE 12 SECONDS SLIDE 5 SECONDS]
  GROUP BY shop;
CREATE QUERY slid AS SELECT COUNT(*) AS n FROM payments [RANGE 7 SECONDS SLIDE 3 SECONDS] GROUP BY shop;
CREATE QUERY forms AS SELECT SUM(points) AS points, COUNT(*) OVER [RANGE 5 SECONDS] AS newest
  FROM payments [RANGE 15 SECONDS SLIDE 5 SECONDS OFFSET 2 SECONDS] GROUP BY shop;
CREATE QUERY grown AS SELECT COUNT(*) AS n FROM payments [CUMULATE 30 SECONDS SLIDE 10 SECONDS] GROUP BY shop;
CREATE QUERY ever AS SELECT SUM(points) AS points, MAX(points) AS most FROM payments [UNBOUNDED] GROUP BY card;
CREATE QUERY told AS SELECT COUNT(*) AS n FROM payments [UNBOUNDED SLIDE 5 SECONDS] GROUP BY shop;
CREATE QUERY overall AS SELECT COUNT(*) AS n FROM payments [RANGE 4 SECONDS];
CREATE QUERY visit AS SELECT SUM(points) AS points, COUNT(*) AS n FROM payments
  [SESSION GAP 6 SECONDS MAX 20 SECONDS] WHERE amount > 1.0 GROUP BY card;
CREATE QUERY spree AS SELECT MAX(points) AS most, COUNT(*) AS n FROM payments
  [FROM WHEN rate = 1.5 UNTIL WHEN amount < 2 MAX 15 SECONDS] GROUP BY shop;
"""
CHAIN = """
CREATE QUERY fives AS SELECT shop, SUM(points) AS total FROM payments [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY shop;
CREATE QUERY best AS SELECT shop, MAX(total) AS best FROM fives [RANGE 20 SECONDS SLIDE 10 SECONDS] GROUP BY shop;
CREATE QUERY recent AS SELECT shop, COUNT(*) AS n FROM best [RANGE 40 SECONDS] GROUP BY shop;
CREATE QUERY quiet AS SELECT SUM(total) AS total FROM fives [SESSION GAP 10 SECONDS MAX 1 MINUTE];
"""
SECOND = 1_000_000
UTC_TIME = pa.timestamp("us", tz="UTC")


def tables(count: int = 600) -> tuple[pa.Table, pa.Table]:
    """Payments of which a third are of one card, and labels of which some have unknown keys."""
    random = np.random.default_rng(11)
    # Whole seconds tie, and the values of ties differ in all that queries read.
    times = np.sort(random.integers(0, 600 * SECOND, count)) // 250_000 * 250_000
    shops = [None if number == 5 else f"shop {number}" for number in random.integers(0, 6, count)]
    cards = np.where(random.random(count) < 0.3, 0, random.integers(0, 20, count))
    payments = pa.table(
        {
            "ts": pa.array(times).cast(UTC_TIME),
            "card": cards,
            "shop": shops,
            "rate": random.choice([0.0, -0.0, 1.5, np.nan], count),
            "amount": random.normal(5.0, 3.0, count).round(2),
            "points": random.permutation(count),
        }
    )
    chosen = random.integers(0, count, 150)
    labels = pa.table(
        {
            "id": np.arange(150),
            "at": pa.array(times[chosen] + random.integers(-1, 2, 150)).cast(UTC_TIME),
            "card": np.where(random.random(150) < 0.1, 99, cards[chosen]),
            "shop": [shops[place] for place in chosen],
            "rate": -np.asarray(payments["rate"])[chosen],
            "note": [{"text": "x", "numbers": [1, 2]}] * 150,
        }
    )
    return labels, payments


def rows_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    plain = [{name: microseconds(value) for name, value in row.items() if name != "note"} for row in rows]
    return sorted(plain, key=lambda row: row["id"])


@pytest.mark.parametrize("edge", ["before", "at"])
def test_the_same_cells_as_in_one_process(spark: SparkSession, edge: Any) -> None:
    labels, payments = tables()
    workload = panewise.read(WORKLOAD)
    wanted = panewise.training_set(labels, payments, workload, time="at", edge=edge)
    found = panewise_spark.training_set(
        spark.createDataFrame(labels), spark.createDataFrame(payments), workload, time="at", edge=edge
    )
    assert found.columns == wanted.column_names
    result = found.toArrow()
    assert {field.name: field.type for field in result.schema if "__" in field.name} == {
        field.name: field.type for field in wanted.schema if "__" in field.name
    }
    names = [name for name in wanted.column_names if "__" in name and name != "rows__points"]
    got, right = rows_of(result.to_pylist()), rows_of(wanted.to_pylist())
    assert len(got) == len(right)
    for one, other in zip(got, right):
        assert one["id"] == other["id"]
        for name in names:
            right_value = other[name]
            wanted_value = None if right_value is None else pytest.approx(right_value, rel=1e-12, nan_ok=True)
            assert one[name] == wanted_value, (name, other)
    assert sum(row["rows__points"] is not None for row in got) > 50


def test_answers_of_answers_are_those_of_one_process(spark: SparkSession) -> None:
    labels, payments = tables()
    workload = panewise.read(WORKLOAD + CHAIN)
    names = ["fives", "best", "recent", "quiet"]
    wanted = panewise.training_set(labels, payments, workload, time="at", queries=names)
    found = panewise_spark.training_set(
        spark.createDataFrame(labels), spark.createDataFrame(payments), workload, time="at", queries=names
    )
    assert found.columns == wanted.column_names
    shown = ["id", *(name for name in wanted.column_names if "__" in name)]
    got, right = (rows_of(table.select(shown).to_pylist()) for table in (found.toArrow(), wanted))
    assert got == right
    assert all(wanted[name].null_count < 140 for name in shown)


def test_rows_of_equal_time_are_ordered_by_their_values(spark: SparkSession) -> None:
    labels, payments = tables()
    workload = panewise.read(WORKLOAD)
    order = payments.sort_by([(name, "ascending") for name in ("ts", "card", "shop", "points")])
    wanted = panewise.training_set(labels, order, workload, time="at", queries=["rows"])
    found = panewise_spark.training_set(
        spark.createDataFrame(labels), spark.createDataFrame(payments), workload, time="at", queries=["rows"]
    )
    got, right = (
        [(row["id"], row["rows__points"]) for row in rows_of(table.to_pylist())] for table in (found.toArrow(), wanted)
    )
    assert got == right


def test_one_shuffle_for_each_group_by_whatever_the_number_of_windows(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, payments = (spark.createDataFrame(table) for table in tables(20))
    stream, _ = WORKLOAD.split(";", 1)

    def exchanges(windows: int) -> int:
        queries = "".join(
            f"CREATE QUERY {key}{length} AS SELECT SUM(points) FROM payments [RANGE {length} SECONDS] GROUP BY {key};"
            for length in range(1, windows + 1)
            for key in ("card", "shop")
        )
        panewise_spark.training_set(labels, payments, panewise.read(f"{stream};{queries}"), time="at").explain()
        return capsys.readouterr().out.count("Exchange hashpartitioning")

    # Labels and events, once for each of the two keys.
    assert exchanges(1) == exchanges(9) == 4


def test_mistakes_are_named_before_anything_is_computed(spark: SparkSession) -> None:
    labels, payments = (spark.createDataFrame(table) for table in tables(20))
    workload = panewise.read(WORKLOAD)

    def fails(message: str, some: Any = labels, **options: Any) -> None:
        with pytest.raises(panewise.PanewiseError, match=message):
            panewise_spark.training_set(some, payments, workload, **options)

    fails("no column 'ts' with their times")
    fails("query card groups by 'card', which the labels do not have; add", labels.drop("card"), time="at")
    fails("column 'card' is string and the stream declares BIGINT.*query card groups by it",
          labels.withColumn("card", labels["card"].cast("string")), time="at")  # fmt: skip
    fails("a column 'overall__n'", labels.withColumnRenamed("note", "overall__n"), time="at")
    fails("the columns OVERALL__n and overall__n have the same name", labels.withColumnRenamed("note", "OVERALL__n"),
          time="at")  # fmt: skip
    fails("`edge` is", time="at", edge="after")
    untimed = spark.createDataFrame([(1, None)], "card bigint, at timestamp")
    fails("'at' is NULL in 1 rows", untimed, time="at", queries=["card"])
    whole = panewise.read(WORKLOAD + "CREATE QUERY last AS SELECT SUM(points) FROM payments [ROWS 3];")
    with pytest.raises(panewise.NotOnSparkError, match="query last"):
        panewise_spark.training_set(labels, payments, whole, time="at")
    without_time = payments.union(payments.limit(1).withColumn("ts", F.lit(None).cast("timestamp")))
    with pytest.raises(PythonException, match="1 events have no time; filter those rows out"):
        panewise_spark.training_set(labels, without_time, workload, time="at", queries=["overall"]).collect()
    empty = panewise_spark.training_set(labels.limit(0), payments, workload, time="at")
    assert empty.count() == 0


def test_datetimes_are_taken_as_utc(spark: SparkSession) -> None:
    labels = spark.createDataFrame([(datetime(1970, 1, 1, 0, 0, 5), 1)], "at timestamp_ntz, card bigint")
    payments = spark.createDataFrame(tables(20)[1])
    found = panewise_spark.training_set(labels, payments, panewise.read(WORKLOAD), time="at", queries=["overall"])
    assert found.columns == ["at", "card", "overall__n"]
    assert found.count() == 1


def test_labels_come_back_whatever_the_zone_of_the_session(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        times = "array(at) AS several, struct(at) AS inner, map('at', at) AS named"
        labels = spark.sql(f"SELECT *, {times} FROM VALUES (1, TIMESTAMP '1970-01-01 00:09:00Z') AS t (card, at)")
        payments = spark.createDataFrame(tables(20)[1])
        workload = panewise.read(WORKLOAD)
        found = panewise_spark.training_set(labels, payments, workload, time="at", queries=["overall"])
        assert found.select(labels.columns).collect() == labels.collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
