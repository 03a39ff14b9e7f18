"""Some of the queries by plain Spark: `GROUP BY window(...)`, one query at a time, over the flights as a batch."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

STATEMENTS = Path(__file__).with_name("plain_spark.sql")
_VIEW = re.compile(r"CREATE TEMPORARY VIEW (\w+) AS\s+(SELECT .*)", re.DOTALL)


@dataclass(frozen=True)
class PlainAnswer:
    """What plain Spark answered to one query, and how long that took."""

    answers: pa.Table
    seconds: float


def plain_selects() -> dict[str, str]:
    """The SELECT of each view in `plain_spark.sql`, by the name of the query that it answers."""
    statements = STATEMENTS.read_text(encoding="utf-8").split(";")
    return {view[1]: view[2] for statement in statements if (view := _VIEW.search(statement))}


class PlainSpark:
    """A warm session in which the flights are a view."""

    def __init__(self, spark: SparkSession, flights: Path) -> None:
        self._spark = spark
        self._selects = plain_selects()
        # Spark pays extra for what is new to a session, so that is not counted.
        spark.read.parquet(str(flights / "000.parquet")).createOrReplaceTempView("flights")
        self.answer(next(iter(self._selects)))
        spark.read.parquet(str(flights)).createOrReplaceTempView("flights")

    def answer(self, name: str) -> PlainAnswer:
        """All answers to one query, brought here."""
        began = time.perf_counter()
        answers = self._spark.sql(self._selects[name]).toArrow()
        return PlainAnswer(answers, time.perf_counter() - began)
