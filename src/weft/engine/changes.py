"""Changed answers only: of the windows that close, the groups whose answers differ from those of the window before.

For each query the last answers of every group are kept, in arrays by the number of the group. A group that had an
answer and has none in the next window (no event, or HAVING no longer holds) is reported once more, with NULL, so that
who follows the changes knows exactly what holds. The first report of a query has all its groups.

Cost: a sort of the rows that close. Space: one row per query and group that ever had an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.aggregates.lowering import Lowered
from weft.engine.answers import Groups, QueryAnswers
from weft.engine.tables import KeyTable
from weft.language.expressions import AggregateCall
from weft.language.model import Query, Stream
from weft.windows import TimeWindow
from weft.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOWHERE = -(2**62)
"""The instance of a group that has no answer."""


class Changes:
    """The last answers of one stream's sliding queries."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._known: dict[str, _LastAnswers] = {}

    def forget(self, query: str) -> None:
        """Forget a query."""
        self._known.pop(query, None)

    def only(
        self, answers: Iterable[QueryAnswers], last: Mapping[str, int], queries: Mapping[str, Query]
    ) -> list[QueryAnswers]:
        """The rows that differ from the window before, and rows of NULL for groups that are gone.

        `last` has the newest instance of each query that has closed; without it, no group of the query is gone yet.
        """
        changed: list[QueryAnswers] = []
        parts = {part.query.name: part for part in answers}
        for name, query in queries.items():
            if name not in self._known:
                self._known[name] = _LastAnswers(self._stream, query)
            changed += self._known[name].changed(parts.get(name), last.get(name))
        return [part for part in changed if len(part)]

    def correct(self, answers: Iterable[QueryAnswers]) -> None:
        """Take note of answers that were corrected since they were reported."""
        for part in answers:
            if part.query.name in self._known:
                self._known[part.query.name].correct(part)


@dataclass
class _LastAnswers:
    """The last answers of one query: by group, the instance, and the values of each aggregate."""

    stream: Stream
    query: Query

    def __post_init__(self) -> None:
        self._table = KeyTable([self.stream.attributes[name] for name in self.query.group_by])
        self._instances = np.empty(0, np.int64)
        self._columns: dict[AggregateCall, tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Bools]] = {}

    def changed(self, part: QueryAnswers | None, last: int | None) -> Iterator[QueryAnswers]:
        """What changed, and what is gone; `part` becomes what is known."""
        gone_groups: list[Ints] = []
        gone_at: list[Ints] = []
        if part is not None and len(part):
            columns = part.groups.decode(part.keys)
            groups = self._table.ids([columns[name] for name in self.query.group_by], len(part))
            self._grow()
            order = np.lexsort((part.instances, groups))
            part, groups = part.from_rows(order), groups[order]
            is_first = np.append(True, groups[1:] != groups[:-1])
            before = np.where(is_first, self._instances[groups], np.append(0, part.instances[:-1]))
            follows = before == part.instances - 1
            same = follows & self._same(part, groups, is_first)
            # Between an answer and the next one that does not follow it, the group was gone.
            gap = (before != NOWHERE) & ~follows
            gone_groups.append(groups[gap])
            gone_at.append(before[gap] + 1)
            yield part.from_rows(np.flatnonzero(~same))
            self._take(part, groups)
        if last is not None:
            ended = np.flatnonzero((self._instances != NOWHERE) & (self._instances < last))
            gone_groups.append(ended)
            gone_at.append(self._instances[ended] + 1)
            self._instances[ended] = NOWHERE
        if gone_groups and isinstance(self.query.window, TimeWindow):
            yield self._gone(np.concatenate(gone_groups), np.concatenate(gone_at))

    def correct(self, part: QueryAnswers) -> None:
        """Remember corrected values of the instances that are each group's last."""
        columns = part.groups.decode(part.keys)
        groups = self._table.ids([columns[name] for name in self.query.group_by], len(part))
        self._grow()
        rows = np.flatnonzero(self._instances[groups] == part.instances)
        if len(rows):
            order = rows[np.argsort(groups[rows], kind="stable")]
            self._take(part.from_rows(order), groups[order])

    def _same(self, part: QueryAnswers, groups: Ints, is_first: Bools) -> Bools:
        """Which sorted rows have the values of the row before, or of what is known where they are a group's first."""
        same = np.ones(len(part), np.bool_)
        for call, lowered in part.lowered.items():
            bits, valid = _bits(lowered), lowered.valid
            known_bits, known_valid = self._known(call)
            bits_before = np.where(is_first, known_bits[groups], np.append(bits[:1], bits[:-1]))
            valid_before = np.where(is_first, known_valid[groups], np.append(valid[:1], valid[:-1]))
            same &= (valid == valid_before) & (~valid | (bits == bits_before))
        return same

    def _take(self, part: QueryAnswers, groups: Ints) -> None:
        """Remember each group's last row."""
        is_last = np.append(groups[1:] != groups[:-1], True)
        rows = np.flatnonzero(is_last)
        self._instances[groups[rows]] = part.instances[rows]
        for call, lowered in part.lowered.items():
            bits, valid = self._known(call)
            bits[groups[rows]] = _bits(lowered)[rows]
            valid[groups[rows]] = lowered.valid[rows]

    def _known(self, call: AggregateCall) -> tuple[Ints, Bools]:
        if call not in self._columns:
            self._columns[call] = np.zeros(len(self._instances), np.int64), np.zeros(len(self._instances), np.bool_)
        return self._columns[call]

    def _grow(self) -> None:
        more = len(self._table) - len(self._instances)
        if more > 0:
            more = max(more, len(self._instances))
            self._instances = np.append(self._instances, np.full(more, NOWHERE))
            self._columns = {
                call: (np.append(bits, np.zeros(more, np.int64)), np.append(valid, np.zeros(more, np.bool_)))
                for call, (bits, valid) in self._columns.items()
            }

    def _gone(self, groups: Ints, instances: Ints) -> QueryAnswers:
        """Rows of NULL for groups that had an answer and have none in an instance."""
        length, slide = lengths_of(self.query.window)
        starts = instances * slide
        nothing = Lowered(np.zeros(len(groups)), None, np.zeros(len(groups), np.bool_))
        lowered = dict.fromkeys(self.query.aggregates, nothing)
        names = Groups(self.query.group_by, self._table)
        return QueryAnswers(self.query, starts, starts + length, groups, names, lowered, instances=instances)


def _bits(lowered: Lowered) -> Ints:
    """What tells an answer from another, whole: NaN equals itself, and no integer is rounded."""
    return lowered.values.view(np.int64) if lowered.exact is None else lowered.exact
