"""The buckets of a TimeGram: how many a precision needs, and which bounds a user may give them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, isfinite

import numpy as np

from panewise.errors import StructureError
from panewise.kernels.timegram import COUNT, MAX, MIN
from panewise.structures.timegram_intervals import kernel_fold

MOST_BUCKETS = 65_536
DEFAULT_BUCKETS = 64
SPARE = 8
"""When the data move, the buckets reach an eighth of their span further on that side."""


def buckets_for(precision: float, aggregate: str, low: float, high: float, *, magnitude: float | None = None) -> int:
    """How many buckets keep an answer's interval within `precision` times the answer, for values from low to high.

    `magnitude` is the least size of an answer (for SUM, of an answer by element); without it, the size of the largest
    value for MAX, of the least for MIN, and of the middle for SUM and AVG.

    >>> buckets_for(0.05, "AVG", 50, 150)
    25
    """
    if not precision > 0:
        raise StructureError(
            f"the precision must be above 0, not {precision}; use an exact structure for exact answers"
        )
    name = aggregate.upper()
    kind = kernel_fold(name)
    if kind is None:
        raise StructureError(f"a TimeGram does not answer {aggregate}; it answers COUNT, SUM, AVG, MAX and MIN")
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise StructureError(f"values from {low} to {high}: needs finite low <= high")
    if kind == COUNT or low == high:
        return 1
    if magnitude is None:
        magnitude = abs({MAX: high, MIN: low}.get(kind, low / 2 + high / 2))
    if not magnitude > 0:
        raise StructureError(f"{name} may be near 0, where no interval is small beside it; give its magnitude")
    # Buckets may reach an eighth further on either side than the values do.
    wanted = (1 + 2 / SPARE) * (high - low) / (precision * magnitude)
    if wanted > MOST_BUCKETS:
        raise StructureError(
            f"{precision} needs {wanted:.3g} buckets, and at most {MOST_BUCKETS} are allowed; use an exact structure"
        )
    return max(1, ceil(wanted))


def checked_bounds(bounds: Sequence[float]) -> list[float]:
    """The bounds of buckets as plain numbers; raises when they are not finite or do not rise."""
    listed = [bound.item() if isinstance(bound, np.generic) else bound for bound in bounds]
    if len(listed) < 2 or not all(isfinite(bound) for bound in listed):
        raise StructureError("the bounds of buckets must be at least two finite numbers")
    if any(a >= b for a, b in pairwise(listed)):
        raise StructureError("the bounds of buckets must rise, each above the one before")
    return listed
