"""Folds: the components of one input over many ranges, as lowering reads them (`FoldedComponents`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE, Aggregate
from panewise.aggregates.components import Kind
from panewise.aggregates.kept_values import KeptValues, bytes_of_words
from panewise.aggregates.lowering import Lowered, objects_of
from panewise.aggregates.sketches import Sketches, doubles_of, lift, lift_counted, lift_strings, ordered_words
from panewise.aggregates.types import Type
from panewise.arrays import Column, Floats, Ints
from panewise.engine.as_of.values import InputValues
from panewise.engine.joined import fold_joined
from panewise.engine.sketches import column_of
from panewise.kernels.block_extremes import greatest_of_ranges
from panewise.kernels.folding import fold_squares, fold_sum_int, fold_sum_pairs
from panewise.kernels.running_sums import sums_of_ranges
from panewise.kernels.sliding_modes import slide_modes
from panewise.kernels.wavelets import count_first, select_symbols
from panewise.language.expressions import AggregateCall, Expression

_AT = {Kind.LEAST_VALUES: Kind.AT_LEAST, Kind.GREATEST_VALUES: Kind.AT_GREATEST}
"""The same for one value."""


def exact_form(function: str) -> Aggregate:
    """What answers an aggregate where all events are at hand: exactly, which is faster than a sketch of them."""
    aggregate = CATALOGUE[function]
    return aggregate if aggregate.exact_form is None else CATALOGUE[aggregate.exact_form]


class Folds:
    """The folds of one window over ranges of events, none of them empty: aggregates of one input share them."""

    def __init__(self, values: Mapping[Expression, InputValues], keys: Ints, begins: Ints, ends: Ints) -> None:
        self._values = values
        self._keys, self._begins, self._ends = keys, begins, ends
        self._lowered: dict[AggregateCall, Lowered] = {}
        self._of_inputs: dict[tuple[Expression, bool], ValueFold] = {}

    def lowered(self, call: AggregateCall) -> Lowered:
        """The answers of an aggregate."""
        if call not in self._lowered:
            aggregate = exact_form(call.function)
            self._lowered[call] = aggregate.lower(self._fold(call, aggregate), call.parameter)
        return self._lowered[call]

    def lowered_of(self, calls: Iterable[AggregateCall]) -> dict[AggregateCall, Lowered]:
        """The answers of some aggregates."""
        return {call: self.lowered(call) for call in calls}

    def _fold(self, call: AggregateCall, aggregate: Aggregate) -> RowFold:
        if call.argument is None:
            return RowFold(self._begins, self._ends)
        values = self._values[call.argument]
        is_precise = Kind.SQUARES in aggregate.kinds(values.column.kind)
        key = call.argument, is_precise
        if key not in self._of_inputs:
            self._of_inputs[key] = ValueFold(values, self._keys, self._begins, self._ends, is_precise=is_precise)
        return self._of_inputs[key]


class RowFold:
    """Ranges of events that are only counted."""

    def __init__(self, begins: Ints, ends: Ints) -> None:
        self._begins, self._ends = begins, ends

    @property
    def is_float(self) -> bool:
        """There are no values."""
        return False

    @property
    def is_boolean(self) -> bool:
        """There are no values."""
        return False

    @property
    def is_string(self) -> bool:
        """There are no values."""
        return False

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        """The number of events."""
        assert kind is Kind.ROWS
        return (self._ends - self._begins,)

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        """There are none."""
        raise AssertionError(f"{kind} has no input")

    def select(self, ranks: Ints) -> Column:
        """There are none."""
        raise AssertionError("no input")

    def distinct(self) -> Ints:
        """There are none."""
        raise AssertionError("no input")

    def mode(self) -> Column:
        """There are none."""
        raise AssertionError("no input")

    def sketches(self, kind: Kind) -> Sketches:
        """There are none."""
        raise AssertionError(f"{kind} has no input")


class ValueFold(RowFold):
    """Ranges of values. Those without any value are left out of all folds, and get zeros."""

    def __init__(self, values: InputValues, keys: Ints, begins: Ints, ends: Ints, *, is_precise: bool) -> None:
        if values.before is not None:
            begins, ends = values.before[begins], values.before[ends]
        super().__init__(begins, ends)
        self._values = values
        self._is_precise = is_precise
        self._some: Ints | None = None
        self._keys = keys
        some = begins < ends
        if not some.all():
            self._some = np.flatnonzero(some)
            self._keys = keys[self._some]
        self._size = len(keys)
        self._low = begins if self._some is None else begins[self._some]
        self._high = ends if self._some is None else ends[self._some]

    @property
    def is_float(self) -> bool:
        """Whether the input holds doubles."""
        return self._values.column.is_float

    @property
    def is_boolean(self) -> bool:
        """Whether the input holds conditions."""
        return self._values.column.kind is Type.BOOLEAN

    @property
    def is_string(self) -> bool:
        """Whether the input holds strings."""
        return self._values.column.kind is Type.STRING

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        """The int64 columns of a component."""
        if kind.is_joined:
            return self._joined(kind)
        match kind:
            case Kind.COUNT:
                return (self._ends - self._begins,)
            case Kind.SUM_INT:
                return tuple(fold_sum_int(prefix, self._begins, self._ends) for prefix in self._values.words)
            case Kind.SQUARES_INT:
                return tuple(fold_sum_int(prefix, self._begins, self._ends) for prefix in self._values.square_words)
            case Kind.MIN | Kind.MAX:
                return (self._spread(self._extremes(kind)),)
            case _:
                raise TypeError(f"{kind} has no integers")

    def floats(self, kind: Kind) -> tuple[Floats, ...]:
        """The float64 columns of a component."""
        if kind.is_joined:
            return self._joined(kind)
        match kind:
            case Kind.SUM_FLOAT:
                return self._sums
            case Kind.SQUARES:
                folded = fold_squares(self._values.squares, self._low, self._high)
                return tuple(self._spread(column) for column in folded)
            case Kind.MIN | Kind.MAX:
                return (self._spread(doubles_of(self._extremes(kind))),)
            case _:
                raise TypeError(f"{kind} has no doubles")

    def _joined(self, kind: Kind) -> tuple[Column, ...]:
        folded = fold_joined(kind, self._values.joined(kind), self._low, self._high)
        return tuple(self._spread(column) for column in folded)

    def select(self, ranks: Ints) -> Column:
        """The value at each range's 1-based rank in the order of values."""
        values = self._values
        wanted = ranks if self._some is None else ranks[self._some]
        symbols = select_symbols(values.selection, values.segments, self._keys, self._low, self._high, wanted)
        return self._spread(self._of_symbols(symbols))

    def distinct(self) -> Ints:
        """The number of different values in each range."""
        values = self._values
        return self._spread(count_first(values.first_places, values.segments, self._keys, self._low, self._high))

    def mode(self) -> Column:
        """The most frequent value of each range, the smallest one of several."""
        values = self._values
        ranks, _, different = values.ranked
        symbols = slide_modes(ranks, values.segments, different, self._keys, self._low, self._high)
        found = self._of_symbols(symbols)
        return self._spread(objects_of(values.column.texts(found), len(found)) if self.is_string else found)

    def sketches(self, kind: Kind) -> Sketches:
        """The sketch of each range. It is made anew for each, since no structure holds it."""
        if kind.is_kept:
            return self._kept(kind)
        values, column = self._values.values, self._values.column
        ranges = list(zip(self._begins.tolist(), self._ends.tolist()))
        if kind is Kind.FREQUENT:
            words = self._values.frequent_words
            return column_of([lift_counted(*np.unique(words[low:high], return_counts=True)) for low, high in ranges])
        if column.strings is not None:
            return column_of([lift_strings(column.texts(values[low:high])) for low, high in ranges])
        return column_of([lift(kind, values[low:high]) for low, high in ranges])

    def _kept(self, kind: Kind) -> Sketches:
        """The values of each range that a list has, or the best one."""
        column, most = self._values.column, self._values.column.most
        if most == 1:
            pairs = fold_joined(_AT[kind], self._values.joined(_AT[kind]), self._low, self._high)
            firsts, words = (pairs[0], pairs[1])
            bounds = [(row, row + 1) for row in range(len(words))]
        else:
            firsts, words, bounds = self._listed(kind, most)
        texts = None if column.strings is None else column.strings.cast(pa.binary()).take(pa.array(words)).to_pylist()
        kept = bytes_of_words(words) if texts is None else texts
        if column.partners is not None:
            kept = [one + other for one, other in zip(bytes_of_words(firsts), kept)]
        return self._spread(column_of([KeptValues(most, tuple(kept[low:high])) for low, high in bounds]))

    def _listed(self, kind: Kind, most: int) -> tuple[Ints, Ints, list[tuple[int, int]]]:
        """The pairs of each range that its list has, the best first, and where those of each lie."""
        firsts, words = ordered_words(self._values.partners), ordered_words(self._values.values)
        rows: list[Ints] = []
        for low, high in zip(self._low.tolist(), self._high.tolist()):
            # Values come in the order of time, so only those as old as the last of the list need to be compared.
            if kind is Kind.GREATEST_VALUES:
                low += int(np.searchsorted(firsts[low:high], firsts[max(low, high - most)]))
                some = np.arange(low, high)
                rows.append(some[np.lexsort((words[some], firsts[some]))][::-1][:most])
            else:
                high = low + int(np.searchsorted(firsts[low:high], firsts[min(high, low + most) - 1], side="right"))
                some = np.arange(low, high)
                rows.append(some[np.lexsort((words[some], firsts[some]))][:most])
        every = np.concatenate([np.empty(0, np.int64), *rows])
        return firsts[every], words[every], list(pairwise(accumulate(map(len, rows), initial=0)))

    @cached_property
    def _sums(self) -> tuple[Floats, ...]:
        """Sums of doubles as pairs: differences of running sums where these are good, else folded anew."""
        values = self._values
        if self._is_precise:
            folded = fold_sum_pairs(values.values, np.zeros(len(values.values)), self._low, self._high)
            return tuple(self._spread(column) for column in folded)
        running, special = values.running
        high, low, good = sums_of_ranges(values.values, running, special, values.longest, self._low, self._high)
        if not good.all():
            bad = np.flatnonzero(~good)
            zeros = np.zeros(len(values.values))
            high[bad], low[bad] = fold_sum_pairs(values.values, zeros, self._low[bad], self._high[bad])
        return self._spread(high), self._spread(low)

    def _extremes(self, kind: Kind) -> Ints:
        """The greatest or the least words of the ranges that are not empty."""
        if kind is Kind.MAX:
            return greatest_of_ranges(*self._values.greatest, self._low, self._high)
        return ~greatest_of_ranges(*self._values.least, self._low, self._high)

    def _of_symbols(self, symbols: Ints) -> Column:
        """The values behind ranks of their keys."""
        _, different, _ = self._values.ranked
        words = different[self._values.segments[self._keys] + symbols]
        return doubles_of(words) if self.is_float else words

    def _spread(self, column: Column) -> Column:
        """Values of the ranges that are not empty, at their places."""
        if self._some is None:
            return column
        out = np.full(self._size, None if column.dtype == np.object_ else 0, column.dtype)
        out[self._some] = column
        return out
