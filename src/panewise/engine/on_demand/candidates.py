"""Candidates: the groups that may pass HAVING, found by a collective index instead of by folding every group.

A sequence has one index for each aggregate that some HAVING over it compares with a number, whatever the windows and
thresholds. It follows the final elements under the codes of their groups. What it gives is a superset of the groups
that pass: structures fold these, and HAVING decides. The time of a partial is the number of its slot, and its value
what the aggregate answers over it alone. Counts of partials add up as sums do, so an index of sums follows both.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.errors import SlowerLookupsWarning, SubstreamError
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.language.typecheck import type_of
from panewise.planning.having import Threshold
from panewise.substreams import SubstreamFilter, build, collective_index

LEVELS_PER_SIZE = 4
"""Of an index of counts or sums: more levels would look at fewer groups that nearly pass, and each costs at every
event."""
SUMS = "collective_sum"
SUM_LIMIT = 1 << 61
"""Indexes of sums hold no more."""


@dataclass(frozen=True)
class IndexKey:
    """What thresholds over one sequence must have in common to share an index."""

    function: str
    argument: Expression | None

    @staticmethod
    def of(threshold: Threshold) -> IndexKey:
        """The index that finds the groups beyond a threshold."""
        return IndexKey(threshold.call.function, threshold.call.argument)


class Needs(NamedTuple):
    """What queries need of an index: the longest range and the least threshold."""

    range: int
    """In microseconds; of partials, in slots."""
    bound: int | float


class CandidateIndex:
    """A collective index over the groups of a sequence."""

    _filter: SubstreamFilter
    _newest: int | None
    """The time of the newest element taken in."""

    def __init__(self, stream: Stream, key: IndexKey, *, are_partials: bool) -> None:
        self.key = key
        self._are_partials = are_partials
        self._are_doubles = key.argument is not None and type_of(key.argument, stream.attributes) is Type.DOUBLE
        self.queries: dict[str, Needs] = {}
        """The queries that it serves."""
        self.gave_up: str | None = None
        """Why it cannot be used any more: sums beyond what it can hold. None while it can."""
        self.lookups = 0
        self.candidates = 0
        """How many groups were checked in all lookups."""
        self._made_for = Needs(0, math.inf)

    def clear(self) -> None:
        """Start over, for the queries that there are now."""
        needs = self.queries.values()
        self._made_for = Needs(max(one.range for one in needs), min(one.bound for one in needs))
        self._newest = None
        self._filter = self._new_filter()

    def serves(self, needs: Needs) -> bool:
        """Whether it was made for such a query."""
        return needs.range <= self._made_for.range and needs.bound >= self._made_for.bound

    @property
    def nbytes(self) -> int:
        """The memory that it takes; 0 before it is first needed."""
        return self._filter.nbytes if self._made_for.range else 0

    @property
    def only_counts(self) -> bool:
        """Whether values do not matter, only how many there are."""
        return CATALOGUE[self.key.function].only_counts

    def append(self, codes: Ints, values: npt.NDArray[Any] | None, times: Ints) -> None:
        """Take in final elements in the order of time: groups, the values that its aggregate is about, and times."""
        if self.gave_up is not None or not len(times):
            return
        if values is not None and values.dtype.kind == "f":
            # NaN is above all numbers: as infinity it makes its group a candidate, and HAVING decides.
            values = np.where(np.isnan(values), np.inf, values)
        try:
            self._filter.update(codes, values, times)
        except SubstreamError as error:
            self.give_up(str(error))
        self._newest = int(times[-1])

    def give_up(self, why: str) -> None:
        """Give no groups any more, so that every one is checked."""
        self.gave_up = why
        warnings.warn(f"every group of a HAVING is checked from now on: {why}", SlowerLookupsWarning, stacklevel=2)

    def find(self, threshold: Threshold, length: int, at: int) -> Ints | None:
        """The codes of the groups that pass by their final elements; None for a time that the index has passed."""
        if self.gave_up is not None or (self._newest is not None and at < self._newest):
            return None
        found = self._filter.lookup(at, length, threshold.comparison, threshold.bound).keys
        self.lookups += 1
        return found

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert all(map(self.serves, self.queries.values()))
        if self.gave_up is None:
            self._filter.check_invariants()

    def _new_filter(self) -> SubstreamFilter:
        sheet = collective_index(self.key.function)
        assert sheet is not None
        length, bound = self._made_for
        if sheet.has_error:
            least = int(max(1, min(bound, SUM_LIMIT / 2)))
            name = SUMS if self._are_partials else sheet.name
            return build(name, length, levels_per_size=LEVELS_PER_SIZE, least_threshold=least)
        return build(sheet.name, length, doubles=self._are_doubles)
