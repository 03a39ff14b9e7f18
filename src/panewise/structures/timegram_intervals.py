"""The answers of a TimeGram: which aggregates it has, and intervals that contain them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE, Making
from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.errors import StructureError, UnknownNameError, WindowError
from panewise.kernels.timegram import COUNT, MAX, MIN, SUM

Elements = npt.NDArray[Any]
Answers = np.ma.MaskedArray[Any, np.dtype[Any]]

_FOLDS = {Kind.ROWS: COUNT, Kind.COUNT: COUNT, Kind.SUM_INT: SUM, Kind.MAX: MAX, Kind.MIN: MIN}
"""What the kernels fold for each component."""


class Intervals(NamedTuple):
    """The bounds of each answer; masked where a window is empty and the aggregate is not COUNT."""

    low: Answers
    high: Answers


def kernel_fold(aggregate: str) -> int | None:
    """What the kernels fold for an aggregate; None if that is not enough for it."""
    kind = CATALOGUE[aggregate].component() if aggregate in CATALOGUE else None
    return None if kind is None else _FOLDS.get(kind)


def kinds_of(names: list[str], count: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """What the kernels fold for each of some aggregates, and which of them are means."""
    upper = [name.upper() for name in names]
    kinds = [kernel_fold(name) for name in upper]
    unknown = [name for name, kind in zip(upper, kinds) if kind is None]
    if unknown:
        raise UnknownNameError(f"a TimeGram does not answer {unknown[0]}; it answers COUNT, SUM, AVG, MAX and MIN")
    if len(upper) not in (1, count):
        raise StructureError(
            f"there are {len(upper)} aggregates and {count} windows; give one aggregate, or one for each"
        )
    averages = np.array([CATALOGUE[name].making is Making.MEAN for name in upper], np.bool_)
    # Copies, so that the kernels see one kind of array only.
    return np.array(np.broadcast_to(np.array(kinds, np.int64), count)), np.array(np.broadcast_to(averages, count))


def pairs(left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Ints, Ints]:
    """The two ends of windows as arrays of one length."""
    lefts, rights = np.broadcast_arrays(np.atleast_1d(np.asarray(left)), np.atleast_1d(np.asarray(right)))
    if lefts.ndim != 1:
        raise WindowError(f"left and right must be numbers or arrays of one dimension, not {lefts.ndim}")
    return np.ascontiguousarray(lefts, np.int64), np.ascontiguousarray(rights, np.int64)


def averages(
    lows: Elements, highs: Elements, widths: Ints, is_average: npt.NDArray[np.bool_]
) -> tuple[Elements, Elements]:
    """Divide the sums of AVG by the counts in their windows, rounding outwards where the quotient is not exact."""
    counts = np.maximum(widths, 1)
    divided: list[Elements] = []
    for sums, outwards in ((lows, -np.inf), (highs, np.inf)):
        quotients = sums / counts
        if sums.dtype == np.int64:
            is_exact = (sums % counts == 0) & (np.abs(sums) < 2**53)
            whole = np.abs(sums) < 2**53
            plain = np.where(whole, sums, np.nextafter(sums.astype(np.float64), outwards))
        else:
            is_exact, plain = np.zeros(len(sums), np.bool_), sums
        quotients = np.where(is_exact, quotients, np.nextafter(np.nextafter(quotients, outwards), outwards))
        divided.append(np.where(is_average, quotients, plain))
    return divided[0], divided[1]
