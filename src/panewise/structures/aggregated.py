"""What every form of a structure has: an aggregate, windows, the columns they need, and the way to answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.approximate import lower_approximate_quantile, lower_top_count, lower_top_item
from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import SUM_OVERFLOW, Lowered, quantile_ranks
from panewise.aggregates.sketches import MOST_RANKS, Sketches, require_package
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import AnswerOverflowError, SnapshotError, StructureError, UnknownNameError
from panewise.kernels.squares import squares_of
from panewise.structures.column import Elements, Ints, Operation, Windows
from panewise.structures.lifting import WORDS, LiftedValues, in_words, lift_values
from panewise.structures.sheet import DataSheet

Answers = np.ma.MaskedArray[Any, np.dtype[Any]]

ColumnT = TypeVar("ColumnT")
ValuesT = TypeVar("ValuesT")

NARROW_LIMIT = 2.0**62
"""While the largest window times the largest |value| stays below this, one int64 word holds every window's sum. For
squares it is the square of the largest |value|."""


class Aggregated(ABC, Generic[ColumnT, ValuesT]):
    """One aggregate over windows, as columns of elements: COUNT by positions, the others by one or two columns each."""

    sheet: ClassVar[DataSheet]

    def __init__(
        self,
        aggregate: str | UserAggregate,
        windows: Iterable[tuple[int, int]] = (),
        *,
        type: Type | None = None,
    ) -> None:
        self.aggregate = aggregate if isinstance(aggregate, UserAggregate) else _known(aggregate)
        if type is not None or not self.sheet.served_types(self.aggregate):
            self._check_served(type)
        if self.aggregate in CATALOGUE and not CATALOGUE[str(self.aggregate)].is_exact:
            require_package(str(self.aggregate))
        self._windows = Windows(windows)
        self._type = self.aggregate.type if isinstance(self.aggregate, UserAggregate) else type
        self._columns: dict[Kind | None, list[ColumnT]] = {}
        self._values: ValuesT | None = None
        self._nulls: ColumnT | None = None
        self._greatest = 0.0

    @property
    def name(self) -> str:
        """The name under which `build` finds it."""
        return self.sheet.name

    @property
    def type(self) -> Type | None:
        """The type of the values; None until it is given or the first values come."""
        return self._type

    @property
    def windows(self) -> list[tuple[int, int]]:
        """The windows that it serves, in order."""
        return self._windows.every

    @property
    def largest(self) -> int:
        """Nmax: how many of the newest elements are held."""
        return self._windows.largest

    @property
    def label(self) -> str:
        """The name of the aggregate."""
        return self.aggregate.name if isinstance(self.aggregate, UserAggregate) else self.aggregate

    def add_window(self, left: int, right: int = 0) -> None:
        """Serve one more window. Elements that have left do not come back: see `is_held`."""
        self._windows.add((left, right))
        self._fit()

    def remove_window(self, left: int, right: int = 0) -> None:
        """Serve one window less; let go of what only it needed."""
        self._windows.remove((left, right))
        self._fit()

    def _check_served(self, type: Type | None) -> None:
        problem = self.sheet.why_not(self.aggregate, type)
        if problem is not None:
            raise StructureError(f"{problem}; see the data sheets in docs/structures.md for one that can")

    @abstractmethod
    def _fit(self) -> None:
        """Arrange the columns for changed windows."""

    @abstractmethod
    def _column(self, operation: Operation) -> ColumnT:
        """A new column of this structure's algorithm."""

    def _values_column(self, dtype: np.dtype[Any]) -> ValuesT:
        """A new column of plain values; only structures that serve holistic aggregates have one."""
        raise NotImplementedError

    def _sketch_column(self, kind: Kind, dtype: np.dtype[Any]) -> ValuesT:
        """A new column of sketches; only structures that serve approximate aggregates have one."""
        raise NotImplementedError

    def _open(self, type: Type) -> None:
        """Make the columns, once the type of the values is known."""
        if isinstance(self.aggregate, UserAggregate):
            dtype = np.int64 if self.aggregate.type is Type.BIGINT else np.float64
            self._columns[None] = [self._column(Operation.of_user(self.aggregate, dtype))]
            return
        entry = CATALOGUE[self.aggregate]
        if not entry.accepts(type):
            raise StructureError(
                f"{self.aggregate} of {type} values is not defined; give numbers, or another aggregate"
            )
        self._check_served(type)
        self._type = type
        number = np.dtype(np.float64 if type is Type.DOUBLE else np.int64)
        for kind in entry.kinds(type):
            if kind is Kind.VALUES:
                self._values = self._values_column(number)
            elif kind.is_sketch:
                self._values = self._sketch_column(kind, number)
            elif kind in WORDS:
                self._columns[kind] = [self._column(Operation.add(np.int64))]
            elif kind in (Kind.SUM_FLOAT, Kind.SQUARES):
                # Squares, and what rounding left of them.
                pairs = kind.words // 2
                self._columns[kind] = [self._column(Operation.add(np.complex128)) for _ in range(pairs)]
            elif kind in (Kind.MIN, Kind.MAX):
                self._columns[kind] = [self._column(Operation.extreme(number, greatest=kind is Kind.MAX))]

    def _lifted(self, values: npt.ArrayLike | pa.Array) -> LiftedValues:
        """Values in the form from which elements are made. The first ones decide the type, if none was given."""
        lifted = lift_values(values, self._type, self.aggregate)
        if self._type is None and len(lifted):
            self._open(lifted.type)
        return lifted

    def _wide_columns(self, kind: Kind) -> list[ColumnT]:
        """A column for each word of an integer sum."""
        return [self._column(Operation.add(np.int64)) for _ in range(WORDS[kind])]

    def _too_narrow(self, lifted: LiftedValues | None) -> list[Kind]:
        """The integer components whose one word might not hold every window's sum any more."""
        held = [kind for kind in WORDS if kind in self._columns]
        if held and lifted is not None:
            self._greatest = max(self._greatest, lifted.greatest())
        return [
            kind
            for kind in held
            if len(self._columns[kind]) == 1
            and self.largest * self._greatest ** (2 if kind is Kind.SQUARES_INT else 1) >= NARROW_LIMIT
        ]

    def _restore_words(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        """As many columns for integer sums as a snapshot has."""
        for kind in WORDS:
            if array_name(kind, 1) in arrays:
                self._columns[kind] = self._wide_columns(kind)

    def _every_column(self) -> list[ColumnT | ValuesT]:
        columns: list[ColumnT | ValuesT] = [column for several in self._columns.values() for column in several]
        if self._nulls is not None:
            columns.append(self._nulls)
        if self._values is not None:
            columns.append(self._values)
        return columns

    def _over_nothing(self, count: int) -> Answers:
        """`count` answers before any value came: counts of 0, and NULLs."""
        is_count = isinstance(self.aggregate, str) and CATALOGUE[self.aggregate].result is Type.BIGINT
        return np.ma.MaskedArray(np.zeros(count, np.int64 if is_count else np.float64), mask=not is_count)

    def _lower(self, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Answers:
        """From folded columns to answers."""
        if isinstance(self.aggregate, UserAggregate):
            (elements,) = folded.columns(None)
            answers = elements if self.aggregate.lower is None else self.aggregate.lower(elements)
            return np.ma.MaskedArray(answers, folded.counts == 0)
        return _masked(self._lowered(self.aggregate, folded, parameter))

    def _lower_with_bounds(
        self, folded: FoldedColumns, parameter: npt.ArrayLike | None
    ) -> tuple[Answers, Answers, Answers]:
        """From folded sketches to answers with their bounds."""
        assert isinstance(self.aggregate, str)
        lowered = self._lowered(self.aggregate, folded, parameter)
        assert lowered.bounds is not None
        low, high = (_masked(Lowered(ends, None, lowered.valid)) for ends in lowered.bounds)
        return _masked(lowered), low, high

    @staticmethod
    def _lowered(aggregate: str, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Lowered:
        if aggregate in ("QUANTILE", "APPROX_QUANTILE"):
            return _lower_quantiles(aggregate, folded, parameter)
        if aggregate in ("APPROX_TOP_ITEM", "APPROX_TOP_COUNT"):
            return _lower_top(aggregate, folded, parameter)
        if parameter is not None:
            raise StructureError(f"{aggregate} takes no parameter")
        return CATALOGUE[aggregate].lower(folded, None)


class FoldedColumns(ABC):
    """The folded columns of some ranges, as an aggregate's lowering reads them."""

    is_float: bool
    """Whether the values are doubles."""

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
        return tuple(in_words(kind, folded[0])) if kind in WORDS and len(folded) == 1 else folded

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


def aggregate_of(header: dict[str, Any], given: UserAggregate | None, call: str) -> str | UserAggregate:
    """The aggregate that a snapshot is of; a user-defined one must be given again to the function `call`."""
    label: str = header["aggregate"]
    if label in CATALOGUE:
        return label
    if given is None or given.name != label:
        raise SnapshotError(
            f"the snapshot is of the user-defined aggregate {label!r}; give it: {call}(blob, aggregate=...)"
        )
    return given


def array_name(kind: Kind | None, place: int) -> str:
    """What a column of a component is called in a snapshot."""
    return f"{kind.value if kind else 'user'} {place}"


def _known(aggregate: str) -> str:
    name = aggregate.upper()
    if name not in CATALOGUE:
        raise UnknownNameError(f"there is no aggregate {aggregate!r}; there are {', '.join(sorted(CATALOGUE))}")
    return name


def _masked(lowered: Lowered) -> Answers:
    if lowered.overflows:
        # A structure has no query to count such answers for, so a masked one would go unseen.
        raise AnswerOverflowError(SUM_OVERFLOW)
    values = lowered.values if lowered.exact is None else lowered.exact
    return np.ma.MaskedArray(values, np.ma.nomask if lowered.valid.all() else ~lowered.valid)


def _lower_quantiles(aggregate: str, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Lowered:
    """Quantiles with a phi for each lookup."""
    if parameter is None:
        raise StructureError(f"{aggregate} needs phi: lookup(left, right, phi), one number or one for each window")
    counts = folded.counts
    phis = np.broadcast_to(np.asarray(parameter, np.float64), counts.shape)
    if not np.all((phis > 0) & (phis <= 1)):
        raise StructureError("phi must be above 0 and at most 1")
    if aggregate == "APPROX_QUANTILE":
        return lower_approximate_quantile(folded, phis)
    selected = folded.select(quantile_ranks(counts, phis))
    exact = None if folded.is_float else selected.astype(np.int64)
    return Lowered(selected.astype(np.float64), exact, counts > 0)


def _lower_top(aggregate: str, folded: FoldedColumns, parameter: npt.ArrayLike | None) -> Lowered:
    """Frequent values and their counts, with a rank for each lookup."""
    ranks = np.asarray(0 if parameter is None else parameter)
    if ranks.dtype.kind not in "iu" or not np.all((ranks >= 1) & (ranks <= MOST_RANKS)):
        raise StructureError(
            f"{aggregate} needs a rank from 1 to {MOST_RANKS}: lookup(left, right, rank), one or one for each window"
        )
    lower = lower_top_item if aggregate == "APPROX_TOP_ITEM" else lower_top_count
    return lower(folded, ranks.astype(np.int64))
