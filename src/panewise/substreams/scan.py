"""The baseline: ask every key with an event in the window for its aggregate (R-INT per key, Sharing, section 3.2).

Invariant: each key has its events of the largest window, or their staircase, with running sums for SUM.
Cost: update O(1), lookup O(keys log(events of a key)): a search for the start of the window, and one difference.
Space: 8 or 16 bytes per event.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE, COUNTED
from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.errors import SubstreamError
from panewise.kernels import key_events as rings
from panewise.kernels.substream_scan import replay_scan
from panewise.substreams.filter import Numbers, Outcome, Steps
from panewise.substreams.sheet import Cost, FilterSheet, log2
from panewise.substreams.values import ValueFilter

HOLDS = {
    Kind.ROWS: rings.COUNTS,
    Kind.COUNT: rings.COUNTS,
    Kind.SUM_INT: rings.SUMS,
    Kind.MAX: rings.STAIRCASE,
    Kind.MIN: rings.STAIRCASE,
}


class ScanSubstreams(ValueFilter):
    """Keys by count, sum, greatest or least value; every key is checked.

    With `by_probe` a count is not computed: one look at the event that decides the comparison is enough.
    """

    sheet: ClassVar[FilterSheet] = FilterSheet(
        name="scan_substreams",
        title="R-INT per key",
        source="Sharing, 3.2 and 4",
        kinds=frozenset(HOLDS),
        takes_doubles=True,
        takes_any_sign=True,
        has_error=False,
        update=Cost("1", lambda s: 1.0),
        lookup_up=Cost("keys log(events of a key)", lambda s: s.keys * log2(s.events_per_key)),
        lookup_down=Cost("keys log(events of a key)", lambda s: s.keys * log2(s.events_per_key)),
        space=Cost("16 events + 80 keys", lambda s: 16.0 * s.events + 80.0 * s.keys),
    )

    def __init__(self, largest_us: int, *, aggregate: str, doubles: bool = False, by_probe: bool = False) -> None:
        self.aggregate = aggregate.upper()
        problem = self.sheet.why_not(self.aggregate)
        if problem is not None:
            raise SubstreamError(problem)
        kind = CATALOGUE[self.aggregate].fold()
        assert kind is not None
        self._kind, self.is_turned = kind, kind is Kind.MIN
        if by_probe and kind not in COUNTED:
            raise SubstreamError(f"only a count can be compared by a probe, not {self.aggregate}")
        is_double = doubles and kind not in COUNTED
        if is_double and kind is Kind.SUM_INT:
            raise SubstreamError("scan_substreams adds up integers; count in a smaller unit, such as cents")
        self._by_probe = by_probe
        super().__init__(largest_us, holds=HOLDS[kind], dtype=np.float64 if is_double else np.int64)

    def _checked_values(self, values: npt.ArrayLike | None, count: int) -> Numbers:
        if self._kind in COUNTED:
            return np.ones(count if values is None else len(np.atleast_1d(np.asarray(values))), np.int64)
        return super()._checked_values(values, count)

    def _bounds(self, codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, npt.NDArray[np.bool_]]:
        kinds, bounds, is_never = super()._bounds(codes, thresholds)
        # Clip to a bound that no count reaches, with room for one more.
        return kinds, np.clip(bounds, -1, rings.SUM_LIMIT) if self._kind in COUNTED else bounds, is_never

    def _replay(self, steps: Steps, exact: bool, at: int, ends: Ints, found: Ints, used: int) -> Outcome:
        outcome: Outcome = replay_scan(self._store, self._holds, self._by_probe, at, *steps, ends, found, used)
        return outcome

    def _check_index(self) -> None:
        """Assert that there is no index."""
        assert not self._index_arrays()

    def _seats_grew(self, count: int) -> None:
        """Does nothing: there is no index that needs room."""
