"""Folds of keys: any column of a pool over ranges of keys, described by a row of a table instead of by its arrays.

A call from Python takes as long as many folds, most of it to pass arrays one by one. So one table of int64 describes
the columns that share a pool, a row each, with their arrays by address and length; the first row describes the pool.
Whoever makes a table holds the arrays, so that addresses stay good. Functions here are for use inside kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.core import cgutils
from numba.extending import intrinsic

from panewise.kernels.key_numbers import positions_between
from panewise.kernels.keyed_base_intervals import fold_trees
from panewise.kernels.keyed_landmark_intervals import fold_landmarks_of_keys
from panewise.kernels.keyed_recompute import fold_rings
from panewise.kernels.keyed_running_intervals import fold_running_of_keys, fold_running_pairs_of_keys
from panewise.kernels.operations import ADD, MAX

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.complex128]
Elements = npt.NDArray[Any]

WAY, ELEMENT, OPERATION, ARRAYS = range(4)
"""Places in a row of a table: how its column is folded, the type of its elements, how they combine, and from `ARRAYS`
on the address and the length of each array."""
TABLE_WIDTH = ARRAYS + 2 * 5

RING, TREE, LANDMARKS, RUNNING, RUNNING_PAIRS = range(5)
"""The ways to fold. Their arrays: rings; nodes; elements, suffixes, prefixes, levels; running, base; running, elements,
special, magnitudes. Those of the pool: numbers, offset, shift, first, length."""
WHOLE, DOUBLE, PAIR = range(3)
"""The types of elements: int64, float64, complex128."""


def _make_pointer(context: Any, address: Any) -> Any:
    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), cast


_pointer: Any = intrinsic(_make_pointer)
"""An address as the pointer that `carray` takes."""


@njit(inline="always")
def _ints(table: Ints, row: int, place: int) -> Ints:
    at = ARRAYS + 2 * place
    return carray(_pointer(table[row, at]), table[row, at + 1], np.int64)


@njit(inline="always")
def _doubles(table: Ints, row: int, place: int) -> Floats:
    at = ARRAYS + 2 * place
    return carray(_pointer(table[row, at]), table[row, at + 1], np.float64)


@njit(inline="always")
def _pairs(table: Ints, row: int, place: int) -> Pairs:
    at = ARRAYS + 2 * place
    return carray(_pointer(table[row, at]), table[row, at + 1], np.complex128)


@njit(inline="always")
def _shifts(table: Ints) -> npt.NDArray[np.int8]:
    return carray(_pointer(table[0, ARRAYS + 4]), table[0, ARRAYS + 5], np.int8)


@njit(nogil=True)
def find_positions(table: Ints, keys: Ints, from_number: Ints, to_number: Ints, low: Ints, high: Ints) -> None:
    """The positions [low, high) of each key, as `positions_between` has them."""
    first, length = _ints(table, 0, 3), _ints(table, 0, 4)
    numbers, offset = _ints(table, 0, 0), _ints(table, 0, 1)
    positions_between(numbers, offset, _shifts(table), first, length, keys, from_number, to_number, low, high)


@njit(nogil=True)
def _fold(
    table: Ints,
    row: int,
    identity: Any,
    elements: Elements,
    suffixes: Elements,
    prefixes: Elements,
    keys: Ints,
    low: Ints,
    high: Ints,
) -> Elements:
    """Fold a column in a way that suits all types of elements; an empty array if it does not serve some range."""
    operation, offset, shift = table[row, OPERATION], _ints(table, 0, 1), _shifts(table)
    if table[row, WAY] == RING:
        return fold_rings(operation, None, identity, elements, offset, shift, keys, low, high)
    if table[row, WAY] == TREE:
        return fold_trees(operation, None, identity, elements, offset, shift, keys, low, high)
    out, levels = np.empty(len(keys), elements.dtype), _ints(table, row, 3)
    unserved = fold_landmarks_of_keys(
        operation, None, identity, suffixes, prefixes, len(elements), levels, offset, shift, keys, low, high, out
    )
    return out[:0] if unserved >= 0 else out


@njit(nogil=True)
def fold_ints(table: Ints, row: int, keys: Ints, low: Ints, high: Ints) -> Ints:
    """A column of integers over the range of each key; an empty array if it does not serve some range."""
    one, two, three = _ints(table, row, 0), _ints(table, row, 1), _ints(table, row, 2)
    if table[row, WAY] == RUNNING:
        first = _ints(table, 0, 3)
        return fold_running_of_keys(None, 0, one, two, _ints(table, 0, 1), _shifts(table), first, keys, low, high)
    operation, limits = table[row, OPERATION], np.iinfo(np.int64)
    identity = 0 if operation == ADD else limits.min if operation == MAX else limits.max
    return _fold(table, row, identity, one, two, three, keys, low, high)


@njit(nogil=True)
def fold_doubles(table: Ints, row: int, keys: Ints, low: Ints, high: Ints) -> Floats:
    """The same for doubles."""
    # Sums of doubles are held as pairs, so these are extremes.
    identity = -np.inf if table[row, OPERATION] == MAX else np.nan
    one, two, three = _doubles(table, row, 0), _doubles(table, row, 1), _doubles(table, row, 2)
    return _fold(table, row, identity, one, two, three, keys, low, high)


@njit(nogil=True)
def fold_pairs(table: Ints, row: int, keys: Ints, low: Ints, high: Ints) -> Pairs:
    """The same for pairs."""
    one, two, three = _pairs(table, row, 0), _pairs(table, row, 1), _pairs(table, row, 2)
    if table[row, WAY] == RUNNING_PAIRS:
        special = carray(_pointer(table[row, ARRAYS + 4]), table[row, ARRAYS + 5], np.int32)
        magnitudes, length = _pairs(table, row, 3), _ints(table, 0, 4)
        return fold_running_pairs_of_keys(
            one, two, special, magnitudes, _ints(table, 0, 1), _shifts(table), length, keys, low, high
        )
    return _fold(table, row, complex(0.0, 0.0), one, two, three, keys, low, high)
