"""What callers give a structure: the name of an aggregate, keys, and the ends of windows, checked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.arrays import Ints
from panewise.errors import StructureError, UnknownNameError, WindowError
from panewise.structures.pool import Keys

LONGEST = 2**62
"""Sizes of windows, and times, stay below this, so that their differences fit as well."""


def known_aggregate(aggregate: str) -> str:
    """The name of an aggregate as the catalogue has it."""
    name = aggregate.upper()
    if name not in CATALOGUE:
        raise UnknownNameError(f"there is no aggregate {aggregate!r}; there are {', '.join(sorted(CATALOGUE))}")
    return name


def codes_of(keys: npt.ArrayLike) -> Ints:
    """The numbers of keys."""
    array = np.atleast_1d(np.asarray(keys))
    if array.ndim != 1:
        raise StructureError(f"keys must have one dimension, not {array.ndim}")
    if array.dtype.kind not in "iu" and array.size:
        raise StructureError(f"keys must be integers, not {array.dtype}; number the keys from 0 on first")
    codes = np.ascontiguousarray(array, np.int64)
    if codes.min(initial=0) < 0:
        raise StructureError(f"key {codes.min()}: keys must be 0 or above; number them from 0 on")
    return codes


def checked_size(size: int) -> int:
    """The size of a window that ends at the newest element."""
    if not 0 < size < LONGEST:
        raise WindowError(f"window {size}: its size must be above 0 and below {LONGEST}")
    return int(size)


def times_of(times: npt.ArrayLike | None, count: int, since: int | None) -> Ints:
    """The times of `count` elements, which do not run backwards, nor to before `since`."""
    when = np.atleast_1d(np.asarray([] if times is None else times, np.int64))
    check_times_of_each(when, count)
    if count and ((since is not None and int(when[0]) < since) or np.any(when[1:] < when[:-1])):
        raise StructureError("times must not run backwards; put the elements in order first, as TimedStructure does")
    return when


def check_times_of_each(times: Ints, count: int) -> None:
    """Raise unless there are as many times as elements."""
    if len(times) != count:
        raise StructureError(f"there are {len(times)} times and {count} values; give one time for each value")


def lookups_of(keys: npt.ArrayLike | None, left: npt.ArrayLike, right: npt.ArrayLike) -> tuple[Keys, Ints, Ints]:
    """Keys, left and right ends as arrays of one length."""
    arrays = [np.asarray(ends, np.int64) for ends in (left, right)]
    if keys is not None:
        arrays.append(codes_of(keys))
    if any(array.shape != arrays[0].shape for array in arrays) or arrays[0].ndim != 1:
        try:
            shape = np.broadcast_shapes(*(array.shape for array in arrays)) or (1,)
        except ValueError:
            shapes = ", ".join(str(array.shape) for array in arrays)
            raise WindowError(
                f"left, right and keys have shapes {shapes}; give arrays of one length, or numbers"
            ) from None
        if len(shape) != 1:
            raise WindowError(f"left and right must be numbers or arrays of one dimension, not {len(shape)}")
        arrays = [np.broadcast_to(array, shape) for array in arrays]
    lefts, rights, *codes = (np.ascontiguousarray(array) for array in arrays)
    return codes[0] if codes else None, lefts, rights
