"""Substreams: the events and the asked times of each key, side by side.

Only keys that are asked for have a number, and events of other keys are left out. Both sides are sorted by key and
time once for all queries with the same GROUP BY; a WHERE picks from the sorted events. `parts` cuts them into groups of
keys, so that what is built for a part fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from panewise.arrays import Bools, Ints
from panewise.engine.answers import Groups
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.tables import KeyTable
from panewise.kernels.ordering import order_words

PART_EVENTS = 1 << 22
"""Keys are taken together up to this many events; a key with more is a part of its own."""


@dataclass(frozen=True)
class AskedTimes:
    """Times, in ascending order, and the keys asked at each."""

    times: Ints
    columns: Mapping[str, pa.Array]


class Substreams:
    """The events of each asked key, by time."""

    def __init__(self, events: OrderedEvents, asked: AskedTimes, names: Sequence[str]) -> None:
        table = KeyTable([events.stream.attributes[name] for name in names])
        columns = [asked.columns[name] for name in names]
        keys = table.ids(columns, len(asked.times))
        self.groups = Groups(tuple(names), table)
        self.rows: Ints
        """The events in the order of key and time, as places in the order of time."""
        self._keys: Ints
        """The key of each of them."""
        if names:
            found = table.find([events.batch.column(name) for name in names], len(events))
            known = np.flatnonzero(found >= 0)
            found = found[known]
            order = order_words(found, max(0, len(table) - 1))
            self.rows, self._keys = known[order], found[order]
            self.asked_rows: Ints = order_words(keys, max(0, len(table) - 1))
        else:
            self.rows, self._keys = np.arange(len(events)), np.zeros(len(events), np.int64)
            self.asked_rows = np.arange(len(asked.times))
        self.asked_keys: Ints = keys[self.asked_rows]
        self.asked_times: Ints = asked.times[self.asked_rows]
        self._events = events

    def whole(self) -> KeyGroup:
        """All keys as one part, with all events."""
        bounds = np.searchsorted(self._keys, np.arange(len(self.groups.table) + 1))
        every = slice(0, len(self.asked_keys))
        return KeyGroup(self._events, self.groups, 0, self.rows, bounds, every, self.asked_keys, self.asked_times)

    def parts(self, passing: Bools | None) -> Iterator[KeyGroup]:
        """The substreams in groups of keys, with the events that pass a predicate."""
        rows, keys = self.rows, self._keys
        if passing is not None:
            chosen = passing[rows]
            rows, keys = rows[chosen], keys[chosen]
        bounds = np.searchsorted(keys, np.arange(len(self.groups.table) + 1))
        asked_bounds = np.searchsorted(self.asked_keys, np.arange(len(self.groups.table) + 1))
        first = 0
        while first < len(bounds) - 1:
            last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + PART_EVENTS, side="right")) - 1)
            asked = slice(int(asked_bounds[first]), int(asked_bounds[last]))
            yield KeyGroup(
                self._events,
                self.groups,
                first,
                rows[bounds[first] : bounds[last]],
                bounds[first : last + 1] - bounds[first],
                asked,
                self.asked_keys[asked] - first,
                self.asked_times[asked],
            )
            first = last


@dataclass(frozen=True)
class KeyGroup:
    """The substreams of some keys, which are numbered from 0 here."""

    events: OrderedEvents
    groups: Groups
    first_key: int
    rows: Ints
    """The events in the order of key and time, as places in the order of time."""
    segments: Ints
    """Where the events of each key begin, and their number."""
    asked: slice
    """The asked times of these keys, in the order of all asked times by key."""
    keys: Ints
    asked_times: Ints

    @cached_property
    def times(self) -> Ints:
        """The times of the events."""
        return self.events.times[self.rows]
