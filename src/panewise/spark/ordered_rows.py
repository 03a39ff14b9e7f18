"""Positions on Spark: a bucket's share of the rows of a whole stream, each with its place in the stream.

The rows of a slot are in one bucket. How many rows each slot has goes to every bucket, from wherever events are read.
So once the watermark has passed a slot, every bucket knows by a sum how many rows come before it, and the bucket that
has its rows numbers them: only counts go everywhere. Rows of one time are ordered by their values.

When windows close, the buckets send what these cover to the places of their groups (`ordered_merge.py`). All buckets
have the same counts, so all of them send in the same batch. For queries over two windows see `ordered_pairs.py`.

Invariant: rows are held as long as a window to come may cover them, and so are the counts of their slots.
Cost: a batch costs its rows and its slots, and if windows close the rows that these cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.substream_reports import NUMBER
from panewise.engine.windowed.histogram import COUNT
from panewise.engine.windowed.positions import positions
from panewise.language.model import Query
from panewise.language.row_queries import SortedQuery, ValueQuery
from panewise.spark.buckets import places_of
from panewise.spark.tuple_bases import OrderBase
from panewise.windows.slots import lengths_of

Reporting = Query | ValueQuery | SortedQuery
"""A query over the rows of a whole stream."""

NEVER_US = -(2**63)


@dataclass(frozen=True)
class Sent:
    """Rows that windows cover, on their way to the place of their groups; or only the times of edges."""

    queries: tuple[str, ...]
    part: int
    rows: pa.RecordBatch
    bounds: tuple[int, ...]
    """How many rows were final when reports were made last, and how many are now; or what else the place must know."""
    is_edges: bool = False
    side: int = 0
    """Of a query over two windows: of which of them."""


@dataclass(frozen=True)
class Needed:
    """Which rows a window to come may cover: those from a position on, counted from 1, and those after a time."""

    from_number: int
    after_us: int | None = None

    def and_of(self, other: Needed) -> Needed:
        """What two queries need."""
        times = [each.after_us for each in (self, other) if each.after_us is not None]
        return Needed(min(self.from_number, other.from_number), min(times, default=None))


class OrderedRows:
    """The rows of one base in one bucket."""

    def __init__(self, base: OrderBase) -> None:
        self.base = base
        self.final = 0
        """How many rows of the stream, in all buckets, are final."""
        self.reported = 0
        """How many of them were when reports were made last."""
        self.final_us = NEVER_US
        """The time before which no row can come any more."""
        self.reported_us = NEVER_US
        """That time when reports were made last."""
        self._counts: dict[int, int] = {}
        """How many rows each slot has that is held or waits, by its beginning."""
        self._begins: dict[int, int] = {}
        """How many rows come before each slot that became final since the last reports."""
        self._held = self._with_positions(pa.Table.from_batches([], base.schema), np.empty(0, np.int64))

    def count(self, counts: pa.RecordBatch) -> None:
        """Take in how many rows came in some slots."""
        for start_us, rows in zip(self.base.times(counts).tolist(), counts.column(COUNT).to_pylist(), strict=True):
            self._counts[start_us] = self._counts.get(start_us, 0) + rows

    def take(self, fresh: pa.Table, final_us: int) -> None:
        """Give positions to rows of this bucket that are final, in order, now that all before a time are."""
        for start_us in sorted(start for start in self._counts if self.final_us <= start < final_us):
            self._begins[start_us] = self.final
            self.final += self._counts[start_us]
        self.final_us = final_us
        if not fresh.num_rows:
            return
        slots = np.asarray(fresh.column(self.base.stream.timestamp)) // self.base.slot_us
        different, which = np.unique(slots, return_inverse=True)
        starts = np.array([self._begins[slot * self.base.slot_us] for slot in different.tolist()], np.int64)
        places = starts[which] + positions(slots.astype(np.int64))
        self._held = pa.concat_tables([self._held, self._with_positions(fresh, places)]).combine_chunks()

    def align(self, final: int) -> None:
        """Go on from a log that has only the newest slots: `final` rows were final where it ends."""
        behind = final - self.final
        if behind:
            numbers = np.asarray(self._held.column(NUMBER)) + behind
            place = self._held.schema.get_field_index(NUMBER)
            self._held = self._held.set_column(place, NUMBER, pa.array(numbers))
            self.final = final

    def sent(self, queries: Iterable[Reporting], parts: int) -> Iterator[Sent]:
        """What the windows cover that are complete and not reported, for queries of one GROUP BY.

        The rows of a row query go to one place as a whole.
        """
        queries = list(queries)
        split_by = queries[0].group_by if isinstance(queries[0], Query) else ()
        ends = [np.arange(*self._due(*lengths_of(query.window))) for query in queries]
        lengths = [lengths_of(query.window)[0] for query in queries]
        some = [(each, length) for each, length in zip(ends, lengths, strict=True) if len(each)]
        if not some:
            return
        numbers = np.asarray(self._held.column(NUMBER))
        first = min(int(each[0]) - length for each, length in some)
        covered = self._held.filter(pa.array(numbers > first)).combine_chunks().to_batches()
        starts = [np.maximum(each - length, 0) + 1 for each, length in some]
        edges = np.unique(np.concatenate([*starts, *(each for each, _ in some)]))
        names, bounds = tuple(query.name for query in queries), (self.reported, self.final)
        for rows in covered:
            groups = [(rows.column(name), self.base.attributes[name]) for name in split_by]
            places = places_of(self.base.number, groups, rows.num_rows, parts)
            for part in np.unique(places).tolist():
                yield Sent(names, part, rows.filter(pa.array(places == part)), bounds)
        for part in range(parts if split_by else 1):
            for rows in self.at(edges):
                place = part if split_by else int(places_of(self.base.number, [], 1, parts)[0])
                yield Sent(names, place, rows, bounds, is_edges=True)

    def at(self, edges: Ints) -> list[pa.RecordBatch]:
        """The times of the rows at some positions, of those in this bucket."""
        rows = self._held.filter(pa.array(np.isin(np.asarray(self._held.column(NUMBER)), edges)))
        batches: list[pa.RecordBatch] = rows.select([self.base.stream.timestamp, NUMBER]).combine_chunks().to_batches()
        return batches

    def between(self, after: int, until: int) -> pa.Table:
        """The rows after one position and up to another."""
        numbers = np.asarray(self._held.column(NUMBER))
        return self._held.filter(pa.array((numbers > after) & (numbers <= until))).combine_chunks()

    def since(self, time_us: int) -> pa.Table:
        """The rows after a time."""
        return self._held.slice(int(np.searchsorted(self._times, time_us, side="right"))).combine_chunks()

    def before(self, times: Ints, *, inclusive: bool) -> Ints:
        """How many rows of the stream come before some times, in slots of this bucket that became final just now."""
        slot_us = self.base.slot_us
        starts = times // slot_us * slot_us
        slots = np.array(sorted(self._begins), np.int64)
        begins = np.array([*(self._begins[start] for start in slots.tolist()), self.final], np.int64)
        own = self._times
        in_slot = np.searchsorted(own, times, side="right" if inclusive else "left") - np.searchsorted(own, starts)
        found: Ints = begins[np.searchsorted(slots, starts)] + in_slot
        return found

    def settle(self, needed: Needed) -> None:
        """All windows so far are reported, and some rows are needed still."""
        self.reported, self.reported_us = self.final, self.final_us
        self._begins = {}
        keep = np.asarray(self._held.column(NUMBER)) >= needed.from_number
        if needed.after_us is not None:
            keep |= self._times > needed.after_us
        self._held = self._held.filter(pa.array(keep)).combine_chunks()
        oldest_us = self.oldest_us(needed)
        self._counts = {start: rows for start, rows in self._counts.items() if start >= oldest_us}

    def oldest_us(self, needed: Needed) -> int:
        """The beginning of the oldest slot that has a row which is needed."""
        first, oldest_us = self.final + 1, self.final_us
        for start_us in sorted((start for start in self._counts if start < self.final_us), reverse=True):
            is_in_time = needed.after_us is not None and start_us + self.base.slot_us > needed.after_us
            if first <= needed.from_number and not is_in_time:
                break
            first, oldest_us = first - self._counts[start_us], start_us
        return oldest_us

    @property
    def first_waiting_us(self) -> int | None:
        """The beginning of the first slot whose rows are not final; None if none wait."""
        return min((start for start in self._counts if start >= self.final_us), default=None)

    @property
    def rows_held(self) -> int:
        """How many rows have positions and are held."""
        return int(self._held.num_rows)

    def _due(self, length: int, slide: int) -> tuple[int, int, int]:
        """The positions at which windows end, as a range."""
        first = self.reported + 1 + (length - self.reported - 1) % slide
        return first, self.final + 1, slide

    @property
    def _times(self) -> Ints:
        return np.asarray(self._held.column(self.base.stream.timestamp))

    def _with_positions(self, rows: pa.Table, numbers: Ints) -> pa.Table:
        return rows.select(list(self.base.attributes)).append_column(NUMBER, pa.array(numbers, pa.int64()))


def needed_by(query: Reporting, ordered: OrderedRows) -> Needed:
    """What the windows of a query to come may cover."""
    return Needed(ordered.final + 2 - lengths_of(query.window)[0])
