"""Some of the queries by plain Spark: `GROUP BY window(...)`, one query at a time, over the flights as a batch."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

STATEMENTS = Path(__file__).with_name("plain_spark.sql")
_NAME = re.compile(r"CREATE OR REPLACE TEMPORARY VIEW (\w+)")


@dataclass(frozen=True)
class PlainAnswer:
    """What plain Spark answered to one query, and how long that took."""

    answers: pa.Table
    seconds: float


def plain_statements() -> dict[str, str]:
    """The statements of `plain_spark.sql`, by the name of the query that each answers."""
    statements = STATEMENTS.read_text(encoding="utf-8").split(";")
    return {name[1]: statement for statement in statements if (name := _NAME.search(statement))}


class PlainSpark:
    """A session in which the flights and the queries over them are views."""

    def __init__(self, spark: SparkSession, flights: Path) -> None:
        self._spark = spark
        self._statements = plain_statements()
        # What is new to a session costs Spark extra, which is not counted against it.
        first = next(iter(self._statements))
        self._define([first], flights / "000.parquet")
        self.answer(first)
        self._define(list(self._statements), flights)

    def answer(self, name: str) -> PlainAnswer:
        """All answers to one query, brought here."""
        began = time.perf_counter()
        answers = self._spark.table(name).toArrow()
        return PlainAnswer(answers, time.perf_counter() - began)

    def _define(self, names: list[str], flights: Path) -> None:
        self._spark.read.parquet(str(flights)).createOrReplaceTempView("flights")
        for name in names:
            self._spark.sql(self._statements[name])
