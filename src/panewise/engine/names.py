"""Names that users give to an engine: they must be text, and an unknown one gets the nearest known one as a hint."""

from __future__ import annotations

from difflib import get_close_matches

from panewise.errors import ArgumentError, QueryKindError, UnknownNameError
from panewise.language.model import Query
from panewise.language.row_queries import RowQuery
from panewise.language.workload import Workload
from panewise.windows import SessionWindow, follows_events


def text_of(name: object, what: str) -> str:
    """A name, which must be text."""
    if isinstance(name, str):
        return name
    raise ArgumentError(f"{what} is named by a text, not by {type(name).__name__}")


def instead(name: str, known: list[str]) -> str:
    """The end of a message about an unknown name."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known[:10]) or 'none'}"


def aggregate_query(workload: Workload, name: str) -> Query:
    """A query of aggregates."""
    if text_of(name, "a query") not in workload.queries:
        raise _unknown(workload, name)
    return workload.queries[name]


def on_demand_query(workload: Workload, name: str) -> Query:
    """A query of aggregates that answers lookups."""
    if text_of(name, "a query") in workload.row_queries:
        raise QueryKindError(f"query {name} answers with rows, which come from rows() and lookup()")
    query = aggregate_query(workload, name)
    if query.window.is_sliding and not follows_events(query.window):
        raise QueryKindError(
            f"query {name} slides, so its answers come from advance(); for lookups, write its window without SLIDE"
        )
    return query


def refuse_sessions(query: Query) -> None:
    """Refuse to show the windows before the newest one: each group has its own, and they have no common times."""
    if follows_events(query.window):
        kind = "sessions" if isinstance(query.window, SessionWindow) else "windows from one event to another"
        raise QueryKindError(
            f"query {query.name} is of {kind}, which each group has at times of its own; look up the one that a group "
            f"is in, or read the query's answers"
        )


def row_query(workload: Workload, name: str) -> RowQuery:
    """A query that answers with rows."""
    if text_of(name, "a query") in workload.queries:
        raise QueryKindError(f"query {name} answers with aggregates, which come from advance() and lookup()")
    if name not in workload.row_queries:
        raise _unknown(workload, name)
    return workload.row_queries[name]


def _unknown(workload: Workload, name: str) -> UnknownNameError:
    return UnknownNameError(f"no query named {name!r}{instead(name, [*workload.queries, *workload.row_queries])}")
