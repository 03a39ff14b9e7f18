"""Positions on Spark: a bucket's share of the rows of a whole stream, each with its place in the stream.

The rows of a slot are in one bucket. How many rows each slot has goes to every bucket, from wherever events are read.
So once the watermark has passed a slot, every bucket knows by a sum how many rows come before it, and the bucket that
has its rows numbers them: only counts go everywhere. Rows of one time are ordered by their values.

When windows close, the buckets send what these cover to the places of their groups (`ordered_merge.py`). All buckets
have the same counts, so all of them send in the same batch.

Invariant: rows are held as long as a window to come may cover them, and so are the counts of their slots.
Cost: a batch costs its rows and its slots, and if windows close the rows that these cover.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
    reported: int
    final: int
    is_edges: bool = False


class OrderedRows:
    """The rows of one base in one bucket."""

    def __init__(self, base: OrderBase) -> None:
        self._base = base
        self.final = 0
        """How many rows of the stream, in all buckets, are final."""
        self._reported = 0
        self._counts: dict[int, int] = {}
        """How many rows each slot has that is held or waits, by its beginning."""
        self._final_us = NEVER_US
        self._held = self._with_positions(pa.Table.from_batches([], base.schema), np.empty(0, np.int64))

    def count(self, counts: pa.RecordBatch) -> None:
        """Take in how many rows came in some slots."""
        for start_us, rows in zip(self._base.times(counts).tolist(), counts.column(COUNT).to_pylist(), strict=True):
            self._counts[start_us] = self._counts.get(start_us, 0) + rows

    def take(self, fresh: pa.Table, final_us: int) -> None:
        """Give positions to rows of this bucket that are final, in order, now that all before a time are."""
        begins: dict[int, int] = {}
        for start_us in sorted(start for start in self._counts if self._final_us <= start < final_us):
            begins[start_us] = self.final
            self.final += self._counts[start_us]
        self._final_us = final_us
        if not fresh.num_rows:
            return
        slots = np.asarray(fresh.column(self._base.stream.timestamp)) // self._base.slot_us
        different, which = np.unique(slots, return_inverse=True)
        starts = np.array([begins[slot * self._base.slot_us] for slot in different.tolist()], np.int64)
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
        at_edges = self._held.filter(pa.array(np.isin(numbers, edges)))
        names = tuple(query.name for query in queries)
        for rows in covered:
            groups = [(rows.column(name), self._base.attributes[name]) for name in split_by]
            places = places_of(self._base.number, groups, rows.num_rows, parts)
            for part in np.unique(places).tolist():
                mine = rows.filter(pa.array(places == part))
                yield Sent(names, part, mine, self._reported, self.final)
        times = at_edges.select([self._base.stream.timestamp, NUMBER]).combine_chunks().to_batches()
        for part in range(parts if split_by else 1):
            for rows in times:
                place = part if split_by else int(places_of(self._base.number, [], 1, parts)[0])
                yield Sent(names, place, rows, self._reported, self.final, is_edges=True)

    def settle(self, longest: int) -> None:
        """All windows so far are reported; the longest has so many rows."""
        self._reported = self.final
        numbers = np.asarray(self._held.column(NUMBER))
        self._held = self._held.filter(pa.array(numbers > self.final + 1 - longest)).combine_chunks()
        oldest_us = self.oldest_us(longest)
        self._counts = {start: rows for start, rows in self._counts.items() if start >= oldest_us}

    def oldest_us(self, longest: int) -> int:
        """The beginning of the oldest slot that has a row which a window to come may cover."""
        behind, oldest_us = 0, self._final_us
        for start_us in sorted((start for start in self._counts if start < self._final_us), reverse=True):
            if behind >= longest - 1:
                break
            behind, oldest_us = behind + self._counts[start_us], start_us
        return oldest_us

    @property
    def first_waiting_us(self) -> int | None:
        """The beginning of the first slot whose rows are not final; None if none wait."""
        return min((start for start in self._counts if start >= self._final_us), default=None)

    @property
    def rows_held(self) -> int:
        """How many rows have positions and are held."""
        return int(self._held.num_rows)

    def _due(self, length: int, slide: int) -> tuple[int, int, int]:
        """The positions at which windows end, as a range."""
        first = self._reported + 1 + (length - self._reported - 1) % slide
        return first, self.final + 1, slide

    def _with_positions(self, rows: pa.Table, numbers: Ints) -> pa.Table:
        return rows.select(list(self._base.attributes)).append_column(NUMBER, pa.array(numbers, pa.int64()))


def longest_of(queries: Mapping[str, Reporting]) -> int:
    """The rows of the longest window."""
    return max(lengths_of(query.window)[0] for query in queries.values())
