"""Columns of sketches: the newest values of one key in a ring, and sketches of intervals of them.

Positions are cut into leaves of 64. Only whole leaves have sketches, since a sketch of a few values is larger than they
are and no cheaper to merge than to make. A range consists of the sketches that cover its whole leaves, and one sketch
of the values at its two ends. The algorithm decides which intervals are kept: see `structures.sketch_intervals`.

Invariant: a stored sketch describes all values of its interval that are not NULL, and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import Sketch, bytes_of_sketch, lift, union
from panewise.arrays import Bools
from panewise.kernels import rings
from panewise.structures.column import Elements, Windows

LEAF = 64
"""How many positions the smallest interval with a sketch of its own has."""


class SketchColumn(ABC):
    """The newest values of one key in a ring, and sketches of intervals of whole leaves."""

    _first: int
    """The first position that ever came."""
    _length: int

    def __init__(self, kind: Kind, dtype: np.dtype[Any], windows: Windows) -> None:
        self.kind, self.dtype = kind, dtype
        self._start(windows, 0)

    def append(self, start: int, values: Elements, valid: Bools) -> None:
        """Take in values at positions start, start + 1, ...; `valid` is False where a value is NULL."""
        if start != self._length:
            self._first = start
        rings.write(self._values, start, values)
        rings.write(self._valid, start, valid)
        self._length = start + len(values)
        oldest = max(self._first, self._length - len(self._values))
        for leaf in range(max(start // LEAF, -(-oldest // LEAF)), self._length // LEAF):
            self._add_leaf(leaf, self._plain(leaf * LEAF, (leaf + 1) * LEAF), oldest)
        self._let_go()

    def of_range(self, low: int, high: int) -> Sketch:
        """A sketch of positions low .. high - 1; None if they have no value."""
        if low >= high:
            return None
        first, last = -(-low // LEAF) * LEAF, high // LEAF * LEAF
        whole = list(self._cover(low, high, first, last))
        if not whole:
            return self._plain(low, high)
        ends = np.concatenate([self._present(low, first), self._present(last, high)])
        return union(self.kind, [lift(self.kind, ends), *whole], is_last=True)

    @abstractmethod
    def _lay_out(self, windows: Windows) -> None:
        """Begin without any sketch."""

    @abstractmethod
    def _add_leaf(self, leaf: int, sketch: Sketch, oldest: int) -> None:
        """Take in the next leaf, and combine what it completes; positions before `oldest` are gone."""

    @abstractmethod
    def _cover(self, low: int, high: int, first: int, last: int) -> Iterator[Sketch]:
        """The sketches that make up the whole leaves, from position `first` to `last`, of the range low .. high - 1."""

    @abstractmethod
    def _stored(self) -> Iterator[tuple[int, int, Sketch]]:
        """Every sketch with the positions where it begins and ends."""

    def _let_go(self) -> None:  # noqa: B027
        """Drop the sketches that no window needs."""

    def elements(self, start: int, end: int) -> tuple[Elements, Bools]:
        """The values at positions start .. end - 1, and which are valid."""
        return rings.read(self._values, start, end), rings.read(self._valid, start, end)

    def fit(self, windows: Windows, start: int, end: int) -> None:
        """Arrange for changed windows; what is held of positions start .. end - 1 stays as far as they need it."""
        kept = max(start, end - windows.largest)
        values, valid = self.elements(kept, end)
        self._start(windows, kept)
        self.append(kept, values, valid)

    @property
    def nbytes(self) -> int:
        """The memory of the ring, and an estimate for the sketches."""
        return (
            self._values.nbytes + self._valid.nbytes + sum(bytes_of_sketch(sketch) for _, _, sketch in self._stored())
        )

    def check(self, start: int, end: int) -> None:
        """Assert what must hold for the sketches when positions start .. end - 1 are held."""
        assert end == self._length or end == 0
        for low, high, sketch in self._stored():
            assert low % LEAF == high % LEAF == 0
            if low < start:
                continue
            values = self._present(low, high)
            if not len(values):
                assert sketch is None
            elif self.kind is Kind.FREQUENT:
                assert sketch.total == len(values)
            elif self.kind is Kind.QUANTILES:
                assert sketch.n == np.count_nonzero(~np.isnan(values.astype(np.float64)))
            else:
                different = len(np.unique(values))
                assert abs(sketch.get_estimate() - different) <= 0.1 * different

    def _start(self, windows: Windows, position: int) -> None:
        self._values = np.zeros(windows.largest, self.dtype)
        self._valid = np.zeros(windows.largest, np.bool_)
        self._first = self._length = position
        self._lay_out(windows)

    def _present(self, low: int, high: int) -> Elements:
        """The values of a range that are not NULL."""
        values, valid = self.elements(low, high)
        return values[valid]

    def _plain(self, low: int, high: int) -> Sketch:
        """A sketch made of the values of a range."""
        return lift(self.kind, self._present(low, high))
