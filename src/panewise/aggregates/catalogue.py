"""The catalogue: every aggregate, its components, and how they are lowered.

To add an aggregate made of existing components, write a lowering and one line of `CATALOGUE`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from panewise.aggregates.approximate import (
    lower_approximate_distinct,
    lower_approximate_quantile,
    lower_top_count,
    lower_top_item,
)
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import (
    FoldedComponents,
    Lowered,
    lower_average,
    lower_count,
    lower_distinct,
    lower_extreme,
    lower_mode,
    lower_quantile,
    lower_rows,
    lower_sum,
    lower_variance,
)
from panewise.aggregates.types import Type

ANY = frozenset(Type)
NUMBERS = frozenset({Type.BIGINT, Type.DOUBLE})
ORDERED = frozenset({Type.BIGINT, Type.DOUBLE, Type.TIMESTAMP})

_SUM_BY_TYPE: Mapping[Type, Kind] = {Type.BIGINT: Kind.SUM_INT, Type.DOUBLE: Kind.SUM_FLOAT}
_SQUARES_BY_TYPE: Mapping[Type, Kind] = {Type.BIGINT: Kind.SQUARES_INT, Type.DOUBLE: Kind.SQUARES}


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of the catalogue.

    `kinds(type)` lists the components that it needs over an input of that type, and `lower(folded, parameter)`
    turns the folded components of many windows into their answers. The laws that it obeys are those of its components:
    all combine in any order, and `Kind.is_subtractable` says which can be taken off again. `is_exact` says that answers
    have no error: answers of sketches are approximate, and come with bounds.
    """

    name: str
    types: frozenset[Type]
    kinds: Callable[[Type], tuple[Kind, ...]]
    lower: Callable[[FoldedComponents, float | None], Lowered]
    result: Type | None = None
    is_exact: bool = True

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


def _always(*kinds: Kind) -> Callable[[Type], tuple[Kind, ...]]:
    return lambda _: kinds


def _sum_kinds(argument: Type) -> tuple[Kind, ...]:
    return (Kind.COUNT, _SUM_BY_TYPE[argument])


def _variance(*, sample: bool, root: bool) -> Callable[[FoldedComponents, float | None], Lowered]:
    def lower(folded: FoldedComponents, parameter: float | None) -> Lowered:
        return lower_variance(folded, sample=sample, root=root)

    return lower


def _variance_kinds(argument: Type) -> tuple[Kind, ...]:
    return (*_sum_kinds(argument), _SQUARES_BY_TYPE[argument])


_MOMENTS = {
    "VAR_POP": _variance(sample=False, root=False),
    "VAR_SAMP": _variance(sample=True, root=False),
    "STDDEV_POP": _variance(sample=False, root=True),
    "STDDEV_SAMP": _variance(sample=True, root=True),
}

EVERY_AGGREGATE = (
    Aggregate("COUNT_ALL", ANY, _always(Kind.ROWS), lower_rows, Type.BIGINT),
    Aggregate("COUNT", ANY, _always(Kind.COUNT), lower_count, Type.BIGINT),
    Aggregate("SUM", NUMBERS, _sum_kinds, lower_sum),
    Aggregate("AVG", NUMBERS, _sum_kinds, lower_average, Type.DOUBLE),
    Aggregate("MIN", ORDERED, _always(Kind.COUNT, Kind.MIN), lower_extreme(Kind.MIN)),
    Aggregate("MAX", ORDERED, _always(Kind.COUNT, Kind.MAX), lower_extreme(Kind.MAX)),
    *(Aggregate(name, NUMBERS, _variance_kinds, lower, Type.DOUBLE) for name, lower in _MOMENTS.items()),
    Aggregate("QUANTILE", ORDERED, _always(Kind.COUNT, Kind.VALUES), lower_quantile),
    Aggregate("MEDIAN", ORDERED, _always(Kind.COUNT, Kind.VALUES), lower_quantile),
    Aggregate("MODE", ORDERED, _always(Kind.COUNT, Kind.VALUES), lower_mode),
    Aggregate("COUNT_DISTINCT", ANY, _always(Kind.VALUES), lower_distinct, Type.BIGINT),
    Aggregate(
        "APPROX_QUANTILE",
        NUMBERS,
        _always(Kind.COUNT, Kind.QUANTILES),
        lower_approximate_quantile,
        Type.DOUBLE,
        is_exact=False,
    ),
    Aggregate(
        "APPROX_COUNT_DISTINCT",
        ANY,
        _always(Kind.DISTINCT),
        lower_approximate_distinct,
        Type.BIGINT,
        is_exact=False,
    ),
    Aggregate("APPROX_TOP_ITEM", ORDERED, _always(Kind.FREQUENT), lower_top_item, is_exact=False),
    Aggregate(
        "APPROX_TOP_COUNT",
        ANY,
        _always(Kind.FREQUENT),
        lower_top_count,
        Type.BIGINT,
        is_exact=False,
    ),
)

CATALOGUE: Mapping[str, Aggregate] = {aggregate.name: aggregate for aggregate in EVERY_AGGREGATE}
