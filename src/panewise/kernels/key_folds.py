"""Folds of keys: any column of a pool over ranges of keys, described by a row of a table instead of by its arrays.

A call from Python takes as long as many folds, most of it to pass arrays one by one. So one table of int64 describes
the columns that share a pool, a row each, with their arrays by address and length; the first row describes the pool.
A row also has the address of the function that folds its column. There is one for each way and type of elements,
compiled when a column first needs it. Whoever makes a table holds the arrays, so that addresses stay good.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]
from numba.extending import overload

from panewise.kernels.addresses import call, pointer, pointer_to, word_at
from panewise.kernels.base_intervals import fold_trees
from panewise.kernels.key_numbers import positions_between
from panewise.kernels.landmark_intervals import fold_landmarks
from panewise.kernels.operations import ADD, MAX
from panewise.kernels.recompute import fold_rings
from panewise.kernels.running_intervals import fold_running, fold_running_pairs
from panewise.kernels.search_tree import fold_search_trees

Ints = npt.NDArray[np.int64]

FOLD, ELEMENT, OPERATION, ARRAYS = range(4)
"""Places in a row of a table: the address of the function that folds its column, the type of its elements, how they
combine, and from `ARRAYS` on the address and the length of each array."""
TABLE_WIDTH = ARRAYS + 2 * 5
_ROW_BYTES = 8 * TABLE_WIDTH
_ONE, _TWO, _THREE, _FOUR = (ARRAYS + 2 * place for place in range(4))
_NUMBERS, _OFFSET, _SHIFT, _FIRST, _LENGTH = (ARRAYS + 2 * place for place in range(5))
"""Where the arrays of a column stand in its row, and those of the pool in the first row."""

RING, TREE, LANDMARKS, RUNNING, RUNNING_PAIRS, SEARCH_TREE = range(6)
"""The ways to fold. Their arrays: rings; nodes; elements, store, table; running, base; running, elements, special,
magnitudes; nodes, starts. Those of the pool: numbers, offset, shift, first, length."""
WHOLE, DOUBLE, PAIR = range(3)
"""The types of elements: int64, float64, complex128."""
LEAST, GREATEST = -(2**63), 2**63 - 1


@njit(inline="always")
def fold(table: int, row: int, size: int, keys: int, low: int, high: int, out: int) -> bool:
    """Fold a column over the ranges of `size` keys into `out`; False if it does not serve some range.

    The table and all arrays come by address. For use inside kernels.
    """
    at = table + row * _ROW_BYTES
    return call(word_at(at), (table, at, size, keys, low, high, out)) != 0  # type: ignore[no-any-return]


@njit(inline="always")
def operation_of(table: int, row: int) -> int:
    """How the elements of a column combine."""
    return word_at(table + row * _ROW_BYTES + 8 * OPERATION)  # type: ignore[no-any-return]


@njit(nogil=True)
def find_positions(table: Ints, keys: Ints, from_number: Ints, to_number: Ints, low: Ints, high: Ints) -> None:
    """The positions [low, high) of each key, as `positions_between` has them."""
    pool = table[0]
    numbers, offset, shift = _integers(pool, _NUMBERS), _integers(pool, _OFFSET), _shifts(pool)
    first, length = _integers(pool, _FIRST), _integers(pool, _LENGTH)
    positions_between(numbers, offset, shift, first, length, keys, from_number, to_number, low, high)


# As part of the functions below, where compiling takes half as long as for two functions of which one calls the other.
_fold_rings = njit(inline="always")(fold_rings.py_func)
_fold_trees = njit(inline="always")(fold_trees.py_func)
_fold_landmarks_of_keys = njit(inline="always")(fold_landmarks.py_func)
_fold_running_of_keys = njit(inline="always")(fold_running.py_func)
_fold_running_pairs_of_keys = njit(inline="always")(fold_running_pairs.py_func)
_fold_search_trees = njit(inline="always")(fold_search_trees.py_func)


@lru_cache
def fold_function(way: int, element: int) -> Any:
    """The compiled function that folds columns of a way and a type of elements; its `address` goes into rows."""
    ints = pointer_to(types.int64)
    elements = pointer_to((types.int64, types.float64, types.complex128)[element])
    signature = types.int64(ints, ints, types.int64, ints, ints, ints, elements)
    return cfunc(signature, cache=True, nogil=True)(_FOLDS[way])


def _identity(operation: int, folded: Any) -> Any:
    """The neutral element of an operation on elements of some type. For use inside kernels only."""
    raise NotImplementedError


@overload(_identity)
def _identity_of(operation: Any, folded: Any) -> Any:
    if folded.dtype == types.int64:

        def of_ints(operation: Any, folded: Any) -> Any:
            return 0 if operation == ADD else LEAST if operation == MAX else GREATEST

        return of_ints
    if folded.dtype == types.float64:

        def of_doubles(operation: Any, folded: Any) -> Any:
            # Sums of doubles are held as pairs, so these are extremes.
            return -np.inf if operation == MAX else np.nan

        return of_doubles

    def of_pairs(operation: Any, folded: Any) -> Any:
        return complex(0.0, 0.0)

    return of_pairs


@njit(inline="always")
def _elements(row: Any, place: int, folded: Any) -> Any:
    """An array of the type of what is folded."""
    return carray(pointer(row[place]), row[place + 1], folded.dtype)


@njit(inline="always")
def _integers(row: Any, place: int) -> Any:
    return carray(pointer(row[place]), row[place + 1], np.int64)


@njit(inline="always")
def _shifts(pool: Any) -> Any:
    return carray(pointer(pool[_SHIFT]), pool[_SHIFT + 1], np.int8)


@njit(inline="always")
def _put(found: Any, folded: Any) -> int:
    for i in range(len(folded)):
        folded[i] = found[i]
    return 1


def _fold_ring(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    found = _fold_rings(
        row[OPERATION], None, _identity(row[OPERATION], folded), _elements(row, _ONE, folded),
        _integers(pool, _OFFSET), _shifts(pool), carray(keys, size), carray(low, size), carray(high, size),
    )  # fmt: skip
    return _put(found, folded)


def _fold_tree(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    found = _fold_trees(
        row[OPERATION], None, _identity(row[OPERATION], folded), _elements(row, _ONE, folded),
        _integers(pool, _OFFSET), _shifts(pool), carray(keys, size), carray(low, size), carray(high, size),
    )  # fmt: skip
    return _put(found, folded)


def _fold_landmarks(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    unserved = _fold_landmarks_of_keys(
        row[OPERATION], None, _identity(row[OPERATION], folded), _elements(row, _TWO, folded), _integers(row, _THREE),
        _integers(pool, _OFFSET), _shifts(pool), _integers(pool, _LENGTH),
        carray(keys, size), carray(low, size), carray(high, size), folded,
    )  # fmt: skip
    return 0 if unserved >= 0 else 1


def _fold_running(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    found = _fold_running_of_keys(
        None, _identity(row[OPERATION], folded), _elements(row, _ONE, folded), _elements(row, _TWO, folded),
        _integers(pool, _OFFSET), _shifts(pool), _integers(pool, _FIRST),
        carray(keys, size), carray(low, size), carray(high, size),
    )  # fmt: skip
    return _put(found, folded)


def _fold_running_pairs(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    found = _fold_running_pairs_of_keys(
        _elements(row, _ONE, folded), _elements(row, _TWO, folded),
        carray(pointer(row[_THREE]), row[_THREE + 1], np.int32), _elements(row, _FOUR, folded),
        _integers(pool, _OFFSET), _shifts(pool), _integers(pool, _LENGTH),
        carray(keys, size), carray(low, size), carray(high, size),
    )  # fmt: skip
    return _put(found, folded)


def _fold_search_tree(pool: Any, row: Any, size: int, keys: Any, low: Any, high: Any, out: Any) -> int:
    folded = carray(out, size)
    found = _fold_search_trees(
        row[OPERATION], None, _identity(row[OPERATION], folded), _elements(row, _ONE, folded), _integers(row, _TWO),
        _integers(pool, _OFFSET), _shifts(pool), carray(keys, size), carray(low, size), carray(high, size),
    )  # fmt: skip
    return _put(found, folded)


_FOLDS: dict[int, Callable[..., int]] = {
    RING: _fold_ring,
    TREE: _fold_tree,
    LANDMARKS: _fold_landmarks,
    RUNNING: _fold_running,
    RUNNING_PAIRS: _fold_running_pairs,
    SEARCH_TREE: _fold_search_tree,
}
