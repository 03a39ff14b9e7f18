"""The lookup client: answers any query of a job on Spark, for any key, in a process of its own.

It reads the slot log that the job keeps in a folder (`panewise.spark.answers(..., folder=...)`), and the row log for
queries over PARTITION BY ... ROWS. It holds the partials and rows in memory and keeps up by reading new files. It needs
no Spark, only the folder. After a restart it reads what the logs still have, and is where it was.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from time import monotonic, sleep
from time import time as now_s
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.lowering import Lowered
from panewise.arrays import Ints
from panewise.closable import Closable
from panewise.engine.answers import NO_TIME, Groups, QueryAnswers
from panewise.engine.closed_windows import ClosedWindows
from panewise.engine.families import WINDOW_END
from panewise.engine.lookup import arrays_of, nothing, of_intervals, over_nothing, structure_arrays
from panewise.engine.on_demand.coverage import Coverage
from panewise.engine.on_demand.keys import asked_times, key_columns
from panewise.engine.on_demand.one_group import FoundOne
from panewise.engine.on_demand.scalars import Answer
from panewise.engine.on_demand.served import Keys, labelled_aggregates
from panewise.engine.one_row import PlainRow
from panewise.engine.overflows import Overflows
from panewise.engine.several_windows import SeveralWindows
from panewise.engine.tables import KeyTable
from panewise.engine.wide_columns import WINDOW_START
from panewise.engine.wide_tables import lookup_table
from panewise.errors import (
    FolderError,
    KeysError,
    LookupTimeoutError,
    NotOnSparkError,
    QueryKindError,
    UnknownNameError,
)
from panewise.language.expressions import Expression
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.spark.client_log import ClientLog
from panewise.spark.lookup_folder import FolderJobs
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_state import LookupState
from panewise.spark.lookup_store import LookupStore
from panewise.spark.lookup_structures import AskedStructures, LookupStructures, moment_of
from panewise.spark.slot_file import NO_BATCH
from panewise.spark.slot_reader import FellBehindError
from panewise.spark.tuple_plan import how_to_look_up
from panewise.windows import follows_events, is_unbounded
from panewise.windows.clock import show_time, to_microseconds

Time = int | datetime | str
Arrays = dict[str, np.ma.MaskedArray[Any, Any]]

REFRESH_EVERY_S = 0.02
"""How often a lookup looks for new files: far more often than batches run, far less often than lookups come."""
SHARE_OF_CHECKS = 10
"""After a look for new files, the next one waits this many times as long as it took: lookups get that time."""
POLL_S = 0.01
"""How often `wait_for` looks."""


class LookupClient(Closable):
    """Answers lookups from the folder of a Spark job, in a process that starts no Spark.

    It is a context manager, and for one thread.

    Args:
        folder: The folder that the job was given.
        refresh_every_s: How old the last look at the folder may be when a lookup is answered; 0 looks each time, None
            only when `refresh` is called.
        log: A file to which every lookup is appended with its answer, for `panewise audit`. A lookup that cannot be
            logged raises `LookupLogError`.

    Raises:
        PanewiseError: There is no job in the folder, or another version of Panewise wrote it.

    Cost: reading the folder's files once.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        refresh_every_s: float | None = REFRESH_EVERY_S,
        log: str | os.PathLike[str] | None = None,
    ) -> None:
        self._folder = Path(folder)
        self._refresh_every_s = refresh_every_s
        self._jobs = FolderJobs(self._folder)
        self._state = LookupState(self._folder, self._jobs.current())
        self._structures = LookupStructures(self._state)
        self._spare: LookupStructures | None = None
        """Structures of an earlier state, which a client over a later one takes: the two take turns."""
        self._overflows = Overflows()
        self._asked_newest: dict[str, tuple[Lookup, Covered | None]] = {}
        """What lookups of queries without a time cover, until something new is read."""
        self._rebuilds = 0
        self._next_check_s = 0.0
        self.refresh()
        self._log = None if log is None else ClientLog(log, self.workload)

    @classmethod
    def over(cls, folder: Path, state: LookupState, earlier: LookupClient | None, rebuilds: int) -> LookupClient:
        """A client over what another one has read, ready to succeed an earlier one. It does not read on.

        What the earlier one counted is kept, and its spare structures follow the new state, while lookups of the
        earlier client go on with the others. Cost: O(new partials), and a look at all of them.
        """
        client = cls.__new__(cls)
        client._folder, client._refresh_every_s, client._log = folder, None, None
        client._state, client._asked_newest = state, {}
        client._overflows = Overflows() if earlier is None else earlier._overflows
        client._structures, client._spare = LookupStructures(state), None
        if earlier is not None and earlier.leads_to(state):
            if earlier._spare is not None:
                client._structures, earlier._spare = earlier._spare, None
            client._structures.take_after(earlier._structures)
            client._structures.follow(state)
        # Those of queries over rows are counted by the state.
        client._rebuilds, client._next_check_s = rebuilds - state.over_rows.rebuilds, 0.0
        return client

    def leads_to(self, state: LookupState) -> bool:
        """Whether the structures can follow a state: they answer the same queries."""
        return self._state.lookups is state.lookups

    def succeed(self, earlier: LookupClient) -> None:
        """Take the structures of an earlier client as spare ones. From now on it answers with new ones of its own."""
        if earlier.leads_to(self._state):
            self._spare, earlier._structures = earlier._structures, LookupStructures(earlier._state)

    @property
    def state(self) -> LookupState:
        """What has been read."""
        return self._state

    def close(self) -> None:
        """Free the memory, and close the log."""
        if self._log is not None:
            self._log.close()
        self._state = LookupState(self._folder, self._state.job)
        self._structures, self._spare = LookupStructures(self._state), None
        self._asked_newest = {}
        self._refresh_every_s = None

    @property
    def workload(self) -> Workload:
        """The streams and queries of the job."""
        return self._state.job.workload

    @property
    def is_batch(self) -> bool:
        """Whether the job is a batch job. It has no watermark: every window with events has closed."""
        return self._state.job.is_batch

    @property
    def is_live(self) -> bool:
        """Whether the job takes statements from a control stream."""
        return self._state.job.is_live

    @property
    def watermark_us(self) -> int | None:
        """Windows that end up to here have closed; None before the first watermark."""
        return self._state.watermark_us

    @property
    def seen_us(self) -> dict[str, int]:
        """By stream, the end of the newest slot with an event that the client has read."""
        return self._state.seen_us.copy()

    def lookup(self, query: str, keys: object = None, at: Time | None = None) -> pa.Table:
        """Answer a query, as `Engine.lookup` does.

        A sliding query answers with its newest window that has closed, or had closed at a time. A query without SLIDE
        answers at the end of the newest slot that has events, or of the last slot that ends by a time. A query over
        PARTITION BY ... ROWS answers with the last rows of each substream, or the last up to a time. Of sessions,
        and of windows from one event to another, it is the one that each group is in at the end of that slot.

        Args:
            query: The name of the query.
            keys: A dict from each GROUP BY attribute to a value or to several, or a list of tuples. The default is all
                groups.
            at: The time of the answer. The default is the newest that was read.

        Returns:
            A table with a typed column for each SELECT item, like that of `Engine.lookup`; `window_end` shows which
            window it is.

        Raises:
            PanewiseError: There is no such query, or the folder does not hold what the answer needs.

        Cost: reading what is new, at most every `refresh_every_s`; then O(slots of the window) for each group asked.
        """
        self._look_if_due()
        table, covered = self._table(query, keys, at)
        if self._log is not None and query in self.workload.queries:
            self._log.table(self._state, query, keys, at, covered, table)
        return table

    def _table(
        self, query: str, keys: object, at: Time | None, *, is_exact: bool = False
    ) -> tuple[pa.Table, Covered | None]:
        """What `lookup` answers, and what it covers; exact answers also to WITHIN if asked for."""
        held = self._state.over_rows.held_rows(query)
        if held is not None:
            if keys is not None or at is not None:
                raise QueryKindError(
                    f"query {query} answers with rows, which are looked up as they are now; leave out `at` and `keys`"
                )
            return held.lookup(query), None
        engine = self._state.over_rows.engine(query)
        if engine is not None:
            return engine.lookup(query, self._time_over_rows(query, at), keys), None
        lookup, covered = self._asked(query, at)
        stream = self._state.job.workload.streams[lookup.query.stream]
        if covered is None:
            nothing = _no_answers(lookup) if lookup.is_sliding else over_nothing(stream, lookup.query, NO_TIME, NO_TIME)
            return lookup_table(stream, nothing), covered
        asked = self._structured(lookup, covered, None if keys is None else 1)
        one = keys if isinstance(keys, dict) else keys[0] if isinstance(keys, list) and len(keys) == 1 else None
        single = self._structures.single(lookup)
        key = None if one is None else single.key_of(one)
        if key and asked is not None and single.has_table:
            found = single.find(asked.moment, asked.at, None, key)
            if found is not None:
                self._overflows.add(lookup.query, found.overflows)
                return single.table(found, key), covered
        columns = None if keys is None else key_columns(stream, lookup.query, keys)
        # To fold one group takes less than to prepare arrays for what kernels do not answer.
        intervals = None if is_exact else self._structures.intervals(lookup)
        looked = None if intervals is None else intervals.lookup(moment_of(self._state, lookup, covered))
        if looked is not None:
            return lookup_table(stream, of_intervals(lookup.query, looked, covered.start_us, covered.end_us)), covered
        answers = self._answers(lookup, covered, columns, None if key else asked)
        return single.table_of(answers, key) if key else lookup_table(stream, answers), covered

    def lookup_many(self, query: str, keys: object, at: Time | None = None) -> Arrays:
        """Answer many groups of a query as arrays.

        Args:
            query: The name of the query.
            keys: The groups, as for `lookup`; best as NumPy or Arrow arrays.
            at: The time of the answers. The default is the newest that was read.

        Returns:
            A masked array for each name of SELECT, with an element for each key, in their order. An element is masked
            if its answer is NULL, if its group does not exist, or if the group does not pass HAVING.

        Cost: as `lookup`, without making a table.
        """
        self._look_if_due()
        arrays, covered = self._arrays(query, keys, at)
        if self._log is not None:
            self._log.arrays(self._state, query, keys, at, covered, arrays)
        return arrays

    def lookup_at(self, query: str, keys: object, times: object) -> Arrays:
        """Answer many groups of a query as arrays, each at its own time, as `Engine.lookup_at` does.

        Args:
            query: The name of the query.
            keys: The groups, as for `lookup`; None for a query without GROUP BY.
            times: A time for each key: an array or a list of timestamps, ISO text or integers of microseconds. Each is
                taken as `lookup(..., at=time)` takes it.

        Returns:
            As `lookup_many`, with an element for each time.

        Raises:
            HistoryError: The earliest time needs partials or rows that the client no longer holds.
            PanewiseError: As for `lookup`; or there are more keys than times, or fewer.

        Cost: as `lookup_many` for the keys of each different slot or window among the times.
        """
        self._look_if_due()
        engine = self._state.over_rows.engine(query)
        bound = self._asked(query, None)[0].query if engine is None else self.workload.queries[query]
        times_us = asked_times(bound, times)
        stream = self.workload.streams[bound.stream]
        columns = {} if keys is None and not bound.group_by else key_columns(stream, bound, keys)
        for name, column in columns.items():
            if len(column) != len(times_us):
                raise KeysError(f"query {query}: `times` has {len(times_us)} times for {len(column)} keys of {name!r}")
        # Times of one slot have one answer.
        places: dict[Covered | int | None, list[int]] = {}
        covered_at: dict[int, Covered | int | None] = {}
        for place, time_us in enumerate(times_us.tolist()):
            if time_us not in covered_at:
                covered_at[time_us] = self._asked(query, time_us)[1] if engine is None else time_us
            places.setdefault(covered_at[time_us], []).append(place)
        found: dict[str, np.ma.MaskedArray[Any, Any]] = {}
        for some in places.values():
            at_us = int(times_us[some[0]])
            if columns:
                asked = {name: column.take(pa.array(some)) for name, column in columns.items()}
                arrays, covered = self._arrays(query, asked, at_us)
            else:
                asked, (arrays, covered) = None, self._one_row(bound, at_us)
            if self._log is not None:
                self._log.arrays(self._state, query, asked, at_us, covered, arrays)
            for label, array in arrays.items():
                if label not in found:
                    found[label] = np.ma.MaskedArray(np.zeros(len(times_us), array.dtype), True)
                found[label][some] = array if columns else array[[0] * len(some)]
        return found or {label: np.ma.MaskedArray(np.zeros(0), True) for label, _ in labelled_aggregates(bound)}

    def _one_row(self, query: Query, at: Time) -> tuple[Arrays, Covered | None]:
        """The answer of a query without GROUP BY, as arrays with one element."""
        table, covered = self._table(query.name, None, at, is_exact=True)
        return {label: _masked(table.column(label)) for label, _ in labelled_aggregates(query)}, covered

    def _arrays(self, query: str, keys: object, at: Time | None) -> tuple[Arrays, Covered | None]:
        """What `lookup_many` answers, and what it covers."""
        engine = self._state.over_rows.engine(query)
        if engine is not None:
            return engine.lookup_many(query, keys, self._time_over_rows(query, at)), None
        lookup, covered = self._asked(query, at)
        columns = key_columns(self._state.job.workload.streams[lookup.query.stream], lookup.query, keys)
        if covered is None:
            return arrays_of(_no_answers(lookup), columns), covered
        asked = self._structured(lookup, covered, len(columns[lookup.query.group_by[0]]))
        if asked is not None:
            found = structure_arrays(asked.structures, lookup.query, asked.moment, asked.at, None, columns)
            if found is not None:
                self._overflows.add(lookup.query, found[1])
                return found[0], covered
        return arrays_of(self._answers(lookup, covered, columns, None), columns), covered

    def can_share(self, query: str) -> bool:
        """Whether `lookup_rows` answers a query: one with GROUP BY, without HAVING, whose answers are plain numbers."""
        lookup = self._state.lookups.get(query)
        if lookup is None or lookup.query.has_own_windows or follows_events(lookup.query.window):
            return False
        return bool(lookup.query.group_by) and self._structures.single(lookup).has_plain_row

    def lookup_rows(
        self, queries: Sequence[str], key: Mapping[str, object], at: Time | None = None
    ) -> list[PlainRow | None]:
        """Answer one group of several queries as plain values.

        Args:
            queries: The names of queries for which `can_share` is true.
            key: A value for each attribute that some of them groups by.
            at: The time of the answers. The default is the newest that was read.

        Returns:
            For each query a dict by column, with the times of its window in microseconds; None if the group has no
            answer.

        Raises:
            PanewiseError: As for `lookup`.

        Cost: a call of a kernel for queries with the same aggregates, and O(values) for each query.
        """
        self._look_if_due()
        unfit = next((query for query in queries if not self.can_share(query)), None)
        if unfit is not None:
            self._asked(unfit, at)
            raise QueryKindError(f"query {unfit} is not answered together with others; use lookup")
        asked = [self._asked(query, at) for query in queries]
        rows = self._plain_rows(asked, key)
        if self._log is not None:
            for (lookup, covered), row in zip(asked, rows, strict=True):
                self._log.row(self._state, lookup.query, key, at, covered, row)
        return rows

    def refresh(self) -> bool:
        """Read what the job has written since the last time.

        Returns:
            Whether there was anything new.

        Cost: O(new files).
        """
        began_s = monotonic()
        self._asked_newest = {}
        try:
            changed = self._catch_up()
            if changed:
                # Now, so that no lookup does it.
                self._structures.follow(self._state)
        finally:
            ended_s = monotonic()
            pause_s = max(self._refresh_every_s or 0.0, SHARE_OF_CHECKS * (ended_s - began_s))
            self._next_check_s = ended_s + (pause_s if self._refresh_every_s else 0.0)
        return changed

    def wait_for(self, *, batch: int | None = None, time: Time | None = None, timeout_s: float = 30.0) -> None:
        """Wait until a batch has been seen, or until the watermark has reached a time, or both.

        Args:
            batch: The number of the batch.
            time: A time for the watermark.
            timeout_s: How long to wait.

        Raises:
            LookupTimeoutError: It took longer.
        """
        time_us = None if time is None else to_microseconds(time, "`time`")
        until_s = monotonic() + timeout_s
        while True:
            self.refresh()
            watermark_us = self._state.watermark_us
            has_batch = batch is None or self._state.newest_batch >= batch
            if has_batch and (time_us is None or (watermark_us is not None and watermark_us >= time_us)):
                return
            if monotonic() >= until_s:
                shown = "none" if watermark_us is None else show_time(watermark_us)
                raise LookupTimeoutError(
                    f"{self._folder}: after {timeout_s:g} s the newest batch is {self._state.newest_batch} and the "
                    f"watermark {shown}; see whether the job runs, or wait longer with timeout_s"
                )
            sleep(POLL_S)

    def statistics(self) -> dict[str, Any]:
        """What the client holds and has read.

        `newest_batch` (None before the first), `watermark_us`, `seen_us` by stream (the end of the newest slot with an
        event), `rows` (partials), `events` (of queries over rows) and `bytes` in memory, `files_read`, `bytes_read`,
        `rebuilds` (how often a log was read from the start), `lag_s` (the age of the last file when it was read),
        `age_s` (how long ago the newest batch that was read was written; it grows while the job publishes none),
        `index_lookups` (lookups of all groups whose HAVING went through an index) and `index_groups` (the groups that
        these gave), `structures` (as in `Engine.statistics`), `unread_files` (files in the folder that cannot be read,
        and that nobody needs), `is_behind` (whether a worker could not write for some batches: lookups are then
        answered at the watermark),
        `overflown_answers` (by query, answers that were NULL because a sum does not fit in a BIGINT).
        """
        state = self._state
        every = self._every_structures
        return {
            "newest_batch": None if state.newest_batch == NO_BATCH else state.newest_batch,
            "watermark_us": state.watermark_us,
            "seen_us": dict(state.seen_us),
            "rows": state.rows,
            "events": state.over_rows.rows,
            "bytes": state.bytes_held + sum(one.nbytes for one in every),
            "files_read": state.files_read,
            "bytes_read": state.bytes_read,
            "lag_s": state.reader.lag_s,
            "age_s": None if state.reader.written_s is None else max(0.0, now_s() - state.reader.written_s),
            "rebuilds": self._rebuilds + state.over_rows.rebuilds,
            "index_lookups": sum(index.lookups for one in every for index in one.indexes),
            "index_groups": sum(index.candidates for one in every for index in one.indexes),
            "structures": self._structures.statistics(),
            "unread_files": state.unread,
            "is_behind": state.is_behind,
            "overflown_answers": self._overflows.counts | state.over_rows.overflown,
        }

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self._state.check_invariants()
        for one in self._every_structures:
            one.check_invariants()

    @property
    def _every_structures(self) -> list[LookupStructures]:
        return [self._structures] if self._spare is None else [self._structures, self._spare]

    def _catch_up(self) -> bool:
        job = self._jobs.current()
        over_rows = None
        if job.changes == self._state.job.changes:
            over_rows = self._state.over_rows
            try:
                changed = self._state.catch_up()
            except FellBehindError:
                pass
            else:
                if self._state.changes <= job.changes:
                    return changed
                # Statements came meanwhile.
                job, over_rows = self._jobs.current(self._state.changes), None
        # A log that is merged, or statements that come, faster than it is read need another try.
        for is_last in (False, False, True):
            state = LookupState(self._folder, job, over_rows)
            try:
                state.catch_up()
                if state.changes > job.changes:
                    job, over_rows = self._jobs.current(state.changes), None
                    raise FellBehindError
            except FellBehindError:
                if is_last:
                    raise FolderError(
                        f"{self._folder}: the job merges files faster than this process reads; is the disk slow?"
                    ) from None
                continue
            self._state, self._structures = state, LookupStructures(state)
            self._rebuilds += 1
            break
        return True

    def _look_if_due(self) -> None:
        """Look for new files if the last look is long enough ago."""
        if self._refresh_every_s is not None and monotonic() >= self._next_check_s:
            self.refresh()

    def _asked(self, query: str, at: Time | None) -> tuple[Lookup, Covered | None]:
        """How a query is looked up, and what it covers now or at a time."""
        if at is not None:
            return self._found(query, at)
        found = self._asked_newest.get(query)
        if found is None:
            found = self._asked_newest[query] = self._found(query, None)
        return found

    def _found(self, query: str, at: Time | None) -> tuple[Lookup, Covered | None]:
        state = self._state
        lookup = state.lookups.get(query)
        if lookup is None and query in state.job.workload.queries:
            raise NotOnSparkError(
                f"query {query} reports as rows come, and its rows are not kept for lookups; read its answers from the "
                f"job, or leave out SLIDE"
            )
        if query in state.over_rows.held.queries:
            raise QueryKindError(f"query {query} answers with rows, not with arrays or values; use lookup({query!r})")
        row_query = state.job.workload.row_queries.get(query)
        if row_query is not None:
            raise NotOnSparkError(f"query {query}: its rows go to a table of the job; {how_to_look_up(row_query)}")
        if lookup is None:
            names = [*state.lookups, *state.over_rows.queries, *state.over_rows.held.queries]
            near = get_close_matches(query, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names[:10])}"
            raise UnknownNameError(f"{self._folder}: no query named {query!r}; {hint}")
        at_us = None if at is None else to_microseconds(at, "`at`")
        stream = lookup.query.stream
        if not lookup.is_sliding or follows_events(lookup.query.window):
            at_us = state.latest_us(query, at_us)
        covered = lookup.covered(at_us, state.closed_us(stream), state.seen_us.get(stream))
        if covered is not None:
            state.check_held(lookup, covered)
        return lookup, covered

    def _time_over_rows(self, query: str, at: Time | None) -> Time | None:
        """The time to look up a query over rows at: another one than the newest while some bucket is behind."""
        state = self._state
        if not state.is_behind:
            return at
        asked_us = None if at is None else to_microseconds(at, "`at`")
        at_us = state.latest_us(query, asked_us)
        assert at_us is not None
        return state.over_rows.final_us(query, at_us + 1) - 1 if asked_us is None else at_us

    def _structured(self, lookup: Lookup, covered: Covered, groups: int | None) -> AskedStructures | None:
        """The structures that answer a lookup of some groups or of all; None if partials are read."""
        # Structures answer one window of a query, which covers the same time for all groups.
        is_read = lookup.query.has_own_windows or follows_events(lookup.query.window)
        return None if is_read else self._structures.asked(self._state, lookup, covered, groups)

    def _answers(
        self, lookup: Lookup, covered: Covered, keys: Keys | None, asked: AskedStructures | None
    ) -> QueryAnswers:
        """The answers of some groups or of all. A query without SLIDE and GROUP BY has one even without any event."""
        answers = None
        if asked is not None and (lookup.query.group_by or asked.served.has_elements(asked.moment)):
            answers = asked.structures.lookup(lookup.query, asked.moment, asked.at, None, keys)
        if answers is None:
            answers = self._read(lookup, covered, keys)
        self._overflows.add(lookup.query, answers.overflows)
        return answers

    def _read(self, lookup: Lookup, covered: Covered, keys: Keys | None) -> QueryAnswers:
        """The answers from the partials of the window."""
        store, wanted = self._state.store(lookup.family), None
        if keys is not None:
            names = store.tree.group_by
            numbers = store.find([keys[name] for name in names], len(keys[names[0]]))
            wanted = np.unique(numbers[numbers >= 0])
        if follows_events(lookup.query.window):
            slots = covered.from_slot, covered.to_slot
            standing = store.standing(lookup.planned, covered.end_us, wanted, slots)
            return standing.answers(*standing.fold.bounds(lookup.query.window))
        closed = _folded(store, lookup, covered, wanted)
        size = len(closed)
        if size:
            answers = closed.answers(np.full(size, covered.start_us), np.full(size, covered.end_us))
            # Planned as a sliding query, it would have no bounds beside answers to WITHIN.
            return replace(answers, query=lookup.query)
        if lookup.is_sliding:
            return _no_answers(lookup)
        return over_nothing(_stream(lookup), lookup.query, covered.start_us, covered.end_us)

    def _plain_rows(
        self, asked: Sequence[tuple[Lookup, Covered | None]], given: Mapping[str, object]
    ) -> list[PlainRow | None]:
        """The answers of one group; those of queries with the same aggregates are folded together."""
        rows: list[PlainRow | None] = [None] * len(asked)
        alike: dict[tuple[object, tuple[object, ...]], list[tuple[int, AskedStructures]]] = {}
        keys: dict[tuple[str, ...], tuple[object, ...] | None] = {}
        for place, (lookup, covered) in enumerate(asked):
            structured = None if covered is None else self._structured(lookup, covered, 1)
            names = lookup.query.group_by
            if names not in keys:
                keys[names] = self._structures.single(lookup).key_of({name: given[name] for name in names})
            key = keys[names]
            if structured is not None and key is not None:
                alike.setdefault((structured.served.made_of, key), []).append((place, structured))
            elif covered is not None:
                rows[place] = self._row_of_table(lookup, covered, given, structured)
        shown: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}
        for (_, key), members in alike.items():
            found = self._found_together([one for _, one in members], key)
            for number, (place, one) in enumerate(members):
                lookup, covered = asked[place][0], one.moment.covered
                if found is None:
                    rows[place] = self._row_of_table(lookup, covered, given, one)
                else:
                    single, of = self._structures.single(lookup), (lookup.query.stream, lookup.query.group_by)
                    if of not in shown:
                        shown[of] = single.shown_group(key)
                    answers = FoundOne(covered.start_us, covered.end_us, found[number])
                    rows[place] = single.plain_row(answers, shown[of])
        return rows

    def _found_together(
        self, members: list[AskedStructures], key: tuple[object, ...]
    ) -> list[list[Answer] | None] | None:
        """The answers of one group by queries with the same aggregates; None if a kernel cannot give them."""
        first = members[0]
        by_kernel = first.structures.by_kernel(first.served)
        if by_kernel is None:
            return None
        pending = first.served.prepare(first.moment)
        code = self._structures.single(self._state.lookups[first.served.query.name]).code(first.served, key)
        if code < 0:
            return [None] * len(members)
        windows = [one.moment.covered for one in members]
        bounds = [(one.from_slot, one.to_slot, one.start_us, one.end_us) for one in windows]
        return by_kernel.each(pending, code, Coverage(*np.array(bounds, np.int64).T.copy()))

    def _row_of_table(
        self, lookup: Lookup, covered: Covered, given: Mapping[str, object], asked: AskedStructures | None
    ) -> PlainRow | None:
        """The answers of one group by one query."""
        columns = key_columns(_stream(lookup), lookup.query, {name: given[name] for name in lookup.query.group_by})
        table = lookup_table(_stream(lookup), self._answers(lookup, covered, columns, asked))
        start_us = None if is_unbounded(lookup.query.window) else covered.start_us
        times = {WINDOW_START: start_us, WINDOW_END: covered.end_us}
        return {**table.to_pylist()[0], **times} if table.num_rows else None


def _folded(store: LookupStore, lookup: Lookup, covered: Covered, wanted: Ints | None) -> ClosedWindows:
    """The window of some keys or of all; with windows of single aggregates, all of these, which end together."""
    closed = store.fold(lookup.planned, wanted, covered.from_slot, covered.to_slot, covered.instance)
    if not lookup.query.has_own_windows:
        return closed
    folds = {lookup.query.window: closed.fold}
    for window in lookup.planned.windows:
        other = lookup.ending_with(window, covered)
        folds[window] = store.fold(lookup.planned, wanted, other.from_slot, other.to_slot, other.instance).fold
    some = {window: fold for window, fold in folds.items() if not fold.is_empty}
    several = SeveralWindows.of(lookup.planned, some, closed.fold.chosen(np.empty(0, np.int64)))
    return closed if several is None else ClosedWindows(lookup.planned, several)


def _stream(lookup: Lookup) -> Stream:
    return lookup.family.fed.plan.stream


def _no_answers(lookup: Lookup) -> QueryAnswers:
    """No row at all."""
    none = np.empty(0, np.int64)
    lowered: dict[Expression, Lowered] = {call: nothing(call, 0) for call in lookup.query.aggregates}
    answers = QueryAnswers(lookup.query, none, none, none, Groups((), KeyTable([])), lowered)
    return answers.with_computed(_stream(lookup))


def _masked(column: pa.ChunkedArray) -> np.ma.MaskedArray[Any, Any]:
    """The one value of a column, masked if it is NULL or not there."""
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    value = plain[0].as_py() if len(plain) else None
    kind = np.float64 if pa.types.is_floating(plain.type) else plain.type.to_pandas_dtype()
    array = np.zeros(1, kind)
    if value is not None:
        array[0] = value
    return np.ma.MaskedArray(array, [value is None])
