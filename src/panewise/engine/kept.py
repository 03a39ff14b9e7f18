"""Kept values in the engine: the strings and lists of a batch's partials, lifted from its events.

Strings are numbered in their order, so that the same kernels and sorts pick the best of numbers and of strings; only
what is kept becomes bytes.
"""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import KeptValues, bytes_of_words
from panewise.aggregates.sketches import ordered_words
from panewise.arrays import Bools, Column, Ints
from panewise.engine.columns import frozen, numbers_of
from panewise.engine.sketches import SKETCH_TYPE
from panewise.kernels.joined_words import lift_pairs


def ranks_of_strings(column: pa.Array) -> tuple[Ints, pa.Array]:
    """The rank of each string (any where NULL), and the different strings in the order of their bytes."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), np.int64)
    ranks[np.asarray(order)] = np.arange(len(order))
    indices = encoded.indices
    places = np.asarray(indices.fill_null(0) if indices.null_count else indices)
    return (ranks[places] if len(ranks) else np.zeros(len(places), np.int64)), encoded.dictionary.take(order)


def lift_kept(
    kind: Kind, values: pa.Array, orders: Column | None, most: int, valid: Bools, index: Ints, size: int
) -> pa.Array:
    """The kept values of each partial; `orders` stand in front of them, and `valid` is empty if nothing is NULL."""
    strings = None
    if pa.types.is_string(values.type) or pa.types.is_dictionary(values.type):
        words, strings = ranks_of_strings(values)
    else:
        words = ordered_words(numbers_of(values)[0])
    first = np.zeros(len(words), np.int64) if orders is None else ordered_words(orders)
    pick = _best if most == 1 else _several
    owner, first, words = pick(kind, first, words, most, valid, index, size)
    kept = bytes_of_words(words) if strings is None else strings.take(pa.array(words)).cast(pa.binary()).to_pylist()
    if orders is not None:
        kept = [one + other for one, other in zip(bytes_of_words(first), kept)]
    bounds = pairwise(accumulate(np.bincount(owner, minlength=size).tolist(), initial=0))
    parts = (KeptValues(most, tuple(kept[low:high])).serialised() if low < high else None for low, high in bounds)
    return pa.array(list(parts), SKETCH_TYPE)


def _best(
    kind: Kind, first: Ints, words: Ints, most: int, valid: Bools, index: Ints, size: int
) -> tuple[Ints, Ints, Ints]:
    """The partials that have a value, and the best pair of each."""
    limits, is_greatest = np.iinfo(np.int64), kind is Kind.GREATEST_VALUES
    best = np.full((size, 2), limits.min if is_greatest else limits.max)
    lift_pairs(index, frozen(first), frozen(words), valid, best, is_greatest)
    has_value = np.zeros(size, np.bool_)
    has_value[index[valid] if len(valid) else index] = True
    owner = np.flatnonzero(has_value)
    return owner, best[owner, 0], best[owner, 1]


def _several(
    kind: Kind, first: Ints, words: Ints, most: int, valid: Bools, index: Ints, size: int
) -> tuple[Ints, Ints, Ints]:
    """The partial of each pair that is kept, and these pairs, the best ones of a partial first."""
    if len(valid):
        first, words, index = first[valid], words[valid], index[valid]
    order = np.lexsort((words, first, index))
    if kind is Kind.GREATEST_VALUES:
        # From the greatest pair on, with partials still in their order.
        order = order[::-1][np.argsort(index[order[::-1]], kind="stable")]
    owner = index[order]
    starts = np.searchsorted(owner, np.arange(size))
    kept = order[np.arange(len(owner)) - starts[owner] < most]
    return index[kept], first[kept], words[kept]
