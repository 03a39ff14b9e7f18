"""SPREAD(x) = MAX(x) - MIN(x): an aggregate that tests add to the catalogue, as a user would, and take out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
from tests import oracle

from panewise.aggregates.catalogue import NUMBERS, Aggregate, register, withdraw
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import FoldedComponents, Lowered


@contextmanager
def spread() -> Iterator[None]:
    """The aggregate is in the catalogue, and the oracle knows it."""
    register(_spread())
    try:
        with mock.patch.dict(oracle.ADDED, SPREAD=lambda values: max(values) - min(values)):
            yield
    finally:
        withdraw("SPREAD")


def _spread() -> Aggregate:
    # Functions inside a function: Spark's workers cannot import tests, and get these by value.
    def lower(folded: FoldedComponents, parameter: Any) -> Lowered:
        (count,) = folded.ints(Kind.COUNT)
        if folded.is_float:
            (least,), (greatest,) = folded.floats(Kind.MIN), folded.floats(Kind.MAX)
            return Lowered(np.where(count > 0, greatest, 0) - np.where(count > 0, least, 0), None, count > 0)
        (least,), (greatest,) = folded.ints(Kind.MIN), folded.ints(Kind.MAX)
        exact = np.where(count > 0, greatest - least, 0)
        overflown = exact < 0
        return Lowered(exact.astype(np.float64), exact, (count > 0) & ~overflown, None, overflown)

    return Aggregate("SPREAD", NUMBERS, lambda argument: (Kind.COUNT, Kind.MIN, Kind.MAX), lower)
