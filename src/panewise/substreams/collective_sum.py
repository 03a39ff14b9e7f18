"""CI-SUM (Sharing, section 4.2): the keys whose positive values in a window add up to more, or less, than a threshold.

Invariant: as in CI-COUNT, where an event of value v stands for v positions.
Cost: update O(p log v log keys), lookup the size of its answer; downwards, the keys with an event in the window.
Space: 16 bytes per key and level, p levels for each doubling of the key's sum, beside the events.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.components import Kind
from panewise.errors import SubstreamError
from panewise.kernels.key_events import SUMS
from panewise.substreams.filter import Numbers, whole_values
from panewise.substreams.levels import LevelFilter
from panewise.substreams.sheet import Cost, FilterSheet, log2


class CollectiveSum(LevelFilter):
    """Keys by the sum of their values, which are integers above zero."""

    holds: ClassVar[int] = SUMS
    sheet: ClassVar[FilterSheet] = FilterSheet(
        name="collective_sum",
        title="CI-SUM",
        source="Sharing, 4.2",
        kinds=frozenset({Kind.SUM_INT}),
        takes_doubles=False,
        takes_any_sign=False,
        has_error=True,
        update=Cost("p log(value) log(keys)", lambda s: s.levels_per_size * log2(s.mean_value) * log2(s.keys)),
        lookup_up=Cost("answer", lambda s: s.answer),
        lookup_down=Cost("active keys", lambda s: s.active),
        space=Cost(
            "16 events + 80 keys + 16 p keys log(sum of a key)",
            lambda s: (
                16.0 * s.events + s.keys * (80.0 + 16.0 * s.levels_per_size * log2(s.events_per_key * s.mean_value))
            ),
        ),
    )

    def _checked_values(self, values: npt.ArrayLike | None, count: int) -> Numbers:
        if values is None:
            raise SubstreamError(f"{self.name} needs the values of the events")
        whole = whole_values(values, self.name)
        if np.any(whole <= 0):
            row = int(np.flatnonzero(whole <= 0)[0])
            raise SubstreamError(
                f"{self.name} takes values above zero, got {whole[row]} in row {row}; "
                "use scan_substreams for values of any sign"
            )
        return whole
