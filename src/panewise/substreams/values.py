"""Filters that compare values themselves: integers or doubles, in their order or, for the least one, turned around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from panewise.arrays import Ints
from panewise.errors import SubstreamError
from panewise.kernels import key_events as rings
from panewise.substreams.filter import Numbers, SubstreamFilter, double_bounds, integer_bounds, whole_values

OPPOSITE = np.zeros(8, np.int8)
OPPOSITE[[rings.AT_LEAST, rings.AT_MOST, rings.ABOVE, rings.BELOW]] = (
    rings.AT_MOST,
    rings.AT_LEAST,
    rings.BELOW,
    rings.ABOVE,
)


class ValueFilter(SubstreamFilter):
    """A filter by the greatest value; with the order of values reversed, by the least."""

    is_turned: bool = False
    """Whether the order of values is reversed."""

    def _checked_values(self, values: npt.ArrayLike | None, count: int) -> Numbers:
        if values is None:
            raise SubstreamError(f"{self.name} needs the values of the events")
        if self._dtype == np.float64:
            numbers = doubles_of(values, self.name)
            return -numbers if self.is_turned else numbers
        whole = whole_values(values, f"{self.name} without doubles=True")
        return ~whole if self.is_turned else whole

    def _bounds(self, codes: Ints, thresholds: Numbers) -> tuple[npt.NDArray[np.int8], Numbers, npt.NDArray[np.bool_]]:
        is_double = self._dtype == np.float64
        kinds, bounds, is_never = (double_bounds if is_double else integer_bounds)(codes, thresholds)
        if self.is_turned:
            return OPPOSITE[kinds], -bounds if is_double else ~bounds, is_never
        return kinds, bounds, is_never


def doubles_of(values: npt.ArrayLike, name: str) -> npt.NDArray[np.float64]:
    """Values as doubles, or an error."""
    array = np.atleast_1d(np.asarray(values))
    if len(array) and array.dtype.kind not in "iufb":
        raise SubstreamError(f"{name} takes numbers, got {array.dtype}")
    numbers = array.astype(np.float64)
    if np.isnan(numbers).any():
        raise SubstreamError(
            f"{name} takes no NaN, got one in row {int(np.flatnonzero(np.isnan(numbers))[0])}; filter them out"
        )
    return numbers
