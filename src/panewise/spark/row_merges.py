"""Merging the rows of one window from all buckets: the top k of top ks, and the first rows of first rows.

All buckets see the same watermark in a batch, so their rows of a window are there in the same batch: merging keeps no
state. Rows are brought together by the part that their window belongs to.
"""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.columns import arrow_type
from panewise.engine.windowed.grouped_values import in_groups
from panewise.engine.windowed.output import schema_of, typed
from panewise.engine.windowed.positions import positions
from panewise.errors import TooManyRowsError
from panewise.language.evaluate import evaluate
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import EVERY, SortedQuery, TopKQuery
from panewise.spark.ordered_merge import (
    Ordered,
    OrderedComparison,
    OrderedJoin,
    OrderedMerge,
    OrderedRowQuery,
    sent_for,
)
from panewise.spark.packing import unpack
from panewise.spark.row_order import in_order
from panewise.spark.tuple_bases import HeadBase
from panewise.spark.tuple_plan import LATER_ROWS, TuplePlan
from panewise.spark.value_ranges import BEFORE, TOTAL
from panewise.windows.clock import show_time


@dataclass(frozen=True)
class TopKMerge:
    """The most frequent values of each window, of those that are most frequent in some bucket."""

    query: TopKQuery
    stream: Stream

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {self.stream.name: self.stream})

    def merged(self, rows: pa.Table, before: Sequence[pa.RecordBatch] = ()) -> pa.Table:
        """The rows of some windows, which are here as a whole."""
        # Each value is in one bucket, so its count is the whole count.
        columns = {name: rows.column(name).combine_chunks() for name in rows.column_names}
        groups = [columns[name] for name in ("window_end", *self.query.group_by)]
        order, ranks = in_groups(groups, [(columns["count"], "descending"), (columns["value"], "ascending")])
        rows = rows.take(order)
        rows = rows.set_column(rows.schema.get_field_index("rank"), "rank", pa.array(ranks))
        return rows.filter(pa.array(ranks <= self.query.k)).cast(self.schema)


@dataclass(frozen=True)
class SortedMerge:
    """The rows of each window in order, and what the query shows of them."""

    query: SortedQuery
    base: HeadBase
    most_rows: int | None
    """The most rows that a window may have, if the query has no LIMIT."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {self.base.stream.name: self.base.stream})

    def merged(self, rows: pa.Table, before: Sequence[pa.RecordBatch] = ()) -> pa.Table:
        """The rows of some windows: all of them, or a range, with how many each bucket has before it."""
        attributes = self.base.attributes
        read = pa.table(
            {
                name: rows.column(str(place)).cast(arrow_type(kind)).combine_chunks()
                for place, (name, kind) in enumerate(attributes.items())
            }
        )
        ends = _ends(rows)
        groups = self.base.groups(read, ends)
        order = in_order(read, self.base.as_stream, self.base.by, groups, descending=self.base.descending)
        first, total = _before(ends[order], before)
        self._check_bound(ends[order], np.maximum(positions(ends[order]), total))
        places = positions(groups[order]) + first
        if self.query.limit is not None:
            order, places = order[places <= self.query.limit], places[places <= self.query.limit]
        taken = read.take(pa.array(order))
        columns = {name: taken.column(name).combine_chunks() for name in attributes}
        shown = {
            label_of(column): evaluate(column.expression, columns, attributes, length=len(order))
            for column in self.query.columns
        }
        windows = rows.select(["window_start", "window_end"]).take(pa.array(order))
        found = {name: windows.column(name) for name in windows.column_names} | {"position": places} | shown
        if EVERY in rows.column_names:
            found[EVERY] = rows.column(EVERY).take(pa.array(order))
        return pa.Table.from_arrays([typed(found[field.name], field.type) for field in self.schema], schema=self.schema)

    def _check_bound(self, ends: Ints, places: Ints) -> None:
        if self.most_rows is not None and len(places) and int(places.max()) > self.most_rows:
            worst = int(np.argmax(places))
            raise TooManyRowsError(
                f"query {self.query.name}: the window that ends at {show_time(int(ends[worst]))} has "
                f"{int(places[worst]):,} rows, and most_rows allows {self.most_rows:,}; write LIMIT, or give a greater "
                f"most_rows"
            )


@dataclass(frozen=True)
class LaterRows:
    """The rows of queries that came while the job ran. Nobody knew their columns before, so a row is a text."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return pa.schema([pa.field("query", pa.string(), nullable=False), pa.field("row", pa.string(), nullable=False)])

    def merged(self, rows: pa.Table, before: Sequence[pa.RecordBatch] = ()) -> pa.Table:
        """The rows of one query, with those of each window merged where they must be."""
        told = rows.schema.metadata
        if told[_MERGE]:
            merge: TopKMerge | SortedMerge = pickle.loads(told[_MERGE])
            rows = merge.merged(rows.replace_schema_metadata(None), before)
        texts = [json.dumps({name: _as_json(value) for name, value in row.items()}) for row in rows.to_pylist()]
        return pa.table([pa.array([told[_QUERY].decode()] * len(texts), pa.string()), texts], schema=self.schema)


Merge = TopKMerge | SortedMerge | LaterRows

_BEFORE = b"before"
"""What says that a batch counts what comes before rows."""

_QUERY, _MERGE = b"query", b"merge"
"""What rows of a later query say of themselves: its name, and how they are merged, pickled by a worker of the job."""


def merge_of(plan: TuplePlan, name: str) -> TopKMerge | SortedMerge | None:
    """How the rows of a query's windows are merged from all buckets; None if they need not be."""
    query = plan.queries[name]
    if not isinstance(query, TopKQuery | SortedQuery):
        return None
    base = plan.bases[plan.reads[name][0]]
    if isinstance(query, TopKQuery):
        return TopKMerge(query, base.stream)
    assert isinstance(base, HeadBase)
    return SortedMerge(query, base, None if query.limit is not None else plan.most_rows)


def merges_of(plan: TuplePlan, *, is_live: bool) -> dict[str, Merge]:
    """The same for each table whose rows are merged."""
    found: dict[str, Merge] = {LATER_ROWS: LaterRows()} if is_live else {}
    by_time = [name for name in plan.tables if name in plan.over_tuples]
    found |= {name: merge for name in by_time if (merge := merge_of(plan, name)) is not None}
    return found


def for_later(plan: TuplePlan, name: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of a query that came while the job ran, as `LaterRows` takes them."""
    merge = merge_of(plan, name)
    told = {_QUERY: name.encode(), _MERGE: b"" if merge is None else pickle.dumps(merge)}
    return rows.replace_schema_metadata({**(rows.schema.metadata or {}), **told})


def as_before(counts: pa.RecordBatch) -> pa.RecordBatch:
    """How many rows come before those of a place, marked as what they are."""
    return counts.replace_schema_metadata({_BEFORE: b""})


def is_before(rows: pa.RecordBatch) -> bool:
    """Whether it is no rows, but how many come before them."""
    return _BEFORE in (rows.schema.metadata or {})


def _before(ends: Ints, counts: Sequence[pa.RecordBatch]) -> tuple[Ints, Ints]:
    """For each row, how many rows of its window come before all that are here, and how many the window has."""
    if not counts:
        return np.zeros(len(ends), np.int64), np.zeros(len(ends), np.int64)
    table = pa.Table.from_batches([batch.replace_schema_metadata(None) for batch in counts])
    windows, which = np.unique(np.asarray(table.column("window_end")), return_inverse=True)
    place = np.searchsorted(windows, ends)
    found = []
    for name in (BEFORE, TOTAL):
        sums = np.zeros(len(windows), np.int64)
        np.add.at(sums, which, np.asarray(table.column(name)))
        found.append(sums[place])
    return found[0], found[1]


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


AnyMerge = Merge | OrderedMerge | Ordered


def merge_partitions(merge: AnyMerge) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of packed rows, which has its windows as a whole."""

    def merge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_part: dict[tuple[int, bytes], list[pa.RecordBatch]] = {}
        for batch in batches:
            for part, content in zip(batch.column("part").to_pylist(), batch.column("content")):
                rows = unpack(content.as_buffer())
                query = sent_for(rows) or (rows.schema.metadata or {}).get(_QUERY, b"")
                if isinstance(merge, OrderedMerge) and not query:
                    yield rows.cast(merge.schema)
                    continue
                by_part.setdefault((part, query), []).append(rows)
        for some in by_part.values():
            if isinstance(merge, OrderedMerge | OrderedRowQuery | OrderedComparison | OrderedJoin):
                yield from merge.answers(some)
                continue
            before = [batch for batch in some if is_before(batch)]
            rows = [batch for batch in some if not is_before(batch)]
            if rows:
                whole = pa.Table.from_batches(rows, rows[0].schema).combine_chunks()
                yield from merge.merged(whole, before).to_batches()

    return merge_rows


def _ends(rows: pa.Table) -> Ints:
    return np.asarray(rows.column("window_end").cast(pa.int64()))
