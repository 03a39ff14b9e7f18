"""Merging the rows of one window from all buckets: the top k of top ks, and the first rows of first rows.

All buckets see the same watermark in a batch, so their rows of a window are there in the same batch: merging keeps no
state. Rows are brought together by the part that their window belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.columns import arrow_type
from panewise.engine.windowed.grouped_values import in_groups
from panewise.engine.windowed.output import schema_of, typed
from panewise.engine.windowed.positions import positions
from panewise.errors import TooManyRowsError
from panewise.language.evaluate import evaluate
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import SortedQuery, TopKQuery
from panewise.spark.packing import unpack
from panewise.spark.row_order import in_order
from panewise.spark.tuple_bases import HeadBase
from panewise.windows.clock import show_time

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TopKMerge:
    """The most frequent values of each window, of those that are most frequent in some bucket."""

    query: TopKQuery
    stream: Stream

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return schema_of(self.query, {self.stream.name: self.stream})

    def merged(self, rows: pa.Table) -> pa.Table:
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

    def merged(self, rows: pa.Table) -> pa.Table:
        """The rows of some windows, which are here as a whole."""
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
        self._check_bound(ends[order], positions(ends[order]))
        places = positions(groups[order])
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
        return pa.Table.from_arrays([typed(found[field.name], field.type) for field in self.schema], schema=self.schema)

    def _check_bound(self, ends: Ints, places: Ints) -> None:
        if self.most_rows is not None and len(places) and int(places.max()) > self.most_rows:
            worst = int(np.argmax(places))
            raise TooManyRowsError(
                f"query {self.query.name}: the window that ends at {show_time(int(ends[worst]))} has "
                f"{int(places[worst]):,} rows, and most_rows allows {self.most_rows:,}; write LIMIT, or give a greater "
                f"most_rows"
            )


Merge = TopKMerge | SortedMerge


def merge_partitions(merge: Merge) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of packed rows, which has its windows as a whole."""

    def merge_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        by_part: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            for part, content in zip(batch.column("part").to_pylist(), batch.column("content")):
                by_part.setdefault(part, []).append(unpack(content.as_buffer()))
        for some in by_part.values():
            yield from merge.merged(pa.Table.from_batches(some).combine_chunks()).to_batches()

    return merge_rows


def _ends(rows: pa.Table) -> Ints:
    return np.asarray(rows.column("window_end").cast(pa.int64()))
