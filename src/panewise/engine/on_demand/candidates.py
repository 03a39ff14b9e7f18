"""Candidates: the groups that may pass HAVING, found by a collective index instead of by folding every group.

A sequence has one index for each aggregate that some HAVING over it compares with a number, whatever the windows and
thresholds. It follows the final events under the codes of their groups. What it gives is a superset of the groups that
pass: structures fold these, and HAVING decides.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.errors import SlowerLookupsWarning, SubstreamError
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.language.typecheck import type_of
from panewise.planning.having import Threshold
from panewise.substreams import SubstreamFilter, build, collective_index

Ints = npt.NDArray[np.int64]

LEVELS_PER_SIZE = 4
"""Of an index of counts or sums: more levels would look at fewer groups that nearly pass, and each costs at every
event."""
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

    range_us: int
    bound: int | float


class CandidateIndex:
    """A collective index over the groups of a sequence."""

    _filter: SubstreamFilter
    _newest_us: int | None
    """The time of the newest event taken in."""

    def __init__(self, stream: Stream, key: IndexKey) -> None:
        self._stream = stream
        self.key = key
        self.queries: dict[str, Needs] = {}
        """The queries that it serves."""
        self.gave_up: str | None = None
        """Why it cannot be used any more: sums beyond what it can hold. None while it can."""
        self.lookups = 0
        self.candidates = 0
        """How many groups it gave in all lookups."""
        self._made_for = Needs(0, math.inf)

    def clear(self) -> None:
        """Start over, for the queries that there are now."""
        needs = self.queries.values()
        self._made_for = Needs(max(one.range_us for one in needs), min(one.bound for one in needs))
        self._newest_us = None
        self._filter = self._new_filter()

    def serves(self, needs: Needs) -> bool:
        """Whether it was made for such a query."""
        return needs.range_us <= self._made_for.range_us and needs.bound >= self._made_for.bound

    @property
    def nbytes(self) -> int:
        """The memory that it takes."""
        return self._filter.nbytes

    def append(self, raw: dict[str, pa.Array], codes: Ints) -> None:
        """Take in final events in the order of time, with the codes of their groups."""
        if self.gave_up is not None:
            return
        times = np.asarray(raw[self._stream.timestamp])
        try:
            self._feed(raw, codes, times)
        except SubstreamError as error:
            self.gave_up = str(error)
            warnings.warn(
                f"every group of a HAVING is checked from now on: {error}", SlowerLookupsWarning, stacklevel=2
            )
        self._newest_us = int(times[-1])

    def find(self, threshold: Threshold, range_us: int, at_us: int) -> Ints | None:
        """The codes of the groups that pass by their final events; None for a time that the index has passed."""
        if self.gave_up is not None or (self._newest_us is not None and at_us < self._newest_us):
            return None
        found = self._filter.lookup(at_us, range_us, threshold.comparison, threshold.bound).keys
        self.lookups += 1
        self.candidates += len(found)
        return found

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert all(map(self.serves, self.queries.values()))
        if self.gave_up is None:
            self._filter.check_invariants()

    def _new_filter(self) -> SubstreamFilter:
        sheet = collective_index(self.key.function)
        assert sheet is not None
        range_us, bound = self._made_for
        if sheet.has_error:
            least = int(max(1, min(bound, SUM_LIMIT / 2)))
            return build(sheet.name, range_us, levels_per_size=LEVELS_PER_SIZE, least_threshold=least)
        assert self.key.argument is not None
        doubles = type_of(self.key.argument, self._stream.attributes) is Type.DOUBLE
        return build(sheet.name, range_us, doubles=doubles)

    def _feed(self, raw: dict[str, pa.Array], codes: Ints, times: Ints) -> None:
        """Give the filter the events that its aggregate counts."""
        if self.key.argument is None:
            self._filter.update(codes, None, times)
            return
        values = evaluate(self.key.argument, raw, self._stream.attributes)
        if values.null_count:
            valid = np.asarray(values.is_valid())
            codes, times = codes[valid], times[valid]
        if CATALOGUE[self.key.function].only_counts:
            self._filter.update(codes, None, times)
            return
        numbers: npt.NDArray[Any] = np.asarray(values.drop_null())
        if numbers.dtype.kind == "f":
            # NaN is above all numbers: as infinity it makes its group a candidate, and HAVING decides.
            numbers = np.where(np.isnan(numbers), np.inf, numbers)
        self._filter.update(codes, numbers, times)
