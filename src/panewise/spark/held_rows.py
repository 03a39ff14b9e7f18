"""Row queries with INTO on Spark: what lookups need of their tuples, and the window that a lookup client holds.

The rows of such a query go to no table. Its tuples pass through the buckets into the row log, and leave no state in
the stream. A lookup client answers the query from them with the engine's operators, up to its watermark, and holds the
rows that lie in the window of INTO.

Invariant: the log has every tuple that a row in the window of INTO is made of, at its watermark and later.
Cost: a tuple is written once, and once more for each doubling of its file; a client computes each row once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.engine.wide_tables import Closed
from panewise.engine.windowed.output import QueryRows, schema_of
from panewise.errors import HistoryError
from panewise.language.row_queries import RowQuery, SelectionQuery
from panewise.spark.packing import PackedPart, pack
from panewise.spark.row_merges import merge_of
from panewise.spark.slot_file import later
from panewise.spark.tuple_bases import PassBase, TupleBase
from panewise.spark.tuple_bucket import TupleBucket, arrived_tuples, public_rows
from panewise.spark.tuple_plan import TuplePlan
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.clock import END_OF_STREAM, show_time

if TYPE_CHECKING:
    from panewise.spark.job import Job

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class HeldBase:
    """The tuples of a base in the row log: those of some time behind the watermark, and some last rows."""

    base: TupleBase
    reach_us: int
    """How long behind the watermark the oldest tuple lies that some row in a window of INTO is made of."""
    last_rows: int
    """How many of the last rows a window of INTO has that counts rows; 0 if none does."""

    @property
    def number(self) -> int:
        """The number of the base."""
        return self.base.number

    def final_us(self, watermark_us: int) -> int:
        """The time before which no tuple can come any more, at a watermark."""
        final_us: int = self.base.final_us(watermark_us)
        return final_us

    def in_order(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Tuples of several batches, by time."""
        table = pa.Table.from_batches(parts).combine_chunks()
        (rows,) = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return rows.take(pa.array(np.argsort(self.base.times(rows), kind="stable")))

    def part(self, tuples: pa.RecordBatch) -> PackedPart:
        """Tuples as a part of an entry."""
        return PackedPart(self.number, pack(tuples), tuples)

    def needed(self, tuples: pa.RecordBatch, final_us: int) -> pa.RecordBatch:
        """Of tuples by time, those that lookups at a watermark or later may need."""
        times = self.base.times(tuples)
        begin = int(np.searchsorted(times, final_us - self.reach_us - self.base.slot_us))
        if self.last_rows:
            before = int(np.searchsorted(times, final_us))
            # All rows of one time, as these are ordered by their values.
            first = int(np.searchsorted(times, times[max(0, before - self.last_rows)])) if before else 0
            begin = min(begin, first)
        return tuples.slice(begin)


def held_bases(plan: TuplePlan) -> dict[int, HeldBase]:
    """What is held of the bases of queries with INTO."""
    found = {}
    for number, base in plan.bases.items():
        windows = [plan.queries[name].into for name, numbers in plan.reads.items() if number in numbers]
        reach_us = max((window.left_us for window in windows if isinstance(window, TimeWindow)), default=0)
        rows = max((window.left for window in windows if isinstance(window, RowWindow)), default=0)
        found[number] = HeldBase(base, base.kept_us + reach_us, rows)
    return found


def arrived_held(
    job: Job, parts: Iterable[PackedPart], watermark_us: int | None
) -> tuple[dict[int, pa.RecordBatch], int]:
    """The tuples of a batch that lookups need, by base, and the late events that nothing else counts."""
    arrived = arrived_tuples(job.held, parts, watermark_us, job.counting_bases, passes=False)
    by_base: dict[int, list[pa.RecordBatch]] = {}
    for part in arrived.kept:
        by_base.setdefault(part.base, []).append(part.partials)
    bases = job.held_bases
    return {number: bases[number].in_order(some) for number, some in by_base.items()}, arrived.late_events


class HeldRows:
    """The rows of all queries with INTO, as a lookup client holds them."""

    def __init__(self, job: Job) -> None:
        self._plan = job.held
        self._is_batch = job.is_batch
        self._bucket = TupleBucket(job.held, 1, adapts=False)
        streams = job.workload.streams
        self._outputs = {name: QueryRows(query, schema_of(query, streams)) for name, query in job.held.queries.items()}
        self._newest_us: dict[str, int] = {}
        """Of a batch job, the newest event of each stream."""
        self._watermark_us: int | None = None
        self.holds_from_us: int | None = None

    @property
    def queries(self) -> list[str]:
        """The names of the queries."""
        return [*self._outputs]

    @property
    def rows(self) -> int:
        """How many tuples wait, and how many rows are held."""
        held: int = sum(output.table.num_rows for output in self._outputs.values())
        return self._bucket.live_rows + held

    @property
    def bytes_held(self) -> int:
        """The memory of the rows, without that of tuples and indexes."""
        return sum(int(output.table.nbytes) for output in self._outputs.values())

    def take(self, part: PackedPart) -> None:
        """Take in tuples; those of a selection are rows already."""
        base = self._plan.bases[part.base]
        if isinstance(base, PassBase):
            self._outputs[base.query.name].add_table(pa.Table.from_batches([public_rows(base, part.partials)]))
        else:
            self._bucket.append([part])

    def note_newest(self, newest_us: Mapping[int, int]) -> None:
        """Of a batch job: the newest event of the streams, by a base of each."""
        for number, time_us in newest_us.items():
            if number in self._plan.bases:
                name = self._plan.bases[number].stream.name
                self._newest_us[name] = max(time_us, self._newest_us.get(name, time_us))

    def settle(self, watermark_us: int | None) -> None:
        """Answer what is complete up to a watermark; of a batch job, everything."""
        self._watermark_us = later([self._watermark_us, watermark_us])
        until_us = END_OF_STREAM if self._is_batch else self._watermark_us
        if until_us is None:
            return
        found: dict[str, list[pa.RecordBatch]] = {}
        for closed in self._bucket.closing(until_us):
            assert not isinstance(closed, Closed), "no aggregates are held"
            found.setdefault(closed.table, []).append(closed.rows)
        for name, batches in found.items():
            rows = pa.Table.from_batches(batches)
            merge = merge_of(self._plan, name)
            self._outputs[name].add_table(rows if merge is None else merge.merged(rows))
        for output in self._outputs.values():
            # Rows that have left the window go.
            now_us = self._now_us(output.query)
            if now_us is not None and isinstance(output.query.into, TimeWindow):
                output.window(now_us)

    def lookup(self, name: str) -> pa.Table:
        """The rows of a query in the window of INTO, at the watermark."""
        output = self._outputs[name]
        now_us = self._now_us(output.query)
        if now_us is None:
            return output.schema.empty_table()
        read_us = self._watermark_us
        if self.holds_from_us is not None and read_us is not None and read_us < self.holds_from_us:
            raise HistoryError(
                f"query {name}: its rows are held from {show_time(self.holds_from_us)} on, and the watermark that was "
                f"read is {show_time(read_us)}; look it up again once the job's next batch is done"
            )
        if isinstance(output.query.into, RowWindow):
            rows = output.table
            rows = rows.filter(pa.array(np.asarray(rows.column("time").cast(pa.int64())) <= now_us))
            rows = rows.sort_by([(column, "ascending") for column in dict.fromkeys(["time", *rows.column_names])])
            return rows.slice(max(0, rows.num_rows - output.query.into.left))
        return output.window(now_us)

    def _now_us(self, query: RowQuery) -> int | None:
        """The time up to which the rows of a query are whole."""
        if self._is_batch:
            return max((self._newest_us[name] for name in query.streams if name in self._newest_us), default=None)
        if self._watermark_us is None or not isinstance(query, SelectionQuery):
            return self._watermark_us
        # An event at the watermark is not late.
        return self._watermark_us - 1
