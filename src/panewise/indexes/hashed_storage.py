"""HASH: a basic window is a hash table of its values and their counts (Indexing, section 2.2).

Cost: O(d / h) to insert. Space: d entries and h buckets a basic window. Needs: nothing.
Each basic window has a table of its own, so h is small: five, unless it is given.
"""

from __future__ import annotations

from typing import ClassVar

from panewise.indexes.chained_storage import ChainedStorage
from panewise.indexes.sheet import Cost, StorageSheet

BUCKETS = 5


class HashedStorage(ChainedStorage):
    """Values and counts in a few sorted buckets."""

    sheet: ClassVar[StorageSheet] = StorageSheet(
        name="hash",
        title="HASH",
        source="2.2",
        insert=Cost("d/h", lambda s: max(1.0, s.basic_distinct / s.storage_buckets)),
        entries=Cost("d/b", lambda s: s.news),
        space=Cost("d + h", lambda s: s.basic_distinct + s.storage_buckets),
        indexes=("l_index", "t_index", "h_index"),
    )

    def __init__(self, basic_windows: int, buckets: int = BUCKETS) -> None:
        super().__init__(basic_windows, buckets)
