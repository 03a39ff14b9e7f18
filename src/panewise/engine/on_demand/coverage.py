"""Coverage: which events a window covers at a time, as ranges of their numbers, without listing them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.engine.event_log import EventLog
from panewise.engine.on_demand.event_sequence import EventSequence
from panewise.windows import RowWindow, TimeWindow, Window


@dataclass(frozen=True, slots=True)
class Coverage:
    """The numbers [from_number, to_number) that a window covers, and its times: one of each, or one for each key."""

    from_number: Ints
    to_number: Ints
    starts_us: Ints
    ends_us: Ints

    def take(self, rows: Ints) -> Coverage:
        """The coverage of some keys."""
        if len(self.from_number) == 1:
            return self
        return Coverage(self.from_number[rows], self.to_number[rows], self.starts_us[rows], self.ends_us[rows])

    def spread(self, rows: Ints, count: int) -> Coverage:
        """The coverage of `count` keys: those at `rows` get this coverage, one by one, and the others get none."""
        arrays = np.zeros((4, count), np.int64)
        arrays[:, rows] = self.from_number, self.to_number, self.starts_us, self.ends_us
        return Coverage(*arrays)


def covered_by(window: Window, log: EventLog, at_us: int, since_us: int | None) -> Coverage:
    """What a window without PARTITION BY covers, the same for all groups."""
    low, high = log.covered_range(window, at_us, since_us)
    from_number = log.number_of(low)
    to_number = log.number_of(high - 1) + 1 if high > low else from_number
    match window:
        case TimeWindow():
            start, end = at_us - window.left_us, at_us - window.right_us
        case RowWindow():
            times = log.times
            start, end = (int(times[low]), int(times[high - 1])) if high > low else (at_us, at_us)
    return Coverage(np.array([from_number]), np.array([to_number]), np.array([start]), np.array([end]))


def covered_in_partitions(
    window: RowWindow, log: EventLog, at_us: int, since_us: int | None, rows: EventSequence, partitions: Ints
) -> Coverage:
    """What a window with PARTITION BY covers in some partitions; `rows` has all events by partition.

    A partition's rows up to the time are first the final ones, then the pending ones; the window counts back from the
    end.
    """
    begin, count = log.seen_range(at_us, since_us)
    if begin >= count or not len(partitions):
        nothing = np.zeros(len(partitions), np.int64)
        return Coverage(nothing, nothing, nothing + at_us, nothing + at_us)
    bounds = np.array([log.number_of(begin)]), np.array([log.number_of(count - 1) + 1])
    final, pending = rows.final, rows.pending(log)
    final_low, final_high = final.positions(partitions, *bounds)
    pending_low, pending_high = pending.positions(partitions, *bounds)
    size = final_high - final_low
    total = size + pending_high - pending_low
    first, last = np.maximum(total - window.left, 0), total - window.right - 1
    covers = last >= first

    def numbers(places: Ints) -> Ints:
        out = np.zeros(len(places), np.int64)
        for part, low, chosen, shift in (
            (final, final_low, covers & (places < size), 0),
            (pending, pending_low, covers & (places >= size), size),
        ):
            chosen_rows = np.flatnonzero(chosen)
            if len(chosen_rows):
                positions = (low + places - shift)[chosen_rows]
                out[chosen_rows] = part.numbers_at(partitions[chosen_rows], positions)
        return out

    from_number, to_number = numbers(first), numbers(last)
    return Coverage(
        from_number,
        np.where(covers, to_number + 1, from_number),
        log.times_of(from_number, covers),
        log.times_of(to_number, covers),
    )


def same_for_all(coverage: Coverage, count: int) -> tuple[Ints, Ints]:
    """The times of `count` answers."""
    if len(coverage.starts_us) == count:
        return coverage.starts_us, coverage.ends_us
    return np.full(count, coverage.starts_us[0]), np.full(count, coverage.ends_us[0])
