"""Joining in bulk: the pairs of many arrivals at once, where these span more basic windows than a ring holds.

A ring is turned once for each basic window, a step of Python each. Where a long past is taken in at once, both sides
are sorted by key instead: the tuples that an arrival joins are then a range of its key's.

Cost: a sort of the tuples of both sides, a search for each arrival, and its matches.
"""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints
from panewise.engine.windowed.ring_side import KEY, POSITION, TIME, Arrivals, RingSide
from panewise.engine.windowed.values import plain
from panewise.indexes.values import codes_of
from panewise.kernels.label_ranges import places_behind
from panewise.kernels.ordering import order_words
from panewise.windows import RowWindow


class BulkJoin:
    """The tuples of both sides by key: those that are held, and those that arrive."""

    def __init__(self, sides: list[RingSide], key_type: str) -> None:
        self._sides = sides
        codes = codes_of(key_type)
        encoded = [np.empty(0, np.int64)] * len(sides)
        for place, side in enumerate(sides):
            if side.rows is not None and side.rows.num_rows:
                encoded[place] = np.asarray(codes.encode(plain(side.rows.column(KEY))), np.int64)
        found, keys = np.unique(np.concatenate(encoded), return_inverse=True)
        self._keys = np.split(keys.astype(np.int64), np.cumsum([len(each) for each in encoded])[:-1])
        """The key of each tuple, by side."""
        self._orders = [order_words(each, max(0, len(found) - 1)) for each in self._keys]
        bounds = np.arange(len(found) + 1)
        self._segments = [np.searchsorted(keys[order], bounds) for keys, order in zip(self._keys, self._orders)]

    def pairs(self, place: int, arrived: Arrivals, before: Ints) -> tuple[Ints, Ints, Ints]:
        """The pairs of the arrivals of one side with what came before them on the other.

        Which arrival it is of those with a key, its row on its side, and the row on the other. `before` is how many
        events of the other side came before each arrival.
        """
        other, segments, order = self._sides[1 - place], self._segments[1 - place], self._orders[1 - place]
        nothing = np.empty(0, np.int64)
        if other.rows is None or not len(arrived.with_key):
            return nothing, nothing, nothing
        keys = self._keys[place][arrived.first_row :]
        by_key = order_words(keys, max(0, len(segments) - 2))
        keys, before, times = keys[by_key], before[arrived.with_key][by_key], arrived.times_us[arrived.with_key][by_key]
        positions = np.asarray(other.rows.column(POSITION))[order]
        window = other.bound.window
        if isinstance(window, RowWindow):
            begins = places_behind(positions, segments, keys, before - window.left - 1)
        else:
            ticks = np.asarray(other.rows.column(TIME))[order]
            begins = places_behind(ticks, segments, keys, times - window.left_us)
        ends = places_behind(positions, segments, keys, before - 1)
        counts = np.maximum(ends - begins, 0)
        arrival = np.repeat(by_key, counts)
        places = np.repeat(begins - np.cumsum(counts) + counts, counts) + np.arange(len(arrival))
        return arrival, arrived.first_row + arrival, order[places]
