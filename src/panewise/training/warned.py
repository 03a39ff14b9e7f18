"""What a training set warns of: times of labels that hardly stand beside those of the events as they were meant.

Such labels find no events, or those of another hour, and nothing else would tell.
"""

from __future__ import annotations

import warnings

from panewise.arrays import Ints
from panewise.engine.ingest import GivenTimes
from panewise.engine.warned import caller_level, of_another_unit
from panewise.errors import MixedZonesWarning, PanewiseWarning, UnlikelyTimesWarning
from panewise.language.model import Stream
from panewise.windows.clock import LARGEST_MILLISECONDS, SMALLEST_SECONDS


def warn_of_times(
    stream: Stream, name: str, labels: Ints, given_labels: GivenTimes, events: Ints, given_events: GivenTimes
) -> None:
    """Warn of integers in another unit, and of times without a zone beside times in one.

    `events` are the times of some events of the stream, `labels` those of the labels, in their column `name`.
    """
    if not len(events) or not len(labels):
        return
    oldest, newest = int(events.min()), int(events.max())
    problem = None
    if given_events.are_integers and SMALLEST_SECONDS <= oldest <= LARGEST_MILLISECONDS:
        problem = of_another_unit(stream.timestamp, events)
    if problem is None and given_labels.are_integers and newest > LARGEST_MILLISECONDS >= int(labels.min()) > 0:
        problem = of_another_unit(f"the labels' {name}", labels)
    if problem is not None:
        _say(UnlikelyTimesWarning, f"stream {stream.name}: {problem}")
    for naive, zoned, first, second in (
        (given_labels, given_events, f"the labels' {name}", f"the events' {stream.timestamp}"),
        (given_events, given_labels, f"the events' {stream.timestamp}", f"the labels' {name}"),
    ):
        zone = next(iter(sorted(zoned.zones - {""})), None)
        if "" in naive.zones and zone is not None:
            _say(
                MixedZonesWarning,
                f"stream {stream.name}: {first} came without a time zone, and was taken as UTC, but {second} came in "
                f"the zone {zone}; give both a zone",
            )


def _say(category: type[PanewiseWarning], message: str) -> None:
    warnings.warn(message, category, stacklevel=caller_level())
