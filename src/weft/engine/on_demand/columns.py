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

    `pending` has the groups at `places` only: few groups have pending events. Each column is folded once, however many
    aggregates are made of it.
    """

    def __init__(self, final: FoldedColumns, pending: FoldedColumns | None, places: Ints | None = None) -> None:
        self.is_float = final.is_float
        self._final, self._pending = final, pending
        self._places = places
        self._ints: dict[Kind, tuple[Ints, ...]] = {}
        self._floats: dict[Kind, tuple[Floats, ...]] = {}

    @property
    def final(self) -> FoldedColumns:
        """The part of final events."""
        return self._final

    @property
    def widths(self) -> Ints:
        return self._final.widths if self._pending is None else self._added(self._final.widths, self._pending.widths)

    @property
    def counts(self) -> Ints:
        return self._final.counts if self._pending is None else self._added(self._final.counts, self._pending.counts)

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
        if self.is_float:
            return None
        words = self._final.columns(Kind.SUM_INT)
        if self._pending is None or len(words) != 1:
            return words[0] if len(words) == 1 else None
        pending = self._pending.columns(Kind.SUM_INT)
        # Each is below a quarter of what fits.
        return self._added(words[0], pending[0]) if len(pending) == 1 else None

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
        combine: np.ufunc = np.minimum if kind is Kind.MIN else np.maximum if kind is Kind.MAX else np.add
        return tuple(self._joined(one, combine, other) for one, other in zip(final, pending, strict=True))

    def _put_together_floats(self, kind: Kind) -> tuple[Floats, ...]:
        final = self._final.floats(kind)
        if self._pending is None:
            return final
        pending = self._pending.floats(kind)
        # NaN is above all numbers, and stands for nothing in a MIN.
        if kind in (Kind.MIN, Kind.MAX):
            return (self._joined(final[0], np.fmin if kind is Kind.MIN else np.maximum, pending[0]),)
        places = slice(None) if self._places is None else self._places
        high, low = (array.copy() for array in final)
        arrays = (np.ascontiguousarray(array) for array in (high[places], low[places], *pending))
        high[places], low[places] = sum_pairs(*arrays)
        return high, low

    def _added(self, final: Ints, pending: Ints) -> Ints:
        return self._joined(final, np.add, pending)

    def _joined(self, final: npt.NDArray[Any], combine: np.ufunc, pending: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What pending events make of the answers at their places."""
        if self._places is None:
            joined: npt.NDArray[Any] = combine(final, pending)
            return joined
        out = final.copy()
        out[self._places] = combine(final[self._places], pending)
        return out

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
