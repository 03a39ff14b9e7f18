"""Data sheets of storages, set-valued indexes and rings: what each can do and costs, as the choice and docs read it.

Costs are steps per tuple unless they say otherwise, in the letters of the paper (Indexing, 2.3, 4.5 and section 5):
N tuples and D values in the window, b tuples and d values in a basic window, n basic windows, h buckets, g groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from panewise.cost import Cost as Cost
from panewise.cost import Sheet
from panewise.cost import log2 as log2


@dataclass(frozen=True)
class IndexShape:
    """What the costs of an index depend on: the numbers that a window shows, or that one expects of it."""

    basic_windows: int
    basic_tuples: float
    """Tuples in a basic window, on average."""
    distinct: float
    """Values in the window, D."""
    basic_distinct: float
    """Values in a basic window, d."""
    storage_buckets: int = 5
    """Buckets of HASH."""
    index_buckets: int | None = None
    """Buckets of the H-INDEX; None for as many as there are values."""
    groups: float = 1.0
    """Groups of values that occur in the window, g."""

    @property
    def tuples(self) -> float:
        """Tuples in the window, N."""
        return max(1.0, self.basic_windows * self.basic_tuples)

    @property
    def per_value(self) -> float:
        """Tuples of one value in the window: the length of a ring, N / D."""
        return max(1.0, self.tuples / max(1.0, self.distinct))

    @property
    def news(self) -> float:
        """The share of tuples whose value is the first of its kind in the basic window, d / b."""
        return min(1.0, self.basic_distinct / max(1.0, self.basic_tuples))

    @property
    def chain(self) -> float:
        """Values in a bucket of the H-INDEX, D / h."""
        return max(1.0, self.distinct / (self.index_buckets or max(1.0, self.distinct)))


@dataclass(frozen=True)
class StorageSheet(Sheet):
    """What a basic window holds, and what that costs."""

    insert: Cost[IndexShape]
    """Steps per tuple to put it into the basic window that fills."""
    entries: Cost[IndexShape]
    """Entries per tuple: how often the index is searched, counted up and counted down."""
    space: Cost[IndexShape]
    """Entries of a basic window."""
    indexes: tuple[str, ...]
    """The indexes that it serves."""
    holds_tuples: bool = False
    """Whether single tuples can be found again, as rings need."""


@dataclass(frozen=True)
class SetIndexSheet(Sheet):
    """A set-valued index: values or groups of them, and their counts."""

    locate: Cost[IndexShape]
    """Steps to find the node of a value."""
    histogram: Cost[IndexShape]
    """Steps of one answer that lists the values in order."""
    space: Cost[IndexShape]
    """Numbers held beside the basic windows."""
    is_exact: bool = True
    takes_strings: bool = True


@dataclass(frozen=True)
class RingSheet(Sheet):
    """An attribute-valued index: the tuples of a value, linked."""

    insert: Cost[IndexShape]
    """Steps per tuple, beside the search for its value in the index."""
    delete: Cost[IndexShape]
    space: Cost[IndexShape]
    """Numbers per tuple, and per value, beside the index."""
    uses_auxiliary: bool = True


def maintenance(storage: StorageSheet, index: SetIndexSheet, shape: IndexShape) -> float:
    """Table 1: steps per tuple to keep an index over a storage, including counting up and down."""
    entries = storage.entries.of(shape)
    if not index.is_exact:
        # Groups are merged once a basic window; for that, single tuples are sorted when they come and when they go.
        sorting = 2.0 * log2(shape.basic_tuples) if storage.holds_tuples else 0.0
        return storage.insert.of(shape) + sorting + shape.groups / max(1.0, shape.basic_tuples)
    return storage.insert.of(shape) + entries * (index.locate.of(shape) + 2.0)


def ring_maintenance(ring: RingSheet, index: SetIndexSheet, shape: IndexShape) -> float:
    """Section 5: steps per tuple to keep a ring over an index, including the search for the value."""
    search = index.locate.of(shape)
    if ring.uses_auxiliary:
        search = min(search, 1.0 + shape.news * search)
    return search + ring.insert.of(shape) + ring.delete.of(shape)


def storages_table(sheets: Iterable[StorageSheet]) -> str:
    """The data sheets of storages as a Markdown table."""
    rows = ["| name | paper | insert | index accesses | space of a basic window | under |", "|---|---|---|---|---|---|"]
    rows += [
        f"| `{s.name}` | {s.title}, {s.source} | {s.insert.formula} | {s.entries.formula} | {s.space.formula} | "
        f"{', '.join(f'`{name}`' for name in s.indexes)} |"
        for s in sheets
    ]
    return "\n".join(rows)


def indexes_table(sheets: Iterable[SetIndexSheet]) -> str:
    """The data sheets of set-valued indexes as a Markdown table."""
    rows = [
        "| name | paper | find a value | sorted answer | space | holds | strings |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [
        f"| `{s.name}` | {s.title}, {s.source} | {s.locate.formula} | {s.histogram.formula} | {s.space.formula} | "
        f"{'values' if s.is_exact else 'ranges'} | {'yes' if s.takes_strings else 'no'} |"
        for s in sheets
    ]
    return "\n".join(rows)


def rings_table(sheets: Iterable[RingSheet]) -> str:
    """The data sheets of rings as a Markdown table."""
    rows = ["| name | paper | search | insert | delete | space |", "|---|---|---|---|---|---|"]
    rows += [
        f"| `{s.name}` | {s.title}, {s.source} | {'L, or 1 + d/b L' if s.uses_auxiliary else 'L'} | "
        f"{s.insert.formula} | {s.delete.formula} | {s.space.formula} |"
        for s in sheets
    ]
    return "\n".join(rows)


def maintenance_table(storages: Iterable[StorageSheet], indexes: Iterable[SetIndexSheet]) -> str:
    """Table 1 of the paper, from the data sheets: per tuple, without counting up and down."""
    every = list(indexes)
    rows = [f"| | {' | '.join(f'`{index.name}`' for index in every)} |", "|---" * (len(every) + 1) + "|"]
    for storage in storages:
        cells = [_cell(storage, index) for index in every]
        rows.append(f"| `{storage.name}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(storage: StorageSheet, index: SetIndexSheet) -> str:
    if index.name not in storage.indexes:
        return ""
    if not index.is_exact:
        return f"{storage.insert.formula}{' + 2 log b' if storage.holds_tuples else ''} + g/b"
    if storage.entries.formula == "1":
        return index.locate.formula
    return f"{storage.insert.formula} + {storage.entries.formula} {index.locate.formula}"
