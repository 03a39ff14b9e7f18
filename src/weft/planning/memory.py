"""What a plan will hold in memory, by consumer: fragments of trees, and events for lookups.

A tree holds the fragments that its longest window covers, a row per group in which there are events, each row with its
key, slot and shard and the columns of its components. Lookups need the events of the longest window that is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import expm1

from weft.aggregates.components import Kind
from weft.aggregates.types import Type
from weft.errors import WeftError
from weft.language.model import Stream
from weft.planning.cost import Prices
from weft.planning.plan import Clock, Plan, StreamPlan, Tree
from weft.windows import TimeWindow, Window
from weft.windows.slots import lengths_of

ROW_BYTES = 24
"""Key, slot and shard of a row."""
VALUE_BYTES = 16
"""A value of a multiset, and its count."""
SKETCH_BYTES = 5_000
"""A sketch of many values."""
SKETCH_LEAST_BYTES = 200
"""A sketch of one value, as an object."""
STRING_BYTES = 24
"""A string of an event, with its offset."""
_SHOWN = 5


@dataclass(frozen=True)
class Consumer:
    """Something that holds memory."""

    name: str
    bytes: int


class MemoryBudgetError(WeftError):
    """A workload that would not fit into the memory that it may use."""


def consumers(plan: Plan) -> list[Consumer]:
    """What the plan will hold, the largest first."""
    prices = Prices(plan.rate, plan.weights, plan.groups)
    found = [
        Consumer(f"tree {tree.number} over {stream.stream.name}", _tree_bytes(stream, tree, prices))
        for stream in plan.streams.values()
        for tree in stream.trees
    ]
    asked: dict[str, list[Window]] = {}
    for query in plan.on_demand:
        asked.setdefault(query.stream, []).append(query.window)
    found += [
        Consumer(f"events of {name} for lookups", _log_bytes(plan.declared[name], windows, prices))
        for name, windows in asked.items()
    ]
    return sorted(found, key=lambda consumer: -consumer.bytes)


def check_budget(plan: Plan, limit: int) -> None:
    """Raise when a plan would hold more than `limit` bytes, and name the largest consumers."""
    found = consumers(plan)
    total = sum(consumer.bytes for consumer in found)
    if total <= limit:
        return
    largest = "; ".join(f"{consumer.name}: {show_bytes(consumer.bytes)}" for consumer in found[:_SHOWN])
    raise MemoryBudgetError(
        f"the workload would hold about {show_bytes(total)}, and may hold {show_bytes(limit)}: {largest}. Shorten the "
        f"longest windows, group by fewer attributes, give a coarser SLIDE, or allow more memory"
    )


def show_bytes(number: float) -> str:
    """A number of bytes for people.

    >>> show_bytes(999), show_bytes(2_345_678)
    ('999 bytes', '2.3 MB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:.0f} bytes"


def _tree_bytes(stream: StreamPlan, tree: Tree, prices: Prices) -> int:
    longest = max(sum(lengths_of(window)) for window in tree.windows)
    events = _events(longest, tree.clock, prices)
    fragments = longest / tree.granularity * tree.cuts.rate * prices.groups_of(tree.group_by)
    # Each event falls into some fragment of some group, so there are no more rows than events.
    rows = -fragments * expm1(-events / fragments)
    words = sum(component.kind.words for component in tree.components)
    values = sum(component.kind is Kind.VALUES for component in tree.components)
    # A sketch holds the values as they are while they are few.
    per_sketch = min(SKETCH_BYTES, SKETCH_LEAST_BYTES + 8 * events / rows) if rows else 0.0
    sketches = per_sketch * sum(component.kind.is_sketch for component in tree.components)
    return int(rows * (ROW_BYTES + 8 * words + 8 * values + sketches) + values * events * VALUE_BYTES)


def _log_bytes(stream: Stream, windows: Iterable[Window], prices: Prices) -> int:
    events = max(
        _events(window.left_us, Clock.TIME, prices)
        if isinstance(window, TimeWindow)
        else float(window.left * prices.groups_of(window.partition_by))
        for window in windows
    )
    return int(events * sum(STRING_BYTES if kind is Type.STRING else 8 for kind in stream.attributes.values()))


def _events(length: int, clock: Clock, prices: Prices) -> float:
    return prices.rate * length / 1_000_000 if clock is Clock.TIME else float(length)
