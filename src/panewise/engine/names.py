"""Names of streams and queries as users give them."""

from __future__ import annotations

from difflib import get_close_matches

from panewise.errors import PanewiseError
from panewise.language.model import Query, Workload
from panewise.language.row_queries import RowQuery


def text_name(name: object, what: str) -> str:
    """A name, which must be text."""
    if isinstance(name, str):
        return name
    raise PanewiseError(f"{what} is named by a text, not by {type(name).__name__}")


def instead_of(name: str, known: list[str]) -> str:
    """What else a name could be, for the end of a message."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known[:10]) or 'none'}"


def query_named(workload: Workload, name: str) -> Query:
    """A query of aggregates."""
    if text_name(name, "a query") not in workload.queries:
        raise PanewiseError(f"no query named {name!r}{instead_of(name, _query_names(workload))}")
    return workload.queries[name]


def on_demand_query(workload: Workload, name: str) -> Query:
    """A query of aggregates that does not slide."""
    if text_name(name, "a query") in workload.row_queries:
        raise PanewiseError(f"query {name} answers with rows, which come from rows() and lookup()")
    bound = query_named(workload, name)
    if bound.window.is_sliding:
        raise PanewiseError(
            f"query {name} slides, so its answers come from advance(); for lookups, write its window without SLIDE"
        )
    return bound


def row_query_named(workload: Workload, name: str) -> RowQuery:
    """A query that answers with rows."""
    if text_name(name, "a query") in workload.queries:
        raise PanewiseError(f"query {name} answers with aggregates, which come from advance() and lookup()")
    if name not in workload.row_queries:
        raise PanewiseError(f"no query named {name!r}{instead_of(name, _query_names(workload))}")
    return workload.row_queries[name]


def _query_names(workload: Workload) -> list[str]:
    return [*workload.queries, *workload.row_queries]
