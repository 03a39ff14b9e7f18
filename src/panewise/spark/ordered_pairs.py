"""Queries over the rows of two streams: INTERSECT, UNION and EXCEPT, and joins, of windows that count rows.

The rows of both streams have positions as `ordered_rows.py` gives them. What then meets is split by value, or by the
key of the join: a place can answer for its values or keys, because what travels says where in its stream it was.

- Instance k of a comparison covers the positions from k * slide on, on both sides. The values that complete instances
  cover are sent, and to every place the times of the first and the last row of each.
- An event of a join looks back from itself. Both streams' rows of a slot are in one bucket and final together, so the
  bucket knows how many rows of the other stream come before each event. That is sent with it; and of the rows that came
  before, those that a fresh event may reach.

Invariant: rows are held from where the next instance begins; those of a join as far back as its window reaches.
Cost: a batch costs its rows, and what the windows cover that it closes; a join's windows once for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.columns import arrow_type
from panewise.engine.substream_reports import NUMBER
from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.histogram import VALUE
from panewise.language.model import Stream
from panewise.language.row_queries import IntersectionQuery, JoinQuery
from panewise.language.typecheck import type_of
from panewise.planning.windowed import join_key_types
from panewise.spark.ordered_rows import NEVER_US, Needed, OrderedRows, Sent
from panewise.spark.tuple_bases import ValueBase, places_of_keys
from panewise.spark.tuple_plan import keys_of, read_of
from panewise.windows import RowWindow, TimeWindow, Window
from panewise.windows.slots import lengths_of

BEFORE = "\0before"
"""The column that says how many rows of the other stream come before an event of a join; -1 for one that came earlier.
No attribute can have this name."""

PairedQuery = IntersectionQuery | JoinQuery
Sides = tuple[OrderedRows, OrderedRows]


@dataclass(frozen=True)
class Instances:
    """The instances of both windows of a comparison, counted from -k on: they begin at the same position."""

    slide: int
    lengths: tuple[int, int]

    @staticmethod
    def of(query: IntersectionQuery) -> Instances:
        """Those of a query."""
        (left, slide), (right, _) = (lengths_of(side.window) for side in (query.left, query.right))
        return Instances(slide, (left, right))

    def complete(self, counts: Sequence[int]) -> int:
        """Where the last windows begin that are complete when so many rows of each side are final."""
        return min(count - length for count, length in zip(counts, self.lengths))

    def next_after(self, counts: Sequence[int]) -> int:
        """The first instance that is not complete then."""
        return self.complete(counts) // self.slide + 1

    def edges(self, side: int, first: int, end: int) -> Ints:
        """The positions, counted from 1, of the first and the last rows of some instances on a side."""
        starts = np.arange(first, end) * self.slide
        ends = starts + self.lengths[side]
        # An instance that ends before the first row has none.
        starts, ends = starts[ends > 0], ends[ends > 0]
        return np.unique(np.concatenate([np.maximum(starts, 0) + 1, ends]))


def sent_of_two(query: PairedQuery, sides: Sides, streams: Mapping[str, Stream], parts: int) -> Iterator[Sent]:
    """What a query over two streams' rows needs of this bucket for its reports, to the places of values or keys."""
    if isinstance(query, IntersectionQuery):
        return _sent_values(query, sides, parts)
    return _sent_events(query, sides, streams, parts)


def needed_of_two(query: PairedQuery, place: int, sides: Sides) -> Needed:
    """Which rows of a side reports to come need."""
    if isinstance(query, IntersectionQuery):
        instances = Instances.of(query)
        return Needed(instances.next_after([side.final for side in sides]) * instances.slide + 1)
    return _reach((query.left, query.right)[place].window, sides[place].final, sides[place].final_us)


def _sent_values(query: IntersectionQuery, sides: Sides, parts: int) -> Iterator[Sent]:
    instances = Instances.of(query)
    first = instances.next_after([side.reported for side in sides])
    end = instances.next_after([side.final for side in sides])
    if first == end:
        return
    is_first = instances.complete([side.reported for side in sides]) == instances.complete((0, 0))
    for place, (ordered, bound) in enumerate(zip(sides, (query.left, query.right))):
        base, bounds = ordered.base, (first, end, int(is_first))
        until = (end - 1) * instances.slide + instances.lengths[place]
        rows = ordered.between(first * instances.slide, until)
        stream = base.as_stream
        events = Events(stream, rows, np.asarray(rows.column(NUMBER))).passing(bound.where)
        kind = type_of(bound.argument, base.stream.attributes)
        assert kind is not None  # the binder refuses NULL
        values = events.values(bound.argument).cast(arrow_type(kind))
        batch = pa.record_batch({VALUE: values, NUMBER: pa.array(events.positions)}).filter(values.is_valid())
        by_value = ValueBase(stream=base.stream, argument=bound.argument, width=query.width)
        for part, mine in _split(batch, by_value.places(batch, parts)):
            yield Sent((query.name,), part, mine, bounds, side=place)
        for times in ordered.at(instances.edges(place, first, end)):
            for part in range(parts):
                yield Sent((query.name,), part, times, bounds, is_edges=True, side=place)


def _sent_events(query: JoinQuery, sides: Sides, streams: Mapping[str, Stream], parts: int) -> Iterator[Sent]:
    has_fresh = [side.final > side.reported for side in sides]
    for place, (ordered, bound) in enumerate(zip(sides, (query.left, query.right))):
        other, stamp = sides[1 - place], ordered.base.stream.timestamp
        # At equal times the left side comes first.
        fresh = ordered.between(ordered.reported, ordered.final)
        before = other.before(np.asarray(fresh.column(stamp)), inclusive=place == 1)
        rows = [fresh.append_column(BEFORE, pa.array(before, pa.int64()))]
        if has_fresh[1 - place]:
            reach = _reach(bound.window, ordered.reported, ordered.reported_us)
            known = ordered.between(reach.from_number - 1, ordered.reported)
            if reach.after_us is not None:
                known = ordered.since(reach.after_us)
                known = known.filter(pa.array(np.asarray(known.column(NUMBER)) <= ordered.reported))
            rows.insert(0, known.append_column(BEFORE, pa.array(np.full(known.num_rows, -1))))
        by, read = keys_of(query, bound), read_of(query, bound)
        table = pa.concat_tables(rows)
        names = [name for name in ordered.base.attributes if name in read or name == stamp]
        for batch in table.select([*names, NUMBER, BEFORE]).combine_chunks().to_batches():
            for name in by:
                batch = batch.filter(batch.column(name).is_valid())
            keys = [batch.column(name) for name in by]
            places = places_of_keys(keys, join_key_types(query, streams), parts)
            for part, mine in _split(batch, places):
                yield Sent((query.name,), part, mine, (), side=place)


def _reach(window: Window, final: int, final_us: int) -> Needed:
    """Which rows of a side a window may reach from an event that comes after some rows, or at a time or later."""
    if isinstance(window, RowWindow):
        return Needed(final - window.left + 1)
    assert isinstance(window, TimeWindow)
    return Needed(final + 1, max(NEVER_US + window.left_us, final_us) - window.left_us)


def _split(batch: pa.RecordBatch, places: Ints) -> Iterator[tuple[int, pa.RecordBatch]]:
    for part in np.unique(places).tolist():
        yield part, batch.filter(pa.array(places == part))
