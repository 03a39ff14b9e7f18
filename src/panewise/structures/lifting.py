"""Lifting: values as a user gives them, or partials of many values each, into the elements of each column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.arrays import Bools
from panewise.errors import StructureError
from panewise.kernels.integer_squares import squares_in_words
from panewise.kernels.operations import greatest_magnitude
from panewise.kernels.squares import squares_as_pairs
from panewise.structures.column import Operation


@dataclass(frozen=True)
class LiftedValues:
    """Values of one type, and which of them are valid (None if all are)."""

    values: npt.NDArray[Any]
    valid: Bools | None
    type: Type

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_nulls(self) -> bool:
        """Whether the number of elements is not that of values."""
        return self.valid is not None

    def take(self, rows: npt.NDArray[np.int64]) -> LiftedValues:
        """Some of the values."""
        return LiftedValues(self.values[rows], None if self.valid is None else self.valid[rows], self.type)

    def validity(self) -> Bools:
        """Which values are not NULL."""
        return np.ones(len(self), np.bool_) if self.valid is None else self.valid

    def nulls(self) -> npt.NDArray[np.int64]:
        """1 where a value is NULL, otherwise 0."""
        return np.zeros(len(self), np.int64) if self.valid is None else (~self.valid).astype(np.int64)

    def greatest(self) -> float:
        """An upper bound of |value| for integers."""
        return float(greatest_magnitude(self.values))

    def elements(self, kind: Kind | None, operation: Operation, *, words: int) -> list[npt.NDArray[Any]]:
        """The elements of a component's columns; a NULL becomes the neutral element."""
        values = self.values
        if self.valid is not None:
            neutral = 0 if kind is not None and operation.dtype == np.complex128 else operation.identity
            values = np.where(self.valid, values, np.asarray(neutral, values.dtype))
        match kind:
            case Kind.SUM_INT if words > 1:
                return in_words(kind, values)
            case Kind.SQUARES_INT:
                return [values * values] if words == 1 else list(squares_in_words(values))
            case Kind.SUM_FLOAT:
                return [values.astype(np.complex128)]
            case Kind.SQUARES:
                return list(squares_as_pairs(values.astype(np.float64)))
            case _:
                return [values]


@dataclass(frozen=True)
class LiftedPartials:
    """Partials, such as those of slots: the columns of each component, and how many values each partial is of."""

    columns: Mapping[Kind, tuple[npt.NDArray[Any], ...]]
    counts: npt.NDArray[np.int64]

    has_nulls = True

    def __len__(self) -> int:
        return len(self.counts)

    def take(self, rows: npt.NDArray[np.int64]) -> LiftedPartials:
        """Some of the partials."""
        columns = {kind: tuple(column[rows] for column in several) for kind, several in self.columns.items()}
        return LiftedPartials(columns, self.counts[rows])

    def nulls(self) -> npt.NDArray[np.int64]:
        """What the number of elements has too many of for the number of values; below 0 where it has too few."""
        return 1 - self.counts

    def greatest(self) -> float:
        """An upper bound of |sum|, and of the root of the sum of squares, of integers."""
        found = 0.0
        for kind in self.columns.keys() & WORDS.keys():
            words = np.abs(np.array([column.astype(np.float64) for column in self.columns[kind]]))
            scales = [2.0**32, 1.0] if kind is Kind.SUM_INT else [1.0, 2.0**32, 2.0**64, 2.0**96]
            greatest = float((np.array(scales)[:, None] * words).sum(axis=0).max(initial=0.0))
            found = max(found, greatest if kind is Kind.SUM_INT else greatest**0.5)
        return found

    def elements(self, kind: Kind | None, operation: Operation, *, words: int) -> list[npt.NDArray[Any]]:
        """The elements of a component's columns."""
        assert kind is not None
        columns = self.columns[kind]
        match kind:
            case Kind.SUM_INT if words == 1:
                return [(columns[0] << 32) + columns[1]]
            case Kind.SQUARES_INT if words == 1:
                return [columns[0] + (columns[1] << 32)]
            case Kind.SUM_FLOAT:
                return [_pairs(*columns)]
            case Kind.SQUARES:
                squares, rests = _pairs(*columns[:2]), _pairs(*columns[2:])
                # Such a sum is of squares that are scaled, and is not added to others without them.
                squares[np.abs(squares.imag) > np.abs(squares.real)] = np.inf
                return [squares, rests]
            case _:
                return list(columns)


def _pairs(high: npt.NDArray[np.float64], low: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
    """Pairs as complex numbers."""
    pairs = np.empty(len(high), np.complex128)
    pairs.real, pairs.imag = high, low
    return pairs


Lifted = LiftedValues | LiftedPartials
"""What elements are made from."""

WORDS = {Kind.SUM_INT: 2, Kind.SQUARES_INT: 4}
"""How many words an integer component takes where one is too narrow."""


def in_words(kind: Kind, narrow: npt.NDArray[np.int64]) -> list[npt.NDArray[Any]]:
    """Elements that were held in one word, in as many as their component has."""
    high, low = narrow >> 32, narrow & 0xFFFFFFFF
    return [high, low] if kind is Kind.SUM_INT else [low, high, np.zeros_like(low), np.zeros_like(low)]


def lift_values(
    values: npt.ArrayLike | pa.Array, type: Type | None, aggregate: str | UserAggregate | None = None
) -> LiftedValues:
    """Values of any form as int64 or doubles; `type` is that of the values before, None for the first values."""
    valid: Bools | None = None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        if values.null_count:
            valid = np.asarray(values.is_valid())
            values = values.fill_null(0)
        array = np.asarray(values)
    else:
        array = np.atleast_1d(np.ma.getdata(values) if np.ma.isMaskedArray(values) else np.asarray(values))
        if np.ma.is_masked(values):
            valid = np.atleast_1d(~np.ma.getmaskarray(np.ma.asanyarray(values)))
    if array.ndim != 1:
        raise StructureError(f"values must have one dimension, not {array.ndim}")
    if isinstance(aggregate, UserAggregate) and aggregate.lift is not None:
        array = np.asarray(aggregate.lift(array))
    if array.size == 0 and type is not None:
        array = array.astype(np.float64 if type is Type.DOUBLE else np.int64)
    if array.dtype.kind in "biu":
        found = Type.BIGINT
    elif array.dtype.kind == "M":
        found = Type.TIMESTAMP
        array = array.astype("datetime64[us]")
    elif array.dtype.kind == "f":
        found = Type.DOUBLE
    else:
        raise StructureError(
            f"values must be numbers or timestamps, not {array.dtype}; encode others as integers first"
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise StructureError("a value above 2**63 - 1 does not fit in a BIGINT; give doubles")
    if type is Type.DOUBLE or (type is None and found is Type.DOUBLE):
        return LiftedValues(np.ascontiguousarray(array, np.float64), valid, Type.DOUBLE)
    if found is Type.DOUBLE:
        raise StructureError(f"the structure holds {type} values and these are DOUBLE; build it with type=Type.DOUBLE")
    whole = array.view(np.int64) if found is Type.TIMESTAMP else array
    return LiftedValues(np.ascontiguousarray(whole, np.int64), valid, type or found)
