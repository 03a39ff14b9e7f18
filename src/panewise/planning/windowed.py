"""How row queries are answered: basic windows, and storage, index and ring with the reasons for them.

The choice is `panewise.indexes.choose`. Until a window was full once, its numbers are assumed from the rate of the
stream; then the engine chooses again with the observed numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from panewise.aggregates.types import Type
from panewise.indexes import IndexChoice, IndexShape, choose
from panewise.indexes.values import Width
from panewise.language.literals import print_duration
from panewise.language.model import Stream
from panewise.language.printer import print_window
from panewise.language.row_queries import (
    BasicWindows,
    DistinctQuery,
    HistogramQuery,
    IntersectionQuery,
    JoinQuery,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    TopKQuery,
    Using,
)
from panewise.language.typecheck import type_of
from panewise.windows import RowWindow, Window
from panewise.windows.slots import lengths_of

DEFAULT_RATE = 1000.0
"""The assumed rate of a stream, in events a second."""

ASSUMED_REPETITION = 100.0
"""The assumed number of tuples with one value in a window."""

ASSUMED_RANGES = 50.0
"""The assumed number of value ranges in a window; the paper tries 10 and 50."""

JOIN_BASIC_WINDOWS = 50
"""Basic windows of a joined window: an expired tuple stays in the ring for at most a fiftieth of the window."""


@dataclass(frozen=True)
class ObservedWindow:
    """Numbers observed in a full window: tuples in a basic window, values in the window, values in a basic window."""

    basic_tuples: float
    distinct: float
    basic_distinct: float


@dataclass(frozen=True)
class PlannedInput:
    """One window of a row query: `basic` is None when it is not windowed."""

    stream: str
    window: Window | None
    basic: BasicWindows | None

    @property
    def text(self) -> str:
        """The window, its basic windows and how often it is evaluated."""
        if self.window is None or self.basic is None:
            return f"{self.stream}, not windowed"
        unit = print_duration(self.basic.length)
        unit = f"{self.basic.length:,} rows" if isinstance(self.window, RowWindow) else unit
        every = f"evaluated every {self.basic.every}" if self.window.is_sliding else "evaluated at every arrival"
        return f"{self.stream} {print_window(self.window)}: {self.basic.count:,} basic windows of {unit}, {every}"


@dataclass(frozen=True)
class RowPlan:
    """How one row query is answered."""

    query: RowQuery
    operator: str
    inputs: tuple[PlannedInput, ...]
    choice: IndexChoice | None
    shares_with: str | None = None
    """The query whose index it reads, if another query has the same index."""

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data."""
        into = self.query.into
        choice = self.choice
        return {
            "query": self.query.name,
            "operator": self.operator,
            "inputs": [planned.text for planned in self.inputs],
            "storage": None if choice is None else choice.storage,
            "index": None if choice is None else choice.index,
            "ring": None if choice is None else choice.ring,
            "purge": None if choice is None else choice.purge,
            "reasons": ["no window, so no index"] if choice is None else list(choice.reasons),
            "into": None if into is None else print_window(into),
            "shares_with": self.shares_with,
        }


def index_type(kind: Type) -> str:
    """The type of an index over values of a type: truth values and timestamps are integers there."""
    match kind:
        case Type.DOUBLE:
            return "float64"
        case Type.STRING:
            return "string"
        case _:
            return "int64"


def join_key_type(left: Type, right: Type) -> Type:
    """The type in which the keys of a join are compared: DOUBLE if only one of them is DOUBLE."""
    return left if left is right else Type.DOUBLE


def join_key_types(query: JoinQuery, streams: Mapping[str, Stream]) -> tuple[Type, ...]:
    """The types in which the pairs of keys of a join are compared."""
    sides = (query.left, query.left_keys), (query.right, query.right_keys)
    kinds = [[streams[side.stream].attributes[key.attribute] for key in keys] for side, keys in sides]
    return tuple(join_key_type(*pair) for pair in zip(*kinds, strict=True))


def join_basic_windows(window: Window, count: int | None = None) -> BasicWindows:
    """The basic windows of a joined window, which slides with every arrival; about `count` of them if it is given."""
    length = window.left if isinstance(window, RowWindow) else window.left_us
    basic = -(-length // (count or JOIN_BASIC_WINDOWS))
    return BasicWindows(basic, -(-length // basic), 1)


def assumed(basic: BasicWindows, window: Window, rate: float = DEFAULT_RATE) -> ObservedWindow:
    """The numbers of a window if only the rate of its stream is known."""
    tuples = basic.length if isinstance(window, RowWindow) else basic.length / 1e6 * rate
    tuples = max(1.0, float(tuples))
    distinct = max(1.0, tuples * basic.count / ASSUMED_REPETITION)
    # How many values occur in a basic window, if each is equally likely.
    shown = distinct * (1.0 - (1.0 - 1.0 / distinct) ** tuples)
    return ObservedWindow(tuples, distinct, max(1.0, min(shown, tuples)))


def choose_set(
    query: str,
    basics: Sequence[BasicWindows],
    numbers: Sequence[ObservedWindow],
    type: str,
    width: Width | None,
    using: Using | None,
) -> IndexChoice:
    """Storage and index of a histogram, a top k or an intersection; the larger of two windows counts."""
    index, storage = (using.upper, using.lower) if using is not None else (None, None)
    shape = max((_shape(basic, one) for basic, one in zip(basics, numbers)), key=lambda shape: shape.tuples)
    every = min(basic.every for basic in basics)
    return choose(query, shape, type=type, every=every, in_ranges=width is not None, storage=storage, index=index)


def choose_ring(
    query: str, basic: BasicWindows, numbers: ObservedWindow, type: str, using: Using | None
) -> IndexChoice:
    """Ring and index of a sorted window or of one side of a join."""
    ring, index = (using.upper, using.lower) if using is not None else (None, None)
    return choose(query, _shape(basic, numbers), type=type, every=basic.every, index=index, ring=ring)


def _shape(basic: BasicWindows, numbers: ObservedWindow) -> IndexShape:
    # A full window may hold no tuple.
    return IndexShape(
        basic_windows=basic.count,
        basic_tuples=max(1.0, numbers.basic_tuples),
        distinct=max(1.0, numbers.distinct),
        basic_distinct=max(1.0, numbers.basic_distinct),
        groups=max(1.0, numbers.distinct),
    )


def plan_row_queries(
    queries: Mapping[str, RowQuery], streams: Mapping[str, Stream], rate: float = DEFAULT_RATE
) -> tuple[RowPlan, ...]:
    """The plan of every row query at a rate, before anything was observed."""
    owners: dict[object, str] = {}
    plans = []
    for query in queries.values():
        key = share_key(query)
        owner = query.name if key is None else owners.setdefault(key, query.name)
        plans.append(_plan(query, streams, rate, None if owner == query.name else owner))
    return tuple(plans)


def plan_row_query(query: RowQuery, streams: Mapping[str, Stream]) -> RowPlan:
    """The plan of one row query, before anything was observed."""
    return _plan(query, streams, DEFAULT_RATE, None)


def share_key(query: RowQuery) -> object:
    """What queries must have in common to share an index; None if a query shares no index.

    A histogram and a top k show the same index; sorted windows may differ in direction and limit.
    """
    how = query.using, query.basic_windows
    match query:
        case HistogramQuery():
            values = (query.argument, query.group_by, query.width)
            return ("set", query.stream, query.window, query.where, values, *how)
        case TopKQuery() | DistinctQuery():
            return ("set", query.stream, query.window, query.where, (query.argument, query.group_by, None), *how)
        case SortedQuery():
            shown = (query.by, query.columns, query.group_by)
            return ("ring", query.stream, query.window, query.where, shown, *how)
        case IntersectionQuery():
            return ("two sets", query.left, query.right, query.width, *how)
        case _:
            return None


def _plan(query: RowQuery, streams: Mapping[str, Stream], rate: float, owner: str | None) -> RowPlan:
    inputs: tuple[PlannedInput, ...]
    match query:
        case HistogramQuery() | TopKQuery() | DistinctQuery():
            kind = type_of(query.argument, streams[query.stream].attributes) or Type.BIGINT
            width = query.width if isinstance(query, HistogramQuery) and not query.group_by else None
            # Values of groups are texts in the index.
            kind = Type.STRING if query.group_by else kind
            names = {TopKQuery: "top_k", DistinctQuery: "distinct"}
            name = names.get(type(query), "histogram")
            inputs = (_sliding(query, query.stream, query.window),)
            choice = _choose_set("histogram", inputs, rate, index_type(kind), width, query.using)
            return RowPlan(query, name, inputs, choice, owner)
        case IntersectionQuery():
            kind = type_of(query.left.argument, streams[query.left.stream].attributes) or Type.BIGINT
            inputs = tuple(_sliding(query, side.stream, side.window) for side in (query.left, query.right))
            choice = _choose_set("intersection", inputs, rate, index_type(kind), query.width, query.using)
            name = {"INTERSECT": "intersection", "UNION": "union", "EXCEPT": "difference"}[query.operation]
            return RowPlan(query, name, inputs, choice, owner)
        case SortedQuery():
            planned = _sliding(query, query.stream, query.window)
            kind = streams[query.stream].attributes[query.by]
            return RowPlan(query, "sorted", (planned,), _choose_ring("sorted", planned, rate, kind, query.using), owner)
        case JoinQuery():
            kinds = join_key_types(query, streams)
            kind = kinds[0] if len(kinds) == 1 else Type.STRING
            inputs = tuple(
                PlannedInput(side.stream, side.window, join_basic_windows(side.window, query.basic_windows))
                for side in (query.left, query.right)
            )
            larger = max(inputs, key=lambda planned: _numbers(planned, rate).basic_tuples * JOIN_BASIC_WINDOWS)
            choice = _choose_ring("join", larger, rate, kind, query.using)
            return RowPlan(query, "join", inputs, choice, owner)
        case SelectionQuery():
            return RowPlan(query, "selection", (PlannedInput(query.stream, None, None),), None, owner)
        case _:
            raise TypeError(f"unknown kind of row query: {query!r}")


def _sliding(query: RowQuery, stream: str, window: Window) -> PlannedInput:
    basic = BasicWindows.of(window)
    if query.basic_windows is not None:
        # That of an intersection is of its left window; both are cut alike.
        first = query.left.window if isinstance(query, IntersectionQuery) else window
        length = BasicWindows.of(first, query.basic_windows).length
        basic = BasicWindows.of(window, lengths_of(window)[0] // length)
    return PlannedInput(stream, window, replace(basic, every=basic.every * query.evaluation.every))


def _numbers(planned: PlannedInput, rate: float) -> ObservedWindow:
    assert planned.basic is not None
    assert planned.window is not None
    return assumed(planned.basic, planned.window, rate)


def _choose_set(
    query: str, inputs: Sequence[PlannedInput], rate: float, type: str, width: Width | None, using: Using | None
) -> IndexChoice:
    basics = [planned.basic for planned in inputs if planned.basic is not None]
    numbers = [_numbers(planned, rate) for planned in inputs]
    if width is not None:
        numbers = [ObservedWindow(each.basic_tuples, ASSUMED_RANGES, ASSUMED_RANGES) for each in numbers]
    return choose_set(query, basics, numbers, type, width, using)


def _choose_ring(query: str, planned: PlannedInput, rate: float, kind: Type, using: Using | None) -> IndexChoice:
    assert planned.basic is not None
    return choose_ring(query, planned.basic, _numbers(planned, rate), index_type(kind), using)
