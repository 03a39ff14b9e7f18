"""Sums of integers as two words, high * 2**32 + low: put together, and divided.

Each function takes arrays, plain integers, or the scalars of a kernel, so there is one for closing windows, for lookups
and for kernels. `low` may exceed 32 bits: it is itself a sum.
"""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable


@register_jitable
def sum_of_words(high: Any, low: Any) -> tuple[Any, Any]:
    """The sum, and whether it fits in 64 bits; if it does not, its lower 64 bits."""
    carried = high + (low >> 32)
    return (carried << 32) | (low & 0xFFFFFFFF), (carried + 2**31) >> 32 == 0


@register_jitable
def mean_of_words(high: Any, low: Any, count: Any) -> Any:
    """The sum divided by a count above 0; of words that do not overlap the sum is rounded once."""
    return ((high + (low >> 32)) * 2.0**32 + (low & 0xFFFFFFFF)) / count
