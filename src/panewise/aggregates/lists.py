"""Lowering of lists: the values that a window has, in the order of time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import ORDER_BYTES, KeptValues, words_of_bytes
from panewise.aggregates.lowering import FoldedComponents, Lowered, objects_of
from panewise.aggregates.sketches import Sketches, doubles_of
from panewise.arrays import Ints

LIST_OVERFLOW = "a list has more values than its bound; give COLLECT a larger one, or take the newest with LAST_K"


def lower_last(folded: FoldedComponents, parameter: float | None) -> Lowered:
    """LAST_K(x, k): the newest values, in the order of time."""
    kept = folded.sketches(Kind.GREATEST_VALUES)
    return _lists(folded, kept, lambda one: one.values[::-1])


def lower_collected(folded: FoldedComponents, parameter: float | Ints | None) -> Lowered:
    """COLLECT(x, bound): all values, in the order of time. More than the bound do not fit."""
    (count,) = folded.ints(Kind.COUNT)
    listed = _lists(folded, folded.sketches(Kind.LEAST_VALUES), lambda one: one.values)
    overflown = count > np.asarray(parameter, np.int64)
    return Lowered(listed.values, listed.exact, listed.valid & ~overflown, None, overflown)


def _lists(folded: FoldedComponents, kept: Sketches, values: Callable[[KeptValues], tuple[bytes, ...]]) -> Lowered:
    """The values of each window as a list."""
    parts = [() if one is None else values(one) for one in kept]
    flat = _plain(folded, [value[ORDER_BYTES:] for value in chain.from_iterable(parts)])
    bounds = pairwise(accumulate(map(len, parts), initial=0))
    lists = objects_of((flat[begin:end] for begin, end in bounds), len(parts))
    return Lowered(np.zeros(len(parts)), lists, np.array([one is not None for one in kept], np.bool_))


def _plain(folded: FoldedComponents, values: list[bytes]) -> list[Any]:
    """Values as Python has them; a timestamp as microseconds."""
    if folded.is_string:
        return [value.decode() for value in values]
    words = words_of_bytes(values)
    plain: list[Any] = (doubles_of(words) if folded.is_float else words != 0 if folded.is_boolean else words).tolist()
    return plain
