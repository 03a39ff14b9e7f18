"""Places: which rows must be answered together, what is read of them, and how far back a label sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from panewise.arrays import Ints
from panewise.engine.as_of.ranges import BEFORE_ALL, newest_closed, watermarks
from panewise.engine.as_of.substreams import AskedTimes
from panewise.language.expressions import Expression, attributes_of
from panewise.language.model import Query, Stream
from panewise.windows import PunctuationWindow, RowWindow, TimeWindow


def by_group(queries: Iterable[Query]) -> list[list[Query]]:
    """The queries of each GROUP BY."""
    found: dict[frozenset[str], list[Query]] = {}
    for query in queries:
        found.setdefault(frozenset(query.group_by), []).append(query)
    return list(found.values())


def attributes_read(stream: Stream, queries: Iterable[Query]) -> list[str]:
    """The attributes that some queries read, as the stream declares them."""
    read = {stream.timestamp}
    for query in queries:
        read |= {*query.group_by, *attributes_of(query.where)}
        read |= {name for call in query.aggregates for name in attributes_of(call.argument)}
        if isinstance(query.window, RowWindow):
            read |= set(query.window.partition_by)
        if isinstance(query.window, PunctuationWindow):
            read |= {*attributes_of(cast("Expression", query.window.opens))}
            read |= {*attributes_of(cast("Expression", query.window.closes))}
    return [name for name in stream.attributes if name in read]


def together_by(stream: Stream, queries: Sequence[Query]) -> list[str]:
    """The attributes that decide where rows go: all rows of a substream must be in one place."""
    names = set(queries[0].group_by)
    for query in queries:
        if isinstance(query.window, RowWindow):
            names &= set(query.window.partition_by)
    return [name for name in stream.attributes if name in names]


def needed_from(stream: Stream, queries: Iterable[Query], asked: Ints, closing: Ints | None) -> Ints:
    """For each of some rising times, the time of the first event that some window may cover; it rises too.

    `closing` has the times, in order, of events that closed windows that slide. Windows over rows are left out.
    """
    needed = asked.copy()
    marks: Ints | None = None
    for window in {query.window for query in queries if not isinstance(query.window, RowWindow)}:
        if not isinstance(window, TimeWindow) or window.slide_us is None:
            needed = np.minimum(needed, asked - window.left_us)
            continue
        assert closing is not None
        if marks is None:
            marks = watermarks(stream.watermark_us, closing, AskedTimes(asked, {}))
        starts, _ = newest_closed(window, marks)
        needed = np.minimum(needed, np.where(marks == BEFORE_ALL, asked, starts))
    return needed
