"""Folded columns: what an aggregate's lowering reads of some ranges, and the way from there to answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE, Parameter
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import SUM_OVERFLOW, Lowered
from panewise.aggregates.sketches import MOST_RANKS, Sketches
from panewise.arrays import Ints
from panewise.errors import AnswerOverflowError, StructureError
from panewise.kernels.squares import squares_of
from panewise.structures.column import Elements
from panewise.structures.lifting import in_words

Answers = np.ma.MaskedArray[Any, np.dtype[Any]]


class MustReadError(Exception):
    """Structures cannot answer this lookup: what its window covers must be read."""


class FoldedColumns(ABC):
    """The folded columns of some ranges, as an aggregate's lowering reads them."""

    is_float: bool
    """Whether the values are doubles."""
    is_boolean = False
    """A condition is held as 0 or 1."""
    is_string = False
    """No structure holds strings."""

    @property
    @abstractmethod
    def widths(self) -> Ints:
        """How many elements each range has."""

    @property
    @abstractmethod
    def counts(self) -> Ints:
        """How many values that are not NULL each range has."""

    @abstractmethod
    def columns(self, kind: Kind | None) -> tuple[Elements, ...]:
        """The folded columns of a component."""

    @abstractmethod
    def values_of(self, place: int) -> npt.NDArray[np.float64]:
        """The doubles of one range that has a sum of them, NULLs as 0."""

    @abstractmethod
    def select(self, ranks: Ints) -> Elements:
        """The value at each range's 1-based rank."""

    @abstractmethod
    def distinct(self) -> Ints:
        """The number of different values of each range."""

    @abstractmethod
    def mode(self) -> Elements:
        """The most frequent value of each range, the smallest of several."""

    def sketches(self, kind: Kind) -> Sketches:
        """The sketch of each range; only structures with a form for sketches have them."""
        raise NotImplementedError

    def ints(self, kind: Kind) -> tuple[Ints, ...]:
        """The int64 columns of a component."""
        if kind is Kind.ROWS:
            return (self.widths,)
        if kind is Kind.COUNT:
            return (self.counts,)
        folded = self.columns(kind)
        return tuple(in_words(kind, folded[0])) if kind is Kind.SQUARES_INT and len(folded) == 1 else folded

    def floats(self, kind: Kind) -> tuple[npt.NDArray[np.float64], ...]:
        """The float64 columns of a component."""
        folded = self.columns(kind)
        if folded[0].dtype != np.complex128:
            return folded
        parts = tuple(part for column in folded for part in (column.real, column.imag))
        return self._any_squares(parts) if kind is Kind.SQUARES else parts

    def _any_squares(self, squares: tuple[Elements, ...]) -> tuple[npt.NDArray[np.float64], ...]:
        """Sums of squares; where a value is too large or too small to be squared, from the values themselves."""
        places = np.flatnonzero(np.isinf(squares[0]))
        if len(places):
            squares = tuple(part.copy() for part in squares)
            for place in places.tolist():
                for part, found in zip(squares, squares_of(self.values_of(place)), strict=True):
                    part[place] = found
        return squares


def lower(aggregate: str, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Lowered:
    """The answers of an aggregate; a quantile or a rank may have a parameter for each of them."""
    entry = CATALOGUE[aggregate]
    match entry.parameter:
        case Parameter.PHI:
            return entry.lower(folded, _phis(aggregate, folded.counts, parameter))
        case Parameter.RANK:
            return entry.lower(folded, _ranks(aggregate, parameter))
    if parameter is not None:
        raise StructureError(f"{aggregate} takes no parameter")
    return entry.lower(folded, None)


def masked(lowered: Lowered) -> Answers:
    """Answers, masked where they are NULL; a sum that does not fit is an error."""
    if lowered.overflows:
        # A structure has no query to count such answers for, so a masked one would go unseen.
        raise AnswerOverflowError(SUM_OVERFLOW)
    values = lowered.values if lowered.exact is None else lowered.exact
    return np.ma.MaskedArray(values, np.ma.nomask if lowered.valid.all() else ~lowered.valid)


def _phis(aggregate: str, counts: Ints, parameter: npt.ArrayLike | None) -> npt.NDArray[np.float64]:
    """A phi for each lookup."""
    if parameter is None:
        raise StructureError(f"{aggregate} needs phi: lookup(left, right, phi), one number or one for each window")
    phis = np.broadcast_to(np.asarray(parameter, np.float64), counts.shape)
    if not np.all((phis > 0) & (phis <= 1)):
        raise StructureError("phi must be above 0 and at most 1")
    return phis


def _ranks(aggregate: str, parameter: npt.ArrayLike | None) -> Ints:
    """A rank for all lookups, or one for each."""
    ranks = np.asarray(0 if parameter is None else parameter)
    if ranks.dtype.kind not in "iu" or not np.all((ranks >= 1) & (ranks <= MOST_RANKS)):
        raise StructureError(
            f"{aggregate} needs a rank from 1 to {MOST_RANKS}: lookup(left, right, rank), one or one for each window"
        )
    return ranks.astype(np.int64)
