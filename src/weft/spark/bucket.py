"""A bucket: the trees' stores for one share of the keys, and what a batch does to them.

It knows nothing of Spark. The stateful processor feeds it packed partials and a watermark; a batch job feeds it the
whole history and the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.components import Component, Kind
from weft.engine.answers import to_batches
from weft.engine.generation import TreeState, time_answers
from weft.spark.job import Job
from weft.spark.packing import pack_batch, unpack_batch
from weft.windows.clock import END_OF_STREAM
from weft.windows.slots import lengths_of

_ROWS = Component(Kind.ROWS).column_names()[0]


class Bucket:
    """The state of one bucket in a worker's memory."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trees: dict[int, TreeState] = {}
        self.closed_us: int | None = None
        """Windows that end up to here have been answered."""

    def append(self, parts: Iterable[tuple[int, bytes]]) -> None:
        """Take in packed partials, by tree."""
        for number, content in parts:
            if number not in self._trees:
                plan, tree = self._job.trees[number]
                self._trees[number] = TreeState(plan, tree, None)
            self._trees[number].store.append(unpack_batch(content, self._job.schemas[number]))

    def on_time(
        self, parts: Iterable[tuple[int, bytes]], watermark_us: int | None
    ) -> tuple[list[tuple[int, bytes]], int]:
        """The partials whose slot is not wholly behind the watermark, and the number of events dropped.

        A slot that is only partly behind belongs to no window that is closed, so its events still count.
        """
        if watermark_us is None:
            return list(parts), 0
        kept, late = [], 0
        for number, content in parts:
            granularity = self._job.trees[number][1].granularity
            partials = unpack_batch(content, self._job.schemas[number])
            timely = (np.asarray(partials.column("slot")) + 1) * granularity > watermark_us
            if timely.all():
                kept.append((number, content))
                continue
            if number in self._job.counting_trees:
                late += int(np.asarray(partials.column(_ROWS))[~timely].sum())
            if timely.any():
                kept.append((number, pack_batch(partials.filter(pa.array(timely)))))
        return kept, late

    def close(self, watermark_us: int) -> Iterator[pa.RecordBatch]:
        """The answers of the windows that the watermark closes, dictionary-encoded; what is no longer needed leaves."""
        if self.closed_us is not None and watermark_us <= self.closed_us:
            return
        answers = [
            answer for state in self._trees.values() for answer in time_answers(state, self.closed_us, watermark_us)
        ]
        yield from to_batches(answers, self._job.answers_schema)
        if watermark_us != END_OF_STREAM:
            for state in self._trees.values():
                state.evict(watermark_us)
        self.closed_us = watermark_us

    def expires_us(self, parts: Iterable[tuple[int, bytes]]) -> int:
        """When the last window that covers some of these partials closes."""
        ends = [-(2**63)]
        for number, content in parts:
            tree = self._job.trees[number][1]
            partials = unpack_batch(content, self._job.schemas[number])
            newest = pc.max(partials.column("slot")).as_py()
            if newest is None:
                continue
            longest = max(lengths_of(window)[0] for window in tree.windows)
            ends.append(newest * tree.granularity + longest)
        return max(ends)

    def next_end_us(self) -> int | None:
        """The next end of a window of some tree that holds partials; None when nothing is held."""
        ends = []
        for state in self._trees.values():
            if not state.store.live_rows:
                continue
            for window in state.tree.windows:
                length, slide = lengths_of(window)
                if self.closed_us is None:
                    return -(2**63)
                ends.append(((self.closed_us - length) // slide + 1) * slide + length)
        return min(ends, default=None)
