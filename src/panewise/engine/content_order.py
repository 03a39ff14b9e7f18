"""The order of rows that arrive in no order: by time, and rows of equal time by their values.

A reader that takes a stream in pieces, as a job on Spark does, cannot know which of two rows of one time came first.
Sorted by their values, the same rows always get the same places, however they arrived. Rows that still tie are equal in
everything that is read. Cost: a sort by time, and a sort by all attributes of those rows whose times are equal.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.language.model import Stream


def content_order(stream: Stream, rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """The places of rows in order: by time, then by the other attributes as they are declared, NaN and NULL last."""
    times = np.asarray(rows.column(stream.timestamp))
    order = np.argsort(times, kind="stable")
    in_order = times[order]
    follows_equal = np.append(False, in_order[1:] == in_order[:-1])
    # Of many rows some tie by chance. Only those are compared by their values.
    places = np.flatnonzero(follows_equal | np.append(follows_equal[1:], False))
    if len(places):
        tied = order[places]
        others = [name for name in stream.attributes if name != stream.timestamp]
        keys = [(name, "ascending") for name in (stream.timestamp, *others)]
        order[places] = tied[np.asarray(pc.sort_indices(rows.take(pa.array(tied)), sort_keys=keys))]
    return pa.array(order)
