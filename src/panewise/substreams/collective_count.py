"""CI-COUNT (Sharing, section 4.1): the keys with more, or fewer, events in a window than a threshold.

Invariant: each level has a heap of the keys, by the time of their event at that level.
Cost: update O(p log keys), lookup the size of its answer; downwards, the keys with an event in the window.
Space: 16 bytes per key and level, p levels for each doubling of the key's events, beside the events.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import COUNTED
from panewise.kernels.key_events import COUNTS
from panewise.substreams.filter import Numbers
from panewise.substreams.levels import LevelFilter
from panewise.substreams.sheet import Cost, FilterSheet, log2


class CollectiveCount(LevelFilter):
    """Keys by the number of their events."""

    holds: ClassVar[int] = COUNTS
    sheet: ClassVar[FilterSheet] = FilterSheet(
        name="collective_count",
        title="CI-COUNT",
        source="Sharing, 4.1",
        kinds=COUNTED,
        takes_doubles=True,
        takes_any_sign=True,
        has_error=True,
        update=Cost("p log(keys)", lambda s: s.levels_per_size * log2(s.keys)),
        lookup_up=Cost("answer", lambda s: s.answer),
        lookup_down=Cost("active keys", lambda s: s.active),
        space=Cost(
            "8 events + 80 keys + 16 p keys log(events of a key)",
            lambda s: 8.0 * s.events + s.keys * (80.0 + 16.0 * s.levels_per_size * log2(s.events_per_key)),
        ),
    )

    def _checked_values(self, values: npt.ArrayLike | None, count: int) -> Numbers:
        # The values of counted events do not matter, only how many there are.
        return np.ones(count if values is None else len(np.atleast_1d(np.asarray(values))), np.int64)
