"""Which storage, index and ring serve a query, and why: one readable function of data sheets and observed numbers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from panewise.errors import IndexingError
from panewise.indexes.counted import EVERY_INDEX, EVERY_STORAGE, INDEXES, PURGES_PER_ROLL_OVER, STORAGES
from panewise.indexes.ring_window import EVERY_RING, RINGS
from panewise.indexes.set_index import PURGES
from panewise.indexes.sheet import IndexShape, SetIndexSheet, StorageSheet, maintenance, ring_maintenance
from panewise.indexes.values import known

SET_QUERIES = ("histogram", "quantile", "median", "distinct", "mode", "top_k", "intersection")
TUPLE_QUERIES = ("sorted", "join")


@dataclass(frozen=True)
class IndexChoice:
    """What to build, by name, and the reasons in words; `ring` is None for a set-valued query."""

    storage: str
    index: str
    ring: str | None
    purge: str
    steps_per_tuple: float
    reasons: tuple[str, ...]


def choose(
    query: str,
    shape: IndexShape,
    *,
    type: str = "int64",
    every: int = 1,
    in_ranges: bool = False,
    storage: str | None = None,
    index: str | None = None,
    ring: str | None = None,
    purge: str | None = None,
) -> IndexChoice:
    """The cheapest way to serve a query that is evaluated once in `every` basic windows.

    `in_ranges` says that ranges of values are enough. What the caller names is taken as it is; the rest is chosen.

    >>> shape = IndexShape(basic_windows=100, basic_tuples=1000, distinct=1000, basic_distinct=630)
    >>> found = choose("histogram", shape)
    >>> found.storage, found.index, found.ring
    ('list', 't_index', None)
    >>> print(found.reasons[0])
    t_index over list: 14.0 steps a tuple; h_index over list: 14.0; t_index over hash: 134.5
    >>> choose("sorted", shape).ring
    'dirty_bits'
    """
    known(query, (*SET_QUERIES, *TUPLE_QUERIES), "kind of query")
    if every < 1:
        raise IndexingError(f"every must be at least 1 basic window, got {every}")
    for name, names, what in (
        (storage, STORAGES, "storage"),
        (index, INDEXES, "index"),
        (ring, RINGS, "ring"),
        (purge, PURGES, "way of purging"),
    ):
        if name is not None:
            known(name, names, what)
    is_tuples = query in TUPLE_QUERIES
    reasons: list[str] = []
    if is_tuples:
        reasons.append(f"{query} needs single tuples: LIST and a ring")
    elif ring is not None:
        raise IndexingError(f"{query} needs counts, not tuples: leave ring={ring!r} out")
    uses_ranges = in_ranges and type != "string" and not is_tuples and query != "distinct"
    if in_ranges and not uses_ranges:
        reasons.append(f"ranges cannot answer {query} of {type}: single values are kept")
    storages = [
        s.sheet for s in EVERY_STORAGE if storage in (None, s.sheet.name) and (s.sheet.holds_tuples or not is_tuples)
    ]
    indexes = [
        i.sheet for i in EVERY_INDEX if index == i.sheet.name or (index is None and i.sheet.is_exact != uses_ranges)
    ]
    pairs = [(s, i) for s, i in product(storages, indexes) if i.name in s.indexes]
    if not pairs or (type == "string" and not any(i.takes_strings for _, i in pairs)):
        asked = " ".join(name for name in (storage, index) if name)
        raise IndexingError(f"{asked} cannot serve {query} of {type}; leave storage or index out")
    reasons += [f"{name} was asked for" for name in (storage, index, ring) if name is not None]

    chosen_ring = None
    if is_tuples:
        rings = sorted(
            (r.sheet for r in EVERY_RING if ring in (None, r.sheet.name)),
            key=lambda sheet: ring_maintenance(sheet, pairs[0][1], shape),
        )
        chosen_ring = rings[0]
        listed = "; ".join(f"{r.name}: {r.insert.of(shape) + r.delete.of(shape):,.1f}" for r in rings)
        reasons.append(f"steps a tuple to link and unlink it, {listed}")

    def steps(pair: tuple[StorageSheet, SetIndexSheet]) -> float:
        kept = maintenance(*pair, shape) if chosen_ring is None else ring_maintenance(chosen_ring, pair[1], shape)
        return kept + _answer(query, pair[1], shape) / (max(1.0, shape.basic_tuples) * every)

    ranked = sorted(pairs, key=steps)
    best_storage, best_index = ranked[0]
    rivals = "; ".join(f"{i.name} over {s.name}: {steps((s, i)):,.1f}" for s, i in ranked[1:3])
    reasons.append(
        f"{best_index.name} over {best_storage.name}: {steps(ranked[0]):,.1f} steps a tuple"
        + ("; " + rivals if rivals else "")
    )
    return IndexChoice(
        best_storage.name,
        best_index.name,
        None if chosen_ring is None else chosen_ring.name,
        purge or _purge(best_index, shape, reasons),
        steps(ranked[0]),
        tuple(reasons),
    )


def _answer(query: str, index: SetIndexSheet, shape: IndexShape) -> float:
    """Steps of one answer."""
    if query == "distinct":
        return 1.0
    if query == "join":
        # Each arrival of the other stream finds its value and reads the ring.
        return shape.basic_tuples * (index.locate.of(shape) + shape.per_value)
    return index.histogram.of(shape) + (shape.tuples if query == "sorted" else 0.0)


def _purge(index: SetIndexSheet, shape: IndexShape, reasons: list[str]) -> str:
    """A list of zero counts is worth keeping if it is shorter than the scan that it saves."""
    if not index.is_exact:
        return "periodic"
    listed = shape.basic_distinct * max(1.0, shape.basic_windows / PURGES_PER_ROLL_OVER)
    name = "zero_list" if listed < shape.distinct else "periodic"
    reasons.append(f"purge {name}: a list may get {listed:,.0f} values long, a scan reads {shape.distinct:,.0f}")
    return name
