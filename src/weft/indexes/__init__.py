"""Indexes: windows of basic windows, and what is kept of them for questions that need more than an aggregate.

`SetWindow` counts values: histogram, quantiles, distinct values, mode, top k. `TwoSetWindow` counts those of two
windows: intersection. `RingWindow` finds tuples: sorted scans, join probes. `choose` says which storage, index and ring
to use, `CountCut` and `TimeCut` where basic windows end, `Pace` whether a query keeps up.
"""

from __future__ import annotations

from weft.indexes.choice import Choice, choose
from weft.indexes.counted import EVERY_INDEX, EVERY_STORAGE
from weft.indexes.cutting import CountCut, Piece, TimeCut
from weft.indexes.pace import Pace
from weft.indexes.partials import PartialWindow
from weft.indexes.ring import Ring
from weft.indexes.ring_window import EVERY_RING, RingWindow
from weft.indexes.set_index import SetIndex
from weft.indexes.set_window import Histogram, SetWindow
from weft.indexes.sheet import IndexShape
from weft.indexes.storage import Storage
from weft.indexes.two_set_window import Intersection, TwoSetWindow
from weft.indexes.values import IndexingError, Ranges

__all__ = [
    "EVERY_INDEX",
    "EVERY_RING",
    "EVERY_STORAGE",
    "Choice",
    "CountCut",
    "Histogram",
    "IndexShape",
    "IndexingError",
    "Intersection",
    "Pace",
    "PartialWindow",
    "Piece",
    "Ranges",
    "Ring",
    "RingWindow",
    "SetIndex",
    "SetWindow",
    "Storage",
    "TimeCut",
    "TwoSetWindow",
    "choose",
]
