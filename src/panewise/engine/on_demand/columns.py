"""Columns: what the structures of a sequence of events hold, each shared by every aggregate made from it.

SUM and AVG come from one column, all variances from another, quantiles and distinct counts from the values themselves.
"""

# ruff: noqa: D102 - `FoldedColumns` says what the methods of folded columns do.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE, carrier_of
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import in_two_words
from panewise.aggregates.types import Type
from panewise.arrays import Floats, Ints
from panewise.engine.columns import arrow_type
from panewise.kernels.pairs import sum_pairs
from panewise.kernels.squares import sum_squares
from panewise.language.evaluate import evaluate
from panewise.language.expressions import AggregateCall, Expression
from panewise.language.model import Stream
from panewise.structures.folded import FoldedColumns, MustReadError


@dataclass(frozen=True)
class ColumnKey:
    """What aggregates must have in common to share a column."""

    argument: Expression | None
    """None where partials are counted by the events in them."""
    carrier: str
    """The aggregate that structures are built for: the first that is made of the same components."""

    @staticmethod
    def of(call: AggregateCall) -> ColumnKey | None:
        """The column of an aggregate; None for COUNT(*)."""
        return None if call.argument is None else ColumnKey(call.argument, carrier_of(call.function))


@dataclass(eq=False)
class HeldColumn:
    """A column of a sequence: what it holds, in which structure, which queries need it, and how it is used."""

    key: ColumnKey
    type: Type
    structure: str
    functions: dict[str, set[str]] = field(default_factory=dict)
    """The aggregates that each query takes from it."""
    forced: set[str] = field(default_factory=set)
    """The queries that name its structure with USING."""
    updates: int = 0
    lookups: int = 0
    covered: int = 0
    """How many elements the ranges looked up had."""
    switches: int = 0

    @property
    def only_counts(self) -> bool:
        """Whether it holds nothing, as counts are differences of positions."""
        return CATALOGUE[self.key.carrier].only_counts

    @property
    def structure_type(self) -> Type:
        """The type that the structure is built for."""
        # A count does not depend on what is counted, and a BOOLEAN is 0 or 1.
        return self.type if self.type.is_number or self.type is Type.TIMESTAMP else Type.BIGINT

    def values(self, stream: Stream, raw: dict[str, pa.Array]) -> pa.Array | np.ma.MaskedArray[Any, Any]:
        """The elements of some events."""
        assert self.key.argument is not None
        values = evaluate(self.key.argument, raw, stream.attributes).cast(arrow_type(self.type))
        if self.only_counts:
            zeros = np.zeros(len(values), np.int64)
            return np.ma.MaskedArray(zeros, np.asarray(values.is_null()) if values.null_count else np.ma.nomask)
        return values.cast(pa.int64()) if self.type is Type.BOOLEAN else values


class Widths(FoldedColumns):
    """Ranges where only the number of events matters."""

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

    def values_of(self, place: int) -> Floats:
        raise AssertionError("COUNT(*) has no values")

    def select(self, ranks: Ints) -> npt.NDArray[Any]:
        raise AssertionError("COUNT(*) has no values")

    def distinct(self) -> Ints:
        raise AssertionError("COUNT(*) has no values")

    def mode(self) -> npt.NDArray[Any]:
        raise AssertionError("COUNT(*) has no values")


class FoldedParts(FoldedColumns):
    """The folded columns of final events and, where the window covers some, of pending ones, put together.

    `pending` has only the groups at `places`: few groups have pending events. Each column is folded once for all
    aggregates made from it.
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

    def values_of(self, place: int) -> Floats:
        raise AssertionError("each part has its own values")

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
        if len(final) != len(pending):
            # A sum is held in one word while that suffices.
            final, pending = in_two_words(final), in_two_words(pending)
        combine: np.ufunc = np.minimum if kind is Kind.MIN else np.maximum if kind is Kind.MAX else np.add
        return tuple(self._joined(one, combine, other) for one, other in zip(final, pending, strict=True))

    def _put_together_floats(self, kind: Kind) -> tuple[Floats, ...]:
        final = self._final.floats(kind)
        if self._pending is None:
            return final
        pending = self._pending.floats(kind)
        # NaN is above all numbers, so in a MIN it stands for "no value".
        if kind in (Kind.MIN, Kind.MAX):
            return (self._joined(final[0], np.fmin if kind is Kind.MIN else np.maximum, pending[0]),)
        places = slice(None) if self._places is None else self._places
        whole = tuple(array.copy() for array in final)
        here = tuple(np.ascontiguousarray(array[places]) for array in whole)
        late = tuple(np.ascontiguousarray(array) for array in pending)
        joined = sum_squares(here, late) if kind is Kind.SQUARES else sum_pairs(*here, *late)
        for array, sums in zip(whole, joined, strict=True):
            array[places] = sums
        return whole

    def _added(self, final: Ints, pending: Ints) -> Ints:
        return self._joined(final, np.add, pending)

    def _joined(self, final: npt.NDArray[Any], combine: np.ufunc, pending: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The final answers, combined with the pending ones at the places of groups that have these."""
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
