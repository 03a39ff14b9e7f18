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
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from panewise.engine.answers import Groups, QueryAnswers
from panewise.engine.reported import no_words, withdrawn, words_of
from panewise.engine.tables import KeyTable
from panewise.language.model import Query, Stream
from panewise.windows import Window
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.slots import lengths_of

Ints = npt.NDArray[np.int64]

NOWHERE = -(2**62)
"""The instance of a group that has no answer."""
FOREVER = 2**62
"""After every instance."""

Bounds = Callable[[Window, Ints], tuple[Ints, Ints]]
"""Where some instances of a window start and end in time."""


def time_bounds(window: Window, instances: Ints) -> tuple[Ints, Ints]:
    """Where some instances of a window over time start and end."""
    length, slide = lengths_of(window)
    return instances * slide, instances * slide + length


def last_instance(window: Window, closed: int) -> int:
    """The newest instance of a sliding window that ends up to a time or a position; at the end of the stream all do."""
    length, slide = lengths_of(window)
    return FOREVER if closed == END_OF_STREAM else (closed - length) // slide


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
            if name not in self._known:
                self._known[name] = _LastAnswers(self._stream, query)
            changed += self._known[name].changed(parts.get(name), last[name], bounds)
        return [part for part in changed if len(part)]

    @property
    def seen(self) -> dict[str, int]:
        """The newest instance of each query whose answers are known."""
        return {name: known.last for name, known in self._known.items()}

    def correct(self, answers: Iterable[QueryAnswers]) -> None:
        """Record answers that were corrected after they were reported."""
        for part in answers:
            if part.query.name in self._known:
                self._known[part.query.name].correct(part)


@dataclass
class _LastAnswers:
    """The last answers of one query: by group, the instance, and the words of what was reported."""

    stream: Stream
    query: Query

    def __post_init__(self) -> None:
        self._table = KeyTable([self.stream.attributes[name] for name in self.query.group_by])
        self._instances = np.empty(0, np.int64)
        self._words = no_words(self.query, 0)
        self.last = NOWHERE
        """The newest instance that has closed."""

    def fork(self) -> _LastAnswers:
        """The same answers; numbers of groups are shared, as they only grow."""
        twin = copy(self)
        twin._instances, twin._words = self._instances.copy(), self._words.copy()
        return twin

    def changed(self, part: QueryAnswers | None, last: int, bounds: Bounds) -> Iterator[QueryAnswers]:
        """What changed, and what is gone; `part` becomes what is known."""
        gone: list[tuple[Ints, Ints]] = []
        if part is not None and part.touched is not None:
            yield from self._changed_among(part, part.touched, last, bounds)
            return
        if part is not None and len(part):
            groups = self._numbers(part, part.keys)
            order = np.lexsort((part.instances, groups))
            part, groups = part.from_rows(order), groups[order]
            words = words_of(part)
            is_first = np.append(True, groups[1:] != groups[:-1])
            before = np.where(is_first, self._instances[groups], np.append(0, part.instances[:-1]))
            words_before = np.where(is_first, self._words[:, groups], np.roll(words, 1, axis=1))
            follows = before == part.instances - 1
            # Between an answer and the next one that does not follow it, the group was gone.
            gap = np.flatnonzero((before != NOWHERE) & ~follows & words_before.any(axis=0))
            gone.append((groups[gap], before[gap] + 1))
            same = np.where(follows, (words == words_before).all(axis=0), ~words.any(axis=0))
            yield part.from_rows(np.flatnonzero(~same))
            self._take(part, groups, words)
        ended = np.flatnonzero((self._instances != NOWHERE) & (self._instances < last))
        was_shown = ended[self._words[:, ended].any(axis=0)]
        gone.append((was_shown, self._instances[was_shown] + 1))
        self._instances[ended] = NOWHERE
        self.last = last
        keys, instances = (np.concatenate(parts) for parts in zip(*gone))
        where = bounds(self.query.window, instances)
        yield withdrawn(self.query, where, Groups(self.query.group_by, self._table), keys, instances)

    def _changed_among(self, part: QueryAnswers, touched: Ints, last: int, bounds: Bounds) -> Iterator[QueryAnswers]:
        """The same where only the answers of some groups are given: no other group's differ from the window before."""
        groups, words = self._numbers(part, part.keys), words_of(part)
        was_there = self._instances[groups] != NOWHERE
        same = np.where(was_there, (words == self._words[:, groups]).all(axis=0), ~words.any(axis=0))
        yield part.from_rows(np.flatnonzero(~same))
        is_left = np.zeros(len(part.groups.table), np.bool_)
        is_left[touched] = True
        is_left[part.keys] = False
        ended = self._numbers(part, np.flatnonzero(is_left))
        ended = np.sort(ended[self._instances[ended] != NOWHERE])
        was_shown = ended[self._words[:, ended].any(axis=0)]
        self._instances[ended] = NOWHERE
        self._instances[groups], self._words[:, groups] = last, words
        self._instances[self._instances != NOWHERE] = last
        self.last = last
        instances = np.full(len(was_shown), last)
        where = bounds(self.query.window, instances)
        yield withdrawn(self.query, where, Groups(self.query.group_by, self._table), was_shown, instances)

    def correct(self, part: QueryAnswers) -> None:
        """Take over corrected answers of the newest instance; the next window is compared with them."""
        part = part.from_rows(np.flatnonzero(part.instances == self.last))
        if len(part):
            self._take(part, self._numbers(part, part.keys), words_of(part))

    def _numbers(self, part: QueryAnswers, keys: Ints) -> Ints:
        """The numbers of some groups, given those that they have in some answers."""
        columns = part.groups.decode(keys)
        groups = self._table.ids([columns[name] for name in self.query.group_by], len(keys))
        more = len(self._table) - len(self._instances)
        if more > 0:
            more = max(more, len(self._instances))
            self._instances = np.append(self._instances, np.full(more, NOWHERE))
            self._words = np.concatenate([self._words, no_words(self.query, more)], axis=1)
        return groups

    def _take(self, part: QueryAnswers, groups: Ints, words: Ints) -> None:
        """Remember each group's last row; the rows of a group stand together."""
        rows = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
        self._instances[groups[rows]] = part.instances[rows]
        self._words[:, groups[rows]] = words[:, rows]
