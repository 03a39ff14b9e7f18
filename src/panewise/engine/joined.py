"""Joined components in the engine: lifted from events and folded over rows, whatever their words mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import ordered_words
from panewise.arrays import Bools, Column, Floats, Ints
from panewise.engine.columns import frozen
from panewise.kernels import joined_words as kernels

_OF_FLOATS = {
    Kind.MOMENTS: kernels.MOMENTS,
    Kind.COMOMENTS: kernels.COMOMENTS,
    Kind.DECAYED: kernels.DECAYED,
}


def lift_joined(
    kind: Kind, values: Column, others: Column, half_life: float, valid: Bools, index: Ints, size: int
) -> list[Column]:
    """The columns of a component; `others` are second values or orders, and `valid` is empty if nothing is NULL."""
    words: Column
    if kind in _OF_FLOATS:
        words = np.zeros((size, kernels.WIDTH))
        doubles, other_doubles = _doubles(values), _doubles(others)
        kernels.lift_floats(_OF_FLOATS[kind], index, doubles, other_doubles, half_life, valid, words)
    else:
        limits, greatest = np.iinfo(np.int64), kind is Kind.AT_GREATEST
        words = np.full((size, kind.words), limits.min if greatest else limits.max)
        kernels.lift_pairs(index, frozen(ordered_words(others)), frozen(ordered_words(values)), valid, words, greatest)
    return [np.ascontiguousarray(column) for column in words.T[: kind.words]]


def fold_joined(kind: Kind, columns: Sequence[Column], low: Ints, high: Ints) -> tuple[Column, ...]:
    """The folded columns over ranges of rows, which come in runs as `kernels.folding` says."""
    if kind in _OF_FLOATS:
        rows = np.zeros((len(columns[0]), kernels.WIDTH))
        rows[:, : kind.words] = np.column_stack(columns)
        folded: Column = kernels.fold_floats(_OF_FLOATS[kind], rows, low, high)
    else:
        folded = kernels.fold_pairs(np.column_stack(columns), low, high, kind is Kind.AT_GREATEST)
    return tuple(np.ascontiguousarray(column) for column in folded.T[: kind.words])


def _doubles(values: Column) -> Floats:
    return frozen(values.astype(np.float64, copy=False))
