"""The engine: push, advance, lookup, add, remove, snapshot. One process, one thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from numbers import Real
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.engine.admission import check_memory, check_structures
from panewise.engine.answer_events import complete_from, watermark_above
from panewise.engine.answers import AnswerColumns
from panewise.engine.aside import FUTURE, LATE, UNTIMED, Clock, Receiver, check_callables
from panewise.engine.closed_tables import Answers
from panewise.engine.closing import Closing, Time
from panewise.engine.event_log import EventLog
from panewise.engine.explain import explain_engine, plan_at_work
from panewise.engine.ingest import read_events
from panewise.engine.lookup import first_values
from panewise.engine.names import aggregate_query, instead, on_demand_query, row_query, text_of
from panewise.engine.next_closing import NextClosing, next_closing
from panewise.engine.on_demand.keys import asked_times, key_columns
from panewise.engine.on_demand.one_group import FoundOne
from panewise.engine.on_demand.scalars import Values
from panewise.engine.on_demand.single import SingleLookups
from panewise.engine.snapshot import read_snapshot, write_snapshot
from panewise.engine.statistics import StreamPosition, stream_statistics
from panewise.engine.stream_state import StreamState
from panewise.engine.warned import Warned
from panewise.engine.wide_tables import lookup_table
from panewise.engine.windowed.row_queries import RowQueries
from panewise.errors import ArgumentError, KeysError, QueryKindError, UnknownNameError
from panewise.language.model import Stream
from panewise.language.reader import changed, read
from panewise.language.workload import Workload
from panewise.planning.chains import prices_over
from panewise.planning.cost import DEFAULT_TOLERANCE, Prices
from panewise.planning.optimize import check_plannable
from panewise.planning.plan import Plan
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.planning.trees import DEFAULT_RATE
from panewise.windows import follows_events
from panewise.windows.clock import to_microseconds


class Engine(Closing):
    """Answers the queries of a workload over events that are pushed in, in this process.

    Times are int microseconds since 1970 UTC, datetimes (naive means UTC), dates or ISO text, in the years 1 to 9999.
    An engine is for one thread.

    Args:
        workload: What `panewise.read` returns, or the text or the path of statements.
        rate: Events a second that queries are planned for, 1,000 if you do not say. Any guess gives right answers; a
            good guess gives them faster.
        groups: About how many values attributes have, by name, for the same purpose.
        in_bulk: Plan for many windows that close at once, as when a past is loaded in few pushes.
        method: Which method decides what windows share a tree, as for `panewise.optimize`.
        tolerance: As queries come and go, the plan may cost this share more than a fresh one; beyond it, queries are
            planned anew and move over once the new trees have seen all that their next windows cover.
        memory_limit: Refuse a workload that would hold more bytes than this by these numbers, and an `advance` whose
            answers would. For answers the default is the memory of this machine.
        strict: Refuse times that look like a mistake, instead of warning about them.
        set_aside: Called with a stream's name, a reason and an Arrow table (times in microseconds) for events that no
            window counts: `untimed`, `future` (see FUTURE BOUND) or `late`. Without it, untimed events are refused.
        clock: The time now in seconds since 1970, for FUTURE BOUND.

    Raises:
        StatementError: A statement is wrong; the error has the line, the column and a hint.
        MemoryBudgetError: The workload would not fit; the error names its largest consumers.

    Cost: planning, O(different windows) for each stream. Kernels are compiled on first use and kept on disk.
    """

    def __init__(
        self,
        workload: Workload | str | PathLike[str],
        *,
        rate: float = DEFAULT_RATE,
        groups: Mapping[str, int] | None = None,
        in_bulk: bool = False,
        method: str = WEAVE_SHARE,
        tolerance: float = DEFAULT_TOLERANCE,
        memory_limit: int | None = None,
        strict: bool = False,
        set_aside: Receiver | None = None,
        clock: Clock = time.time,
    ) -> None:
        self._prices = Prices(
            rate, groups={} if groups is None else groups, in_bulk=in_bulk, method=method, tolerance=tolerance
        )
        self._memory_limit = memory_limit
        self._warned = Warned(strict=bool(strict))
        check_callables(set_aside, clock)
        self._set_aside, self._clock = set_aside, clock
        if memory_limit is not None and not (isinstance(memory_limit, Real) and memory_limit > 0):
            raise ArgumentError(f"memory_limit is a positive number of bytes, or None; got {memory_limit!r}")
        self._workload = workload if isinstance(workload, Workload) else read(workload)
        self._columns = AnswerColumns.of(self._workload)
        check_memory(self._workload, self._prices, self._memory_limit)
        self._streams = {
            stream.name: self._opened(
                StreamState(
                    stream, self._workload.queries_of(stream.name), prices_over(self._workload, stream, self._prices)
                )
            )
            for stream in self._workload.streams.values()
        }
        self._follow()
        self._row_queries = RowQueries(self._streams)
        self._row_queries.add(self._workload.row_queries.values())
        self._singles: dict[str, SingleLookups[EventLog]] = {}

    # What shows an engine is loaded when somebody looks: a first answer does not wait for it.

    def __repr__(self) -> str:
        from panewise.engine.show import engine_text

        return engine_text(self._workload, self._streams)

    def _repr_html_(self) -> str:
        from panewise.engine.show import engine_html

        return engine_html(self._workload, self._streams, self.statistics())

    @property
    def workload(self) -> Workload:
        """The streams, and the queries that are being answered."""
        return self._workload

    def push(self, stream: str, events: object) -> None:
        """Take in events of a stream, in any order.

        Events behind the watermark are dropped and counted (`late_events`), unless the stream corrects answers. Events
        further ahead of the clock than the stream's FUTURE BOUND are set aside and counted (`set_aside_events`). The
        engine warns once if all events of a push are late, or if their times are hardly meant.

        Args:
            stream: The name of the stream.
            events: An Arrow, pandas or Polars table, or a dict of arrays or lists, with a column for each attribute.
                Times are timestamps, dates, ISO text, or integers of the unit that TIMESTAMP(...) declares.

        Raises:
            UnknownNameError: There is no such stream.
            QueryKindError: It is a query whose answers others read.
            EventsError: A column is missing or has values of another type, or a time is refused.

        Cost: O(events) for each different GROUP BY, whatever the number of queries.
        """
        state = self._declared(stream)
        batch, given = read_events(state.stream, events, may_be_untimed=self._set_aside is not None)
        usable, unusable = state.aside.separate(batch)
        times, late = np.asarray(usable.column(state.stream.timestamp)), state.late
        self._warned.events(state, times, given)
        for reason, some in unusable:
            state.aside.put(reason, some)
        self._row_queries.push(stream, state.push(usable))
        self._warned.push(state, times, state.late - late)

    def advance(self, stream: str, watermark: Time | None = None, *, changed_only: bool = False) -> Answers:
        """Move a stream's watermark, and return the answers of the windows that it closes.

        Queries that read the answers of these windows go on in the same call.

        Args:
            stream: The name of the stream.
            watermark: No event before it will come. The default is the newest event's time minus the declared WATERMARK
                delay; `panewise.END_OF_STREAM` closes everything.
            changed_only: Leave out groups with the same answers as in the window before. A group that no longer has an
                answer comes once more, with `ended` true. The first such call after the engine was made or restored
                reports all groups.

        Returns:
            `Answers`: `.tables` has an Arrow table for each query, `.families` one for queries that share GROUP BY and
            slide, and `.long()` makes one long table for all queries.

        Raises:
            UnknownNameError: There is no such stream.
            TimeError: The watermark is no time.
            WatermarkError: The watermark goes back.
            AnswerOverflowError: A sum does not fit in a BIGINT, of a query with ON OVERFLOW ERROR.
            MemoryBudgetError: The answers do not fit into `memory_limit`, or into this machine; nothing was reported.

        Cost: what enters and leaves each long window that closes again and again; for other windows that end, O(rows)
            for each predicate of their trees. And O(answers). O(1) if no window ends.
        """
        state = self._declared(stream)
        watermark_us = self._watermark_us(state, watermark)
        if watermark_us is None:
            answers = self._answers(state, {}, changed_only)
        else:
            answers = self._advance(state, watermark_us, changed_only)
        self._warned.advance(state, answers.num_rows)
        return answers

    def next_closing(self, stream: str) -> NextClosing:
        """Tell which window of a stream closes next, or why none can.

        Args:
            stream: The name of the stream.

        Returns:
            The query and the end of that window in microseconds, or the rows that it waits for; `why` is the same in
            words. All but `why` are None if no window can close as things are.

        Raises:
            UnknownNameError: There is no such stream.

        Cost: O(queries).
        """
        return next_closing(self._stream(stream))

    def warn_again(self) -> None:
        """Let the engine repeat warnings that it gave before, when their causes come again.

        Cost: O(1).
        """
        self._warned.again()

    def rows(self, query: str) -> pa.Table:
        """Fetch the rows of a row query since the last call.

        Args:
            query: The name of a query with HISTOGRAM, TOP_K, INTERSECT, ORDER BY or JOIN, or a plain selection.

        Returns:
            A table with columns of its own. Rows wait in the engine until they are fetched.

        Raises:
            PanewiseError: There is no such query, or it answers with aggregates.

        Cost: O(rows returned).
        """
        return self._row_queries.rows(row_query(self._workload, query).name)

    def lookup(self, query: str, at: Time | None = None, keys: object = None) -> pa.Table:
        """Answer an on-demand query, one whose window has no SLIDE.

        Of sessions, and of windows from one event to another, it gives the one that each group is in, as it stands. A
        group that is in none has no answer.

        Args:
            query: The name of the query.
            at: The time of the answer. The default is now: the newest event or the watermark, whichever is later. After
                `panewise.END_OF_STREAM` it is the last time known before.
            keys: The groups to answer: a dict from each GROUP BY attribute to a value or to several, or a list of
                tuples in the order of GROUP BY. The default is all groups.

        Returns:
            A table like those of `Answers.tables`: `window_start`, `window_end`, the groups, and a typed column for
            each SELECT item; a row for each group that has an answer. An answer that may be an interval (WITHIN, or an
            approximate aggregate) has two more columns, `... low` and `... high`. A row query answers with its newest
            complete window, or with the rows that it holds INTO a window.

        Raises:
            PanewiseError: There is no such query, it slides, or the keys do not fit its GROUP BY.
            HistoryError: The time needs events that are no longer held; of sessions, it is before now.

        Cost: O(groups asked) times the lookup of the chosen structure, which `explain` names: O(1) or O(log events). Of
            sessions, and of windows from one event to another, the partials held of the groups asked.
        """
        if text_of(query, "a query") in self._workload.row_queries:
            if at is not None or keys is not None:
                raise QueryKindError(
                    f"query {query} answers with rows, which are looked up as they are now; leave out `at` and `keys`"
                )
            return self._row_queries.lookup(query)
        single = self._single(query)
        bound, state = single.query, self._streams[single.query.stream]
        at_us = self._at_us(at, state)
        columns = None
        if keys is not None:
            one = keys if isinstance(keys, dict) else keys[0] if isinstance(keys, list) and len(keys) == 1 else None
            key = None if one is None else single.key_of(one)
            found = self._find_one(single, state, at_us, key) if key and single.has_table else None
            if found is not None and key is not None:
                return single.table(found, key)
            columns = key_columns(state.stream, bound, keys)
        return lookup_table(state.stream, state.lookup(bound, at_us, columns))

    def lookup_one(self, query: str, key: object = (), at: Time | None = None) -> Values | None:
        """Answer one group of an on-demand query as plain values, in the least time a lookup can take.

        Args:
            query: The name of the query.
            key: A value of the GROUP BY attribute, a tuple in the order of GROUP BY, or a dict. Leave it out for a
                query without GROUP BY.
            at: The time of the answer. The default is now.

        Returns:
            A dict by the names of SELECT. A value is an int if it is an exact integer (microseconds of a timestamp),
            None if it is NULL, and a float otherwise. The result is None if the group does not exist or does not pass
            HAVING.

        Raises:
            PanewiseError: As for `lookup`; or `key` names several groups.

        Cost: as `lookup` of one key, without making an Arrow table.
        """
        single = self._single(query)
        bound, state = single.query, self._streams[single.query.stream]
        at_us = self._at_us(at, state)
        plain = single.key_of(key)
        found = None if plain is None else self._find_one(single, state, at_us, plain)
        if found is not None:
            return single.values(found)
        columns = None
        if bound.group_by or key != ():
            columns = key_columns(state.stream, bound, key if isinstance(key, dict) else [key])
            asked = len(columns[bound.group_by[0]])
            if asked != 1:
                raise KeysError(f"query {query}: `key` names {asked} groups, and lookup_one answers 1; use lookup_many")
        return first_values(state.lookup(bound, at_us, columns))

    def lookup_many(self, query: str, keys: object, at: Time | None = None) -> dict[str, np.ma.MaskedArray[Any, Any]]:
        """Answer many groups of an on-demand query as arrays.

        Args:
            query: The name of the query.
            keys: The groups, as for `lookup`; best as NumPy or Arrow arrays.
            at: The time of the answers. The default is now.

        Returns:
            A masked array for each name of SELECT, with an element for each key, in their order. An element is masked
            if its answer is NULL, if its group does not exist, or if the group does not pass HAVING.

        Raises:
            PanewiseError: As for `lookup`.

        Cost: O(keys) times the lookup of the chosen structure, in one call of a kernel where structures answer.
        """
        bound = on_demand_query(self._workload, query)
        state = self._stream(bound.stream)
        at_us = self._at_us(at, state)
        return state.lookup_many(bound, at_us, key_columns(state.stream, bound, keys))

    def lookup_at(self, query: str, keys: object, times: object) -> dict[str, np.ma.MaskedArray[Any, Any]]:
        """Answer many groups of an on-demand query, each at its own time.

        Args:
            query: The name of the query.
            keys: The groups, as for `lookup`; None for a query without GROUP BY.
            times: A time for each key: an array or a list of timestamps, ISO text or integers of microseconds.

        Returns:
            A masked array for each name of SELECT, with an element for each time, in their order. An element is masked
            if its answer is NULL, if its group does not exist then, or if the group does not pass HAVING. Approximate
            aggregates and WITHIN are answered exactly; over [UNBOUNDED], approximate ones come from their sketches.

        Raises:
            HistoryError: The earliest time needs events that are no longer held.
            PanewiseError: As for `lookup`; or there are more keys than times, or fewer.

        Cost: O(events held) for a call, and O(1) or O(log events) for each time and aggregate. For few times `lookup`
            is quicker.
        """
        bound = on_demand_query(self._workload, query)
        state = self._stream(bound.stream)
        times_us = asked_times(bound, times)
        columns = {} if keys is None and not bound.group_by else key_columns(state.stream, bound, keys)
        for name, column in columns.items():
            if len(column) != len(times_us):
                raise KeysError(f"query {query}: `times` has {len(times_us)} times for {len(column)} keys of {name!r}")
        return state.lookup_at(bound, times_us, columns)

    def add(self, statements: str) -> None:
        """Run statements while the stream runs: all of them, or none if one is wrong.

        A new query reports only windows that it has seen whole; `exact_from` tells where they start.

        Args:
            statements: CREATE STREAM, CREATE QUERY and DROP QUERY, each ended by a semicolon.

        Raises:
            StatementError: A statement is wrong, or a name is taken.
            MemoryBudgetError: The workload would hold more than `memory_limit`.

        Cost: planning the new queries. If the plan then costs more than the tolerance allows, all queries of the stream
            are planned anew; of more than 64, at the next advance.
        """
        workload, named = changed(self._workload, statements)
        columns = self._columns.after(self._workload, workload, named)
        check_memory(workload, self._prices, self._memory_limit)
        before, after = self._workload.queries, workload.queries
        gone = [before[name] for name in named if name in before and after.get(name) is not before[name]]
        fresh = [after[name] for name in named if name in after and before.get(name) is not after[name]]
        check_structures(workload, fresh, self._prices)
        check_plannable(workload, {query.stream for query in fresh} & workload.streams.keys(), self._prices)
        rows_before, rows_after = self._workload.row_queries, workload.row_queries
        for name in rows_before:
            if rows_after.get(name) is not rows_before[name]:
                self._row_queries.remove(name)
        for query in gone:
            self._stream(query.stream).remove(query.name)
            self._singles.pop(query.name, None)
        self._let_go(workload)
        touched = {query.stream for query in (*gone, *fresh)}
        # In the order of chains: a stream of answers begins with what the query below it has seen.
        for stream in workload.streams.values():
            name = stream.name
            if name not in self._streams:
                self._streams[name] = self._opened(self._begun(stream, workload))
            if name not in touched:
                continue
            self._streams[name].add([query for query in fresh if query.stream == name])
            if gone:
                # Not before: a query may take over what another one that goes has left.
                self._streams[name].free()
            self._streams[name].plan_changed()
        self._row_queries.add(query for query in rows_after.values() if rows_before.get(query.name) is not query)
        self._workload, self._columns = workload, columns
        self._follow()

    def remove(self, query: str) -> None:
        """Stop answering a query, and free what only it needed.

        Args:
            query: The name of the query.

        Raises:
            PanewiseError: There is no such query.

        Cost: O(trees), and O(slots) to drop the partials that no query needs any more.
        """
        workload = self._workload
        if text_of(query, "a query") in workload.row_queries:
            after = workload.without(query)
            self._row_queries.remove(query)
        else:
            bound = aggregate_query(workload, query)
            after = workload.without(query)
            state = self._stream(bound.stream)
            state.remove(query)
            state.free()
            state.plan_changed()
            self._singles.pop(query, None)
            self._columns = self._columns.after(workload, after, [query])
        self._let_go(after)
        self._workload = after
        self._follow()

    def late_events(self, stream: str) -> int:
        """Count the events of a stream that came behind the watermark and were dropped.

        Cost: O(1).
        """
        return self._stream(stream).late

    def position(self, stream: str) -> StreamPosition:
        """Tell how far a stream is: its watermark, its newest event, and how many events it has taken.

        Cost: O(1).
        """
        state = self._stream(stream)
        return StreamPosition(state.watermark_us, state.newest_us, state.accepted, state.late)

    def set_aside_events(self, stream: str) -> dict[str, int]:
        """Count the events of a stream that no window counts, by reason: `late`, `untimed`, `future`.

        Cost: O(1).
        """
        state = self._stream(stream)
        return {LATE: state.late, UNTIMED: state.aside.counts[UNTIMED], FUTURE: state.aside.counts[FUTURE]}

    def exact_from(self, query: str) -> int | None:
        """Tell where a query begins to see every event.

        Returns:
            Microseconds, or a position for ROWS ... SLIDE, or None if it has seen all from the start.

        Raises:
            PanewiseError: There is no such query.

        Cost: O(1).
        """
        if text_of(query, "a query") in self._workload.row_queries:
            return self._row_queries.exact_from(query)
        return self._stream(aggregate_query(self._workload, query).stream).exact_from(query)

    def statistics(self) -> dict[str, Any]:
        """Tell what the engine holds and has done, as plain data.

        Returns:
            A dict. `streams` has for each stream its events, late events and those set aside, by query the answers
            that are NULL because they do not fit (`overflown_answers`), the rate in event time, its trees with their
            fragments, groups and bytes, and the event log. `structures` has for each stream the structures of
            on-demand queries, with bytes, updates, lookups and switches. `row_queries` has for each row query its
            basic windows attached, evaluations, the index in use, and bytes.

        Cost: O(partials that wait), which are merged to count bytes, and O(trees and structures).
        """
        return {
            "streams": {name: stream_statistics(state) for name, state in self._streams.items()},
            "structures": {name: state.structures.statistics() for name, state in self._streams.items()},
            "row_queries": self._row_queries.statistics(),
        }

    @property
    def plan(self) -> Plan:
        """The plan in use, with what it costs at the rate that was seen.

        Cost: O(queries).
        """
        return plan_at_work(self._workload, self._streams)

    def explain(self, *, analyze: bool = False) -> str:
        """Show the plan in use as text: which queries share what, what it costs, and why.

        Args:
            analyze: Show for each tree the work that was predicted beside the work that it did.

        Cost: O(queries).
        """
        return explain_engine(self._workload, self._streams, analyze=analyze)

    def snapshot(self) -> bytes:
        """Pack everything that the engine holds into bytes for `restore`.

        Cost: O(what is held), in time and bytes.
        """
        return write_snapshot(
            self._workload, self._streams, self._row_queries, self._memory_limit, strict=self._warned.strict
        )

    @classmethod
    def restore(cls, blob: bytes, *, set_aside: Receiver | None = None, clock: Clock = time.time) -> Engine:
        """Make an engine that goes on where `snapshot` left off.

        Args:
            blob: What `snapshot` returned, in this version of Panewise or an older one.
            set_aside: As for a new engine; a snapshot does not hold it.
            clock: As for a new engine.

        Raises:
            SnapshotError: The bytes are damaged, or a newer version wrote them.

        Cost: O(what is held).
        """
        check_callables(set_aside, clock)
        held = read_snapshot(blob)
        engine = cls.__new__(cls)
        engine._workload = held.workload
        engine._columns = AnswerColumns.of(held.workload)
        engine._set_aside, engine._clock = set_aside, clock
        engine._streams = held.streams
        for state in held.streams.values():
            engine._opened(state)
        engine._follow()
        engine._memory_limit = held.memory_limit
        engine._prices = next((state.prices for state in held.streams.values()), Prices())
        engine._row_queries = held.row_queries
        engine._singles = {}
        engine._warned = Warned(strict=held.strict)
        return engine

    def _let_go(self, workload: Workload) -> None:
        """Drop the streams of answers that are not in a workload any more, or whose query is another one there."""
        for name in [name for name, state in self._streams.items() if state.stream.is_of_answers]:
            if name not in workload.streams or workload.queries[name] is not self._workload.queries[name]:
                del self._streams[name]

    def _begun(self, stream: Stream, workload: Workload) -> StreamState:
        """A stream that is new. One of answers lacks those that were reported before."""
        state = StreamState(stream, [], prices_over(workload, stream, self._prices))
        if stream.answers_over is None:
            return state
        below, query = self._streams[stream.answers_over], workload.queries[stream.name]
        from_us = complete_from(stream, query, below.closed_us, below.exact_from(query.name), below.unseen_from_us)
        if from_us is not None:
            marked_us = None if below.marked_us is None else watermark_above(stream, below.marked_us)
            state.begin(from_us, marked_us)
        return state

    def _follow(self) -> None:
        """Tell each stream whose answers others read."""
        for name, streams in self._workload.streams_above.items():
            self._streams[name].read = frozenset(stream.name for stream in streams)

    def _opened(self, state: StreamState) -> StreamState:
        """A stream that sets events aside as this engine does."""
        state.aside.receiver, state.aside.clock = self._set_aside, self._clock
        return state

    def _at_us(self, at: Time | None, state: StreamState) -> int | None:
        """The time of a lookup."""
        if at is None:
            return None
        at_us = to_microseconds(at, "`at`")
        self._warned.time(state, at, at_us, "`at`")
        return at_us

    def _stream(self, name: str) -> StreamState:
        if text_of(name, "a stream") not in self._streams:
            raise UnknownNameError(f"no stream named {name!r}{instead(name, list(self._streams))}")
        return self._streams[name]

    def _single(self, name: str) -> SingleLookups[EventLog]:
        """What an on-demand query prepares for lookups of one group."""
        single = self._singles.get(text_of(name, "a query"))
        if single is None:
            bound = on_demand_query(self._workload, name)
            state = self._stream(bound.stream)
            self._singles[name] = single = SingleLookups(state.stream, bound, state.structures)
        return single

    def _find_one(
        self, single: SingleLookups[EventLog], state: StreamState, at_us: int | None, key: tuple[object, ...]
    ) -> FoundOne | None:
        """The answers of one group as plain values; None if they need a table."""
        at_us = state.now_us if at_us is None else at_us
        if at_us is None or state.log is None or not single.is_plain or follows_events(single.query.window):
            return None
        found = single.find(state.log, at_us, state.since_us[single.query.name], key)
        if found is not None and found.overflows:
            state.overflows.add(single.query, found.overflows)
        return found
