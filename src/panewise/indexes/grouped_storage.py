"""GROUP: a basic window is a sorted list of ranges of values and their counts (Indexing, section 2.2).

Cost: O(g) to insert. Space: g entries a basic window. Needs: numbers, and a width of the ranges.
"""

from __future__ import annotations

from typing import ClassVar

from panewise.indexes.chained_storage import ChainedStorage
from panewise.indexes.sheet import Cost, StorageSheet


class GroupedStorage(ChainedStorage):
    """Ranges and counts in one sorted list; the codes it gets are those of ranges."""

    gives_sorted_entries: ClassVar[bool] = True
    sheet: ClassVar[StorageSheet] = StorageSheet(
        name="group",
        title="GROUP",
        source="2.2",
        insert=Cost("g", lambda s: s.groups),
        entries=Cost("g/b", lambda s: min(1.0, s.groups / max(1.0, s.basic_tuples))),
        space=Cost("g", lambda s: s.groups),
        indexes=("g_index",),
    )

    def __init__(self, basic_windows: int) -> None:
        super().__init__(basic_windows, buckets=1)
