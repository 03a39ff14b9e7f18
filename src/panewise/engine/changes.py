"""Changed answers only: for each window that closes, the groups whose answers differ from the window before.

For each query the last answers of every group are kept, in arrays by the number of the group. A group that had an
answer and has none in the next window (no event, or HAVING no longer holds) is reported once more, with NULL, so that a
reader of the changes knows exactly which answers hold. The first report of a query has all its groups.

Cost: a sort of the rows that close; where it is known which groups may have changed, of the rows of these alone.
Space: one row per query and group that ever had an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import NamedTuple

import numpy as np

from panewise.arrays import Ints
from panewise.engine.answers import Groups, QueryAnswers
from panewise.engine.reported import no_words, withdrawn, words_of
from panewise.engine.tables import KeyTable
from panewise.language.model import Query, Stream
from panewise.windows import Window, follows_events, is_unbounded
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.instances import ends_of, last_ending, starts_of

NOWHERE = -(2**62)
"""The instance of a group that has no answer."""
FOREVER = 2**62
"""After every instance."""
_NOTHING = np.empty(0, np.int64)

Bounds = Callable[[Window, Ints], tuple[Ints, Ints]]
"""Where some instances of a window start and end in time."""


def time_bounds(window: Window, instances: Ints) -> tuple[Ints, Ints]:
    """Where some instances of a window over time start and end."""
    return starts_of(window, instances), ends_of(window, instances)


def last_instance(window: Window, closed: int) -> int:
    """The newest instance of a sliding window that ends up to a time or a position; at the end of the stream all do."""
    return FOREVER if closed == END_OF_STREAM else last_ending(window, closed)


class LastReport(NamedTuple):
    """The newest instance of a query that closed, and whether some group has an answer there."""

    instance: int
    has_answers: bool


class Changes:
    """The last answers of one stream's sliding queries."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._known: dict[str, _LastAnswers] = {}

    def fork(self) -> Changes:
        """The same answers, which may go another way from now on. Cost: O(groups) a query."""
        twin = Changes(self._stream)
        twin._known = {name: last.fork() for name, last in self._known.items()}
        return twin

    def forget(self, query: str) -> None:
        """Forget a query."""
        self._known.pop(query, None)

    def only(
        self,
        answers: Iterable[QueryAnswers],
        last: Mapping[str, int],
        queries: Mapping[str, Query],
        bounds: Bounds = time_bounds,
    ) -> list[QueryAnswers]:
        """The rows that differ from the window before, and rows of NULL for groups that are gone.

        `last` has the newest instance of each query that has closed.
        """
        changed: list[QueryAnswers] = []
        parts = {part.query.name: part for part in answers}
        for name, query in queries.items():
            if follows_events(query.window) or is_unbounded(query.window):
                # Each is reported once, and follows no other. From the start, what is reported has changed.
                changed += [parts[name]] if name in parts else []
                continue
            if name not in self._known:
                self._known[name] = _LastAnswers(self._stream, query)
            changed += self._known[name].changed(parts.get(name), last[name], bounds)
        return [part for part in changed if len(part)]

    @property
    def seen(self) -> dict[str, LastReport]:
        """The last report of each query whose answers are known.

        A query with answers that do not fit is left out: all of them count in each window, so all must be made.
        """
        return {
            name: LastReport(known.last, known.answers > 0)
            for name, known in self._known.items()
            if not known.overflows
        }

    def correct(self, answers: Iterable[QueryAnswers]) -> None:
        """Record answers that were corrected after they were reported."""
        for part in answers:
            if part.query.name in self._known:
                self._known[part.query.name].correct(part)


class _LastAnswers:
    """The last answers of one query: by group, whether it has one, and the words of what was reported."""

    def __init__(self, stream: Stream, query: Query) -> None:
        self.query = query
        self._table = KeyTable([stream.attributes[name] for name in query.group_by])
        self._is_there = np.empty(0, np.bool_)
        """Which groups have an answer in the newest instance."""
        self.answers = 0
        """How many these are."""
        self._words = no_words(query, 0)
        self.last = NOWHERE
        """The newest instance that has closed."""
        self.overflows = 0
        """How many of its answers do not fit in 64 bits."""
        self._known: tuple[KeyTable, Ints] = self._table, np.empty(0, np.int64)
        """The numbers here of the groups of another table, -1 where that is not known."""

    def fork(self) -> _LastAnswers:
        """The same answers; numbers of groups are shared, as they only grow."""
        twin = copy(self)
        twin._is_there, twin._words = self._is_there.copy(), self._words.copy()
        return twin

    def changed(self, part: QueryAnswers | None, last: int, bounds: Bounds) -> Iterator[QueryAnswers]:
        """What changed, and what is gone; `part` becomes what is known."""
        self.overflows = 0 if part is None else part.overflows
        if part is None and not self.answers:
            # Most of many alerts are here: no group has an answer, and none had one.
            self.last = max(self.last, last)
            return
        if part is not None and part.touched is not None:
            yield from self._changed_among(part, part.touched, last, bounds)
            return
        gone: list[tuple[Ints, Ints]] = []
        is_there = np.zeros(len(self._is_there), np.bool_)
        if part is not None and len(part):
            groups = self._numbers(part, part.keys)
            order = np.lexsort((part.instances, groups))
            part, groups = part.from_rows(order), groups[order]
            words = words_of(part)
            is_first = np.append(True, groups[1:] != groups[:-1])
            shown_before = np.where(self._is_there[groups], self.last, NOWHERE)
            before = np.where(is_first, shown_before, np.append(0, part.instances[:-1]))
            words_before = np.where(is_first, self._words[:, groups], np.roll(words, 1, axis=1))
            follows = before == part.instances - 1
            # Between an answer and the next one that does not follow it, the group was gone.
            gap = np.flatnonzero((before != NOWHERE) & ~follows & words_before.any(axis=0))
            gone.append((groups[gap], before[gap] + 1))
            same = np.where(follows, (words == words_before).all(axis=0), ~words.any(axis=0))
            yield part.from_rows(np.flatnonzero(~same))
            rows = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
            groups, ends = groups[rows], part.instances[rows]
            self._words[:, groups] = words[:, rows]
            self._is_there[groups] = False
            is_there = np.zeros(len(self._is_there), np.bool_)
            is_there[groups[ends == last]] = True
            ended = np.flatnonzero((ends < last) & words[:, rows].any(axis=0))
            gone.append((groups[ended], ends[ended] + 1))
        if last > self.last:
            ended = np.flatnonzero(self._is_there)
            ended = ended[self._words[:, ended].any(axis=0)]
            gone.append((ended, np.full(len(ended), self.last + 1)))
            self._is_there, self.last = is_there, last
        self.answers = int(np.count_nonzero(self._is_there))
        yield from self._withdrawn(gone, bounds)

    def _changed_among(self, part: QueryAnswers, touched: Ints, last: int, bounds: Bounds) -> Iterator[QueryAnswers]:
        """The same where only the answers of some groups are given: no other group's differ from the window before."""
        groups = every = self._numbers(part, touched)
        had = was_there = self._is_there[every]
        ended = _NOTHING
        if len(part) < len(touched):
            given = np.searchsorted(touched, part.keys)
            groups, had = every[given], was_there[given]
            was_there[given] = False
            ended = np.sort(every[was_there])
            self._is_there[ended] = False
        words = words_of(part)
        same = (words == self._words.take(groups, axis=1)).all(axis=0)
        if not had.all():
            same = np.where(had, same, ~words.any(axis=0))
        yield part.from_rows(np.flatnonzero(~same)) if same.any() else part
        self._is_there[groups] = True
        self.answers += len(groups) - int(np.count_nonzero(had)) - len(ended)
        was_shown = ended[self._words.take(ended, axis=1).any(axis=0)]
        for held, new in zip(self._words, words, strict=True):
            held[groups] = new
        self.last = last
        yield from self._withdrawn([(was_shown, np.full(len(was_shown), last))], bounds)

    def _withdrawn(self, gone: list[tuple[Ints, Ints]], bounds: Bounds) -> Iterator[QueryAnswers]:
        """Rows of NULL for groups, if there are any, each with the first instance in which it has no answer."""
        keys = np.concatenate([_NOTHING, *(groups for groups, _ in gone)])
        if not len(keys):
            return
        instances = np.concatenate([_NOTHING, *(instances for _, instances in gone)])
        where = bounds(self.query.window, instances)
        yield withdrawn(self.query, where, Groups(self.query.group_by, self._table), keys, instances)

    def correct(self, part: QueryAnswers) -> None:
        """Take over corrected answers of the newest instance; the next window is compared with them."""
        part = part.from_rows(np.flatnonzero(part.instances == self.last))
        if len(part):
            groups = self._numbers(part, part.keys)
            self.answers += len(groups) - int(np.count_nonzero(self._is_there[groups]))
            self._is_there[groups] = True
            self._words[:, groups] = words_of(part)

    def _numbers(self, part: QueryAnswers, keys: Ints) -> Ints:
        """The numbers of some groups, given those that they have in some answers."""
        table = part.groups.table
        if self._known[0] is not table or len(self._known[1]) < len(table):
            known = self._known[1] if self._known[0] is table else np.empty(0, np.int64)
            room = max(len(table), 2 * len(known))
            self._known = table, np.append(known, np.full(room - len(known), -1))
        numbers = self._known[1][keys]
        if numbers.min(initial=0) < 0:
            columns = part.groups.decode(keys)
            numbers = self._table.ids([columns[name] for name in self.query.group_by], len(keys))
            self._known[1][keys] = numbers
        more = len(self._table) - len(self._is_there)
        if more > 0:
            more = max(more, len(self._is_there))
            self._is_there = np.append(self._is_there, np.zeros(more, np.bool_))
            self._words = np.concatenate([self._words, no_words(self.query, more)], axis=1)
        return numbers
