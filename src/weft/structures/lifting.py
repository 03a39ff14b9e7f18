"""Lifting: values as a user gives them into the elements of each column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.components import Kind
from weft.aggregates.types import Type
from weft.aggregates.user import UserAggregate
from weft.errors import WeftError
from weft.kernels.operations import greatest_magnitude, squares_as_pairs
from weft.structures.column import Operation

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LiftedValues:
    """Values of one type, and which of them are valid (None: all)."""

    values: npt.NDArray[Any]
    valid: Bools | None
    type: Type

    def __len__(self) -> int:
        return len(self.values)

    def validity(self) -> Bools:
        """Which values are not NULL."""
        return np.ones(len(self), np.bool_) if self.valid is None else self.valid

    def nulls(self) -> npt.NDArray[np.int64]:
        """1 where a value is NULL, else 0."""
        return np.zeros(len(self), np.int64) if self.valid is None else (~self.valid).astype(np.int64)

    def greatest(self) -> float:
        """A bound of |value|, of integers."""
        return float(greatest_magnitude(self.values))

    def elements(self, kind: Kind | None, operation: Operation, *, words: int) -> list[npt.NDArray[Any]]:
        """The elements of a component's columns, NULLs as the neutral one."""
        values = self.values
        if self.valid is not None:
            neutral = 0 if kind is not None and operation.dtype == np.complex128 else operation.identity
            values = np.where(self.valid, values, np.asarray(neutral, values.dtype))
        match kind:
            case Kind.SUM_INT if words == 2:
                return [values >> 32, values & 0xFFFFFFFF]
            case Kind.SUM_FLOAT:
                return [values.astype(np.complex128)]
            case Kind.SQUARES:
                return [squares_as_pairs(values.astype(np.float64))]
            case _:
                return [values]


def lift_values(values: npt.ArrayLike | pa.Array, type: Type | None, aggregate: str | UserAggregate) -> LiftedValues:
    """Values of any form as int64 or doubles; `type` is what was given before, None for the first."""
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
        raise WeftError(f"values must have one dimension, not {array.ndim}")
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
        raise WeftError(f"values must be numbers or timestamps, not {array.dtype}; encode others as integers first")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise WeftError("a value above 2**63 - 1 fits in no BIGINT; give doubles")
    if type is Type.DOUBLE or (type is None and found is Type.DOUBLE):
        return LiftedValues(np.ascontiguousarray(array, np.float64), valid, Type.DOUBLE)
    if found is Type.DOUBLE:
        raise WeftError(f"the structure holds {type} values and these are DOUBLE; build it with type=Type.DOUBLE")
    whole = array.view(np.int64) if found is Type.TIMESTAMP else array
    return LiftedValues(np.ascontiguousarray(whole, np.int64), valid, type or found)
