"""The order of ORDER BY where rows come in no order: by the key, rows of equal keys by time, then by their values.

In the engine ties keep the order of the stream. Spark knows no order of arrival, so rows of one time go by what the
query reads of them (`content_order`). If a row is not among the first k of its slot, it is among the first k of no
window.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.content_order import content_order
from panewise.language.model import Stream


def in_order(rows: pa.Table, stream: Stream, by: str, within: Ints, *, descending: bool) -> Ints:
    """The places of rows in order within each of the groups that `within` numbers; the groups are in order too."""
    places = np.asarray(content_order(stream, rows))
    keys = _ranks(rows.column(by))
    if descending:
        keys = -keys
    for each in (keys, within):
        places = places[np.argsort(each[places], kind="stable")]
    return places


def _ranks(column: pa.ChunkedArray) -> Ints:
    """The rank of each value among those here. NULL is below all, NaN above; -0.0 is 0.0."""
    valid = np.asarray(column.is_valid())
    ranks = np.full(len(column), -1, np.int64)
    present = column.drop_null().combine_chunks()
    if pa.types.is_string(present.type):
        present = present.dictionary_encode()
        order = np.asarray(pa.compute.sort_indices(present.dictionary))
        of_entries = np.empty(len(order), np.int64)
        of_entries[order] = np.arange(len(order))
        ranks[valid] = of_entries[np.asarray(present.indices)]
    else:
        ranks[valid] = np.unique(np.asarray(present), return_inverse=True)[1]
    return ranks
