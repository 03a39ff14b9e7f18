"""Indexes: windows of basic windows, and what they keep for questions that need more than an aggregate.

`SetWindow` counts values: histogram, quantiles, distinct values, mode, top k. `TwoSetWindow` counts the values of two
windows: intersection. `RingWindow` finds tuples: sorted scans, join probes. `choose` says which storage, index and ring
to use, `CountCut` and `TimeCut` where basic windows end, `Pace` whether a query keeps up.
"""

from __future__ import annotations

from panewise.errors import IndexingError
from panewise.indexes.choice import IndexChoice, choose
from panewise.indexes.counted import EVERY_INDEX, EVERY_STORAGE
from panewise.indexes.cutting import CountCut, Piece, TimeCut
from panewise.indexes.pace import Pace
from panewise.indexes.partials import PartialWindow
from panewise.indexes.ring import Ring
from panewise.indexes.ring_window import EVERY_RING, RingWindow
from panewise.indexes.set_index import SetIndex
from panewise.indexes.set_window import Histogram, SetWindow
from panewise.indexes.sheet import IndexShape
from panewise.indexes.storage import Storage
from panewise.indexes.two_set_window import Intersection, TwoSetWindow
from panewise.indexes.values import ValueRanges

__all__ = [
    "EVERY_INDEX",
    "EVERY_RING",
    "EVERY_STORAGE",
    "CountCut",
    "Histogram",
    "IndexChoice",
    "IndexShape",
    "IndexingError",
    "Intersection",
    "Pace",
    "PartialWindow",
    "Piece",
    "Ring",
    "RingWindow",
    "SetIndex",
    "SetWindow",
    "Storage",
    "TimeCut",
    "TwoSetWindow",
    "ValueRanges",
    "choose",
]
