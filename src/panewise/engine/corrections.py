"""Corrections: answers that were reported and that a late event changed, reported again.

Late events wait in a store of their own, beside the store of their tree. The windows and groups that this store covers,
up to the last window reported, are those whose answers may change: they are answered before the late events are put
into the tree's store, and after it. What differs is reported. An answer that no longer passes HAVING is reported as
NULL; a group that HAVING never passed is not reported.

Who follows only changes takes an answer that is left out for the answer of the window before. So, if a correction
changes the window before and not the answer that was left out, that answer is reported too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from panewise.arrays import Ints
from panewise.engine.answers import Groups, QueryAnswers
from panewise.engine.changes import last_instance, time_bounds
from panewise.engine.closed_windows import ClosedWindows
from panewise.engine.families import Family
from panewise.engine.generation import TreeState
from panewise.engine.reported import no_words, withdrawn, words_of
from panewise.language.model import Query
from panewise.windows.instances import end_numbers, with_end_numbers


def corrected_answers(
    state: TreeState, closed_us: int | None, reports_after: Mapping[str, int | None], *, changed_only: bool
) -> Iterator[QueryAnswers]:
    """The reported answers that a tree's late events change; the late events are then in its store.

    `closed_us` is the end of the last window reported, and `reports_after` the time after which each query's windows
    were reported; None stands for all of them.
    """
    if state.late is None:
        return
    touched = {} if closed_us is None else _touched(state, closed_us, reports_after)
    before = {name: _answers(closed, touched[name]) for name, closed in _closed(state, touched, closed_us)}
    state.take_late()
    for name, closed in _closed(state, touched, closed_us):
        assert closed_us is not None
        yield from _differing(before.get(name), closed, touched[name], closed_us, changed_only)


def answers_beside(
    trees: Iterable[TreeState],
    families: Iterable[Family],
    corrected: Iterable[QueryAnswers],
    reports_after: Mapping[str, int | None],
) -> list[QueryAnswers]:
    """The answers of all queries at the windows and groups at which a query of their family was corrected.

    The late events are in the stores. A query that alone makes up its family has them at hand.
    """
    wanted: dict[str, list[_Places]] = {}
    for family in families:
        members = {query.name for query in family.queries}
        for part in (part for part in corrected if part.query.name in members):
            for query in family.queries:
                places = _same_ends(part, query, reports_after.get(query.name))
                if len(places):
                    wanted.setdefault(query.name, []).append(places)
    return [part for state in trees for part in _answers_at(state, wanted)]


def _same_ends(part: QueryAnswers, query: Query, after_us: int | None) -> _Places:
    """The windows of a query that end where some answers' do, of the same groups, if the query reported them."""
    instances = with_end_numbers(query.window, end_numbers(part.query.window, part.instances))
    rows = np.arange(len(part)) if after_us is None else np.flatnonzero(part.ends_us > after_us)
    return _Places(query, part.groups, part.keys[rows], instances[rows])


def _answers_at(state: TreeState, wanted: Mapping[str, list[_Places]]) -> Iterator[QueryAnswers]:
    """The answers of a tree's queries at some places."""
    asked = [places for name in state.queries for places in wanted.get(name, ())]
    if not asked:
        return
    ends = np.concatenate([time_bounds(places.query.window, places.instances)[1] for places in asked])
    for closed in state.close(int(ends.min()) - 1, int(ends.max()), keys=_keys_of(state, asked)):
        for places in wanted.get(closed.planned.query.name, ()):
            found = _answers(closed, places)
            if found is not None:
                yield found


@dataclass(frozen=True)
class _Places:
    """Some windows and groups of a query: pairs of an instance and a number of the group."""

    query: Query
    groups: Groups
    keys: Ints
    instances: Ints

    def __len__(self) -> int:
        return len(self.keys)

    def chosen(self, rows: Ints) -> _Places:
        """Some of the places."""
        return _Places(self.query, self.groups, self.keys[rows], self.instances[rows])

    def find(self, groups: Groups, keys: Ints, instances: Ints) -> Ints:
        """Which place is each of some other places, -1 for one that is not here."""
        if not len(self) or not len(keys):
            return np.full(len(keys), -1, np.int64)
        columns = groups.decode(keys)
        numbers = self.groups.table.find([columns[name] for name in self.groups.names], len(keys))
        ranks = np.unique(self.instances)
        rank = np.minimum(np.searchsorted(ranks, instances), len(ranks) - 1)
        is_known = (ranks[rank] == instances) & (numbers >= 0)
        mine = self.keys * len(ranks) + np.searchsorted(ranks, self.instances)
        order = np.argsort(mine)
        wanted = numbers * len(ranks) + rank
        place = np.minimum(np.searchsorted(mine, wanted, sorter=order), len(mine) - 1)
        return np.where(is_known & (mine[order[place]] == wanted), order[place], -1)


def _touched(state: TreeState, closed_us: int, reports_after: Mapping[str, int | None]) -> dict[str, _Places]:
    """The windows and groups of each query that were reported, or could have been, and that cover late events."""
    assert state.late is not None
    touched: dict[str, _Places] = {}
    for closed in state.close(None, closed_us, state.late):
        query = closed.planned.query
        after_us = reports_after.get(query.name)
        _, ends = time_bounds(query.window, closed.instances)
        rows = np.flatnonzero(ends > after_us) if after_us is not None else np.arange(len(closed))
        if len(rows):
            fold = closed.fold
            touched[query.name] = _Places(query, fold.groups, fold.keys[rows], closed.instances[rows])
    return touched


def _closed(
    state: TreeState, touched: Mapping[str, _Places], closed_us: int | None
) -> Iterator[tuple[str, ClosedWindows]]:
    """The closed windows of queries that late events touch, from the first one touched on."""
    if touched:
        oldest = min(int(time_bounds(one.query.window, one.instances)[1].min()) for one in touched.values())
        for closed in state.close(oldest - 1, closed_us, keys=_keys_of(state, touched.values())):
            if closed.planned.query.name in touched:
                yield closed.planned.query.name, closed


def _keys_of(state: TreeState, several: Iterable[_Places]) -> Ints:
    """The numbers that the groups of some places have in a tree's store: only their rows need to be folded."""
    return np.unique(np.concatenate([state.store.numbers_of(places.groups, places.keys) for places in several]))


def _answers(closed: ClosedWindows, places: _Places) -> QueryAnswers | None:
    """The answers at some places that pass HAVING; None where no window covers an event."""
    fold = closed.fold
    # Of many groups few are touched: these are found first.
    columns = places.groups.decode(places.keys)
    numbers = fold.groups.table.find([columns[name] for name in fold.groups.names], len(places))
    is_near = np.zeros(len(fold.groups.table), np.bool_)
    is_near[numbers[numbers >= 0]] = True
    near = np.flatnonzero(is_near[fold.keys])
    found = places.find(fold.groups, fold.keys[near], closed.instances[near])
    chosen = closed.from_rows(near[found >= 0])
    if not len(chosen):
        return None
    return chosen.answers(*time_bounds(places.query.window, chosen.instances))


def _words_at(places: _Places, answers: QueryAnswers | None) -> tuple[Ints, Ints]:
    """The words of the answers at some places, and the row of each answer, -1 where there is none."""
    words, rows = no_words(places.query, len(places)), np.full(len(places), -1, np.int64)
    if answers is not None and len(answers):
        found = places.find(answers.groups, answers.keys, answers.instances)
        words[:, found], rows[found] = words_of(answers), np.arange(len(answers))
    return words, rows


def _differing(
    before: QueryAnswers | None, closed: ClosedWindows, places: _Places, closed_us: int, changed_only: bool
) -> Iterator[QueryAnswers]:
    """The answers of one query that differ from those before; for changes only, with those that no longer follow."""
    after = _answers(closed, places)
    words_before, _ = _words_at(places, before)
    words, rows = _words_at(places, after)
    differs = np.flatnonzero((words != words_before).any(axis=0))
    yield from _reported(places.chosen(differs), after, rows[differs])
    if changed_only and len(differs):
        corrected = places.chosen(differs)
        following = _Places(places.query, places.groups, corrected.keys, corrected.instances + 1)
        is_new = corrected.find(following.groups, following.keys, following.instances) < 0
        is_closed = following.instances <= last_instance(places.query.window, closed_us)
        next_rows = np.flatnonzero(is_new & is_closed)
        following = following.chosen(next_rows)
        answers = _answers(closed, following)
        words, rows = _words_at(following, answers)
        left_out = np.flatnonzero((words == words_before[:, differs[next_rows]]).all(axis=0))
        yield from _reported(following.chosen(left_out), answers, rows[left_out])


def _reported(places: _Places, answers: QueryAnswers | None, rows: Ints) -> Iterator[QueryAnswers]:
    """Answers at some places, given the row of each; NULL where there is none."""
    if answers is not None and (rows >= 0).any():
        yield answers.from_rows(rows[rows >= 0])
    gone = places.chosen(np.flatnonzero(rows < 0))
    if len(gone):
        bounds = time_bounds(gone.query.window, gone.instances)
        yield withdrawn(gone.query, bounds, gone.groups, gone.keys, gone.instances)
