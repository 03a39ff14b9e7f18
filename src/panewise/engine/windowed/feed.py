"""The feed: the events of one stream as row queries take them, final and in order.

Events wait until the watermark is past them; then their order, by time and ties by arrival, is final. Positions count
the final events since the feed was opened.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.event_log import EventLog, Retention
from panewise.engine.projection import holds
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.language.model import Stream


@dataclass(frozen=True)
class Events:
    """Some events of a stream: a table with its attributes, their times and, when they are final, their positions."""

    stream: Stream
    table: pa.Table
    positions: Ints

    @property
    def times_us(self) -> Ints:
        """The time of each."""
        return np.asarray(self.table.column(self.stream.timestamp))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def passing(self, where: Expression | None) -> Events:
        """The events for which a condition is true."""
        if where is None or not len(self):
            return self
        return self.filtered(holds(self.values(where)))

    def filtered(self, keep: npt.NDArray[np.bool_]) -> Events:
        """Some of the events."""
        return Events(self.stream, self.table.filter(pa.array(keep)), self.positions[keep])

    def values(self, expression: Expression) -> pa.Array:
        """The value of an expression for each event, timestamps as int64."""
        columns = {name: self.table.column(name) for name in self.stream.attributes}
        return evaluate(expression, columns, self.stream.attributes, length=len(self))


def queued(queue: pa.Table | None, tuples: pa.Table, clock: str, starts: int | None) -> pa.Table | None:
    """A queue with more tuples behind it; those whose place on the clock, a column, is before `starts` do not count."""
    if starts is not None:
        tuples = tuples.filter(pa.array(np.asarray(tuples.column(clock)) >= starts))
    if not tuples.num_rows:
        return queue
    return tuples if queue is None else pa.concat_tables([queue, tuples]).combine_chunks()


class Feed:
    """Events of one stream on their way to row queries. Cost: that of the event log, O(1) a batch and a sort a read."""

    def __init__(self, stream: Stream, starts_us: int | None = None) -> None:
        self.stream = stream
        self.log = EventLog(stream, starts_us=starts_us, complete_from_us=starts_us)
        self.watermark_us: int | None = None

    @property
    def final_count(self) -> int:
        """How many events are final."""
        return self.log.final_count

    def push(self, batch: pa.RecordBatch) -> None:
        """Take in events that are not late."""
        self.log.append(batch)

    def advance(self, watermark_us: int) -> Events:
        """Move the watermark, and return the events that became final."""
        first = self.log.final_count
        fresh = self.log.advance(watermark_us).combine_chunks()
        self.log.trim(Retention(), watermark_us)
        self.watermark_us = watermark_us
        return Events(self.stream, fresh, first + np.arange(fresh.num_rows))
