"""The order of rows that come in no order: by time, and those of equal time by their values.

Who reads a stream in pieces, as a job on Spark does, cannot know which of two rows of one time was first. By their
values the same rows are in the same places however they came, and rows that have no order even then are equal in all
that is read of them. Cost: a sort by time, and where times are equal one by all attributes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.language.model import Stream


def content_order(stream: Stream, rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """The places of rows in order: by time, then by the other attributes as they are declared, NaN and NULL last."""
    times = np.asarray(rows.column(stream.timestamp))
    order = np.argsort(times, kind="stable")
    in_order = times[order]
    if not np.any(in_order[1:] == in_order[:-1]):
        return pa.array(order)
    others = [name for name in stream.attributes if name != stream.timestamp]
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in (stream.timestamp, *others)])
