"""Formats of snapshots: what each number means, and how the header of an older one becomes that of the present.

| format | since then |
|---|---|
| 1 | a tree for each grouping of a stream's queries, whose partials are of slots |
| 2 | several trees for a grouping, with the partials of fragments; later also bases, row queries, rates |
| 3 | the memory limit |

Each step takes a header of one format to the next. Tables are not touched: partials of slots are partials of a tree as
well, which puts them into its fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from weft.language.model import Query, Stream, Workload
from weft.language.printer import print_query
from weft.language.reader import apply
from weft.planning.plan import DEFAULT_RATE, Clock
from weft.windows import RowWindow

FORMAT = 3

Header = dict[str, Any]


def upgrade(header: Header, version: int) -> Header:
    """A header of an older format as one of the present; the one given is changed."""
    for step in range(version, FORMAT):
        _UPGRADES[step](header)
    return header


def queries_of(stream: Stream, texts: list[str]) -> list[Query]:
    """The queries of a stream that some statements create."""
    if not texts:
        return []
    return list(apply(Workload({stream.name: stream}), ";\n".join(texts)).queries.values())


def _from_slots_to_fragments(header: Header) -> None:
    """Format 1 to 2: each tree has all queries of its clock and grouping, and those that joined it later.

    These may have windows with other edges than those that the tree began with, so they become queries that it began
    with. They need no column that was not there: else they would not have joined.
    """
    workload = apply(Workload(), header["workload"])
    for name, description in header["streams"].items():
        stream = workload.streams[name]
        for generation in description["generations"]:
            active = [query for tree in generation["trees"] for query in queries_of(stream, tree["queries"])]
            began = queries_of(stream, generation["queries"])
            gone = [query for query in began if query not in active]
            taken = {query.name for query in (*active, *gone)}
            joined = [query for query in active if query not in began]
            named = [_renamed(query, taken) if query in gone else query for query in began] + joined
            generation["queries"] = [print_query(query) for query in named]
            families = _families(named)
            generation["shares"] = [[query.name for query in members] for members in families.values()]


def _renamed(query: Query, taken: set[str]) -> Query:
    """A query that is no more, under a name that no other has: a later one may have its own."""
    name = query.name
    while name in taken:
        name += "'"
    taken.add(name)
    return replace(query, name=name)


def _with_memory_limit(header: Header) -> None:
    """Format 2 to 3: also what the first Wefts with format 2 did not write yet."""
    workload = apply(Workload(), header["workload"])
    header.setdefault("row_queries", {"marks": {}, "feeds": {}, "operators": []})
    header["memory_limit"] = None
    for name, description in header["streams"].items():
        # When the first event came is not known, and only rates in statistics depend on it.
        for key, value in {"rate": DEFAULT_RATE, "groups": {}, "oldest_us": None, "corrected": 0}.items():
            description.setdefault(key, value)
        for generation in description["generations"]:
            queries = queries_of(workload.streams[name], generation["queries"])
            generation.setdefault("bases", [[clock.value, [group_by]] for clock, group_by in _families(queries)])
            for tree in generation["trees"]:
                tree.setdefault("waiting", [])
                tree.setdefault("late", None)


def _families(queries: list[Query]) -> dict[tuple[Clock, tuple[str, ...]], list[Query]]:
    """The queries of each clock and grouping, in the order in which these first appear."""
    families: dict[tuple[Clock, tuple[str, ...]], list[Query]] = {}
    for query in queries:
        clock = Clock.ROWS if isinstance(query.window, RowWindow) else Clock.TIME
        families.setdefault((clock, tuple(sorted(query.group_by))), []).append(query)
    return families


_UPGRADES: Mapping[int, Callable[[Header], None]] = {1: _from_slots_to_fragments, 2: _with_memory_limit}
"""For each older format, the step to the next."""
