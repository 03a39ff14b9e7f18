"""Candidates: the groups that may pass HAVING, found by a collective index instead of by folding every group.

A sequence has one index for each aggregate that some HAVING over it compares with a number, whatever the windows and
thresholds. It follows the final elements under the codes of their groups. What it gives is a superset of the groups
that pass: structures fold these, and HAVING decides. The time of a partial is the number of its slot, and its value
what the aggregate answers over it alone. Counts of partials add up as sums do, so an index of sums follows both.

How many levels of each size an index of counts or sums has (p in Sharing, section 4.1) follows from its thresholds and
from what it saw. More levels look at fewer groups that nearly pass, and each costs at every event. So after as many
uses as it has groups, it asks itself how many groups lie between a threshold and the level that serves it, for each p.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.on_demand.adaptation import FEWEST_USES, LOOKUP_STEPS, MARGIN, UPDATE_STEPS, WINS
from panewise.errors import SlowerLookupsWarning, SubstreamError
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.language.typecheck import type_of
from panewise.planning.having import Threshold
from panewise.substreams import SubstreamFilter, build, collective_index
from panewise.substreams.levels import LevelFilter, error_of, reached

FIRST_LEVELS = 4
"""Levels of each size, before anything was seen; fewer if these already are exact for all thresholds."""
EVERY_LEVELS = (1, 2, 3, 4, 6, 8, 12, 16)
"""The levels of each size that are compared."""
CHECK_STEPS = 2.0
"""What it takes to look at a group that nearly passes, in steps of an update."""
MOST_ASKED = 16
"""So many different lookups are looked at, the most frequent ones."""
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


class AskedThreshold(NamedTuple):
    """A lookup: a comparison with a number, over a window of some length."""

    comparison: str
    bound: int | float
    length: int


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
        self.levels_per_size = FIRST_LEVELS
        """How many levels of each size it has, if it has levels."""
        self._made_for = Needs(0, math.inf)
        self._updates = 0
        self._asked: Counter[AskedThreshold] = Counter()
        self._better, self._wins = FIRST_LEVELS, 0
        """The levels that were best at the last look, and at how many looks."""
        self._is_empty = True

    def clear(self) -> None:
        """Start over, for the queries that there are now."""
        needs = self.queries.values()
        self._made_for = Needs(max(one.range for one in needs), min(one.bound for one in needs))
        # Up to p the level is one event, so lookups of at least p are exact: of at least v + 1 those of more than v.
        greatest = max(one.bound for one in needs)
        self.levels_per_size = max(1, min(self.levels_per_size, math.floor(min(greatest, SUM_LIMIT / 2)) + 1))
        self._newest = None
        self._is_empty = True
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
        # What it is filled with when it is built was counted before.
        self._updates += 0 if self._is_empty else len(times)
        self._is_empty = False

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
        self._asked[AskedThreshold(threshold.comparison, threshold.bound, length)] += 1
        return found

    def adapt(self) -> bool:
        """Whether it should be built anew, with the levels that fit its thresholds and what was seen."""
        lookups = self._asked.total()
        if self.gave_up is not None or not lookups or self._newest is None or not isinstance(self._filter, LevelFilter):
            return False
        keys = self._filter.live_keys
        if self._updates + lookups < max(FEWEST_USES, keys):
            return False
        alike = self._updates * UPDATE_STEPS + lookups * LOOKUP_STEPS
        works = {levels: alike + self._work(levels, keys) for levels in {*EVERY_LEVELS, self.levels_per_size}}
        best = min(works, key=lambda levels: works[levels])
        is_better = works[self.levels_per_size] > MARGIN * works[best]
        self._updates, self._asked = 0, Counter()
        self._wins = self._wins + 1 if is_better and best == self._better else int(is_better)
        self._better = best
        if self._wins < WINS:
            return False
        self.levels_per_size, self._wins = best, 0
        return True

    def _work(self, levels: int, keys: int) -> float:
        """The steps that updates and lookups since the last look take with so many levels of each size."""
        updates = self._updates * levels * math.log2(max(2, keys))
        nearly = 0.0
        for asked, times in self._asked.most_common(MOST_ASKED):
            nearly += times * self._nearly_passing(asked, levels)
        return updates + CHECK_STEPS * nearly

    def _nearly_passing(self, asked: AskedThreshold, levels: int) -> int:
        """How many groups an index with so many levels would look at that do not pass."""
        bound = math.ceil(min(max(asked.bound, 1), SUM_LIMIT / 2))
        if asked.comparison.startswith(">"):
            near = reached(bound, levels)
        else:
            near = math.floor(bound / (1 - error_of(levels)))
        assert self._newest is not None
        sizes = [
            len(self._filter.lookup(self._newest, asked.length, asked.comparison, some).keys)
            for some in (near, asked.bound)
        ]
        return max(0, sizes[0] - sizes[1])

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
            return build(name, length, levels_per_size=self.levels_per_size, least_threshold=least)
        return build(sheet.name, length, doubles=self._are_doubles)
