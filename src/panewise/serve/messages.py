"""The messages of the interface: what requests bring and what answers have. OpenAPI is made from these."""

from __future__ import annotations

from typing import Any

import msgspec

Key = str | int | float | bool | None
Keys = dict[str, Key | list[Key]] | list[Key | list[Key]]
"""From a GROUP BY attribute to a value, or to several; a value for all keys may stand alone. Or a list of groups: each
is a value, or a list of values in the order of GROUP BY."""
Row = dict[str, Any]


class LookupRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Queries to look up, all at one state of the stream."""

    queries: list[str]
    keys: Keys | None = None
    """The groups; each query takes the attributes that it groups by. Without it, all groups."""
    at: int | str | None = None
    """The time of the answers: ISO 8601, or microseconds since 1970."""
    limit: int | None = None
    """How many rows of each query; the rest is left out, and `total_rows` tells."""


class Answer(msgspec.Struct, omit_defaults=False):
    """What one query answers, and how far the stream was."""

    query: str
    rows: list[Row]
    total_rows: int
    """How many rows there are, of which `rows` may be a part."""
    exact: bool
    """Whether every value is exact. If not, `intervals` names the columns of the bounds."""
    intervals: dict[str, tuple[str, str]]
    watermark: str | None
    newest_event: str | None
    age_s: float | None
    """How long ago the newest events came."""
    version: int
    ended: list[Row] | None = None
    """In live answers of changed groups: the groups that have no answer any more."""


class ValuesRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Groups of one query to look up as columns: all at one time, or each at its own."""

    keys: Keys | None = None
    """The groups; leave it out for a query without GROUP BY."""
    at: int | str | None = None
    """The time of all answers: ISO 8601, or microseconds since 1970."""
    times: list[int | str] | None = None
    """A time for each group, in place of `at`."""


class Values(msgspec.Struct):
    """What one query answers, as columns with an element for each group that was asked, in their order."""

    query: str
    columns: dict[str, list[Any]]
    """By the names of SELECT. An element is null if its answer is NULL, or its group has none."""
    watermark: str | None
    newest_event: str | None
    age_s: float | None
    version: int


class LookupAnswers(msgspec.Struct):
    """The answers, in the order in which queries were named."""

    answers: list[Answer]


class Statements(msgspec.Struct, forbid_unknown_fields=True):
    """Statements: CREATE QUERY and DROP QUERY, and CREATE STREAM of an engine."""

    statements: str


class Changed(msgspec.Struct):
    """What statements did, or would do."""

    added: list[str]
    dropped: list[str]
    holds: str
    """`now`; `with the next batch` if they were sent to a job; `not sent` if they were only checked."""


class QueryInfo(msgspec.Struct):
    """A query."""

    name: str
    stream: str
    statement: str
    kind: str
    """`sliding`, `on demand` or `rows`."""
    window: str
    group_by: list[str]
    types: dict[str, str]
    """The types of the GROUP BY attributes."""
    group_columns: list[str]
    """The columns of answers that have the GROUP BY attributes, in their order."""
    has_history: bool
    """Whether `history` shows its windows: not those over rows or of sessions."""


class QueryList(msgspec.Struct):
    """A page of the list of queries."""

    queries: list[QueryInfo]
    total: int
    """How many match the search."""


class StreamInfo(msgspec.Struct):
    """A stream, and how far it is."""

    name: str
    attributes: dict[str, str]
    timestamp: str
    watermark: str | None
    newest_event: str | None
    age_s: float | None
    lag_s: float | None
    """How far the watermark is behind the newest event."""
    events: int | None
    late_events: int | None


class Streams(msgspec.Struct):
    """The streams."""

    streams: list[StreamInfo]
    kind: str
    """`engine` takes events, `folder` belongs to a job."""
    version: int
    batch: int | None
    problem: str | None
    can_add: bool
    queries: int
    """How many queries there are."""


class JobBatch(msgspec.Struct):
    """What one batch of a job did."""

    batch: int
    began: str | None
    duration_s: float
    events: int
    events_per_s: float
    late_events: int | None
    lag_s: float | None
    """How far the watermark was behind the clock when the batch began."""
    state_bytes: int
    fed: int | None
    """Partials put into execution trees."""
    folded: int | None
    """Fragments visited and answers made of them."""


class Batches(msgspec.Struct):
    """The last batches of a job, the oldest first. None without a job, or if its metrics are not known."""

    batches: list[JobBatch]


class Pushed(msgspec.Struct):
    """What became of events."""

    events: int
    late: int
    watermark: str | None
    version: int


class HistoryPoint(msgspec.Struct):
    """One window of a group."""

    at: str
    row: Row | None


class History(msgspec.Struct):
    """The windows of a group, the oldest first."""

    query: str
    points: list[HistoryPoint]
    exact: bool
    intervals: dict[str, tuple[str, str]]
    """As in `Answer`."""
    watermark: str | None
    newest_event: str | None
    age_s: float | None
    version: int


class WorkOfTree(msgspec.Struct):
    """The work of one execution tree of an engine, predicted and done."""

    stream: str
    queries: int
    group_by: list[str]
    groups: int
    fed: int
    folded: int
    predicted_fed: float
    predicted_folded: float


class PlanAnswer(msgspec.Struct):
    """The plan: as data, the work of its trees, and in words."""

    plan: dict[str, Any]
    work: list[WorkOfTree]
    """Of an engine; the trees of a job work on Spark, and its metrics tell."""
    text: str


class LiveMessage(msgspec.Struct):
    """What a message of live answers has as its data."""

    complete: bool
    """True if it has all groups, false if only those that changed."""
    answers: list[Answer]


class State(msgspec.Struct):
    """Whether the server is well."""

    ok: bool
    reason: str | None = None
    age_s: float | None = None


class Fault(msgspec.Struct, omit_defaults=True):
    """What is wrong, with the place in a statement if it is one."""

    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    hint: str | None = None


class Failure(msgspec.Struct):
    """The body of every answer that is an error."""

    error: Fault
