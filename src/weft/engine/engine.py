"""The engine: push, advance, lookup, add, remove, snapshot. One process, one thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from weft.engine.answers import answers_schema, to_table, wide
from weft.engine.explain import explain_engine
from weft.engine.ingest import to_batch
from weft.engine.lookup import first_values
from weft.engine.on_demand.keys import key_columns
from weft.engine.on_demand.one_group import FoundOne
from weft.engine.on_demand.scalars import Values
from weft.engine.on_demand.single import SingleLookups
from weft.engine.snapshot import read_snapshot, write_snapshot
from weft.engine.statistics import stream_statistics
from weft.engine.stream_state import StreamState
from weft.engine.windowed.row_queries import RowQueries
from weft.errors import WeftError
from weft.language.model import Query, Workload
from weft.language.reader import apply, read
from weft.language.row_queries import RowQuery
from weft.planning.cost import Prices
from weft.planning.memory import check_budget
from weft.planning.optimize import optimize
from weft.planning.plan import DEFAULT_RATE
from weft.planning.structure_choice import Rates, choose_structure
from weft.windows.clock import to_microseconds

Time = int | datetime | str


class Engine:
    """Answers the queries of a workload over events that are pushed in.

    Times are int microseconds since 1970 UTC, datetimes (naive means UTC) or ISO text. Not thread-safe. `rate` (events
    a second) and `groups` (about how many values attributes have) are what queries are planned for; any guess gives
    right answers, a good one gives them faster; so does `in_bulk` where windows close many at once, as when a past is
    taken in by few pushes. A workload that would hold more than `memory_limit` bytes by these
    numbers is refused when it is planned, with its largest consumers.
    """

    def __init__(
        self,
        workload: Workload | str | PathLike[str],
        *,
        rate: float = DEFAULT_RATE,
        groups: Mapping[str, int] | None = None,
        in_bulk: bool = False,
        memory_limit: int | None = None,
    ) -> None:
        self._prices = Prices(rate, groups=dict(groups or {}), in_bulk=in_bulk)
        self._memory_limit = memory_limit
        self._workload = workload if isinstance(workload, Workload) else read(workload)
        self._schema = answers_schema(self._workload)
        self._check_memory(self._workload)
        self._streams = {
            stream.name: StreamState(stream, self._workload.queries_of(stream.name), self._prices)
            for stream in self._workload.streams.values()
        }
        self._row_queries = RowQueries(self._streams)
        self._row_queries.add(self._workload.row_queries.values())
        self._singles: dict[str, SingleLookups] = {}

    @property
    def workload(self) -> Workload:
        """The streams, and the queries that are being answered."""
        return self._workload

    def push(self, stream: str, events: object) -> None:
        """Take in events: Arrow, pandas, Polars or a dict of arrays, in any order.

        Events behind the watermark are dropped and counted (`late_events`). Cost: O(events) per execution tree.
        """
        state = self._stream(stream)
        self._row_queries.push(stream, state.push(to_batch(state.stream, events)))

    def advance(
        self, stream: str, watermark: Time | None = None, *, changed_only: bool = False, encoded: bool = False
    ) -> pa.Table:
        """Move a stream's watermark and return the answers of the windows that it closes.

        Without a watermark, it is the newest event's time less the stream's declared WATERMARK delay.
        `weft.END_OF_STREAM` closes everything. With `changed_only`, groups whose answers are those of the window before
        are left out, and a group that has no answer any more comes once with NULL. The first such call after the engine
        was made or restored reports all groups. With `encoded`, columns of strings are Arrow dictionaries, which takes
        less time and memory where answers are many.
        """
        state = self._stream(stream)
        if watermark is not None:
            watermark_us = to_microseconds(watermark)
        elif state.newest_us is None:
            return to_table([], self._schema, encoded=encoded)
        else:
            watermark_us = max(state.newest_us - state.stream.watermark_us, state.watermark_us or -(2**63))
        answers = state.advance(watermark_us, changed_only=changed_only)
        self._row_queries.advance(stream, watermark_us)
        return to_table(answers, self._schema, encoded=encoded)

    def rows(self, query: str) -> pa.Table:
        """The rows of a row query since the last call, in columns of its own. They wait until they are fetched."""
        return self._row_queries.rows(self._row_query(query).name)

    def lookup(self, query: str, at: Time | None = None, keys: object = None) -> pa.Table:
        """Answer an on-demand query at a time, or now: at the newest event or the watermark, whichever is later.

        `keys` names the groups to answer: a dict from each GROUP BY attribute to a value or to several, or a list of
        tuples in the order of GROUP BY. Groups that there are not give no row. Of a row query: its newest complete
        window, or the rows that it holds INTO a window.
        """
        if query in self._workload.row_queries:
            if at is not None or keys is not None:
                raise WeftError(
                    f"query {query} answers with rows, which are looked up as they are now; leave out `at` and `keys`"
                )
            return self._row_queries.lookup(query)
        single = self._single(query)
        bound, state = single.query, self._streams[single.query.stream]
        at_us = None if at is None else to_microseconds(at)
        columns = None
        if keys is not None:
            one = keys if isinstance(keys, dict) else keys[0] if isinstance(keys, list) and len(keys) == 1 else None
            key = None if one is None else single.key_of(one)
            found = self._find_one(single, state, at_us, key) if key else None
            if found is not None and key is not None:
                return single.table(found, key)
            columns = key_columns(state.stream, bound, keys)
        return to_table([state.lookup(bound, at_us, columns)], self._schema)

    def lookup_one(self, query: str, key: object = (), at: Time | None = None) -> Values | None:
        """The answers of one group as plain values by the names of SELECT, for the least time a lookup can take.

        `key` is a value of the GROUP BY attribute, a tuple in the order of GROUP BY, or a dict; it is left out where
        there is no GROUP BY. Answers are int where they are exact integers (microseconds of a timestamp), else float,
        and None where they are NULL. Instead of the dict there is None where the group is not there or does not pass
        HAVING. Cost: as `lookup` of one key, without Arrow.
        """
        single = self._single(query)
        bound, state = single.query, self._streams[single.query.stream]
        at_us = None if at is None else to_microseconds(at)
        plain = single.key_of(key)
        found = None if plain is None else self._find_one(single, state, at_us, plain)
        if found is not None:
            return single.values(found)
        columns = None
        if bound.group_by or key != ():
            columns = key_columns(state.stream, bound, key if isinstance(key, dict) else [key])
            asked = len(columns[bound.group_by[0]])
            if asked != 1:
                raise WeftError(f"query {query}: `key` names {asked} groups, and lookup_one answers 1; use lookup_many")
        return first_values(state.lookup(bound, at_us, columns))

    def lookup_many(self, query: str, keys: object, at: Time | None = None) -> dict[str, np.ma.MaskedArray[Any, Any]]:
        """The answers of many groups as arrays by the names of SELECT, with an element for each key, in their order.

        `keys` is as for `lookup`, best with NumPy or Arrow arrays. Elements are masked where an answer is NULL, and
        where a group is not there or does not pass HAVING.
        """
        bound = self._on_demand(query)
        state = self._stream(bound.stream)
        at_us = None if at is None else to_microseconds(at)
        return state.lookup_many(bound, at_us, key_columns(state.stream, bound, keys))

    def add(self, statements: str) -> None:
        """Run statements: CREATE STREAM, CREATE QUERY, DROP QUERY. All of them, or none when one is wrong.

        A new query reports only windows that it has seen whole; `exact_from` tells from where on that is.
        """
        workload = apply(self._workload, statements)
        schema = answers_schema(workload)
        self._check_memory(workload)
        self._check_structures(workload)
        before, after = self._workload.queries, workload.queries
        for name in before:
            if after.get(name) is not before[name]:
                self._stream(before[name].stream).remove(name)
                self._singles.pop(name, None)
        for stream in workload.streams.values():
            if stream.name not in self._streams:
                self._streams[stream.name] = StreamState(stream, [], self._prices)
            fresh = [query for query in workload.queries_of(stream.name) if before.get(query.name) is not query]
            self._streams[stream.name].add(fresh)
        rows_before, rows_after = self._workload.row_queries, workload.row_queries
        for name in rows_before:
            if rows_after.get(name) is not rows_before[name]:
                self._row_queries.remove(name)
        self._row_queries.add(query for query in rows_after.values() if rows_before.get(query.name) is not query)
        self._workload, self._schema = workload, schema

    def remove(self, query: str) -> None:
        """Stop answering a query, and free what only it needed."""
        workload = self._workload
        if query in workload.row_queries:
            self._row_queries.remove(query)
            row_queries = {name: kept for name, kept in workload.row_queries.items() if name != query}
            self._workload = replace(workload, row_queries=row_queries)
            return
        bound = self._query(query)
        self._stream(bound.stream).remove(query)
        self._singles.pop(query, None)
        queries = {name: kept for name, kept in workload.queries.items() if name != query}
        self._workload = replace(workload, queries=queries)
        self._schema = answers_schema(self._workload)

    def late_events(self, stream: str) -> int:
        """How many events came behind the watermark and were dropped."""
        return self._stream(stream).late

    def exact_from(self, query: str) -> int | None:
        """From where on a query sees every event: microseconds, or a position for ROWS ... SLIDE; None: the start."""
        if query in self._workload.row_queries:
            return self._row_queries.exact_from(query)
        return self._stream(self._query(query).stream).exact_from(query)

    def statistics(self) -> dict[str, Any]:
        """What the engine holds and has done.

        `streams`: by name, events, late events, the rate in event time, trees with their fragments, groups and bytes,
        the event log. `structures`: by stream, each structure of on-demand queries with its bytes, updates, lookups
        and switches. `row_queries`: by name, basic windows attached, evaluations, index in use, bytes.
        """
        return {
            "streams": {name: stream_statistics(state) for name, state in self._streams.items()},
            "structures": {name: state.structures.statistics() for name, state in self._streams.items()},
            "row_queries": self._row_queries.statistics(),
        }

    def explain(self, *, analyze: bool = False) -> str:
        """The plan that is at work, as text; with `analyze`, what was predicted for each tree beside what it did."""
        return explain_engine(self._workload, self._streams, analyze=analyze)

    def wide(self, answers: pa.Table, query: str) -> pa.Table:
        """One query's rows of an answers table, with a typed column per SELECT item."""
        return wide(answers, self._workload, query)

    def snapshot(self) -> bytes:
        """Everything that the engine holds, as bytes for `restore`."""
        return write_snapshot(self._workload, self._streams, self._row_queries, self._memory_limit)

    @classmethod
    def restore(cls, blob: bytes) -> Engine:
        """An engine that goes on where `snapshot` left off, whatever older Weft wrote it."""
        held = read_snapshot(blob)
        engine = cls.__new__(cls)
        engine._workload = held.workload
        engine._schema = answers_schema(held.workload)
        engine._streams = held.streams
        engine._memory_limit = held.memory_limit
        engine._prices = next((state.prices for state in held.streams.values()), Prices())
        engine._row_queries = held.row_queries
        engine._singles = {}
        return engine

    def _check_memory(self, workload: Workload) -> None:
        if self._memory_limit is not None:
            prices = self._prices
            plan = optimize(workload, rate=prices.rate, groups=prices.groups, in_bulk=prices.in_bulk)
            check_budget(plan, self._memory_limit)

    def _check_structures(self, workload: Workload) -> None:
        """Refuse a USING that cannot be, before anything changes."""
        for query in workload.queries.values():
            if query.using is not None and self._workload.queries.get(query.name) is not query:
                choose_structure(workload.streams[query.stream], query, Rates.assumed(self._prices.rate))

    def _stream(self, name: str) -> StreamState:
        if name not in self._streams:
            raise WeftError(f"no stream named {name!r}{_instead(name, list(self._streams))}")
        return self._streams[name]

    def _query(self, name: str) -> Query:
        if name not in self._workload.queries:
            raise WeftError(f"no query named {name!r}{_instead(name, self._query_names())}")
        return self._workload.queries[name]

    def _single(self, name: str) -> SingleLookups:
        """What is prepared for lookups of one group of an on-demand query."""
        single = self._singles.get(name)
        if single is None or single.schema is not self._schema:
            bound = self._on_demand(name)
            state = self._stream(bound.stream)
            self._singles[name] = single = SingleLookups(state.stream, bound, self._schema, state.structures)
        return single

    def _find_one(
        self, single: SingleLookups, state: StreamState, at_us: int | None, key: tuple[object, ...]
    ) -> FoundOne | None:
        """The answers of one group the short way; None where that does not lead to them."""
        at_us = state.now_us if at_us is None else at_us
        if at_us is None or state.log is None or not single.is_short:
            return None
        return single.find(state.log, at_us, state.since_us[single.query.name], key)

    def _on_demand(self, name: str) -> Query:
        if name in self._workload.row_queries:
            raise WeftError(f"query {name} answers with rows, which come from rows() and lookup()")
        bound = self._query(name)
        if bound.window.is_sliding:
            raise WeftError(
                f"query {name} slides, so its answers come from advance(); for lookups, write its window without SLIDE"
            )
        return bound

    def _row_query(self, name: str) -> RowQuery:
        if name in self._workload.queries:
            raise WeftError(f"query {name} answers with aggregates, which come from advance() and lookup()")
        if name not in self._workload.row_queries:
            raise WeftError(f"no query named {name!r}{_instead(name, self._query_names())}")
        return self._workload.row_queries[name]

    def _query_names(self) -> list[str]:
        return [*self._workload.queries, *self._workload.row_queries]


def _instead(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known[:10]) or 'none'}"
