"""CI-MAX and CI-MIN (named in Sharing, section 4): the keys by the greatest or least of their values in a window.

Invariant: each event is in one block of each size; its key has one entry there, its greatest value in the block.
Cost: update O(log events) entries, each O(log keys); lookup O(log events) blocks and, in each, its keys that pass;
downwards, the keys with an event in the window. Answers are exact.
Space: 20 bytes per event of the log, and 12 for each key in each block.

The paper only names these two. One could cut the staircases of all keys into rectangles in a segment tree: a lookup
would visit each key once, where this visits it once a block at worst. But blocks never delete, need no staircase, and
their steps are short. For the least value, the order of values is reversed and the greatest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.kernels import collective_extremes as kernel
from panewise.kernels import key_events as rings
from panewise.kernels.collective_extremes import Blocks
from panewise.kernels.segments import HEAP_OFFSET, no_segments
from panewise.substreams.filter import Numbers, Outcome, Steps, lengthened
from panewise.substreams.sheet import Cost, FilterSheet, log2
from panewise.substreams.values import ValueFilter

FIRST_LOG_SIZE = 10


def _sheet(name: str, title: str, kind: Kind) -> FilterSheet:
    return FilterSheet(
        name=name,
        title=title,
        source="Sharing, 4 (named)",
        kinds=frozenset({kind}),
        takes_doubles=True,
        takes_any_sign=True,
        has_error=False,
        update=Cost("log(events) log(keys)", lambda s: log2(s.events) / 2 * log2(s.keys)),
        lookup_up=Cost("(1 + answer) log(events)", lambda s: (1.0 + s.answer) * log2(s.events)),
        lookup_down=Cost("active keys", lambda s: s.active),
        space=Cost(
            "20 events + 80 keys + 12 events log(keys)",
            lambda s: 20.0 * s.events + 80.0 * s.keys + 6.0 * s.events * log2(min(s.events, s.keys) / 256),
        ),
    )


class CollectiveExtreme(ValueFilter):
    """Blocks of events, and in each its keys by the greatest value."""

    def __init__(self, largest_us: int, *, doubles: bool = False) -> None:
        super().__init__(largest_us, holds=rings.NOTHING, dtype=np.float64 if doubles else np.int64)
        self._blocks = self._laid_out(FIRST_LOG_SIZE, np.zeros(5, np.int64))

    def _laid_out(self, log_size: int, marks: Ints) -> Blocks:
        """An empty log of 2**log_size events, and blocks of the sizes that fit into it."""
        sizes = (log_size - kernel.FIRST_LOG) // kernel.GROWTH_LOG + 1
        log_lengths = kernel.FIRST_LOG + kernel.GROWTH_LOG * np.arange(sizes)
        rows = np.concatenate([[0], np.cumsum(np.maximum(4, 2 << (log_size - log_lengths)))])
        blocks = np.zeros((int(rows[-1]), 3), np.int64)
        blocks[:, HEAP_OFFSET] = -1
        return Blocks(
            marks=marks,
            log_times=np.zeros(1 << log_size, np.int64),
            log_values=np.zeros(1 << log_size, self._dtype),
            log_seats=np.zeros(1 << log_size, np.int32),
            rows=rows.astype(np.int64),
            blocks=blocks,
            firsts=marks[kernel.LOG_START] >> log_lengths.astype(np.int64),
            values=np.zeros(64, self._dtype),
            seats=np.zeros(64, np.int32),
            free=no_segments(),
            places=np.zeros((sizes, len(self._store.seats)), np.int32),
            asked=np.zeros(len(self._store.seats), np.int64),
        )

    def _replay(self, steps: Steps, exact: bool, at: int, ends: Ints, found: Ints, used: int) -> Outcome:
        outcome: Outcome = kernel.replay_extremes(self._store, self._blocks, at, *steps, ends, found, used)
        return outcome

    def _index_arrays(self) -> Sequence[Numbers]:
        return self._blocks

    def _seats_grew(self, count: int) -> None:
        places = np.zeros((len(self._blocks.places), count), np.int32)
        places[:, : self._blocks.places.shape[1]] = self._blocks.places
        self._blocks = self._blocks._replace(places=places, asked=lengthened(self._blocks.asked, count, 0))

    def _grow_index(self, need: int) -> None:
        old = self._blocks
        if need == rings.NEEDS_HEAPS:
            count = 2 * len(old.values)
            self._blocks = old._replace(values=lengthened(old.values, count, 0), seats=lengthened(old.seats, count, 0))
            return
        # Twice the log. Blocks keep their places in memory; a larger size, if one now fits, is filled from the log.
        new = self._laid_out(len(old.log_times).bit_length(), old.marks)
        events = np.arange(old.marks[kernel.LOG_START], old.marks[kernel.LOG_END])
        before, after = events & (len(old.log_times) - 1), events & (len(new.log_times) - 1)
        for name in ("log_times", "log_values", "log_seats"):
            getattr(new, name)[after] = getattr(old, name)[before]
        for size, first in enumerate(old.firsts.tolist()):
            count, more = (int(rows[size + 1] - rows[size]) for rows in (old.rows, new.rows))
            held = np.arange(first, first + count)
            new.blocks[new.rows[size] + held % more] = old.blocks[old.rows[size] + held % count]
            new.places[size] = old.places[size]
            new.firsts[size] = first
        if len(new.firsts) > len(old.firsts):
            new.marks[kernel.INDEXED] = new.marks[kernel.LOG_START]
            new.marks[kernel.FROM_SIZE] = len(old.firsts)
        self._blocks = new._replace(values=old.values, seats=old.seats, free=old.free, asked=old.asked)

    def _check_index(self) -> None:
        blocks = self._blocks
        start, end, indexed, _, _ = blocks.marks.tolist()
        assert 0 <= start <= end == indexed <= start + len(blocks.log_times)
        events = np.arange(start, end) & (len(blocks.log_times) - 1)
        times, values, seats = blocks.log_times[events], blocks.log_values[events], blocks.log_seats[events]
        assert np.all(times[:-1] <= times[1:])
        assert not len(times) or times[0] > self._store.state[rings.CLOCK] - self.largest_us
        assert np.all(self._store.seats[seats, rings.CODE] >= 0)
        for size in range(len(blocks.firsts)):
            length = 1 << (kernel.FIRST_LOG + kernel.GROWTH_LOG * size)
            for block in range(-(-start // length), -(-end // length)):
                self._check_block(size, block, length, seats, values)

    def _check_block(self, size: int, block: int, length: int, seats: npt.NDArray[np.int32], values: Numbers) -> None:
        """Assert that a block is a heap of the greatest value of each key in it, except for keys it may leave out."""
        blocks = self._blocks
        start = int(blocks.marks[kernel.LOG_START])
        count = int(blocks.rows[size + 1] - blocks.rows[size])
        offset, _, held = blocks.blocks[blocks.rows[size] + block % count].tolist()

        def best(first: int, end: int) -> dict[int, Any]:
            low, high = first * length - start, end * length - start
            order = np.argsort(values[low:high], kind="stable")
            return dict(zip(seats[low:high][order].tolist(), values[low:high][order].tolist()))

        own, later = best(block, block + 1), best(block + 1, block + 1 + kernel.PURGED)
        heap = blocks.values[offset : offset + held]
        entries = dict(zip(blocks.seats[offset : offset + held].tolist(), heap.tolist()))
        assert len(entries) == held
        assert entries.items() <= own.items()
        assert all(later[seat] >= own[seat] for seat in own.keys() - entries.keys())
        assert np.all(heap[(np.arange(1, held) - 1) >> kernel.CHILDREN_LOG] >= heap[1:])


class CollectiveMax(CollectiveExtreme):
    """Keys by the greatest of their values."""

    sheet: ClassVar[FilterSheet] = _sheet("collective_max", "CI-MAX", Kind.MAX)


class CollectiveMin(CollectiveExtreme):
    """Keys by the least of their values."""

    sheet: ClassVar[FilterSheet] = _sheet("collective_min", "CI-MIN", Kind.MIN)
    is_turned = True
