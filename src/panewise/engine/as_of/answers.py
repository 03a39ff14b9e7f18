"""The answers of many queries, each asked key at its own time.

Queries with the same GROUP BY share the order of events and of asked times; those with the same WHERE too share all
that is built. Threads take the columns of structures, and then the windows: kernels run without Python's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.arrays import Bools, Ints
from panewise.engine.answers import is_object, overflows_of, result_type, rows_that_pass, with_computed
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.as_of.folds import Folds, exact_form
from panewise.engine.as_of.ranges import CoveredRows, WindowRanges, watermarks
from panewise.engine.as_of.substreams import AskedTimes, KeyGroup, Substreams
from panewise.engine.as_of.values import MADE_OF, InputValues
from panewise.engine.lookup import nothing
from panewise.engine.several_windows import at_rows
from panewise.language.expressions import AggregateCall, Expression, aggregates_of
from panewise.language.model import Query, Stream
from panewise.windows import RowWindow, Window

Key = TypeVar("Key")


@dataclass(frozen=True)
class ColumnAt:
    """The answers of one aggregate: integers if it has exact ones, else doubles."""

    values: npt.NDArray[Any]
    valid: Bools


@dataclass
class AnswersAt:
    """The answers of one query: a row for each asked time, NULL where its key has no answer."""

    query: Query
    columns: dict[Expression, ColumnAt]
    """The aggregates of SELECT, and what it computes from aggregates."""
    overflows: int = 0
    """How many answers are NULL because they do not fit in 64 bits."""


def answers_at(
    stream: Stream,
    queries: Sequence[Query],
    batch: pa.RecordBatch,
    times: Ints,
    columns: Mapping[str, pa.Array],
    threads: int | None = None,
    closing: Ints | None = None,
) -> list[AnswersAt]:
    """Answer queries over one stream for keys (a column for each attribute that a query groups by) at their times.

    Events up to and with the time count. If the events are not all of the stream, `closing` has the times, in order, of
    those that closed windows. Cost: sorting events and times, O(events) for each different aggregate input,
    GROUP BY and WHERE, and O(1) or O(log events) for each time, window and aggregate.
    """
    events = OrderedEvents.of(stream, batch)
    order = np.argsort(times, kind="stable")
    taken = pa.array(order)
    asked = AskedTimes(times[order], {name: column.take(taken) for name, column in columns.items()})
    answers = {query.name: AnswersAt(query, blank_answers(stream, query, len(times))) for query in queries}
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        marks = watermarks(stream.watermark_us, events.times if closing is None else closing, asked)
        together = _Together(events, asked, order, marks, pool.map, answers)
        for names, several in _grouped(queries, lambda query: frozenset(query.group_by)):
            together.answer(Substreams(events, asked, several[0].group_by if names else ()), several)
    return list(answers.values())


def blank_answers(stream: Stream, query: Query, size: int) -> dict[Expression, ColumnAt]:
    """No answer, as many times."""
    calls = (item.expression for item in query.answers)
    return {call: ColumnAt(np.zeros(size, _dtype(call, stream)), np.zeros(size, np.bool_)) for call in calls}


def _dtype(call: Expression, stream: Stream) -> type[np.generic]:
    """The type of an array of answers."""
    if is_object(call, stream):
        return np.object_
    return np.float64 if result_type(call, stream) is Type.DOUBLE else np.int64


def _grouped(queries: Iterable[Query], key: Callable[[Query], Key]) -> Iterator[tuple[Key, list[Query]]]:
    found: dict[Key, list[Query]] = {}
    for query in queries:
        found.setdefault(key(query), []).append(query)
    yield from found.items()


@dataclass(frozen=True)
class _Together:
    """What all queries of a call share."""

    events: OrderedEvents
    asked: AskedTimes
    order: Ints
    """The asked times in their order."""
    marks: Ints
    """The watermark at each of them."""
    in_threads: Callable[..., Iterator[Any]]
    answers: Mapping[str, AnswersAt]

    def answer(self, substreams: Substreams, queries: Sequence[Query]) -> None:
        """Answer the queries of one GROUP BY."""
        rows = {
            window: CoveredRows.of(
                window, self.events, self.marks, self._partition(substreams, window), substreams.asked_rows
            )
            for window in dict.fromkeys(query.window for query in queries)
            if isinstance(window, RowWindow)
        }
        marks = self.marks[substreams.asked_rows]
        places = self.order[substreams.asked_rows]
        for where, several in _grouped(queries, lambda query: query.where):
            passing = None if where is None else self.events.holds(where)
            for part in substreams.parts(passing):
                if len(part.keys):
                    self._answer_part(part, WindowRanges.of(part, marks, rows), places[part.asked], several)

    def _answer_part(self, part: KeyGroup, ranges: WindowRanges, places: Ints, queries: Sequence[Query]) -> None:
        """Answer the queries of one GROUP BY and WHERE for some keys."""
        answered = _AnsweredPart(part, ranges, input_values(part, queries, self.in_threads), places, self.answers)
        for _ in self.in_threads(answered.answer, list(_grouped(queries, lambda query: query.window))):
            pass

    def _partition(self, substreams: Substreams, window: RowWindow) -> Substreams:
        if set(window.partition_by) == set(substreams.groups.names):
            return substreams
        return Substreams(self.events, self.asked, window.partition_by)


def input_values(
    part: KeyGroup, queries: Sequence[Query], in_threads: Callable[..., Iterator[Any]]
) -> dict[Expression, InputValues]:
    """The inputs of the aggregates of some queries, with all that is built for them."""
    calls = [call for query in queries for call in query.aggregates]
    inputs = list(dict.fromkeys(call.argument for call in calls if call.argument is not None))
    columns = [part.events.input(expression) for expression in inputs]
    made = dict(zip(inputs, in_threads(lambda column: InputValues(part, column), columns), strict=True))
    needed: dict[tuple[Expression, str], None] = {}
    for call in calls:
        if call.argument is not None:
            names = made[call.argument].needed(exact_form(call.function))
            needed |= dict.fromkeys((call.argument, name) for name in names)
    # What others are made of comes first, so that no two threads make it.
    for stage, later in MADE_OF.items():
        some = list(dict.fromkeys(made[argument] for argument, name in needed if name in later))
        list(in_threads(attrgetter(stage), some))
    list(in_threads(lambda one: getattr(made[one[0]], one[1]), needed))
    return made


@dataclass(frozen=True)
class _AnsweredPart:
    """One part with all that answers need."""

    part: KeyGroup
    ranges: WindowRanges
    values: Mapping[Expression, InputValues]
    places: Ints
    """Where the answer of each asked time belongs."""
    answers: Mapping[str, AnswersAt]

    def answer(self, asked: tuple[Window, Sequence[Query]]) -> None:
        """Answer the queries with one window."""
        window, queries = asked
        places, answers = self.places, self.answers
        begins, ends = self.ranges.of_window(window)
        some = np.flatnonzero(begins < ends)
        is_all = len(some) == len(begins)
        keys = self.part.keys
        if not is_all:
            keys, begins, ends = keys[some], begins[some], ends[some]
            filled = places[some]
        else:
            filled = places
        folds = Folds(self.values, keys, begins, ends)
        for query in queries:
            found = self._over_own(query, keys, some) if query.has_own_windows else folds.lowered_of(query.aggregates)
            self._take(answers[query.name], found, keys, filled)
            if not query.group_by and not window.is_sliding and not is_all:
                rest = np.delete(places, some)
                empty = {call: nothing(call, len(rest)) for call in query.aggregates}
                self._take(answers[query.name], empty, np.zeros(len(rest), np.int64), rest)

    def _over_own(self, query: Query, keys: Ints, some: Ints) -> dict[AggregateCall, Lowered]:
        """The answers of aggregates over windows of their own, for some asked times and their keys."""
        found = {}
        for window in dict.fromkeys(map(query.window_of, query.aggregates)):
            begins, ends = (bounds[some] for bounds in self.ranges.of_window(window))
            rows = np.flatnonzero(begins < ends)
            places = np.full(len(begins), -1)
            places[rows] = np.arange(len(rows))
            folds = Folds(self.values, keys[rows], begins[rows], ends[rows])
            for call in (one for one in query.aggregates if query.window_of(one) == window):
                found[call] = at_rows(folds.lowered(call), places, call) if len(rows) else nothing(call, len(begins))
        return found

    def _take(self, out: AnswersAt, found: Mapping[AggregateCall, Lowered], keys: Ints, places: Ints) -> None:
        """Write down the answers that pass HAVING."""
        query, stream = out.query, self.part.events.stream
        overflows, groups, keys = 0, self.part.groups, keys + self.part.first_key
        if query.having is not None:
            read = {call: found[call] for call in aggregates_of(query.having)}
            overflows = overflows_of(read)
            rows = rows_that_pass(query.having, stream, groups, keys, read)
            places, keys = places[rows], keys[rows]
            found = {call: answers.take(rows) for call, answers in found.items()}
        shown = with_computed(query, stream, groups, keys, found)
        for call, kept in out.columns.items():
            answers = shown[call]
            is_double = answers.exact is None or kept.values.dtype == np.float64
            kept.values[places] = answers.values if is_double else answers.exact
            kept.valid[places] = answers.valid
        out.overflows += overflows + overflows_of(found, read_by=query.having)
