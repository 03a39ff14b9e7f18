"""Values: the numbers that an aggregate reads, by key and time, and what folds any range of them.

NULLs are left out, and a range of events becomes the range of the values among them. Each structure is built once for
all windows: prefix sums of integers (exact), running sums of doubles (checked, else folded with two stacks), blocks
with a sparse table for MAX and MIN, wavelet matrices for quantiles and distinct counts, and a tournament for MODE. Sums
of squares of doubles, and the sums beside them, are folded with two stacks, since variances need all their digits.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from panewise.aggregates.catalogue import Aggregate, Reading
from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import ordered_words
from panewise.arrays import Column, Floats, Ints
from panewise.engine.as_of.events import InputColumn
from panewise.engine.as_of.substreams import KeyGroup
from panewise.engine.joined import lift_joined
from panewise.kernels.block_extremes import build_blocks
from panewise.kernels.folding import prefix_sums
from panewise.kernels.integer_squares import squares_in_words
from panewise.kernels.lifting import lift_squares
from panewise.kernels.running_sums import running_sums
from panewise.kernels.wavelets import Wavelets, build_wavelets, previous_equal, rank_values

_BUILT_FOR = {
    Kind.SUM_INT: "words",
    Kind.SQUARES_INT: "square_words",
    Kind.SUM_FLOAT: "running",
    Kind.SQUARES: "squares",
    Kind.MIN: "least",
    Kind.MAX: "greatest",
    Kind.VALUES: "selection",
}
MADE_OF = {
    "ordered": ("least", "greatest", "ranked", "selection", "first_places"),
    "ranked": ("selection", "first_places"),
}
"""What is made of something else, by what that is."""
_BUILT_FOR_READING = {Reading.DISTINCT: "first_places", Reading.FREQUENCY: "ranked"}


class InputValues:
    """The values of one input over one part, without NULLs."""

    def __init__(self, part: KeyGroup, column: InputColumn) -> None:
        self.column = column
        values, segments = column.values[part.rows], part.segments
        partners = values if column.partners is None else column.partners[part.rows]
        self.before: Ints | None = None
        """How many values come before each event; None if no event has NULL."""
        if len(column.valid):
            valid = column.valid[part.rows]
            if not valid.all():
                self.before = prefix_sums(valid.astype(np.int64))
                values, partners, segments = values[valid], partners[valid], self.before[part.segments]
        self.values: Column = values
        self.partners: Column = partners
        """What stands beside each value; the values themselves if these are no pairs."""
        self._joined: dict[Kind, list[Column]] = {}
        self.segments: Ints = segments
        self.longest = int(np.diff(segments).max(initial=1))

    def needed(self, aggregate: Aggregate) -> set[str]:
        """The names of what an aggregate folds with."""
        kinds = aggregate.kinds(self.column.kind)
        if Kind.SQUARES in kinds:
            return {"squares"}
        if aggregate.reading in _BUILT_FOR_READING:
            return {_BUILT_FOR_READING[aggregate.reading]}
        return {_BUILT_FOR[kind] for kind in kinds if kind in _BUILT_FOR}

    def joined(self, kind: Kind) -> list[Column]:
        """The words of each value."""
        if kind not in self._joined:
            size = len(self.values)
            none = np.empty(0, np.bool_)
            half_life, index = self.column.half_life_us, np.arange(size)
            self._joined[kind] = lift_joined(kind, self.values, self.partners, half_life, none, index, size)
        return self._joined[kind]

    @cached_property
    def ordered(self) -> Ints:
        """The values as words in their order."""
        return ordered_words(self.values)

    @cached_property
    def frequent_words(self) -> Ints:
        """The values as a sketch of frequent ones names them."""
        return self.column.frequent_words(self.values)

    @cached_property
    def words(self) -> tuple[Ints, ...]:
        """Prefix sums of the high and of the low words of integers."""
        return prefix_sums(self.values >> 32), prefix_sums(self.values & 0xFFFFFFFF)

    @cached_property
    def square_words(self) -> tuple[Ints, ...]:
        """Prefix sums of the words of the squares of integers."""
        return tuple(prefix_sums(word) for word in squares_in_words(self.values))

    @cached_property
    def running(self) -> tuple[tuple[Floats, Floats, Floats], Ints]:
        """Running sums of doubles and of magnitudes, and prefix counts of infinities and NaNs if there are any."""
        special = ~np.isfinite(self.values)
        counts = prefix_sums(special.astype(np.int64)) if special.any() else np.empty(0, np.int64)
        return running_sums(self.values, self.segments), counts

    @cached_property
    def squares(self) -> tuple[Floats, ...]:
        """The square of each double."""
        squares = tuple(np.zeros((4, len(self.values))))
        lift_squares(np.arange(len(self.values)), self.values, np.empty(0, np.bool_), squares)
        return squares

    @cached_property
    def greatest(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Words, and blocks over them."""
        return (self.ordered, *build_blocks(self.ordered))

    @cached_property
    def least(self) -> tuple[Ints, Ints, Ints, Ints]:
        """The complements of words, and blocks over them."""
        return (~self.ordered, *build_blocks(~self.ordered))

    @cached_property
    def ranked(self) -> tuple[Ints, Ints, Ints]:
        """The rank of each value among those of its key, the different words of each key, and how many they are."""
        return rank_values(self.ordered, self.segments)

    @cached_property
    def selection(self) -> Wavelets:
        """Wavelet matrices of ranks."""
        ranks, _, different = self.ranked
        return build_wavelets(ranks, self.segments, different - 1)

    @cached_property
    def first_places(self) -> Wavelets:
        """Wavelet matrices of the places of equal values before."""
        return build_wavelets(previous_equal(self.ranked[0], self.segments), self.segments, np.diff(self.segments))
