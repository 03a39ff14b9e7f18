"""AGGR: a basic window is a sorted list of its values and their counts (Indexing, section 2.2).

Cost: O(d) to insert, as the search begins at the start of the list. Space: d entries a basic window. Needs: nothing.
"""

from __future__ import annotations

from typing import ClassVar

from panewise.indexes.chained_storage import ChainedStorage
from panewise.indexes.sheet import Cost, StorageSheet


class AggregatedStorage(ChainedStorage):
    """Values and counts in one sorted list."""

    sheet: ClassVar[StorageSheet] = StorageSheet(
        name="aggr",
        title="AGGR",
        source="2.2",
        insert=Cost("d", lambda s: s.basic_distinct),
        entries=Cost("d/b", lambda s: s.news),
        space=Cost("d", lambda s: s.basic_distinct),
        indexes=("l_index", "t_index", "h_index"),
    )

    def __init__(self, basic_windows: int) -> None:
        super().__init__(basic_windows, buckets=1)
