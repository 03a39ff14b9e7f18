"""Asking a source from the event loop: small lookups at once, others in a thread, none without a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pyarrow as pa

from panewise.errors import ArgumentError, KeysError, QueryKindError, UnknownNameError
from panewise.language.model import Query
from panewise.language.row_queries import RowQuery
from panewise.language.workload import Workload
from panewise.serve.encoding import Told
from panewise.serve.limits import Limits
from panewise.serve.messages import Keys, LookupAnswers
from panewise.serve.source import AnswerSource, Arrays, BusyError, Position, Reader, arrays_of
from panewise.windows.clock import to_microseconds

T = TypeVar("T")

THREADS = 4
FEW_ROWS = 200
"""So many rows become JSON in a millisecond."""


class OverloadedError(Exception):
    """Too many requests wait, or one took too long."""


class FoundAnswers:
    """The tables of some queries, all of one state."""

    def __init__(self, position: Position, tables: list[tuple[str, str, pa.Table]]) -> None:
        self.position = position
        self.tables = tables
        """The query, its stream, and what it answers."""


class FoundValues:
    """The arrays of one query, with the state they are of."""

    def __init__(self, position: Position, query: Query, arrays: Arrays) -> None:
        self.position = position
        self.query = query
        self.arrays = arrays


class Asking:
    """Asks a source."""

    def __init__(self, source: AnswerSource, limits: Limits) -> None:
        self.source = source
        self.limits = limits
        self._threads = ThreadPoolExecutor(THREADS, "panewise-lookup")
        self._waiting = 0

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def lookup(self, queries: list[str], keys: Keys | None, at: int | str | None) -> FoundAnswers:
        """Look queries up, all at one state."""
        self._check(queries, keys)

        def work(reader: Reader) -> FoundAnswers:
            return FoundAnswers(reader.position, [_looked_up(reader, query, keys, at) for query in queries])

        return await self._read(work, is_small=self._is_small(queries, keys))

    async def lookup_json(
        self, queries: list[str], keys: Keys | None, at: int | str | None, limit: int
    ) -> LookupAnswers:
        """Look queries up, all at one state, for JSON: those of one group need no tables."""
        self._check(queries, keys)
        key = one_key(keys)

        def work(reader: Reader) -> LookupAnswers:
            told, workload = Told(reader.position), reader.workload
            plain = {} if key is None else reader.lookup_rows(_groups_given(workload, queries, key), key, at)
            answers = []
            for query in queries:
                if query in plain:
                    stream = stream_of(bound_query(workload, query))
                    answers.append(told.answer_of_one(query, stream, plain[query], limit))
                else:
                    answers.append(told.answer(*_looked_up(reader, query, keys, at), limit))
            return LookupAnswers(answers)

        return await self._read(work, is_small=self._is_small(queries, keys))

    async def values(
        self, query: str, keys: Keys | None, at: int | str | None, times: list[int | str] | None
    ) -> FoundValues:
        """Look groups of one query up as arrays, at one time or each at its own."""
        self._check([query], keys)
        if times is not None and at is not None:
            raise ArgumentError("give `at` for all groups or `times` for each of them, not both")
        if times is not None and len(times) > self.limits.keys:
            raise ArgumentError(f"at most {self.limits.keys:,} times a request; there are {len(times):,}")

        def work(reader: Reader) -> FoundValues:
            bound = bound_query(reader.workload, query)
            if not isinstance(bound, Query):
                raise QueryKindError(f"query {query} answers with rows; look up its answers")
            if times is None and bound.group_by and keys is None:
                raise KeysError(f"query {query} groups by {_listed(bound.group_by)}; name the groups in `keys`")
            taken = keys_of(bound, keys)
            if times is not None:
                arrays = reader.lookup_at(query, taken, [to_microseconds(time, "`times`") for time in times])
            elif taken is None:
                arrays = arrays_of(reader.lookup(query, None, at), bound)
            else:
                arrays = reader.lookup_many(query, taken, at)
            return FoundValues(reader.position, bound, arrays)

        return await self._read(work, is_small=False)

    async def _read(self, work: Callable[[Reader], T], *, is_small: bool) -> T:
        if is_small:
            try:
                return self.source.read(work, wait=False)
            except BusyError:
                pass
        return await self.in_thread(lambda: self.source.read(work, wait=True))

    async def in_thread(self, work: Callable[[], T], within_s: float | None = None) -> T:
        """Do work that may take long, or wait; within the time of a lookup, unless another is given."""
        within_s = self.limits.lookup_s if within_s is None else within_s
        done = self._begun(work)
        try:
            return await asyncio.wait_for(asyncio.shield(done), within_s)
        except TimeoutError:
            done.add_done_callback(lambda late: late.exception())
            raise OverloadedError(f"this took longer than {within_s:g} s; ask for less") from None

    async def shaped(self, rows: int, shape: Callable[[], T]) -> T:
        """Give an answer its form; one of many rows in a thread, so that no other request waits for it."""
        return shape() if rows <= FEW_ROWS else await self.in_thread(shape)

    async def to_the_end(self, work: Callable[[], T]) -> T:
        """Do work that changes something: whoever asked must learn what became of it, however long it takes."""
        return await asyncio.shield(self._begun(work))

    def _begun(self, work: Callable[[], T]) -> asyncio.Future[T]:
        if self._waiting >= self.limits.waiting:
            raise OverloadedError("too many requests wait; come again in a second")
        self._waiting += 1
        done = asyncio.get_running_loop().run_in_executor(self._threads, work)
        # It waits until it is really done: a thread cannot be stopped, and whoever asked may be gone.
        done.add_done_callback(lambda _: self._less())
        return done

    def _less(self) -> None:
        self._waiting -= 1

    def _check(self, queries: list[str], keys: Keys | None) -> None:
        if not queries:
            raise ArgumentError("name at least one query")
        if len(queries) > self.limits.queries:
            raise ArgumentError(f"at most {self.limits.queries:,} queries a request; there are {len(queries):,}")
        most = self.limits.keys
        if isinstance(keys, list) and len(keys) > most:
            raise KeysError(f"at most {most:,} keys a request; there are {len(keys):,}")
        for name, values in keys.items() if isinstance(keys, dict) else ():
            if isinstance(values, list) and len(values) > most:
                raise KeysError(f"at most {most:,} keys a request; {name} has {len(values):,}")

    def _is_small(self, queries: list[str], keys: Keys | None) -> bool:
        """Whether each query is asked for one group, and there are few."""
        if len(queries) > self.limits.small:
            return False
        if keys and one_key(keys) is None and not (isinstance(keys, list) and len(keys) == 1):
            return False
        known = self.source.workload.queries
        return all(name in known and (keys or not known[name].group_by) for name in queries)


def bound_query(workload: Workload, name: str) -> Query | RowQuery:
    """A query of a workload, or an error that names it."""
    bound = workload.queries.get(name) or workload.row_queries.get(name)
    if bound is None:
        raise UnknownNameError(f"there is no query named {name!r}; GET /v1/queries lists those there are")
    return bound


def stream_of(query: Query | RowQuery) -> str:
    """The stream of a query; the first of several."""
    return query.stream if isinstance(query, Query) else next(iter(query.streams))


def keys_of(query: Query, keys: Keys | None) -> dict[str, object] | None:
    """The keys that a query takes: those of its GROUP BY. One key is a plain value, which is the quick way."""
    if keys is None or not query.group_by:
        return None
    if isinstance(keys, list):
        groups = [group if isinstance(group, list) else [group] for group in keys]
        wrong = next((group for group in groups if len(group) != len(query.group_by)), None)
        if wrong is not None:
            raise KeysError(
                f"query {query.name} groups by {_listed(query.group_by)}; one of `keys` has {len(wrong)} values"
            )
        keys = {name: [group[place] for group in groups] for place, name in enumerate(query.group_by)}
    missing = [name for name in query.group_by if name not in keys]
    if missing:
        raise KeysError(f"query {query.name} groups by {', '.join(query.group_by)}; `keys` lacks {_listed(missing)}")
    taken = {name: keys[name] for name in query.group_by}
    return one_key(taken) or dict(taken)


def one_key(keys: Keys | None) -> dict[str, object] | None:
    """The one key that is asked for, with plain values; None if there are none or several."""
    if (
        not isinstance(keys, dict)
        or not keys
        or any(isinstance(values, list) and len(values) != 1 for values in keys.values())
    ):
        return None
    return {name: values[0] if isinstance(values, list) else values for name, values in keys.items()}


def _groups_given(workload: Workload, queries: list[str], key: dict[str, object]) -> list[str]:
    """The queries whose GROUP BY a key names whole; for another, its own lookup tells what is missing."""
    known, given = workload.queries, set(key)
    return [name for name in dict.fromkeys(queries) if name in known and given.issuperset(known[name].group_by)]


def _looked_up(reader: Reader, name: str, keys: Keys | None, at: int | str | None) -> tuple[str, str, pa.Table]:
    bound = bound_query(reader.workload, name)
    taken = keys_of(bound, keys) if isinstance(bound, Query) else None
    return name, stream_of(bound), reader.lookup(name, taken, at)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
