"""Snapshots: an engine's state as bytes. A header in JSON, then Arrow tables end to end, then a checksum.

The header holds statements and numbers only; partials and events are Arrow IPC. Nothing is pickled, so a foreign blob
can be wrong but not harmful.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component, Kind
from panewise.engine.combine import partials_schema
from panewise.engine.event_log import EventLog
from panewise.engine.generation import Generation, Past, TreeState
from panewise.engine.overflows import Overflows
from panewise.engine.stream_state import StreamState
from panewise.engine.substream_reports import SubstreamReports
from panewise.engine.windowed.row_queries import RowQueries
from panewise.errors import PanewiseError, SnapshotError
from panewise.language.model import Query, Stream
from panewise.language.printer import print_query
from panewise.language.reader import apply
from panewise.language.workload import Workload, print_workload
from panewise.planning.cost import DEFAULT_TOLERANCE, Prices
from panewise.planning.sharing.names import WEAVE_SHARE
from panewise.planning.trees import Clock, PlanShape, Twin
from panewise.windows.cuts import Cuts

MAGIC = b"PANESNAP"
FORMAT = 2
"""Since 2, queries may read twins of their predicates; who knows only 1 would count events of older trees twice."""
_PREFIX = struct.Struct("<8sHI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


@dataclass(frozen=True)
class Held:
    """What a snapshot holds."""

    workload: Workload
    streams: dict[str, StreamState]
    row_queries: RowQueries
    memory_limit: int | None
    strict: bool


def write_snapshot(
    workload: Workload,
    streams: Mapping[str, StreamState],
    row_queries: RowQueries,
    memory_limit: int | None,
    *,
    strict: bool,
) -> bytes:
    """The state of every stream and of the row queries as one blob."""
    tables: list[pa.Table] = []
    header = {
        "workload": print_workload(workload),
        "streams": {name: _describe_stream(state, tables) for name, state in streams.items()},
        "row_queries": row_queries.describe(lambda table: _keep(tables, table)),
        "memory_limit": memory_limit,
        "strict": strict,
    }
    encoded = json.dumps(header).encode()
    parts = [_PREFIX.pack(MAGIC, FORMAT, len(encoded)), encoded]
    for table in tables:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue().to_pybytes()
        parts += [_LENGTH.pack(len(content)), content]
    blob = b"".join(parts)
    return blob + _CHECKSUM.pack(zlib.crc32(blob))


def read_snapshot(blob: object) -> Held:
    """What a blob holds. Any fault in it raises a `SnapshotError`."""
    content = _checked(blob)
    try:
        header, tables = _unpack(content)
        return _restore(header, tables)
    except SnapshotError:
        raise
    except Exception as error:
        _, version, _ = _PREFIX.unpack_from(content)
        raise SnapshotError(
            f"the snapshot, of format {version}, is whole, but cannot be restored: {_told(error)}. Restore it with the "
            f"Panewise that wrote it, or start a new engine and push the events again"
        ) from error


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, PanewiseError) else f"{type(error).__name__}: {error}"


def _restore(header: dict[str, Any], tables: list[pa.Table]) -> Held:
    workload = apply(Workload(), header["workload"])
    streams = {
        name: _restore_stream(workload.streams[name], description, tables)
        for name, description in header["streams"].items()
    }
    row_queries = RowQueries(streams)
    row_queries.restore(header["row_queries"], workload.row_queries, tables)
    return Held(workload, streams, row_queries, header["memory_limit"], header.get("strict", False))


def _checked(blob: object) -> bytes:
    """A blob that is a whole snapshot in the format that is read here."""
    if not (isinstance(blob, bytes) and blob.startswith(MAGIC)):
        raise SnapshotError("this is not a snapshot of an engine; give the bytes that Engine.snapshot() returned")
    damaged = SnapshotError(
        f"the snapshot of {len(blob)} bytes is truncated or damaged: its checksum does not match; take another copy"
    )
    if len(blob) < _PREFIX.size + _CHECKSUM.size:
        raise damaged
    _, version, _ = _PREFIX.unpack_from(blob)
    if version > FORMAT:
        # For an unknown format, the way to check that it is whole is unknown too.
        raise SnapshotError(
            f"the snapshot has format {version}: it was written by a newer Panewise, or is damaged. This one reads "
            f"format {FORMAT}; upgrade it"
        )
    if version < 1 or zlib.crc32(blob[: -_CHECKSUM.size]) != _CHECKSUM.unpack(blob[-_CHECKSUM.size :])[0]:
        raise damaged
    return blob


def _queries_of(stream: Stream, texts: list[str]) -> list[Query]:
    """The queries of a stream that some statements create."""
    if not texts:
        return []
    return list(apply(Workload({stream.name: stream}), ";\n".join(texts)).queries.values())


def _unpack(blob: bytes) -> tuple[dict[str, Any], list[pa.Table]]:
    _, _, header_length = _PREFIX.unpack_from(blob)
    at = _PREFIX.size + header_length
    header = json.loads(blob[_PREFIX.size : at])
    tables = []
    while at < len(blob) - _CHECKSUM.size:
        (length,) = _LENGTH.unpack_from(blob, at)
        at += _LENGTH.size
        with pa.ipc.open_stream(blob[at : at + length]) as reader:
            table = reader.read_all()
        table.validate(full=True)
        tables.append(table)
        at += length
    return header, tables


def _keep(tables: list[pa.Table], table: pa.Table) -> int:
    tables.append(table)
    return len(tables) - 1


def _describe_stream(state: StreamState, tables: list[pa.Table]) -> dict[str, Any]:
    row_times, row_times_from = state.row_times
    totals = state.totals.describe()
    return {
        "rate": state.prices.rate,
        "groups": dict(state.prices.groups),
        "seen_combinations": state.prices.combinations,
        "seen_groups": [[list(names), count] for names, count in state.prices.seen.items()],
        "learned_at": state.learned_at,
        "in_bulk": state.prices.in_bulk,
        "method": state.prices.method,
        "tolerance": state.prices.tolerance,
        "replans": state.replans,
        "replanned_us": state.replanned_us,
        "changes_unchecked": state.changes_unchecked,
        "known_cost": state.known_cost,
        "has_changed": state.has_changed,
        "watermark_us": state.watermark_us,
        "marked_us": state.marked_us,
        "closed_us": state.closed_us,
        "closed_rows": state.closed_rows,
        "newest_us": state.newest_us,
        "oldest_us": state.oldest_us,
        "accepted": state.accepted,
        "pushes": state.pushes,
        "late": state.late,
        "corrected": state.corrected,
        "aside": dict(state.aside.counts),
        "overflown": state.overflows.counts,
        "row_times": _keep(tables, pa.table({"time": row_times})),
        "row_times_from": row_times_from,
        "totals": {name: _keep(tables, pa.Table.from_batches([partials])) for name, partials in totals.items()},
        "totals_newest_us": state.totals.newest_us,
        "on_demand": [print_query(query) for query in state.on_demand.values()],
        "substreams": [reports.describe(lambda table: _keep(tables, table)) for reports in state.substreams],
        "since_us": state.since_us,
        "reports_after_us": state.reports_after_us,
        "generations": [_describe_generation(generation, tables) for generation in state.generations],
        "log": None if state.log is None else state.log.describe(lambda table: _keep(tables, table)),
    }


def _describe_generation(generation: Generation, tables: list[pa.Table]) -> dict[str, Any]:
    return {
        "queries": [print_query(query) for query in generation.queries],
        "bases": generation.plan.shape.bases,
        "shares": generation.plan.shape.trees,
        "twins": [[twin.tree, twin.of] for twin in generation.twins],
        "trees": [_describe_tree(state, tables) for state in generation.trees],
    }


def _describe_tree(state: TreeState, tables: list[pa.Table]) -> dict[str, Any]:
    partials = state.store.partials()
    return {
        "number": state.tree.number,
        "queries": [print_query(planned.query) for planned in state.queries.values()],
        "waiting": list(state.waiting),
        "late": None if state.late is None else _keep(tables, pa.Table.from_batches([state.late.partials()])),
        "held_from": state.held_from,
        "exact_from": state.exact_from,
        "bits": {
            name: planned.predicate for name, planned in state.queries.items() if planned.predicate in state.twins
        },
        "lost_from": state.lost_from,
        "past_until": state.past_until,
        "pasts": [[bit, list(map(_describe_past, pasts))] for bit, pasts in state.pasts.items()],
        "partials": _keep(tables, pa.Table.from_batches([partials])),
    }


def _describe_past(past: Past) -> dict[str, Any]:
    return {
        "edges": past.cuts.edges,
        "granularity": past.granularity,
        "components": [[component.kind.value, component.input] for component in past.components],
        "held_from": past.held_from,
        "until": past.until,
    }


def _restore_past(part: dict[str, Any]) -> Past:
    cuts = Cuts(tuple((period, residue) for period, residue in part["edges"]))
    components = frozenset(Component(Kind(kind), place) for kind, place in part["components"])
    return Past(cuts, part["granularity"], components, part["held_from"], part["until"])


def _restore_stream(stream: Stream, description: dict[str, Any], tables: list[pa.Table]) -> StreamState:
    in_bulk = description.get("in_bulk", False)
    # Older snapshots lack what came later.
    method, tolerance = description.get("method", WEAVE_SHARE), description.get("tolerance", DEFAULT_TOLERANCE)
    prices = Prices(
        description["rate"],
        groups=description["groups"],
        in_bulk=in_bulk,
        method=method,
        tolerance=tolerance,
        seen={tuple(names): count for names, count in description.get("seen_groups", [])},
        combinations=description.get("seen_combinations", 1),
    )
    state = StreamState(stream, [], prices)
    state.replans, state.replanned_us = description.get("replans", 0), description.get("replanned_us")
    state.changes_unchecked = description.get("changes_unchecked", 0)
    state.known_cost = description.get("known_cost")
    state.has_changed = description.get("has_changed", False)
    state.learned_at = description.get("learned_at", 0)
    for name in (
        "watermark_us",
        "marked_us",
        "closed_us",
        "closed_rows",
        "newest_us",
        "oldest_us",
        "accepted",
        "pushes",
        "late",
        "corrected",
    ):
        setattr(state, name, description[name])
    state.aside.counts.update(description.get("aside", {}))
    state.overflows = Overflows(description.get("overflown"))
    state.row_times = (
        np.asarray(tables[description["row_times"]].column("time")),
        description["row_times_from"],
    )
    state.on_demand = {query.name: query for query in _queries_of(stream, description["on_demand"])}
    state.substreams = [
        SubstreamReports.described(stream, part, _queries_of(stream, [one["query"] for one in part["queries"]]), tables)
        for part in description.get("substreams", [])
    ]
    state.since_us = description["since_us"]
    state.reports_after_us = description["reports_after_us"]
    state.generations = [_restore_generation(stream, part, tables, prices) for part in description["generations"]]
    if description["log"] is not None:
        state.log = EventLog.described(stream, description["log"], tables)
        totals = {name: tables[place] for name, place in description.get("totals", {}).items()}
        state.totals.restore(state.on_demand, state.since_us, totals, description.get("totals_newest_us"))
        for query in state.on_demand.values():
            state.follow_within(query)
            state.build_structures(query)
    return state


def _restore_generation(
    stream: Stream, description: dict[str, Any], tables: list[pa.Table], prices: Prices
) -> Generation:
    # The plan follows from the queries that the generation began with and from the decisions made then, so bases,
    # trees, components and bits are the same.
    shape = PlanShape(
        tuple((clock, tuple(tuple(group_by) for group_by in groupings)) for clock, groupings in description["bases"]),
        tuple(tuple(names) for names in description["shares"]),
    )
    generation = Generation(stream, _queries_of(stream, description["queries"]), dict.fromkeys(Clock), prices, shape)
    # Older snapshots lack twins: queries waited, and nothing was taken over.
    twins = [Twin(tree, of) for tree, of in description.get("twins", [])]
    if twins:
        generation.begin_with(twins, dict.fromkeys(Clock), waits=False)
    by_number = {state.tree.number: state for state in generation.trees}
    generation.trees = []
    for part in description["trees"]:
        state = by_number[part["number"]]
        queries = _queries_of(stream, part["queries"])
        state.restore(queries, part["waiting"], part["held_from"], part["exact_from"], part.get("bits", {}))
        state.past_until, state.lost_from = part.get("past_until"), part.get("lost_from")
        state.pasts = {bit: tuple(map(_restore_past, pasts)) for bit, pasts in part.get("pasts", [])}
        if state.past_until is None:
            state.settle_past()
        _check_tree(state, queries, tables[part["partials"]])
        for batch in tables[part["partials"]].to_batches():
            state.store.append(batch)
        for batch in () if part["late"] is None else tables[part["late"]].to_batches():
            state.add_late(batch)
        generation.trees.append(state)
    return generation


def _check_tree(state: TreeState, queries: list[Query], partials: pa.Table) -> None:
    """Refuse partials that lack something this Panewise needs to answer the queries."""
    missing = [name for name in partials_schema(state.plan, state.tree).names if name not in partials.column_names]
    left = [query.name for query in queries if query.name not in state.queries]
    if missing or left:
        what = f"lack {', '.join(missing)}" if missing else f"do not serve {', '.join(left)}"
        raise SnapshotError(
            f"the snapshot's partials of stream {state.plan.stream.name} {what}: this Panewise answers its queries "
            f"from other numbers. Restore it with the Panewise that wrote it, or start a new engine and push "
            f"the events again"
        )
