"""Audits: logged lookups replayed through `training_set`, and why an answer differs.

A lookup had the events that had arrived by then; a training set has all that the table of events has. So an answer may
differ for good reasons, and each difference gets the first of these that holds:

- changed_query: the query's statement is another one now, or it is gone;
- expired: the table of events begins behind the beginning of the window;
- arrived_later: the window reached beyond the watermark of then, so that events could still come; or, if the batch
  of each event is known, the answer is right without the late events that the stream dropped;
- unexplained: none of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.arrays import Bools, Ints
from panewise.engine.answers import public_type
from panewise.engine.as_of.events import OrderedEvents
from panewise.engine.content_order import content_order
from panewise.engine.ingest import to_batch
from panewise.engine.lookup_log import LogLine, plain_column, read_statements
from panewise.engine.on_demand.served import labelled_aggregates
from panewise.engine.wide_columns import AggregateColumn, group_columns
from panewise.errors import ArgumentError, EventsError
from panewise.language.expressions import NOWHERE, AggregateCall, aggregates_of
from panewise.language.functions import COUNT, call_all_rows
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.printer import print_query, print_stream, print_window
from panewise.language.workload import Workload
from panewise.training.columns import answer_columns
from panewise.training.training_set import training_set
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.clock import show_time
from panewise.windows.instances import ends_of, last_ending

TIME = "panewise_time"
CLOSE = 1e-12
"""Doubles that differ by no more than this share of themselves are equal: sums are rounded in different orders."""
_COUNTED = SelectItem(call_all_rows(COUNT, NOWHERE), "n")
ULPS = 1e-14
"""The same, as a share of the sum of all magnitudes in the window."""


class Reason(StrEnum):
    """Why an answer differs."""

    CHANGED_QUERY = "changed_query"
    EXPIRED = "expired"
    ARRIVED_LATER = "arrived_later"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class AskedGroup:
    """One group of one logged lookup, with what was answered."""

    line: LogLine
    query: str
    key: tuple[Any, ...]
    """In the order of GROUP BY."""
    answer: Mapping[str, Any] | None
    """By the names of SELECT; None if the group had no answer."""

    @property
    def time_us(self) -> int:
        """The time of the answer."""
        assert self.line.lookup.time_us is not None
        return self.line.lookup.time_us


@dataclass(frozen=True)
class Difference:
    """An answer that is another one now."""

    asked: AskedGroup
    item: str
    served: Any
    replayed: Any
    reason: Reason
    why: str

    def as_dict(self) -> dict[str, Any]:
        """The difference as plain values."""
        return {
            "line": self.asked.line.number,
            "query": self.asked.query,
            "key": list(self.asked.key),
            "time_us": self.asked.line.lookup.time_us,
            "item": self.item,
            "served": self.served,
            "replayed": self.replayed,
            "reason": str(self.reason),
            "why": self.why,
        }


@dataclass
class Audit:
    """What became of the lookups of a log."""

    lookups: int = 0
    answers: int = 0
    """How many answers of groups were compared."""
    agree: int = 0
    later: int = 0
    """How many of those agree only without events that arrived later."""
    approximate: int = 0
    """Values that were not compared: sketches, and answers of WITHIN without their bounds."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def differ(self) -> int:
        """How many answers of groups differ."""
        return self.answers - self.agree

    @property
    def reasons(self) -> dict[str, int]:
        """How many answers of groups differ for each reason."""
        by_group = {id(one.asked): one.reason for one in self.differences}
        return {str(reason): sum(one is reason for one in by_group.values()) for reason in Reason}


def audit(
    lines: Sequence[LogLine],
    events: Mapping[str, Any],
    log: str,
    *,
    queries: Workload | None = None,
    arrived: str | None = None,
) -> Audit:
    """Replay the lookups of a log.

    Args:
        lines: The lookups.
        events: Tables of events by stream.
        log: What messages call the log.
        queries: The statements to replay with. The default is the last ones of the log.
        arrived: A column of the events with the number of the batch that brought each.

    Returns:
        What agrees, and what differs and why.

    Cost: as `training_set` for each query. With `arrived`, what differs is replayed once more for each batch that some
        of these lookups had read.
    """
    result = Audit(lookups=len(lines))
    if not lines:
        return result
    then = {text: read_statements(text, log) for text in dict.fromkeys(line.statements for line in lines)}
    now = queries or then[lines[-1].statements]
    by_query: dict[tuple[str, tuple[str, ...]], list[LogLine]] = {}
    for line in lines:
        by_query.setdefault((line.lookup.query, tuple(line.lookup.ties or ())), []).append(line)
    held = {name: StreamEvents.of(now.streams[name], events[name], arrived) for name in events if name in now.streams}
    for (name, ties), some in by_query.items():
        if name not in now.queries:
            _gone(result, name, some, then)
            continue
        query = now.queries[name]
        if query.stream not in held:
            raise EventsError(f"query {name} reads stream {query.stream}, whose events are missing; give them too")
        _Replay(result, now, query, held[query.stream].tied_by(ties), then, _watermarks(lines)).run(some)
    result.differences.sort(key=lambda one: one.asked.line.number)
    return result


def _gone(result: Audit, name: str, lines: Sequence[LogLine], then: Mapping[str, Workload]) -> None:
    why = f"there is no query {name} any more"
    for line in lines:
        workload = then[line.statements]
        query = workload.queries[name]
        for asked in _groups(line, workload.streams[query.stream], query, None):
            result.answers += 1
            for item, value in (asked.answer or {}).items():
                result.differences.append(Difference(asked, item, value, None, Reason.CHANGED_QUERY, why))


def _watermarks(lines: Sequence[LogLine]) -> list[tuple[int, int]]:
    """By batch, in order, a watermark that held when it ran."""
    found = {line.lookup.batches[1]: line.lookup.watermark_us for line in lines}
    return sorted((batch, mark) for batch, mark in found.items() if mark is not None)


@dataclass
class StreamEvents:
    """The events of a stream in the order of time."""

    stream: Stream
    ordered: OrderedEvents
    arrived: Ints | None
    """The batch that brought each."""

    @staticmethod
    def of(stream: Stream, table: Any, arrived: str | None) -> StreamEvents:
        """Read events; `arrived` names a column beside those of the stream."""
        batch = to_batch(stream, table)
        order = pa.array(np.argsort(np.asarray(batch.column(stream.timestamp)), kind="stable"))
        batches = None
        if arrived is not None:
            if arrived not in table.column_names:
                raise EventsError(
                    f"stream {stream.name}: the events have no column {arrived!r} with the batch that brought them; "
                    f"the columns are {', '.join(table.column_names)}"
                )
            try:
                column = table.column(arrived).cast(pa.int64())
            except pa.ArrowException as error:
                raise EventsError(f"column {arrived!r} has no numbers of batches: {error}") from None
            if column.null_count or len(column) != batch.num_rows:
                raise EventsError(f"column {arrived!r} is NULL for some events; fill it, or leave those events out")
            batches = np.asarray(column.combine_chunks().take(order))
        return StreamEvents(stream, OrderedEvents.of(stream, batch.take(order)), batches)

    def tied_by(self, attributes: Sequence[str]) -> StreamEvents:
        """The events with those of one time in the order of the values of some attributes, if there are any."""
        kept = {self.stream.timestamp, *attributes}
        if len(kept) == 1:
            return self
        kinds = {name: kind for name, kind in self.stream.attributes.items() if name in kept}
        order = content_order(replace(self.stream, attributes=kinds), self.ordered.batch)
        arrived = None if self.arrived is None else self.arrived[np.asarray(order)]
        return StreamEvents(self.stream, OrderedEvents.of(self.stream, self.ordered.batch.take(order)), arrived)

    @property
    def times(self) -> Ints:
        """Their times."""
        return self.ordered.times

    @property
    def table(self) -> pa.Table:
        """All of them."""
        return pa.Table.from_batches([self.ordered.batch])

    def keys(self, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """The values of some attributes."""
        return zip(*(self.ordered.batch.column(name).to_pylist() for name in names), strict=True)

    def between(self, begin_us: int, end_us: int) -> slice:
        """Where the events behind a time up to another one are."""
        low, high = np.searchsorted(self.times, [begin_us, end_us], side="right")
        return slice(int(low), int(high))

    def only(self, kept: Bools) -> pa.Table:
        """Some of them."""
        return self.table.filter(pa.array(kept))


@dataclass
class _Replay:
    """The lookups of one query."""

    result: Audit
    workload: Workload
    query: Query
    events: StreamEvents
    then: Mapping[str, Workload]
    watermarks: Sequence[tuple[int, int]]

    def run(self, lines: Sequence[LogLine]) -> None:
        """Compare all their answers."""
        asked: list[AskedGroup] = []
        for line in lines:
            workload = self.then[line.statements]
            query = workload.queries[self.query.name]
            some = _groups(line, workload.streams[query.stream], query, self.events)
            if line.lookup.time_us is None:
                self._before_all(some)
            else:
                asked += some
                self._check_window(query, line)
        self.result.answers += len(asked)
        if set(self.query.group_by) != set(self._groups_then(lines)):
            for one in asked:
                self._tell(one, [(item, value, None) for item, value in (one.answer or {}).items()])
            return
        wrong = list(self._wrong(asked, self._replayed(asked, self.events.table)))
        self.result.agree += len(asked) - len(wrong)
        if self.events.arrived is not None:
            wrong = self._without_later(wrong)
        for one, cells in wrong:
            self._tell(one, cells)

    def _check_window(self, query: Query, line: LogLine) -> None:
        """A window that slides must be the newest one that the watermark had reached."""
        window, lookup = query.window, line.lookup
        if not isinstance(window, TimeWindow) or window.slide_us is None or lookup.watermark_us is None:
            return
        assert lookup.time_us is not None
        until_us = lookup.watermark_us if lookup.at_us is None else min(lookup.at_us, lookup.watermark_us)
        end_us = ends_of(window, last_ending(window, until_us))
        if end_us != lookup.time_us + 1:
            why = "another window was served than the newest one that the watermark had reached"
            asked = AskedGroup(line, query.name, (), None)
            self.result.answers += 1
            self.result.differences.append(
                Difference(asked, "window_end", lookup.time_us + 1, end_us, Reason.UNEXPLAINED, why)
            )

    def _groups_then(self, lines: Sequence[LogLine]) -> tuple[str, ...]:
        return self.then[lines[0].statements].queries[self.query.name].group_by

    def _before_all(self, some: Iterable[AskedGroup]) -> None:
        """Before the first window there is nothing, or a count of nothing."""
        for one in some:
            self.result.answers += 1
            wrong = [(item, value, None) for item, value in (one.answer or {}).items() if value]
            if wrong:
                self._tell(one, wrong)
            else:
                self.result.agree += 1

    @cached_property
    def _on_demand(self) -> Query:
        """The query, with a window that is asked for at a time."""
        window = self.query.window
        if isinstance(window, TimeWindow) and window.is_sliding:
            if window.zone is not None or window.grows or self.query.has_own_windows:
                raise ArgumentError(
                    f"query {self.query.name}: an audit replays one window of a fixed length, which "
                    f"{print_window(window)} is not for all its answers; leave its lookups out of the log"
                )
            window = TimeWindow(window.left_us)
        return replace(self.query, window=window)

    @cached_property
    def _columns(self) -> dict[str, AggregateColumn]:
        """The columns of a training set, by the names of SELECT."""
        found = (column for _, column in answer_columns(self._alone, [self._on_demand]))
        return {label: column for (label, _), column in zip(labelled_aggregates(self.query), found, strict=True)}

    @cached_property
    def _alone(self) -> Workload:
        stream = self.workload.streams[self.query.stream]
        # Their times were judged when they came.
        stream = replace(stream, units={}, future_bound_us=None)
        queries = {self.query.name: self._on_demand}
        if self._reports_events:
            name = self._events_name
            queries[name] = replace(self._on_demand, name=name, select=(_COUNTED,), having=None)
        return Workload({stream.name: stream}, queries)

    @property
    def _reports_events(self) -> bool:
        """Whether a window without events has no answer, where one that is asked for would count 0."""
        return self.query.window.is_sliding and not self.query.group_by

    @property
    def _events_name(self) -> str:
        return f"events of {self.query.name}"

    def _replayed(self, asked: Sequence[AskedGroup], events: pa.Table) -> list[dict[str, Any]]:
        """The answers of a training set, by the names of SELECT."""
        labels: dict[str, pa.Array] = {TIME: pa.array([one.time_us for one in asked], pa.int64())}
        attributes = self.events.stream.attributes
        for place, name in enumerate(self.query.group_by):
            labels[name] = pa.array([one.key[place] for one in asked], _plain_type(attributes[name])).cast(
                public_type(attributes[name])
            )
        found = training_set(pa.table(labels), events, self._alone, time=TIME, edge="at")
        columns = {}
        for label, column in self._columns.items():
            columns[label] = plain_column(found.column(column.name))
        if self._reports_events:
            counts = found.column(f"{self._events_name}__{_COUNTED.alias}").to_pylist()
            columns = {
                label: [value if count else None for value, count in zip(values, counts, strict=True)]
                for label, values in columns.items()
            }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _wrong(
        self, asked: Sequence[AskedGroup], replayed: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[AskedGroup, list[tuple[str, Any, Any]]]]:
        """The groups with an answer that differs: which item, what was served, what is replayed."""
        for one, row in zip(asked, replayed, strict=True):
            cells = [(item, *pair) for item, pair in self._cells(one, row).items() if not self._same(one, item, *pair)]
            if cells:
                yield one, cells

    def _cells(self, asked: AskedGroup, replayed: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
        answer = asked.answer
        if answer is None and self._is_count_of_nothing(replayed):
            # A window that slides reports nothing where it has no event.
            return {}
        cells = {item: ((answer or {}).get(item), value) for item, value in replayed.items()}
        for item, (served, value) in cells.items():
            if answer is None or served is None:
                continue
            if not all(CATALOGUE[call.function].is_exact for call in aggregates_of(self._columns[item].call)):
                self.result.approximate += 1
                cells[item] = value, value
            elif self.query.within is not None:
                cells[item] = self._within(answer, item, value)
        for item in (answer or {}).keys() - cells.keys():
            if not item.endswith((" low", " high")):
                cells[item] = ((answer or {})[item], None)
        return cells

    def _is_count_of_nothing(self, replayed: Mapping[str, Any]) -> bool:
        return self.query.window.is_sliding and not self.query.group_by and not any(replayed.values())

    def _within(self, answer: Mapping[str, Any], item: str, value: Any) -> tuple[Any, Any]:
        """What was served and what is replayed; the same if the exact answer lies between the bounds of WITHIN."""
        low, high = answer.get(f"{item} low"), answer.get(f"{item} high")
        if low is None or high is None:
            self.result.approximate += 1
            return value, value
        if value is not None:
            room = CLOSE * max(abs(float(low)), abs(float(high)))
            if float(low) - room <= value <= float(high) + room:
                return value, value
        return answer[item], value

    def _same(self, asked: AskedGroup, item: str, served: Any, replayed: Any) -> bool:
        kind = self._columns[item].kind if item in self._columns else pa.null()
        if isinstance(served, str) and pa.types.is_floating(kind):
            served = float(served)
        if isinstance(served, list) and pa.types.is_list(kind) and pa.types.is_floating(kind.value_type):
            # As text NaN equals itself.
            return repr([float(value) for value in served]) == repr(replayed)
        if served is None or replayed is None or not isinstance(replayed, float):
            return bool(served == replayed)
        served = float(served)
        if math.isnan(served) or math.isnan(replayed):
            return math.isnan(served) and math.isnan(replayed)
        if math.isclose(served, replayed, rel_tol=CLOSE):
            return True
        return math.isfinite(served - replayed) and abs(served - replayed) <= ULPS * self._magnitude(asked, item)

    def _magnitude(self, asked: AskedGroup, item: str) -> float:
        """What rounding of an answer may be measured by: that of the aggregates that it is computed from."""
        return sum(self._magnitude_of(asked, call) for call in aggregates_of(self._columns[item].call))

    def _magnitude_of(self, asked: AskedGroup, call: AggregateCall) -> float:
        """The sum of magnitudes in the window, or of squares."""
        window = self._on_demand.window
        if call.argument is None or not isinstance(window, TimeWindow):
            return 0.0
        column = self.events.ordered.input(call.argument)
        covered = self.events.between(asked.time_us - window.left_us, asked.time_us - window.right_us)
        values = np.abs(column.values[covered].astype(np.float64))
        is_mine = np.ones(len(values), np.bool_) if not len(column.valid) else column.valid[covered].copy()
        batch = self.events.ordered.batch.slice(covered.start, covered.stop - covered.start)
        for place, name in enumerate(self.query.group_by):
            is_mine &= np.array([value == asked.key[place] for value in batch.column(name).to_pylist()], np.bool_)
        values = values[is_mine]
        kinds = CATALOGUE[call.function].kinds(column.kind)
        return float((values**2).sum() if Kind.SQUARES in kinds else values.sum())

    def _without_later(
        self, wrong: Sequence[tuple[AskedGroup, list[tuple[str, Any, Any]]]]
    ) -> list[tuple[AskedGroup, list[tuple[str, Any, Any]]]]:
        """What differs even without events that had not arrived.

        A lookup may fall between the files of one batch, and have some of its groups before that batch and some behind.
        """
        arrived = self.events.arrived
        assert arrived is not None
        left = {id(one): (one, cells) for one, cells in wrong}
        waiting: dict[int, list[AskedGroup]] = {}
        for one, _ in wrong:
            least, newest = one.line.lookup.batches
            for batch in range(least, newest + 1):
                waiting.setdefault(batch, []).append(one)
        for batch in sorted(waiting, reverse=True):
            some = [one for one in waiting[batch] if id(one) in left]
            if some:
                found = list(self._wrong(some, self._replayed(some, self.events.only(arrived <= batch))))
                differ = {id(one): cells for one, cells in found}
                for one in some:
                    if id(one) in differ:
                        left[id(one)] = one, differ[id(one)]
                    else:
                        del left[id(one)]
                        self.result.agree += 1
                        self.result.later += 1
        return list(left.values())

    def _tell(self, asked: AskedGroup, cells: Iterable[tuple[str, Any, Any]]) -> None:
        cells = list(cells)
        reason, why = self._reason(asked, self._has_grown(cells))
        for item, served, replayed in cells:
            self.result.differences.append(Difference(asked, item, served, replayed, reason, why))

    def _has_grown(self, cells: Iterable[tuple[str, Any, Any]]) -> bool:
        """Whether a count, or the first value at all, shows that there are more events now than there were then."""
        for item, served, replayed in cells:
            if served is None:
                return True
            call = self._columns[item].call if item in self._columns else None
            is_count = isinstance(call, AggregateCall) and CATALOGUE[call.function].fewest == 0
            if is_count and replayed is not None and served < replayed:
                return True
        return False

    def _reason(self, asked: AskedGroup, has_grown: bool) -> tuple[Reason, str]:
        lookup, workload = asked.line.lookup, self.then[asked.line.statements]
        before = workload.queries[self.query.name]
        if print_query(before) != print_query(self.query):
            return Reason.CHANGED_QUERY, f"it was: {print_query(before)}"
        if print_stream(workload.streams[before.stream]) != print_stream(self.workload.streams[self.query.stream]):
            return Reason.CHANGED_QUERY, f"its stream was: {print_stream(workload.streams[before.stream])}"
        if lookup.time_us is None:
            return Reason.UNEXPLAINED, "no window had closed, and something was answered"
        first_us = int(self.events.times[0]) if len(self.events.times) else None
        begin_us = self._begin_us(lookup.time_us)
        if first_us is None or (begin_us is not None and begin_us < first_us and not has_grown):
            shown = "there are no events" if first_us is None else f"the events begin at {show_time(first_us)}"
            window = "its window" if begin_us is None else f"its window begins at {show_time(begin_us)}"
            return Reason.EXPIRED, f"{window}, and {shown}"
        mark_us = lookup.watermark_us
        if mark_us is None or lookup.time_us >= mark_us:
            shown = "there was none" if mark_us is None else f"it was {show_time(mark_us)}"
            if self.events.arrived is None:
                return (
                    Reason.ARRIVED_LATER,
                    f"its window reaches beyond the watermark ({shown}): events that arrived later may belong to it",
                )
        if self._late_explains(asked):
            return Reason.ARRIVED_LATER, "events of its window came behind the watermark, and the stream dropped them"
        return Reason.UNEXPLAINED, "statement, window and watermark do not tell why"

    def _begin_us(self, time_us: int) -> int | None:
        """Where the window begins; None for rows."""
        window = self._on_demand.window
        return None if isinstance(window, RowWindow) else time_us - window.left_us + 1

    def _late_explains(self, asked: AskedGroup) -> bool:
        """Whether the answer is right without the events that were late."""
        arrived = self.events.arrived
        if arrived is None or not self.watermarks:
            return False
        batches = np.array([batch for batch, _ in self.watermarks])
        marks = np.maximum.accumulate(np.array([mark for _, mark in self.watermarks]))
        known = np.searchsorted(batches, arrived, side="right")
        late = (known > 0) & (self.events.times < marks[np.maximum(known - 1, 0)])
        for batch in {*asked.line.lookup.batches}:
            table = self.events.only(~late & (arrived <= batch))
            if not list(self._wrong([asked], self._replayed([asked], table))):
                return True
        return False


def _plain_type(kind: Type) -> pa.DataType:
    return pa.int64() if kind is Type.TIMESTAMP else public_type(kind)


def _groups(line: LogLine, stream: Stream, query: Query, events: StreamEvents | None) -> list[AskedGroup]:
    """The groups of a lookup. One of all groups has those with an answer, and those of the events without one."""
    lookup, columns = line.lookup, group_columns(stream, query)
    answer = lookup.answer
    size = len(next(iter(answer.values()), []))
    has_keys = bool(query.group_by) and all(name in answer for name in columns.values())
    kinds = [stream.attributes[name] for name in query.group_by]
    items = {name: values for name, values in answer.items() if not has_keys or name not in columns.values()}
    rows: list[dict[str, Any]] = [dict(zip(items, row, strict=True)) for row in zip(*items.values(), strict=True)] or [
        {}
    ] * size
    if not query.group_by:
        return [AskedGroup(line, query.name, (), row) for row in rows] or [AskedGroup(line, query.name, (), None)]
    asked = [] if lookup.asked is None else _keys([lookup.asked[name] for name in query.group_by], kinds)
    if not has_keys and size:
        return [AskedGroup(line, query.name, key, row) for key, row in zip(asked, rows, strict=True)]
    answered = _keys([answer[columns[name]] for name in query.group_by], kinds) if size else []
    found = [AskedGroup(line, query.name, key, row) for key, row in zip(answered, rows, strict=True)]
    if lookup.asked is None and events is not None and lookup.time_us is not None:
        covered = slice(0, 0)
        if not isinstance(query.window, RowWindow):
            covered = events.between(lookup.time_us - query.window.left_us, lookup.time_us)
        elif len(events.times):
            covered = events.between(int(events.times[0]) - 1, lookup.time_us)
        some = replace(events.ordered, batch=events.ordered.batch.slice(covered.start, covered.stop - covered.start))
        asked = list(dict.fromkeys(replace(events, ordered=some).keys(query.group_by)))
    known = {_name(key) for key in answered}
    rest = dict.fromkeys(key for key in asked if _name(key) not in known)
    return [*found, *(AskedGroup(line, query.name, key, None) for key in rest)]


def _keys(columns: Sequence[Sequence[Any]], kinds: Sequence[Type]) -> list[tuple[Any, ...]]:
    """Keys, with doubles that JSON has no word for."""
    typed = [
        [None if value is None else float(value) for value in column] if kind is Type.DOUBLE else column
        for column, kind in zip(columns, kinds, strict=True)
    ]
    return list(zip(*typed, strict=True))


def _name(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key that equals itself, NaN too."""
    return tuple("NaN" if isinstance(value, float) and math.isnan(value) else value for value in key)
