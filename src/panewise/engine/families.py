"""Families: queries whose answers fit into one table, a row per window end and group.

Queries belong together if they read the same stream, group by the same attributes and report at the same instants (or
positions): their slides are equal, and so are the ends of their windows modulo the slide, in the same time zone. Of
sessions, the gap, MAX and WHERE are equal.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from panewise.language.literals import print_duration
from panewise.language.model import Query, SelectItem
from panewise.language.printer import label_of
from panewise.windows import PunctuationWindow, RowWindow, SessionWindow, Window, follows_events, is_unbounded
from panewise.windows.instances import same_ends
from panewise.windows.slots import lengths_of

WINDOW_END = "window_end"
ENDED = "ended"
"""The column that marks groups that no longer have an answer."""


@dataclass(frozen=True)
class Family:
    """Queries that share a table of answers, and the columns of it that each of them fills."""

    name: str
    queries: tuple[Query, ...]
    columns: tuple[tuple[Query, SelectItem, str], ...]
    """The aggregates of SELECT, with the names of their columns."""

    @property
    def group_by(self) -> tuple[str, ...]:
        """The attributes, in the order of the first query."""
        return self.queries[0].group_by

    @property
    def slide(self) -> int:
        """How far apart the windows of all its queries are, in microseconds or in rows."""
        return lengths_of(self.queries[0].window)[1]


def families_of(queries: Iterable[Query]) -> dict[str, Family]:
    """The families of some sliding queries, by name, in the order of their first queries."""
    found: dict[object, list[Query]] = {}
    for query in queries:
        # Which events are in one session depends on WHERE.
        sessions_of = (query.where, query.window) if follows_events(query.window) else None
        # From the start, a group is reported only when it has events.
        key = query.stream, frozenset(query.group_by), same_ends(query.window), sessions_of, is_unbounded(query.window)
        found.setdefault(key, []).append(query)
    families: dict[str, Family] = {}
    for members in found.values():
        name = free_name(_name_of(members[0]), families)
        families[name] = Family(name, tuple(members), tuple(_columns_of(members)))
    return families


def _name_of(query: Query) -> str:
    """The stream, the groups and the slide, as a name that is also good for a file or a table.

    A phase is part of it only if the windows do not end at multiples of their slide.
    """
    _, slide, phase, zone = same_ends(query.window)
    words = [query.stream]
    if query.group_by:
        words.append("by_" + "_and_".join(query.group_by))
    if isinstance(query.window, PunctuationWindow):
        return re.sub(r"\W", "_", "_".join([*words, "from_event_to_event"]))
    if isinstance(query.window, SessionWindow):
        return re.sub(r"\W", "_", "_".join([*words, "sessions_of", _length_text(query.window, slide)]))
    if is_unbounded(query.window):
        words.append("so_far")
    words.append("every_" + _length_text(query.window, slide))
    if phase:
        words.append("from_" + _length_text(query.window, phase))
    if zone is not None:
        words.append("in_" + zone)
    return re.sub(r"\W", "_", "_".join(words))


def _length_text(window: Window, length: int) -> str:
    if isinstance(window, RowWindow):
        return f"{length}_row" if length == 1 else f"{length}_rows"
    return print_duration(length).lower().replace(" ", "_")


def free_name(name: str, taken: Container[str]) -> str:
    """The name, with a number behind it if it is taken."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def _columns_of(queries: list[Query]) -> Iterator[tuple[Query, SelectItem, str]]:
    """The aggregates of each query: under the alias if no other column can have it, otherwise as `query__item`."""
    shown = [(query, item) for query in queries for item in query.answers]
    long_names = [f"{query.name}__{label_of(item)}" for query, item in shown]
    aliases = (item.alias for _, item in shown if item.alias is not None)
    wanted = Counter([WINDOW_END, ENDED, *queries[0].group_by, *aliases, *long_names])
    taken = {WINDOW_END, ENDED, *queries[0].group_by}
    for (query, item), long_name in zip(shown, long_names, strict=True):
        is_free = item.alias is not None and wanted[item.alias] == 1
        name = label_of(item) if is_free else free_name(long_name, taken)
        taken.add(name)
        yield query, item, name
