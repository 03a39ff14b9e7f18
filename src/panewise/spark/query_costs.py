"""What each query costs: its answers, and its share of the time of the execution trees that answer it.

A batch's progress has room for sums, not for thousands of names. So workers add these to an accumulator of Spark, which
the driver reads when somebody asks. Without a Spark context in this process (Spark Connect) there is none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class QueryCost(NamedTuple):
    """The answers of a query, and the time in nanoseconds that went into them."""

    answers: int = 0
    ns: int = 0

    def plus(self, other: QueryCost) -> QueryCost:
        """Both together."""
        return QueryCost(self.answers + other.answers, self.ns + other.ns)


Costs = dict[tuple[str, str], QueryCost]
"""The cost of each query, by the id of the run and its name."""

_LOCK = threading.Lock()
"""Spark's thread adds while others read."""
_ACCUMULATORS: dict[str, Accumulator[Costs]] = {}
"""By the id of the Spark application: a process may start one after the other."""


class _Adding(AccumulatorParam[Costs]):
    """How costs add up."""

    def zero(self, value: Costs) -> Costs:
        """Nothing."""
        return {}

    def addInPlace(self, value1: Costs, value2: Costs) -> Costs:  # noqa: N802 - Spark's names
        """Add the second to the first."""
        with _LOCK:
            for name, cost in value2.items():
                value1[name] = value1.get(name, QueryCost()).plus(cost)
        return value1


def costs_of(session: SparkSession) -> Accumulator[Costs] | None:
    """What workers of a session add costs to; None if this process has no Spark context."""
    context = getattr(session, "sparkContext", None)
    if context is None:
        return None
    if context.applicationId not in _ACCUMULATORS:
        _ACCUMULATORS[context.applicationId] = context.accumulator({}, _Adding())
    return _ACCUMULATORS[context.applicationId]


def costs_of_run(run: str) -> dict[str, QueryCost]:
    """The cost of each query of a run so far, in the order in which they first had answers."""
    with _LOCK:
        return {
            name: cost
            for accumulator in _ACCUMULATORS.values()
            for (of_run, name), cost in accumulator.value.items()
            if of_run == run
        }


def costs_in(batches: Iterable[pa.RecordBatch], shares_ns: Mapping[str, int]) -> Costs:
    """The cost of each query in this task: its answers, dictionary-encoded as buckets make them, and its time."""
    answers: dict[str, int] = {}
    for batch in batches:
        column = batch.column("query")
        counts = np.bincount(np.asarray(column.indices), minlength=len(column.dictionary))
        for name, count in zip(column.dictionary.to_pylist(), counts.tolist()):
            answers[name] = answers.get(name, 0) + count
    run = _run()
    return {(run, name): QueryCost(answers.get(name, 0), shares_ns.get(name, 0)) for name in {**answers, **shares_ns}}


def _run() -> str:
    """The id of the run that this task belongs to: Spark groups the jobs of a stream by it."""
    context = TaskContext.get()
    return (None if context is None else context.getLocalProperty("spark.jobGroup.id")) or ""
