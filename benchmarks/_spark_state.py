"""What a Panewise job on Spark keeps, and how much of it is alive. Plain Spark counts what is alive in the events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from panewise.language.printer import print_expression
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize
from panewise.planning.trees import DEFAULT_RATE, Base, StreamPlan
from panewise.spark.batch_metrics import BatchMetrics
from panewise.windows.slots import lengths_of


def touched(batch: BatchMetrics) -> int:
    """How many buckets a batch touched: found in the cache, caught up, or rebuilt."""
    return sum(batch.counts[name] for name in ("cache_hits", "catch_ups", "rebuilds"))


def last_whole(batches: Iterable[BatchMetrics]) -> BatchMetrics:
    """The last of the batches that touched the most buckets: what it reports holds for the whole state."""
    return max(batches, key=lambda batch: (touched(batch), batch.number))


def live_of(events: DataFrame, plan: StreamPlan, base: Base, closed_us: int) -> tuple[int, int]:
    """How many (slot, key) pairs and how many partials a base needs once windows are closed up to an instant."""
    longest_us = max(lengths_of(window)[0] for tree in plan.fed_by(base) for window in tree.windows)
    slot = F.floor(F.unix_micros(plan.stream.timestamp) / base.granularity).alias("slot")
    bits = [F.expr(print_expression(plan.predicates[bit])).alias(f"p{bit}") for bit in base.predicates]
    pairs = (
        events.select(slot, *base.group_by, F.struct(F.lit(0), *bits).alias("shard"))
        .where(F.col("slot") * base.granularity + longest_us > closed_us)
        .groupBy("slot", *base.group_by)
        .agg(F.size(F.collect_set("shard")).alias("partials"))
    )
    counted = pairs.agg(F.count(F.lit(1)).alias("pairs"), F.sum("partials").alias("partials")).first()
    assert counted is not None
    return counted.pairs, counted.partials or 0


def state_of(events: DataFrame, workload: Workload, batches: Sequence[BatchMetrics]) -> dict[str, Any]:
    """The durable state at the end of a run and after the last batch with events, and how much of it is alive."""
    plans = optimize(workload, rate=DEFAULT_RATE, in_bulk=True).streams.values()
    with_events = [batch for batch in batches if batch.rows_in]
    at_end, running = (state_after(events, plans, last_whole(some)) for some in (batches, with_events))
    return {**at_end, "while_running": running}


def state_after(events: DataFrame, plans: Iterable[StreamPlan], batch: BatchMetrics) -> dict[str, Any]:
    """The durable state after a batch, when all events have come."""
    live = [live_of(events, plan, base, batch.watermark_us or 0) for plan in plans for base in plan.bases]
    pairs, partials = (sum(counted) for counted in zip(*live, strict=True))
    assert batch.sizes is not None, "it touched all buckets"
    log_bytes = batch.sizes.log_bytes
    return {
        "log_bytes": log_bytes,
        "live_slot_keys": pairs,
        "live_partials": partials,
        "bytes_per_live_slot_key": log_bytes / pairs if pairs else None,
        "bytes_per_live_partial": log_bytes / partials if partials else None,
    }
