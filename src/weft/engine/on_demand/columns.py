"""Columns: what the structures of a sequence of events hold, each shared by every aggregate that is made of it.

SUM and AVG are made of one column, all variances of another, quantiles and distinct counts of the values themselves.
"""

# ruff: noqa: D102 - what the methods of folded columns do is said at `FoldedColumns`.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.aggregates.components import Kind
from weft.aggregates.lowering import Lowered, lower_sum
from weft.aggregates.types import Type
from weft.engine.columns import arrow_type
from weft.kernels.pairs import sum_pairs
from weft.language.evaluate import evaluate
from weft.language.expressions import AggregateCall, Expression
from weft.language.model import Stream
from weft.structures.aggregated import FoldedColumns

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CARRIERS = {
    "COUNT": "COUNT",
    "SUM": "SUM",
    "AVG": "SUM",
    "MIN": "MIN",
    "MAX": "MAX",
    "VAR_POP": "VAR_POP",
    "VAR_SAMP": "VAR_POP",
    "STDDEV_POP": "VAR_POP",
    "STDDEV_SAMP": "VAR_POP",
    "QUANTILE": "MEDIAN",
    "MEDIAN": "MEDIAN",
    "MODE": "MEDIAN",
    "COUNT_DISTINCT": "MEDIAN",
}
"""The aggregate whose structure holds what another is made of. COUNT(*) needs none: it is a number of positions."""


class MustReadError(Exception):
    """A lookup that structures cannot answer: the events that its window covers must be read."""


@dataclass(frozen=True)
class ColumnKey:
    """What aggregates must have in common to share a column."""

    argument: Expression
    carrier: str

    @staticmethod
    def of(call: AggregateCall) -> ColumnKey | None:
        """The column of an aggregate; None for COUNT(*)."""
        return None if call.argument is None else ColumnKey(call.argument, CARRIERS[call.function])


@dataclass(eq=False)
class HeldColumn:
    """A column of a sequence: what it holds, the structure that holds it, who needs it, and how it is used."""

    key: ColumnKey
    type: Type
    structure: str
    functions: dict[str, set[str]] = field(default_factory=dict)
    """The aggregates that each query asks of it."""
    forced: set[str] = field(default_factory=set)
    """The queries that name its structure with USING."""
    updates: int = 0
    lookups: int = 0
    covered: int = 0
    """How many elements the ranges looked up had."""
    switches: int = 0

    @property
    def structure_type(self) -> Type:
        """The type that the structure is built for."""
        # What is counted does not matter to a count, and the truth of a BOOLEAN is 0 or 1.
        return self.type if self.type.is_number or self.type is Type.TIMESTAMP else Type.BIGINT

    def values(self, stream: Stream, raw: dict[str, pa.Array]) -> pa.Array | np.ma.MaskedArray[Any, Any]:
        """The elements of some events."""
        values = evaluate(self.key.argument, raw, stream.attributes).cast(arrow_type(self.type))
        if self.key.carrier == "COUNT":
            zeros = np.zeros(len(values), np.int64)
            return np.ma.MaskedArray(zeros, np.asarray(values.is_null()) if values.null_count else np.ma.nomask)
        return values.cast(pa.int64()) if self.type is Type.BOOLEAN else values


class Widths(FoldedColumns):
    """Ranges of which only the number of events counts."""

    is_float = False

    def __init__(self, widths: Ints) -> None:
        self._widths = widths

    @property
    def widths(self) -> Ints:
        return self._widths

    @property
    def counts(self) -> Ints:
        return self._widths

    def columns(self, kind: Kind | None) -> tuple[npt.NDArray[Any], ...]:
        raise AssertionError("COUNT(*) has no columns")

    def select(self, ranks: Ints) -> npt.NDArray[Any]:
        raise AssertionError("COUNT(*) has no values")

    def distinct(self) -> Ints:
        raise AssertionError("COUNT(*) has no values")

    def mode(self) -> npt.NDArray[Any]:
        raise AssertionError("COUNT(*) has no values")


class FoldedParts(FoldedColumns):
    """The folded columns of final events and, where the window covers some, of pending ones, put together.

    Each column is folded once, however many aggregates are made of it.
    """

    def __init__(self, final: FoldedColumns, pending: FoldedColumns | None) -> None:
        self.is_float = final.is_float
        self._final, self._pending = final, pending
        self._ints: dict[Kind, tuple[Ints, ...]] = {}
        self._floats: dict[Kind, tuple[Floats, ...]] = {}

    @property
    def widths(self) -> Ints:
        return self._final.widths if self._pending is None else self._final.widths + self._pending.widths

    @property
    def counts(self) -> Ints:
        return self._final.counts if self._pending is None else self._final.counts + self._pending.counts

    def columns(self, kind: Kind | None) -> tuple[npt.NDArray[Any], ...]:
        raise AssertionError("parts are put together as ints or as floats")

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        if kind not in self._ints:
            self._ints[kind] = self._put_together(kind)
        return self._ints[kind]

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        if kind not in self._floats:
            self._floats[kind] = self._put_together_floats(kind)
        return self._floats[kind]

    def narrow_sum(self) -> Ints | None:
        """Sums of integers that are known to fit into one word; None where they may not."""
        if self.is_float or self._pending is not None:
            return None
        words = self._final.columns(Kind.SUM_INT)
        return words[0] if len(words) == 1 else None

    def select(self, ranks: Ints) -> npt.NDArray[Any]:
        return self._values_alone().select(ranks)

    def distinct(self) -> Ints:
        return self._values_alone().distinct()

    def mode(self) -> npt.NDArray[Any]:
        return self._values_alone().mode()

    def _put_together(self, kind: Kind) -> tuple[Ints, ...]:
        final = self._final.ints(kind)
        if self._pending is None:
            return final
        pending = self._pending.ints(kind)
        match kind:
            case Kind.MIN:
                return (np.minimum(final[0], pending[0]),)
            case Kind.MAX:
                return (np.maximum(final[0], pending[0]),)
            case _:
                return tuple(one + other for one, other in zip(final, pending, strict=True))

    def _put_together_floats(self, kind: Kind) -> tuple[Floats, ...]:
        final = self._final.floats(kind)
        if self._pending is None:
            return final
        pending = self._pending.floats(kind)
        match kind:
            # NaN is above all numbers, and stands for nothing in a MIN.
            case Kind.MIN:
                return (np.fmin(final[0], pending[0]),)
            case Kind.MAX:
                return (np.maximum(final[0], pending[0]),)
            case _:
                arrays = (np.ascontiguousarray(array) for array in (*final, *pending))
                return sum_pairs(*arrays)

    def _values_alone(self) -> FoldedColumns:
        if self._pending is not None and np.any(self._pending.widths):
            raise MustReadError
        return self._final


def lower_sum_of_parts(folded: FoldedParts, parameter: float | None) -> Lowered:
    """SUM(x); a sum that fits into one word needs no putting together."""
    whole = folded.narrow_sum()
    if whole is None:
        return lower_sum(folded, parameter)
    return Lowered(whole.astype(np.float64), whole, folded.counts > 0)
