"""What a lookup client writes into its log: each lookup in the form that `panewise.engine.lookup_log` has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.families import WINDOW_END
from panewise.engine.lookup_log import Columns, LoggedLookup, LookupLog, logged_us, plain_column, plain_columns
from panewise.engine.on_demand.keys import key_columns
from panewise.engine.wide_columns import WINDOW_START
from panewise.language.model import Query
from panewise.language.workload import Workload
from panewise.spark.lookup_plan import Covered
from panewise.spark.lookup_state import LookupState
from panewise.windows import TimeWindow, follows_events
from panewise.windows.clock import to_microseconds

_PLAIN = frozenset({str, int, float, bool})
_WINDOW = (WINDOW_START, WINDOW_END)

Time = int | datetime | str


class ClientLog:
    """The log of one client."""

    def __init__(self, path: str | os.PathLike[str], workload: Workload) -> None:
        self._log = LookupLog(path, workload)

    def table(
        self, state: LookupState, query: str, keys: object, at: Time | None, covered: Covered | None, table: pa.Table
    ) -> None:
        """Log what `lookup` answered."""
        bound = state.job.workload.queries[query]
        asked = None if keys is None else _asked(state, bound, keys)
        self._put(state, bound, asked, at, covered, plain_columns(table, _WINDOW))

    def arrays(
        self,
        state: LookupState,
        query: str,
        keys: object,
        at: Time | None,
        covered: Covered | None,
        arrays: Mapping[str, np.ma.MaskedArray[Any, Any]],
    ) -> None:
        """Log what `lookup_many` answered."""
        bound = state.job.workload.queries[query]
        asked = None if keys is None else _asked(state, bound, keys)
        self._put(state, bound, asked, at, covered, {label: array.tolist() for label, array in arrays.items()})

    def row(
        self,
        state: LookupState,
        query: Query,
        key: Mapping[str, object],
        at: Time | None,
        covered: Covered | None,
        row: Mapping[str, Any] | None,
    ) -> None:
        """Log what `lookup_rows` answered for one query."""
        asked = _asked(state, query, {name: key[name] for name in query.group_by})
        answer = {name: [_plain(value)] for name, value in (row or {}).items() if name not in _WINDOW}
        self._put(state, query, asked, at, covered, answer)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    def _put(
        self,
        state: LookupState,
        query: Query,
        asked: Columns | None,
        at: Time | None,
        covered: Covered | None,
        answer: Columns,
    ) -> None:
        self._log.follow(state.job.workload)
        at_us = None if at is None else to_microseconds(at, "`at`")
        ties = state.over_rows.order_of(query.name)
        batches = _batches(state, is_over_rows=ties is not None)
        time_us = _time_us(state, query, at_us, covered)
        self._log.put(
            LoggedLookup(query.name, asked, answer, at_us, time_us, state.watermark_us, batches, logged_us(), ties)
        )


def _batches(state: LookupState, *, is_over_rows: bool) -> tuple[int, int]:
    """Up to which batch everything has been read, and up to which one something.

    Spark begins a batch when the one before is done, and a client reads until nothing is new. So what it may lack is of
    the newest batch, unless a worker could not write.
    """
    newest, least = state.newest_batch, state.reader.least_batch
    if is_over_rows:
        newest = max(newest, state.over_rows.newest_batch)
    if state.is_behind or least == newest:
        return min(least, newest), newest
    return newest - 1, newest


def _time_us(state: LookupState, query: Query, at_us: int | None, covered: Covered | None) -> int | None:
    """The time at which a lookup of the query without SLIDE covers the same."""
    engine = state.over_rows.engine(query.name)
    if engine is not None:
        # Beyond the newest row, every time has the same last rows.
        return at_us if at_us is not None or engine.newest_us is None else engine.newest_us
    if covered is None:
        return None
    if follows_events(query.window):
        return covered.end_us
    assert isinstance(query.window, TimeWindow)
    return covered.end_us - 1 if query.window.is_sliding else covered.end_us + query.window.right_us


def _asked(state: LookupState, query: Query, keys: object) -> Columns:
    if isinstance(keys, dict) and all(type(value) in _PLAIN for value in keys.values()):
        stream = state.job.workload.streams[query.stream]
        if all(stream.attributes[name] is not Type.TIMESTAMP for name in query.group_by):
            return {name: [keys[name]] for name in query.group_by}
    columns = key_columns(state.job.workload.streams[query.stream], query, keys)
    return {name: plain_column(column) for name, column in columns.items()}


def _plain(value: Any) -> Any:
    return to_microseconds(value, "a key") if isinstance(value, datetime) else value
