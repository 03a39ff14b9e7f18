"""Which filter serves a HAVING, and why: one readable function of the data sheets."""

from __future__ import annotations

from dataclasses import dataclass

from panewise.errors import SubstreamError
from panewise.substreams.collective_count import CollectiveCount
from panewise.substreams.collective_extremes import CollectiveMax, CollectiveMin
from panewise.substreams.collective_sum import CollectiveSum
from panewise.substreams.filter import COMPARISONS
from panewise.substreams.scan import ScanSubstreams
from panewise.substreams.sheet import FilterShape, FilterSheet

COLLECTIVE = (CollectiveCount.sheet, CollectiveSum.sheet, CollectiveMax.sheet, CollectiveMin.sheet)


def collective_index(aggregate: str) -> FilterSheet | None:
    """The collective index that follows the answers of an aggregate; None if there is none."""
    return next((sheet for sheet in COLLECTIVE if sheet.follows(aggregate.upper())), None)


@dataclass(frozen=True)
class FilterChoice:
    """A filter by name, and the reason in words."""

    name: str
    reason: str


def choose(
    aggregate: str,
    comparison: str,
    shape: FilterShape,
    *,
    lookups_per_update: float,
    doubles: bool = False,
    least: float | None = None,
) -> FilterChoice:
    """The cheaper of the collective index and the scan; `least` is the least value that can occur, if it is known.

    >>> few = FilterShape(keys=5_000, events=500_000, answer=200, active=4_000)
    >>> choose("COUNT", ">=", few, lookups_per_update=1).name
    'collective_count'
    >>> choose("SUM", ">=", few, lookups_per_update=1).reason
    'collective_sum takes values above zero, and the values may be zero or negative'
    """
    if comparison not in COMPARISONS:
        raise SubstreamError(f"a comparison is one of {' '.join(COMPARISONS)}, got {comparison!r}")
    sheet = collective_index(aggregate)
    if sheet is None:
        raise SubstreamError(f"no substream filter compares {aggregate.upper()}; check each group instead")
    problem = sheet.why_not(aggregate, doubles=doubles, least=least)
    if problem is not None:
        return FilterChoice(ScanSubstreams.sheet.name, problem)
    index, scan = (_cost(each, comparison, shape, lookups_per_update) for each in (sheet, ScanSubstreams.sheet))
    name = sheet.name if index < scan else ScanSubstreams.sheet.name
    return FilterChoice(name, f"{index:,.0f} steps an update with {sheet.name}, {scan:,.0f} when asking every key")


def _cost(sheet: FilterSheet, comparison: str, shape: FilterShape, lookups_per_update: float) -> float:
    """Steps per update, lookups included."""
    return sheet.update.of(shape) + lookups_per_update * sheet.lookup_cost(comparison, shape)
