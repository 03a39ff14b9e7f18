"""Whether two tables hold the same answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOLERANCE = 1e-9
"""Relative, for floating numbers: sums were added up in different orders. Everything else must be equal."""


@dataclass(frozen=True)
class Compared:
    """One query as plain Spark answered it, and what differs from Panewise's answers (None: nothing)."""

    name: str
    seconds: float
    answers: int
    difference: str | None


def first_difference(ours: pa.Table, theirs: pa.Table, keys: int) -> str | None:
    """The first difference between two tables with the same columns in the same order, keys first; None: no difference.

    Rows may come in any order.
    """
    if ours.num_columns != theirs.num_columns:
        return f"{ours.num_columns} columns, and {theirs.num_columns}"
    if ours.num_rows != theirs.num_rows:
        return f"{ours.num_rows:,} rows, and {theirs.num_rows:,}"
    theirs = theirs.rename_columns(ours.column_names)
    by = [(name, "ascending") for name in ours.column_names[:keys]]
    ours, theirs = ours.sort_by(by), theirs.sort_by(by)
    for name in ours.column_names:
        unequal = _unequal(ours.column(name).combine_chunks(), theirs.column(name).combine_chunks())
        if len(unequal):
            row = int(unequal[0])
            where = ", ".join(str(ours.column(key)[row]) for key in ours.column_names[:keys])
            return f"{name} is {ours.column(name)[row]}, and {theirs.column(name)[row]}, at {where}"
    return None


def _unequal(ours: pa.Array, theirs: pa.Array) -> np.ndarray:
    """The rows in which two columns differ."""
    both_null = pc.and_(ours.is_null(), theirs.is_null())
    if pa.types.is_floating(ours.type):
        equal = np.isclose(ours.to_numpy(False), theirs.to_numpy(False), rtol=TOLERANCE, atol=0, equal_nan=True)
        equal &= np.asarray(pc.equal(ours.is_null(), theirs.is_null()))
    else:
        equal = np.asarray(pc.fill_null(pc.equal(ours, theirs.cast(ours.type)), False))
    return np.flatnonzero(~(equal | np.asarray(both_null)))
