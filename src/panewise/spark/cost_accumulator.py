"""The way of the costs of queries from workers to the driver: an accumulator of Spark.

Without a Spark context in this process (Spark Connect) there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from panewise.spark.query_costs import KNOWN, Costs, QueryCost, add

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ACCUMULATORS: dict[str, Accumulator[Costs]] = {}
"""By the id of the Spark application: a process may start one after the other."""


class _Adding(AccumulatorParam[Costs]):
    """How costs add up."""

    def zero(self, value: Costs) -> Costs:
        """Nothing."""
        return {}

    def addInPlace(self, value1: Costs, value2: Costs) -> Costs:  # noqa: N802 - Spark's name
        """Add the second to the first."""
        add(value1, value2)
        return value1


def costs_of(session: SparkSession) -> Accumulator[Costs] | None:
    """What workers of a session add costs to; None if this process has no Spark context."""
    context = getattr(session, "sparkContext", None)
    if context is None:
        return None
    if context.applicationId not in _ACCUMULATORS:
        accumulator = context.accumulator({}, _Adding())
        _ACCUMULATORS[context.applicationId] = accumulator
        KNOWN.append(lambda: accumulator.value)
    return _ACCUMULATORS[context.applicationId]


def costs_in(answers: Mapping[str, int], shares_ns: Mapping[str, int]) -> Costs:
    """The cost of each query in this task: its answers and its time."""
    run = _run()
    return {(run, name): QueryCost(answers.get(name, 0), shares_ns.get(name, 0)) for name in {**answers, **shares_ns}}


def _run() -> str:
    """The id of the run that this task belongs to: Spark groups the jobs of a stream by it."""
    context = TaskContext.get()
    return (None if context is None else context.getLocalProperty("spark.jobGroup.id")) or ""
