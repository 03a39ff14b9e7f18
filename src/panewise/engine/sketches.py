"""Sketches in the engine: columns of them in tables of partials, lifted from events, combined and folded.

Only these components are Python objects, one a row. In tables they are bytes, and stay bytes until a union or an answer
needs them. Windows are folded with two stacks, as in `kernels.folding`: for any overlap, a row takes part in two unions
and an instance in two more.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import (
    Sketch,
    Sketches,
    bytes_of_sketch,
    closed,
    hashed_words,
    lift,
    lift_counted,
    lift_strings,
    opened,
    ordered_words,
    serialised,
    union,
)
from panewise.arrays import Bools, Ints

SKETCH_TYPE = pa.large_binary()
"""Many sketches of some kilobytes soon exceed what 32-bit offsets reach."""


def lift_quantiles(values: npt.NDArray[Any], valid: Bools, index: Ints, size: int) -> pa.Array:
    """The QUANTILES of each partial; `index` is the partial of each value, `valid` is empty when nothing is NULL."""
    if len(valid):
        values, index = values[valid], index[valid]
    order = np.argsort(index, kind="stable")
    bounds = np.searchsorted(index[order], np.arange(size + 1)).tolist()
    sorted_values = values[order].astype(np.float64)
    return to_arrow(Kind.QUANTILES, [lift(Kind.QUANTILES, sorted_values[low:high]) for low, high in pairwise(bounds)])


def lift_distinct(items: pa.ListArray) -> pa.Array:
    """The DISTINCT of each partial, from its different values."""
    flat, bounds = items.flatten(), np.asarray(items.offsets)
    bounds = (bounds - bounds[0]).tolist()
    if pa.types.is_string(flat.type):
        strings = flat.to_pylist()
        return to_arrow(Kind.DISTINCT, [lift_strings(strings[low:high]) for low, high in pairwise(bounds)])
    values = np.asarray(flat.cast(pa.int64()) if pa.types.is_boolean(flat.type) else flat)
    return to_arrow(Kind.DISTINCT, [lift(Kind.DISTINCT, values[low:high]) for low, high in pairwise(bounds)])


def lift_frequent(items: pa.ListArray, counts: pa.ListArray) -> pa.Array:
    """The FREQUENT of each partial, from its different values and their counts."""
    flat, bounds = items.flatten(), np.asarray(items.offsets)
    bounds = (bounds - bounds[0]).tolist()
    if pa.types.is_string(flat.type):
        words = hashed_words(flat.to_pylist())
    else:
        words = ordered_words(np.asarray(flat.cast(pa.int64()) if pa.types.is_boolean(flat.type) else flat))
    numbers = np.asarray(counts.flatten())
    return to_arrow(Kind.FREQUENT, [lift_counted(words[low:high], numbers[low:high]) for low, high in pairwise(bounds)])


def to_arrow(kind: Kind, sketches: list[Sketch] | Sketches) -> pa.Array:
    """Sketches as a column of bytes, NULL if there is no value."""
    return pa.array([serialised(kind, sketch) for sketch in sketches], SKETCH_TYPE)


def from_arrow(column: pa.Array) -> Sketches:
    """The inverse of `to_arrow`; the sketches stay bytes."""
    return column_of(column.to_pylist())


def column_of(sketches: list[Sketch]) -> Sketches:
    """Sketches as an array of objects."""
    return np.fromiter(sketches, np.object_, len(sketches))


def open_in_place(kind: Kind, column: Sketches, rows: Ints | None) -> None:
    """Turn bytes into sketches, in all rows or in some, so that none is opened twice."""
    for row in range(len(column)) if rows is None else rows.tolist():
        column[row] = opened(kind, column[row])


def closed_column(column: Sketches) -> Sketches:
    """A column with the sketches as bytes."""
    return column_of([closed(sketch) for sketch in column])


def bytes_of_column(column: Sketches) -> int:
    """About how much memory the sketches of a column take, besides the column."""
    return sum(bytes_of_sketch(sketch) for sketch in column)


def combine_stretches(kind: Kind, column: Sketches, bounds: Ints) -> Sketches:
    """One sketch for the rows between each two bounds; a single row stays as it is."""
    return column_of(
        [column[low] if high - low == 1 else union(kind, column[low:high]) for low, high in pairwise(bounds.tolist())]
    )


def fold_sketches(kind: Kind, column: Sketches, low: Ints, high: Ints) -> Sketches:
    """The union over each range of rows [low[i], high[i]), which come in runs as `kernels.folding` says.

    The instances that begin within the rows of one front share it: the suffixes of the front, made from its last row
    backwards, and one growing union of the rows behind the front.
    """
    lows, highs = low.tolist(), high.tolist()
    folded: list[Sketch] = []
    while (first := len(folded)) < len(lows):
        front_end = highs[first]
        last = first
        while last + 1 < len(lows) and lows[last + 1] < front_end:
            last += 1
        suffixes: list[Sketch] = []
        suffix, begin = None, front_end
        for instance in range(last, first - 1, -1):
            suffix = union(kind, [*column[lows[instance] : begin], suffix])
            begin = lows[instance]
            suffixes.append(suffix)
        behind, end = None, front_end
        for instance in range(first, last + 1):
            if highs[instance] > end:
                behind = union(kind, [behind, *column[end : highs[instance]]])
                end = highs[instance]
            folded.append(union(kind, [suffixes.pop(), behind], is_last=True))
    return column_of(folded)
