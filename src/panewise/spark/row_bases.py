"""Row bases: which rows of a stream lookups over ROWS need, and what keeps them together.

Partials of slots do not tell rows apart. So the rows themselves travel to the bucket of their key, with the attributes
that some query reads, and from there into the row log. A row base is a set of such queries whose rows lie together: its
`together_by` is part of every query's PARTITION BY. So all rows of a substream are in one bucket, and the bucket knows
which rows are a substream's last. The rows of windows without PARTITION BY are kept together by nothing: time spreads
them, and each bucket keeps as many last rows as the window has, so that all buckets together have those of the stream.

Spark has no order of arrival. Rows of equal time are ordered by their values: see `content_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panewise.engine.columns import arrow_type
from panewise.engine.content_order import content_order
from panewise.language.expressions import attributes_of
from panewise.language.model import Query, Stream
from panewise.planning.cost import Prices
from panewise.planning.structure_choice import Rates, choose_structure
from panewise.spark.packing import PackedPart, pack
from panewise.spark.slot_file import later
from panewise.windows import RowWindow

if TYPE_CHECKING:
    from panewise.spark.job import Job


@dataclass(frozen=True)
class RowBase:
    """Rows that some queries share.

    `stream` has the attributes of the rows and no others. A row is late if its slot of length `slot_us` is wholly
    behind the watermark. For each query: from when on it sees every row; None is the beginning of the stream.
    """

    number: int
    stream: Stream
    together_by: tuple[str, ...]
    slot_us: int
    queries: Mapping[str, Query]
    since_us: Mapping[str, int | None]

    @property
    def kept_rows(self) -> dict[tuple[str, ...], int]:
        """How many of the last rows of each substream lookups need, by the attributes that make the substreams."""
        kept: dict[tuple[str, ...], int] = {}
        for query in self.queries.values():
            key = _partition(query)
            kept[key] = max(kept.get(key, 0), window_of(query).left)
        return kept

    @property
    def identity(self) -> tuple[object, ...]:
        """What the written rows depend on."""
        return self.number, self.stream.name, tuple(self.stream.attributes), self.together_by, self.slot_us

    @property
    def attributes(self) -> list[str]:
        """The attributes of the rows besides their time."""
        return [name for name in self.stream.attributes if name != self.stream.timestamp]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return pa.schema([(name, arrow_type(kind)) for name, kind in self.stream.attributes.items()])

    def final_us(self, watermark_us: int) -> int:
        """The time before which no row can come any more, at a watermark."""
        return watermark_us // self.slot_us * self.slot_us

    def with_query(self, query: Query, since_us: int | None) -> RowBase:
        """The row base with one more query."""
        return replace(
            self, queries={**self.queries, query.name: query}, since_us={**self.since_us, query.name: since_us}
        )

    def without(self, names: Iterable[str]) -> RowBase:
        """The row base without some queries."""
        gone = set(names)
        return replace(
            self,
            queries={name: query for name, query in self.queries.items() if name not in gone},
            since_us={name: since for name, since in self.since_us.items() if name not in gone},
        )

    def can_serve(self, query: Query) -> bool:
        """Whether its rows have what a query reads, and lie together for it."""
        return (
            query.stream == self.stream.name
            and _fits(self.together_by, _partition(query))
            and set(needed_by(query)) <= self.stream.attributes.keys()
        )

    def starts_us(self, query: Query, watermark_us: int | None) -> int | None:
        """From when on a query that comes at a watermark sees every row; None if from the beginning.

        If the same substreams are held as far back for another query, it sees what that one sees. Else it sees the rows
        from the watermark on, all of which are still there.
        """
        known = {
            name: since_us
            for name, since_us in self.since_us.items()
            if _partition(self.queries[name]) == _partition(query)
            and window_of(self.queries[name]).left >= window_of(query).left
        }
        held_us = _earliest((known or self.since_us).values())
        return held_us if known else later([held_us, watermark_us])

    def in_order(self, rows: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Rows of several batches in order."""
        table = pa.Table.from_batches(rows, self.schema).combine_chunks()
        return _one_batch(table.take(content_order(self.stream, table)))

    def arrived(self, parts: Iterable[PackedPart], watermark_us: int | None) -> tuple[pa.RecordBatch, int]:
        """The rows of a batch that are on time, in order, and how many are not."""
        rows = self.in_order([part.partials for part in parts])
        if watermark_us is None:
            return rows, 0
        timely = np.asarray(rows.column(self.stream.timestamp)) >= self.final_us(watermark_us)
        return rows.filter(pa.array(timely)), int(np.count_nonzero(~timely))

    def needed(self, rows: pa.RecordBatch, final_us: int) -> pa.RecordBatch:
        """Rows in order. Of those before a time, only the last of each substream stay."""
        from panewise.engine.tables import KeyTable  # Imported here: it loads kernels, which most batches do not need.

        times = np.asarray(rows.column(self.stream.timestamp))
        count = int(np.searchsorted(times, final_us))
        keep = np.arange(len(times)) >= count
        for attributes, most in self.kept_rows.items():
            kinds = [self.stream.attributes[name] for name in attributes]
            keys = KeyTable(kinds).ids([rows.column(name).slice(0, count) for name in attributes], count)
            order = np.argsort(keys, kind="stable")
            ends = np.searchsorted(keys[order], keys[order], side="right")
            keep[order[ends - np.arange(count) <= most]] = True
        return rows.filter(pa.array(keep))

    def part(self, rows: pa.RecordBatch) -> PackedPart:
        """Rows as a part of an entry."""
        return PackedPart(self.number, pack(rows), rows)


def plan_row_bases(
    stream: Stream, queries: Sequence[Query], slot_us: int, first: int, since_us: int | None = None
) -> list[RowBase]:
    """The row bases of a stream's lookups over ROWS, numbered from `first` on.

    Bases with the fewest attributes come first, so that PARTITION BY a, b can use the base of PARTITION BY a.
    """
    bases: list[list[Query]] = []
    for query in sorted(queries, key=lambda query: (len(_partition(query)), _partition(query))):
        home = next((some for some in bases if _fits(_partition(some[0]), _partition(query))), None)
        if home is None:
            bases.append([query])
        else:
            home.append(query)
    return [_row_base(stream, some, slot_us, first + place, since_us) for place, some in enumerate(bases)]


def check_structure(stream: Stream, query: Query, prices: Prices) -> None:
    """Raise if a query names a structure that cannot answer it, before anything runs."""
    choose_structure(stream, query, Rates.assumed(prices.rate, prices.groups_of(query.group_by)))


def arrived_rows(
    job: Job, parts: Sequence[PackedPart], watermark_us: int | None
) -> tuple[dict[int, pa.RecordBatch], int]:
    """The rows of a batch that are on time, by base, and the late events that nothing else counts."""
    found: dict[int, pa.RecordBatch] = {}
    late_events = 0
    for base in job.row_bases.values():
        mine = [part for part in parts if part.base == base.number]
        if mine:
            rows, late = base.arrived(mine, watermark_us)
            late_events += late if base.number in job.counting_bases else 0
            if rows.num_rows:
                found[base.number] = rows
    return found, late_events


def is_over_rows(query: Query) -> bool:
    """Whether a query is answered by lookups over rows."""
    return isinstance(query.window, RowWindow) and not query.window.is_sliding


def window_of(query: Query) -> RowWindow:
    """The window of a query over rows."""
    assert isinstance(query.window, RowWindow)
    return query.window


def needed_by(query: Query) -> list[str]:
    """The attributes of a row that a query reads, besides its time."""
    expressions = (query.where, *(call.argument for call in query.aggregates))
    read = [name for expression in expressions for name in attributes_of(expression)]
    return list(dict.fromkeys([*window_of(query).partition_by, *query.group_by, *read]))


def _fits(together_by: tuple[str, ...], partition: tuple[str, ...]) -> bool:
    """Whether rows that lie together by some attributes do so for a query; those of a whole stream are apart."""
    return set(together_by) <= set(partition) and bool(together_by) == bool(partition)


def _partition(query: Query) -> tuple[str, ...]:
    return tuple(sorted(set(window_of(query).partition_by)))


def _earliest(times_us: Iterable[int | None]) -> int | None:
    times = list(times_us)
    return None if None in times else min(time_us for time_us in times if time_us is not None)


def _row_base(stream: Stream, queries: Sequence[Query], slot_us: int, number: int, since_us: int | None) -> RowBase:
    needed = {stream.timestamp, *(name for query in queries for name in needed_by(query))}
    attributes = {name: kind for name, kind in stream.attributes.items() if name in needed}
    return RowBase(
        number,
        replace(stream, attributes=attributes),
        _partition(queries[0]),
        slot_us,
        {query.name: query for query in queries},
        dict.fromkeys((query.name for query in queries), since_us),
    )


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
