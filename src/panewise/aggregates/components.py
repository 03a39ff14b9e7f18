"""Components: the columns that a partial is made of.

A partial is an aggregate's synopsis over a slot, lifted and not yet lowered. Aggregates share components: AVG, SUM and
COUNT over one input need only one sum and one count together. Every component except VALUES and the sketches is a fixed
number of machine words per (slot, key, shard), so keyed state stays columnar.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from panewise.aggregates.types import Type


class Kind(Enum):
    """How a component is lifted from values and combined."""

    ROWS = "rows"
    """The number of events, NULL or not."""
    COUNT = "count"
    """The number of values that are not NULL."""
    SUM_INT = "sum_int"
    """The exact sum of integers, as the sum of their high words and the sum of their low words: neither overflows
    before 2**31 events, and modular arithmetic would recover the difference of two prefixes exactly."""
    SUM_FLOAT = "sum_float"
    """The sum of doubles as an unevaluated pair, so that the error does not grow with the number of events."""
    SQUARES_INT = "squares_int"
    """The exact sum of the squares of integers, as the sums of their four words (`kernels.integer_squares`)."""
    SQUARES = "squares"
    """The sum of the squares of doubles as a pair, and as another what rounding each square left
    (`kernels.squares`)."""
    MIN = "min"
    """The least value; NaN above all numbers."""
    MAX = "max"
    """The greatest value; NaN above all numbers."""
    VALUES = "values"
    """The multiset of values: everything that a holistic aggregate may need."""
    MOMENTS = "moments"
    """The number of values, their mean as a pair, and the sums of second to fourth powers of their distances from it
    (`kernels.joined_words`)."""
    COMOMENTS = "comoments"
    """The same of pairs of values: both means, and the sums of the squares and of the products of the distances."""
    DECAYED = "decayed"
    """The half life, the time of the newest value, and the sums of weights and of weighted values as of then."""
    AT_LEAST = "at_least"
    """The least pair (order, value), as words in their order."""
    AT_GREATEST = "at_greatest"
    """The greatest pair (order, value), as words in their order."""
    QUANTILES = "quantiles"
    """A sketch of the distribution of numbers."""
    DISTINCT = "distinct"
    """A sketch of the set of different values."""
    FREQUENT = "frequent"
    """A sketch of how often the most frequent values occur."""
    LEAST_VALUES = "least_values"
    """The least values or pairs (order, value), at most so many, as bytes in their order."""
    GREATEST_VALUES = "greatest_values"
    """The greatest of them."""

    @property
    def is_sketch(self) -> bool:
        """Whether it is an object, serialised in tables: see `panewise.aggregates.sketches`."""
        return self.is_kept or self in (Kind.QUANTILES, Kind.DISTINCT, Kind.FREQUENT)

    @property
    def is_kept(self) -> bool:
        """Whether it holds some of the values as they are: see `panewise.aggregates.kept_values`."""
        return self in (Kind.LEAST_VALUES, Kind.GREATEST_VALUES)

    @property
    def is_joined(self) -> bool:
        """Whether its words are combined all together, by a kernel of its own; no structure holds it."""
        return self in _JOINED_WORDS

    @property
    def has_totals(self) -> bool:
        """Whether rows are combined into a few words in any order. Multisets, sketches and what is joined are not."""
        return self.words > 0 and not self.is_joined

    @property
    def is_subtractable(self) -> bool:
        """Whether the component of a part can be taken off that of a whole: sums can, but for those of squares of
        doubles, whose difference would lack digits that variances need."""
        return self in (Kind.ROWS, Kind.COUNT, Kind.SUM_INT, Kind.SUM_FLOAT, Kind.SQUARES_INT)

    @property
    def words(self) -> int:
        """How many 8-byte columns it takes (VALUES takes a pair of lists instead, a sketch a column of bytes)."""
        if self is Kind.VALUES or self.is_sketch:
            return 0
        if self.is_joined:
            return len(_JOINED_WORDS[self])
        if self in (Kind.SQUARES_INT, Kind.SQUARES):
            return 4
        return 2 if self in (Kind.SUM_INT, Kind.SUM_FLOAT) else 1


_JOINED_WORDS = {
    Kind.MOMENTS: ("count", "mean", "mean_rest", "second", "third", "fourth"),
    Kind.COMOMENTS: ("count", "mean", "mean_rest", "other", "other_rest", "squares", "products", "other_squares"),
    Kind.DECAYED: ("half_life", "time", "weight", "sum"),
    Kind.AT_LEAST: ("order", "value"),
    Kind.AT_GREATEST: ("order", "value"),
}
_WORDS = {
    **_JOINED_WORDS,
    Kind.SUM_INT: ("high", "low"),
    Kind.SUM_FLOAT: ("high", "low"),
    Kind.SQUARES_INT: ("0", "1", "2", "3"),
    Kind.SQUARES: ("high", "low", "rest_high", "rest_low"),
}
"""What the columns of a component of several are called."""


@dataclass(frozen=True, slots=True)
class Component:
    """One component over one input; `input` is the input's place in the stream's list, None for ROWS."""

    kind: Kind
    input: int | None = None

    def __hash__(self) -> int:
        # Components are the keys of many small dictionaries, and an Enum's own hash is slow.
        return hash((self.kind._value_, self.input))

    def is_float(self, inputs: tuple[Type, ...]) -> bool:
        """Whether its columns hold doubles rather than int64."""
        if self.kind in (Kind.SUM_FLOAT, Kind.SQUARES, Kind.MOMENTS, Kind.COMOMENTS, Kind.DECAYED):
            return True
        extreme = self.kind in (Kind.MIN, Kind.MAX)
        return extreme and self.input is not None and inputs[self.input] is Type.DOUBLE

    def can_be_taken_off(self, inputs: tuple[Type, ...]) -> bool:
        """Whether what leaves can be taken off a total, given the types of the stream's inputs.

        A difference of sums of doubles would show what was rounded in values that have left.
        """
        return self.kind.is_subtractable and not self.is_float(inputs)

    def column_names(self) -> tuple[str, ...]:
        """The names of its columns in a table of partials."""
        return _column_names(self)


@cache
def _column_names(component: Component) -> tuple[str, ...]:
    # Every lookup asks for them, of the same few components.
    kind, place = component.kind, component.input
    stem = kind.value if place is None else f"{kind.value}_{place}"
    if kind is Kind.VALUES:
        return (f"{stem}_item", f"{stem}_count")
    return (stem,) if kind.words < 2 else tuple(f"{stem}_{word}" for word in _WORDS[kind])
