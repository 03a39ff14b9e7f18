"""The catalogue: every aggregate, its components, how they are lowered, and its laws.

An aggregate is one entry. The language, the planner, the engine and Spark read it, and know no aggregate by its name.
To add one that is made of existing components, write a lowering and an entry: in `EVERY_AGGREGATE`, or in a program of
your own with `register`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from panewise.aggregates.approximate import (
    lower_approximate_distinct,
    lower_approximate_quantile,
    lower_top_count,
    lower_top_item,
)
from panewise.aggregates.components import Kind
from panewise.aggregates.lists import lower_collected, lower_last
from panewise.aggregates.lowering import (
    FoldedComponents,
    Lowered,
    lower_average,
    lower_condition,
    lower_count,
    lower_distinct,
    lower_extreme,
    lower_mode,
    lower_quantile,
    lower_rows,
    lower_sum,
    lower_variance,
)
from panewise.aggregates.moments import (
    lower_correlation,
    lower_covariance,
    lower_decayed,
    lower_intercept,
    lower_kurtosis,
    lower_picked,
    lower_skewness,
    lower_slope,
)
from panewise.aggregates.types import Type
from panewise.errors import ArgumentError

ANY = frozenset(Type)
NUMBERS = frozenset({Type.BIGINT, Type.DOUBLE})
CONDITIONS = frozenset({Type.BOOLEAN})
ORDERED = frozenset({Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP})
COMPARED = ORDERED | {Type.STRING}
COUNTED = frozenset({Kind.ROWS, Kind.COUNT})
"""Components that are differences of positions with any structure."""

_SUM_BY_TYPE: Mapping[Type, Kind] = {Type.BIGINT: Kind.SUM_INT, Type.DOUBLE: Kind.SUM_FLOAT}
_SQUARES_BY_TYPE: Mapping[Type, Kind] = {Type.BIGINT: Kind.SQUARES_INT, Type.DOUBLE: Kind.SQUARES}


class Making(Enum):
    """How an answer is made of the components that an aggregate has beside the number of values.

    Whoever can do more for one of the first four (an index over groups, a TimeGram, a compiled kernel) asks for this.
    """

    FOLD = "the component itself"
    MEAN = "the component, divided by the number of values"
    VARIANCE = "the variance, of a sum and a sum of squares"
    DEVIATION = "its root"
    OTHER = "what the lowering says"


class Reading(Enum):
    """What an aggregate wants to know of the multiset of values."""

    RANK = "the value at a rank"
    DISTINCT = "how many values are different"
    FREQUENCY = "how often each value occurs"


class Parameter(Enum):
    """What the second argument of an aggregate is."""

    PHI = "a number from 0 to 1"
    RANK = "a rank from 1 on"
    HALF_LIFE = "a duration"
    MOST = "how many values there are at most"


class Partner(Enum):
    """What stands beside each value of an aggregate of pairs. A pair is NULL if one of both is."""

    ARGUMENT = "the second argument"
    TIME = "the event time"


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of the catalogue.

    `kinds(type)` lists the components that it needs over an input of that type, and `lower(folded, parameter)`
    turns the folded components of many windows into their answers. The laws that it obeys are those of its components:
    all combine in any order, and `Kind.is_subtractable` says which can be taken off again.
    """

    name: str
    types: frozenset[Type]
    kinds: Callable[[Type], tuple[Kind, ...]]
    lower: Callable[[FoldedComponents, Any], Lowered]
    result: Type | None = None
    """The type of the answer; None for that of the argument."""
    is_list: bool = False
    """Whether the answer is a list of such values."""
    is_exact: bool = True
    """Whether answers have no error: answers of sketches are approximate, and come with bounds."""
    exact_form: str | None = None
    """The aggregate that answers the same without error; None if there is none, or if it is exact itself."""
    making: Making = Making.OTHER
    fewest: int = 1
    """With fewer values the answer is NULL; 0 for an aggregate that answers 0 over nothing."""
    reading: Reading | None = None
    """What it wants to know of VALUES, if that is one of its components."""
    parameter: Parameter | None = None
    partner: Partner | None = None
    partner_types: frozenset[Type] = frozenset()
    """What the second argument may be, if that is the partner."""
    synonyms: tuple[str, ...] = ()
    written: str | None = None
    """How it is written where that is not `name(argument)`, with {} for the argument."""

    def accepts(self, argument: Type) -> bool:
        """Whether an argument of this type makes sense."""
        return argument in self.types

    def result_type(self, argument: Type | None) -> Type:
        """The type of the answer; aggregates without a fixed one keep the type of their argument."""
        if self.result is not None:
            return self.result
        if argument is None:
            raise ValueError(f"{self.name} needs an argument")
        return argument

    @cached_property
    def takes_argument(self) -> bool:
        """Whether it looks at values, and not only at how many events there are."""
        return Kind.ROWS not in self.kinds(self._any_type)

    @cached_property
    def only_counts(self) -> bool:
        """Whether answers are numbers of events or of values."""
        return COUNTED.issuperset(self.kinds(self._any_type))

    def component(self, argument: Type | None = None) -> Kind | None:
        """The one component, beside the count, of a fold or a mean; None for others. Sums depend on the type."""
        return self._components.get(argument or self._any_type, self._components[self._any_type])

    def fold(self, argument: Type | None = None) -> Kind | None:
        """The component that the answer is as it stands; None if answers are made of their components."""
        return self.component(argument) if self.making is Making.FOLD else None

    @cached_property
    def held(self) -> frozenset[tuple[Type, Kind]]:
        """What a column must hold for it, by type: structures count by positions."""
        types = self.types & NUMBERS or self.types
        return frozenset((type, kind) for type in types for kind in self.kinds(type) if kind not in COUNTED)

    @cached_property
    def _components(self) -> Mapping[Type, Kind | None]:
        is_one = self.making in (Making.FOLD, Making.MEAN)
        by_type = {type: self.kinds(type) for type in self.types}
        return {
            type: next((kind for kind in kinds if kind not in COUNTED), kinds[0]) if is_one else None
            for type, kinds in by_type.items()
        }

    @cached_property
    def _any_type(self) -> Type:
        return Type.BIGINT if Type.BIGINT in self.types else next(type for type in Type if type in self.types)


def _always(*kinds: Kind) -> Callable[[Type], tuple[Kind, ...]]:
    return lambda _: kinds


def _sum_kinds(argument: Type) -> tuple[Kind, ...]:
    return (Kind.COUNT, _SUM_BY_TYPE[argument])


def _variance(name: str, *, sample: bool, root: bool, synonyms: tuple[str, ...] = ()) -> Aggregate:
    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        return lower_variance(folded, sample=sample, root=root)

    making = Making.DEVIATION if root else Making.VARIANCE
    fewest = 2 if sample else 1
    return Aggregate(
        name, NUMBERS, _variance_kinds, lower, Type.DOUBLE, making=making, fewest=fewest, synonyms=synonyms
    )


def _variance_kinds(argument: Type) -> tuple[Kind, ...]:
    return (*_sum_kinds(argument), _SQUARES_BY_TYPE[argument])


def _of_two(name: str, lower: Callable[[FoldedComponents, Any], Lowered], *, fewest: int = 1) -> Aggregate:
    """An aggregate of pairs of numbers."""
    kinds = _always(Kind.COUNT, Kind.COMOMENTS)
    return Aggregate(
        name, NUMBERS, kinds, lower, Type.DOUBLE, fewest=fewest, partner=Partner.ARGUMENT, partner_types=NUMBERS
    )


def _of_numbers(kind: Kind, of_strings: Kind) -> Callable[[Type], tuple[Kind, ...]]:
    """A component of numbers, and the one that does the same for strings."""
    return lambda argument: (Kind.COUNT, of_strings if argument is Type.STRING else kind)


def _picked(name: str, kind: Kind, of_strings: Kind, partner: Partner, *synonyms: str) -> Aggregate:
    """The value beside the least or the greatest partner."""
    kinds, partner_types = _of_numbers(kind, of_strings), ORDERED if partner is Partner.ARGUMENT else frozenset[Type]()
    return Aggregate(
        name, ANY, kinds, lower_picked(kind), partner=partner, partner_types=partner_types, synonyms=synonyms
    )


def _list(name: str, kind: Kind, lower: Callable[[FoldedComponents, Any], Lowered]) -> Aggregate:
    """Values in the order of time."""
    return Aggregate(
        name, ANY, _always(Kind.COUNT, kind), lower, is_list=True, parameter=Parameter.MOST, partner=Partner.TIME
    )


def _decayed(name: str, *, mean: bool) -> Aggregate:
    return Aggregate(
        name, NUMBERS, _always(Kind.COUNT, Kind.DECAYED), lower_decayed(mean=mean), Type.DOUBLE,
        parameter=Parameter.HALF_LIFE, partner=Partner.TIME,
    )  # fmt: skip


_FOLD, _VALUES = Making.FOLD, _always(Kind.COUNT, Kind.VALUES)

EVERY_AGGREGATE = (
    Aggregate(
        "COUNT_ALL", ANY, _always(Kind.ROWS), lower_rows, Type.BIGINT, making=_FOLD, fewest=0, written="COUNT(*)"
    ),
    Aggregate("COUNT", ANY, _always(Kind.COUNT), lower_count, Type.BIGINT, making=_FOLD, fewest=0),
    Aggregate("SUM", NUMBERS, _sum_kinds, lower_sum, making=_FOLD),
    Aggregate("AVG", NUMBERS, _sum_kinds, lower_average, Type.DOUBLE, making=Making.MEAN, synonyms=("MEAN",)),
    Aggregate("MIN", COMPARED, _of_numbers(Kind.MIN, Kind.LEAST_VALUES), lower_extreme(Kind.MIN), making=_FOLD),
    Aggregate("MAX", COMPARED, _of_numbers(Kind.MAX, Kind.GREATEST_VALUES), lower_extreme(Kind.MAX), making=_FOLD),
    _variance("VAR_POP", sample=False, root=False),
    _variance("VAR_SAMP", sample=True, root=False, synonyms=("VARIANCE",)),
    _variance("STDDEV_POP", sample=False, root=True),
    _variance("STDDEV_SAMP", sample=True, root=True, synonyms=("STDDEV",)),
    Aggregate(
        "SKEWNESS", NUMBERS, _always(Kind.COUNT, Kind.MOMENTS), lower_skewness, Type.DOUBLE
    ),
    Aggregate(
        "KURTOSIS", NUMBERS, _always(Kind.COUNT, Kind.MOMENTS), lower_kurtosis, Type.DOUBLE
    ),
    _of_two("COVAR_POP", lower_covariance(sample=False)),
    _of_two("COVAR_SAMP", lower_covariance(sample=True), fewest=2),
    _of_two("CORR", lower_correlation, fewest=2),
    _of_two("REGR_SLOPE", lower_slope),
    _of_two("REGR_INTERCEPT", lower_intercept),
    Aggregate(
        "BOOL_AND", CONDITIONS, _always(Kind.COUNT, Kind.MIN), lower_condition(Kind.MIN), synonyms=("EVERY",)
    ),
    Aggregate(
        "BOOL_OR", CONDITIONS, _always(Kind.COUNT, Kind.MAX), lower_condition(Kind.MAX), synonyms=("SOME",)
    ),
    _picked("FIRST", Kind.AT_LEAST, Kind.LEAST_VALUES, Partner.TIME),
    _picked("LAST", Kind.AT_GREATEST, Kind.GREATEST_VALUES, Partner.TIME),
    _picked("ARG_MIN", Kind.AT_LEAST, Kind.LEAST_VALUES, Partner.ARGUMENT, "MIN_BY"),
    _picked("ARG_MAX", Kind.AT_GREATEST, Kind.GREATEST_VALUES, Partner.ARGUMENT, "MAX_BY"),
    _list("LAST_K", Kind.GREATEST_VALUES, lower_last),
    _list("COLLECT", Kind.LEAST_VALUES, lower_collected),
    _decayed("EWM_SUM", mean=False),
    _decayed("EWM_AVG", mean=True),
    Aggregate("QUANTILE", ORDERED, _VALUES, lower_quantile, reading=Reading.RANK, parameter=Parameter.PHI),
    Aggregate("MEDIAN", ORDERED, _VALUES, lower_quantile, reading=Reading.RANK),
    Aggregate("MODE", COMPARED, _VALUES, lower_mode, reading=Reading.FREQUENCY),
    Aggregate(
        "COUNT_DISTINCT", ANY, _always(Kind.VALUES), lower_distinct, Type.BIGINT, fewest=0, reading=Reading.DISTINCT,
        written="COUNT(DISTINCT {})",
    ),
    Aggregate(
        "APPROX_QUANTILE", NUMBERS, _always(Kind.COUNT, Kind.QUANTILES), lower_approximate_quantile, Type.DOUBLE,
        is_exact=False, exact_form="QUANTILE", parameter=Parameter.PHI,
    ),
    Aggregate(
        "APPROX_COUNT_DISTINCT", ANY, _always(Kind.DISTINCT), lower_approximate_distinct, Type.BIGINT,
        is_exact=False, exact_form="COUNT_DISTINCT", fewest=0,
    ),
    Aggregate(
        "APPROX_TOP_ITEM", ORDERED, _always(Kind.FREQUENT), lower_top_item, is_exact=False, parameter=Parameter.RANK
    ),
    Aggregate(
        "APPROX_TOP_COUNT", ANY, _always(Kind.FREQUENT), lower_top_count, Type.BIGINT,
        is_exact=False, fewest=0, parameter=Parameter.RANK,
    ),
)  # fmt: skip

_ENTRIES = {entry.name: entry for entry in EVERY_AGGREGATE}
_OWN: dict[str, Aggregate] = {}

CATALOGUE: Mapping[str, Aggregate] = MappingProxyType(_ENTRIES)


def register(aggregate: Aggregate) -> None:
    """Add an aggregate of your own, which queries may call from then on; the same one again changes nothing.

    Every process that reads its queries must do so, also one that restores a snapshot or opens a lookup client. Spark's
    workers get the entry with the job.

    Args:
        aggregate: The entry. For Spark its functions must be importable in workers, or defined where they are pickled
            by value: in `__main__`, or inside a function.

    Raises:
        ArgumentError: The name is taken or has other characters, or the entry contradicts itself.

    Cost: O(aggregates).
    """
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", aggregate.name):
        raise ArgumentError(f"aggregate {aggregate.name!r}: a name has capitals, digits and _, as in SPREAD")
    if _OWN.get(aggregate.name) == aggregate:
        return
    if not all(_is_made_so(aggregate, argument) for argument in aggregate.types):
        raise ArgumentError(
            f"aggregate {aggregate.name}: its components or its result are not those of {aggregate.making}; leave out "
            f"`making`, and the lowering alone decides"
        )
    taken = {name for entry in _ENTRIES.values() for name in (entry.name, *entry.synonyms)}
    for name in (aggregate.name, *aggregate.synonyms):
        if name in taken:
            raise ArgumentError(f"there is an aggregate {name} already; withdraw it, or take another name")
    _ENTRIES[aggregate.name] = _OWN[aggregate.name] = aggregate


def _is_made_so(aggregate: Aggregate, argument: Type) -> bool:
    """Whether what an aggregate says of its making can be true: kernels rely on it."""
    held, sums = set(aggregate.kinds(argument)) - COUNTED, {_SUM_BY_TYPE.get(argument)}
    match aggregate.making:
        case Making.FOLD:
            result = argument if held else Type.BIGINT
            kept = {Kind.LEAST_VALUES}, {Kind.GREATEST_VALUES}
            possible = kept if argument is Type.STRING else (sums, {Kind.MIN}, {Kind.MAX})
            return (aggregate.result or argument) is result and held in (*possible, set())
        case Making.MEAN:
            return aggregate.result is Type.DOUBLE and held == sums
        case Making.VARIANCE | Making.DEVIATION:
            return aggregate.result is Type.DOUBLE and held == sums | {_SQUARES_BY_TYPE.get(argument)}
        case _:
            return True


def withdraw(name: str) -> None:
    """Take out an aggregate that was registered. Queries that call it must be gone.

    Raises:
        ArgumentError: None was registered under this name.

    Cost: O(1).
    """
    if _OWN.pop(name, None) is None:
        raise ArgumentError(f"aggregate {name} was not registered, so it cannot be withdrawn")
    del _ENTRIES[name]


def registered() -> tuple[Aggregate, ...]:
    """The aggregates that were registered, in order."""
    return tuple(_OWN.values())


def adopt(aggregates: Iterable[Aggregate]) -> None:
    """Register the aggregates of a job in a worker; one of the same name that another job brought makes way."""
    for aggregate in aggregates:
        if _OWN.get(aggregate.name, aggregate) != aggregate:
            withdraw(aggregate.name)
        register(aggregate)


def carrier_of(name: str) -> str:
    """The first aggregate with an argument that is made of the same components: one column serves both."""
    held = CATALOGUE[name].held
    if CATALOGUE[name].types == CONDITIONS:
        # Structures hold a condition as 0 or 1.
        kinds = {kind for _, kind in held}
        return next(
            entry.name
            for entry in _ENTRIES.values()
            if entry.takes_argument and {kind for type, kind in entry.held if type is Type.BIGINT} == kinds
        )
    return next(entry.name for entry in _ENTRIES.values() if entry.takes_argument and entry.held == held)
