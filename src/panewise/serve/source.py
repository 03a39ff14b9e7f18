"""A source: where answers come from. An engine in this process, or the folder of a job on Spark.

Its reader answers lookups and is for one thread at a time. Its position can be read at any time and never waits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from panewise.engine.on_demand.served import labelled_aggregates
from panewise.engine.one_row import PlainRow
from panewise.errors import CommandError
from panewise.language.model import Query
from panewise.language.workload import Workload
from panewise.planning.plan import Plan
from panewise.serve.messages import JobBatch

T = TypeVar("T")
Arrays = dict[str, np.ma.MaskedArray[Any, Any]]
"""By the names of SELECT, an element for each group that was asked; masked if it has no answer."""
Changed = Callable[[], None]
"""Called after the source has something new, from any thread."""


class BusyError(Exception):
    """Another thread reads or writes now."""


@dataclass(frozen=True)
class Position:
    """How far a source is. `version` grows with everything new."""

    version: int = 0
    watermarks_us: Mapping[str, int | None] = field(default_factory=dict)
    """By stream: windows that end up to here have closed."""
    newest_us: Mapping[str, int | None] = field(default_factory=dict)
    """By stream: the newest event, or the end of its slot."""
    written_s: float | None = None
    """When the newest events came, in Unix seconds."""
    batch: int | None = None
    """The newest batch of a job."""
    events: Mapping[str, int] = field(default_factory=dict)
    """By stream: how many events were taken."""
    late_events: Mapping[str, int] = field(default_factory=dict)
    """By stream: how many events came too late."""


class Reader(Protocol):
    """Answers lookups of one state of a source."""

    @property
    def workload(self) -> Workload:
        """The streams and queries."""

    @property
    def position(self) -> Position:
        """How far this state is."""

    def lookup(self, query: str, keys: object, at: int | str | None) -> pa.Table:
        """Answer a query as `LookupClient.lookup` does."""

    def lookup_rows(
        self, queries: list[str], key: dict[str, object], at: int | str | None
    ) -> dict[str, PlainRow | None]:
        """Answer one group of those queries that can be answered together, as plain values; times are microseconds."""

    def lookup_many(self, query: str, keys: object, at: int | str | None) -> Arrays:
        """Answer many groups as `LookupClient.lookup_many` does."""

    def lookup_at(self, query: str, keys: object, times: object) -> Arrays:
        """Answer many groups, each at its own time, as `LookupClient.lookup_at` does."""


def arrays_of(table: pa.Table, query: Query, rows: Sequence[int | None] = (0,)) -> Arrays:
    """The answers of some rows of a query's table, in that order; masked for None, and for a row that is not there."""
    places = pa.array([None if row is None or row >= table.num_rows else row for row in rows], pa.int64())
    return {label: masked(table.column(label).take(places)) for label, _ in labelled_aggregates(query)}


def masked(column: pa.ChunkedArray) -> np.ma.MaskedArray[Any, Any]:
    """A column of a table as an array; times are microseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    is_plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
    is_null = np.asarray(column.is_null())
    if not is_plain:
        found = np.empty(len(column), np.object_)
        found[:] = column.to_pylist()
        return np.ma.MaskedArray(found, is_null)
    empty = pa.scalar(False if pa.types.is_boolean(column.type) else 0, column.type)
    return np.ma.MaskedArray(column.fill_null(empty).to_numpy(), is_null)


class AnswerSource(ABC):
    """Where answers come from."""

    kind: str
    """`engine` or `folder`."""

    def __init__(self) -> None:
        self.changed: Changed = lambda: None
        self.problem: str | None = None
        """What keeps the source from going on, for people; None if all is well."""

    @property
    @abstractmethod
    def workload(self) -> Workload:
        """The streams and queries as they are now."""

    @property
    @abstractmethod
    def position(self) -> Position:
        """How far the source is."""

    @abstractmethod
    def read(self, work: Callable[[Reader], T], *, wait: bool) -> T:
        """Let work read one state, and return its result. Without `wait`, raise `BusyError` instead of waiting."""

    @abstractmethod
    def add(self, statements: str) -> bool:
        """Run statements; True if they hold now, False if they were sent to a job."""

    @abstractmethod
    def check(self, statements: str) -> Workload:
        """The workload after statements, if they were run; raises what is wrong with them."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """What is held, as plain data."""

    @abstractmethod
    def plan(self) -> tuple[Plan, str]:
        """The plan, and the same in words, with the work predicted and done where it is known."""

    def push(self, stream: str, events: pa.Table, watermark: int | str | None) -> None:
        """Take in events of a stream, and move its watermark."""
        raise CommandError("the job on Spark takes the events; `panewise serve --engine FILE.sql` takes them itself")

    def batches(self) -> list[JobBatch]:
        """The last batches of a job, as far as they are known."""
        return []

    def start(self) -> None:  # noqa: B027 - an engine follows nothing
        """Begin to follow what is new."""

    def close(self) -> None:  # noqa: B027
        """Stop following."""
