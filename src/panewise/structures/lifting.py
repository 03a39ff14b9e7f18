"""Lifting: values as a user gives them into the elements of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import StructureError
from panewise.kernels.integer_squares import squares_in_words
from panewise.kernels.operations import greatest_magnitude
from panewise.kernels.squares import squares_as_pairs
from panewise.structures.column import Operation

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LiftedValues:
    """Values of one type, and which of them are valid (None if all are)."""

    values: npt.NDArray[Any]
    valid: Bools | None
    type: Type

    def __len__(self) -> int:
        return len(self.values)

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
