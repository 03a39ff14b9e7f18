"""A bucket: the trees' stores for one share of the keys, and what a batch does to them.

It knows nothing of Spark. The stateful processor feeds it packed partials and a watermark; a batch job feeds it the
whole history and the end of the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from weft.aggregates.components import Component, Kind
from weft.engine.answers import to_batches
from weft.engine.generation import TreeState, time_answers
from weft.spark.job import Job
from weft.spark.packing import Part, pack
from weft.windows.clock import END_OF_STREAM
from weft.windows.slots import lengths_of

_ROWS = Component(Kind.ROWS).column_names()[0]


class Bucket:
    """The state of one bucket in a worker's memory."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._trees: dict[int, TreeState] = {}
        self.closed_us: int | None = None
        """Windows that end up to here have been answered, here or elsewhere; what they needed may still be held."""

    @property
    def work(self) -> tuple[int, int]:
        """How many partials were fed to trees so far, and how many fragments and answers were folded."""
        stores = [state.store for state in self._trees.values()]
        return sum(store.fed for store in stores), sum(store.folded for store in stores)

    def append(self, parts: Iterable[Part]) -> None:
        """Take in partials: each feeds all trees of its base."""
        for part in parts:
            fed = self._job.bases[part.base]
            for tree in fed.trees:
                if tree.number not in self._trees:
                    self._trees[tree.number] = TreeState(fed.plan, tree, None)
                self._trees[tree.number].store.append(part.partials)

    def on_time(self, parts: Iterable[Part], watermark_us: int | None) -> tuple[list[Part], int]:
        """The partials whose slot is not wholly behind the watermark, and the number of events dropped.

        A slot that is only partly behind belongs to no window that is closed, so its events still count.
        """
        if watermark_us is None:
            return list(parts), 0
        kept, late = [], 0
        for part in parts:
            granularity = self._job.bases[part.base].base.granularity
            timely = (np.asarray(part.partials.column("slot")) + 1) * granularity > watermark_us
            if timely.all():
                kept.append(part)
                continue
            if part.base in self._job.counting_bases:
                late += int(np.asarray(part.partials.column(_ROWS))[~timely].sum())
            if timely.any():
                partials = part.partials.filter(pa.array(timely))
                kept.append(Part(part.base, pack(partials), partials))
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

    def expires_us(self, parts: Iterable[Part]) -> int:
        """When the last window that covers some of these partials closes."""
        ends = []
        for part in parts:
            fed = self._job.bases[part.base]
            newest = int(np.asarray(part.partials.column("slot")).max())
            ends.append(newest * fed.base.granularity + fed.longest)
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
