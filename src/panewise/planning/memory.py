"""What a plan will hold in memory, by consumer: trees, moving windows, events and structures for lookups, rows.

A tree holds the fragments that its longest window covers: a row per group with events, each with its key, slot and
shard and the columns of its components. A window that slides in small steps has totals for each group that it covers.
Lookups need the events of their longest window. Structures hold the elements that their data sheets declare, for each
column that queries share. A row query holds its window. The numbers estimate what `Engine.statistics` counts: how well
values pack, and how often they repeat, is not known.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import expm1
from pathlib import Path

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.types import Type
from panewise.errors import MemoryBudgetError
from panewise.language.expressions import AggregateCall, Attribute, Expression, Pair
from panewise.language.model import Query, Stream
from panewise.language.row_queries import JoinQuery, SortedQuery
from panewise.language.typecheck import type_of
from panewise.planning.cost import Prices, prices_at
from panewise.planning.structure_choice import Rates, shape_of
from panewise.planning.trees import Clock, Input, PlanContent, Tree
from panewise.planning.windowed import RowPlan
from panewise.structures import BY_NAME, DataSheet
from panewise.windows import RowWindow, Window, is_unbounded
from panewise.windows.clock import show_time
from panewise.windows.slots import lengths_of, most_lengths_of

ROW_BYTES = 8
"""Key, slot and shard of a row, packed."""
PACKED_BYTES: Mapping[Kind, int] = {
    Kind.ROWS: 1,
    Kind.COUNT: 1,
    Kind.SUM_INT: 5,
    Kind.SUM_FLOAT: 12,
    Kind.SQUARES_INT: 6,
    Kind.SQUARES: 28,
}
"""The bytes of a component's columns in a row, packed; 8 a word for a component not listed."""
FEWEST_KEPT = 8
"""A moving window with so many rows a key has totals in two parts and multisets in order: see `engine.moving`."""
FEWEST_BLOCKS = 4
"""What a moving window notes is in so many blocks or more."""
ANSWER_BYTES = 18
"""An answer that a moving window keeps for a key."""
KEY_BYTES = 4
"""The number of a key."""
TOUCHED_BYTES = 1
"""What a moving window keeps to know which keys have changed, for each key."""
KEPT_BYTES = 64
"""A value that is kept as it is: an object, and a reference to it."""
VALUE_BYTES = 16
"""A value of a multiset, and its count."""
SKETCH_BYTES: Mapping[Kind, tuple[int, int, int]] = {
    Kind.QUANTILES: (40, 8, 4_800),
    Kind.DISTINCT: (40, 8, 4_200),
    Kind.FREQUENT: (64, 56, 25_000),
}
"""A sketch without values, what each different value adds, and the maximum; some sketches are held as bytes."""
ELEMENT_BYTES: Mapping[Kind, int] = {Kind.SUM_FLOAT: 16, Kind.SQUARES: 32, Kind.VALUES: 9}
"""The bytes of an element of a structure; 8 for one not listed."""
LOG_SLACK = 1.4
"""Events are dropped only when half of them are no longer needed."""
NULLS_BYTES = 1
"""Which values of an event are NULL."""
SET_BYTES = 70
"""An event in the storage and the index of a histogram, if most values are different."""
RING_BYTES = 200
"""An event in the ring and the index of a sorted window or of a join, beside its attributes."""
STRING_BYTES = 24
"""A string of an event, with its offset."""
_SHOWN = 5


@dataclass(frozen=True)
class Consumer:
    """Something that holds memory."""

    name: str
    bytes: int


def consumers(plan: PlanContent) -> list[Consumer]:
    """What the plan will hold, the largest first."""
    found = [
        Consumer(
            f"tree {tree.number} over {stream.stream.name}",
            _tree_bytes(tree, stream.inputs, prices_at(plan, stream.stream.name)),
        )
        for stream in plan.streams.values()
        for tree in stream.trees
    ]
    found += [
        Consumer(f"moving windows of tree {tree.number} over {stream.stream.name}", held)
        for stream in plan.streams.values()
        for tree in stream.trees
        if (held := _moving_bytes(tree, stream.input_types, prices_at(plan, stream.stream.name)))
    ]
    found += [
        Consumer(
            f"last rows of the substreams of {query.name}",
            int(_covered(query.window, prices_at(plan, query.stream)) * _event_bytes(plan.declared[query.stream])),
        )
        for query in plan.by_substream
    ]
    asked: dict[str, list[Window]] = {}
    for query in plan.on_demand:
        asked.setdefault(query.stream, []).append(query.window)
    found += [
        Consumer(f"events of {name} for lookups", _log_bytes(plan.declared[name], windows, prices_at(plan, name)))
        for name, windows in asked.items()
    ]
    found += _structures(plan)
    found += [Consumer(f"rows of {row.query.name}", _row_query_bytes(plan, row)) for row in plan.row_queries]
    return sorted(found, key=lambda consumer: -consumer.bytes)


def check_budget(plan: PlanContent, limit: int) -> None:
    """Raise if a plan would hold more than `limit` bytes, and name the largest consumers."""
    found = consumers(plan)
    total = sum(consumer.bytes for consumer in found)
    if total <= limit:
        return
    largest = "; ".join(f"{consumer.name}: {show_bytes(consumer.bytes)}" for consumer in found[:_SHOWN])
    raise MemoryBudgetError(
        f"the workload would hold about {show_bytes(total)}, and may hold {show_bytes(limit)}: {largest}. Shorten the "
        f"longest windows, group by fewer attributes, give a coarser SLIDE, or allow more memory"
    )


def too_many_answers(stream: str, held: int, until_us: int, limit: int) -> MemoryBudgetError:
    """The error of an advance whose answers, held up to a time, do not all fit."""
    return MemoryBudgetError(
        f"stream {stream}: the answers of this advance do not fit into {show_bytes(limit)}: those of windows up to "
        f"{show_time(until_us)} take {show_bytes(held)}, and more would follow. Nothing was reported. Take the answers "
        f"as they come with closing(), send them to files with write(), advance in smaller steps, or allow more memory"
    )


@cache
def machine_bytes() -> int:
    """The memory that this machine or container has."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")] if hasattr(os, "sysconf") else [2**62]
    # Without a container there is no such file, and one without a limit says "max".
    with suppress(OSError, ValueError):
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(limits)


def show_bytes(number: float) -> str:
    """A number of bytes for people.

    >>> show_bytes(999), show_bytes(2_345_678)
    ('999 bytes', '2.3 MB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= size:
            return f"{number / size:,.1f} {unit}"
    return f"{number:.0f} bytes"


def _tree_bytes(tree: Tree, inputs: tuple[Input, ...], prices: Prices) -> int:
    longest = max(sum(most_lengths_of(window)) for window in tree.windows)
    events = _events(longest, tree.clock, prices)
    fragments = longest / tree.granularity * tree.cuts.rate * prices.groups_of(tree.group_by)
    # Each event falls into one fragment of one group, so there are no more rows than events.
    rows = _different(fragments, events)
    components = (_component_bytes(component, inputs, events / rows, prices) for component in tree.components)
    return int(rows * (ROW_BYTES + sum(components)))


def _moving_bytes(tree: Tree, inputs: tuple[Type, ...], prices: Prices) -> int:
    """The totals of windows that are carried from edge to edge, and what is noted to remain of them."""
    total = 0.0
    groups = prices.groups_of(tree.group_by)
    # Of a multiset, a sketch or a joined component there is an answer instead.
    # Counts of values are those of events, unless values are NULL.
    in_totals = sum(
        one.kind.words for one in tree.components if one.can_be_taken_off(inputs) and one.kind is not Kind.COUNT
    )
    in_parts = sum(
        one.kind.words for one in tree.components if not (one.can_be_taken_off(inputs) or one.kind.is_joined)
    )
    kept = sum(ANSWER_BYTES for one in tree.components if one.kind.is_joined or not one.kind.words)
    moving = {(planned.predicate, window) for planned in tree.queries for window in planned.windows}
    for length, slide in (lengths_of(window) for _, window in moving):
        if prices.in_bulk or slide >= length:
            continue
        slots = length / tree.granularity * tree.cuts.rate
        keys, rows = (_different(cells, _events(length, tree.clock, prices)) for cells in (groups, slots * groups))
        has_many = rows >= FEWEST_KEPT * keys
        total += keys * (TOUCHED_BYTES + kept + 8 * (in_totals + (1 + has_many) * in_parts))
        if has_many:
            # In order, each value has a count, and half as much room again behind it.
            total += 1.5 * 16 * rows * sum(one.kind is Kind.VALUES for one in tree.components)
        if in_parts and has_many:
            blocks = min(slots, max(FEWEST_BLOCKS**2, rows / keys)) ** 0.5
            # On average half of the blocks are still there, and half of the rows of the oldest, with their slots.
            noted = (blocks * _different(groups, rows / blocks) + rows / blocks) / 2
            total += noted * (KEY_BYTES + 8 + 8 * in_parts)
    return int(total)


def _different(cells: float, events: float) -> float:
    """How many cells get events, if each is equally likely."""
    return -cells * expm1(-events / cells)


def _component_bytes(component: Component, inputs: tuple[Input, ...], events: float, prices: Prices) -> float:
    """The bytes of a component's columns in a row of `events` events."""
    values = events
    read = None if component.input is None else inputs[component.input].expression
    if isinstance(read, Attribute) and read.name in prices.groups:
        # How many of the different values occur, if each is equally likely.
        values = _different(prices.groups[read.name], events)
    if component.kind is Kind.VALUES:
        return 8 + VALUE_BYTES * values
    if component.kind.is_kept:
        return 8 + KEPT_BYTES * (1 + min(read.most if isinstance(read, Pair) else 1, values))
    if component.kind.is_sketch:
        empty, each, most = SKETCH_BYTES[component.kind]
        # A reference, and the values themselves while there are few.
        return 8 + min(most, empty + each * values)
    return PACKED_BYTES.get(component.kind, 8 * component.kind.words)


@dataclass(frozen=True)
class _Column:
    """What aggregates of on-demand queries must have in common to share elements."""

    stream: str
    where: Expression | None
    group_by: tuple[str, ...]
    argument: Expression | None
    kinds: frozenset[Kind]


def _structures(plan: PlanContent) -> Iterator[Consumer]:
    """The structures of each stream. A structure of several queries is as large as the largest of them needs."""
    columns: dict[_Column, tuple[float, str]] = {}
    for query in plan.on_demand:
        chosen = plan.structures[query.name]
        for choice in () if chosen.reads_log else chosen.choices:
            kinds = _held_kinds(plan.declared[query.stream], choice.call)
            if not kinds or choice.structure is None:
                continue
            column = _Column(query.stream, query.where, tuple(sorted(query.group_by)), choice.call.argument, kinds)
            sheet = BY_NAME[choice.structure].sheet
            element = sheet.element_bytes({kind: ELEMENT_BYTES.get(kind, 8) for kind in kinds})
            held = _elements(sheet, query, prices_at(plan, query.stream)) * element
            columns[column] = max(columns.get(column, (0.0, "")), (held, choice.structure))
    together: Counter[tuple[str, str]] = Counter()
    for column, (held, structure) in columns.items():
        together[column.stream, structure] += int(held)
    for (stream, structure), total in together.items():
        yield Consumer(f"{structure} over {stream} for lookups", total)


def _held_kinds(stream: Stream, call: AggregateCall) -> frozenset[Kind]:
    """What a column of an aggregate holds; COUNT is known from positions."""
    if call.argument is None:
        return frozenset()
    kind = type_of(call.argument, stream.attributes) or Type.BIGINT
    return frozenset(CATALOGUE[call.function].kinds(kind)) - {Kind.COUNT, Kind.ROWS}


def _elements(sheet: DataSheet, query: Query, prices: Prices) -> float:
    """The elements that a structure holds of all groups. Rings have a power of two as length, and follow the log."""
    groups = prices.groups_of(query.group_by)
    shape = shape_of(query, Rates.assumed(prices.rate, groups))
    room = 1 << (int(LOG_SLACK * shape.largest) - 1).bit_length()
    return groups * sheet.space.of(shape) * room / shape.largest


def _row_query_bytes(plan: PlanContent, row: RowPlan) -> int:
    """The windows of a row query, unless another query's index already holds them; and the rows that it holds."""
    held = 0.0
    for side in row.inputs:
        stream = plan.declared[side.stream]
        prices = prices_at(plan, side.stream)
        is_set = not isinstance(row.query, SortedQuery | JoinQuery)
        if side.window is not None and row.shares_with is None:
            held += _covered(side.window, prices) * (SET_BYTES if is_set else RING_BYTES + _event_bytes(stream))
        if row.query.into is not None:
            held += _covered(row.query.into, prices) * _event_bytes(stream)
    return int(held)


def _covered(window: Window, prices: Prices) -> float:
    """The events as far back as a window reaches, in every substream that it counts separately."""
    if isinstance(window, RowWindow):
        return float(window.left * prices.groups_of(window.partition_by))
    return 0.0 if is_unbounded(window) else _events(window.left_us, Clock.TIME, prices)


def _log_bytes(stream: Stream, windows: Iterable[Window], prices: Prices) -> int:
    events = max(_covered(window, prices) for window in windows)
    return int(LOG_SLACK * events * _event_bytes(stream))


def _event_bytes(stream: Stream) -> int:
    """An event with all of its attributes."""
    return NULLS_BYTES + sum(STRING_BYTES if kind is Type.STRING else 8 for kind in stream.attributes.values())


def _events(length: int, clock: Clock, prices: Prices) -> float:
    return prices.rate * length / 1_000_000 if clock is Clock.TIME else float(length)
