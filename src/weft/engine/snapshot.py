"""Snapshots: an engine's state as bytes. A header in JSON, then Arrow tables end to end, then a checksum.

The header holds statements and numbers only; partials and events are Arrow IPC. Nothing is pickled, so a blob from
elsewhere can be wrong but not harmful. Older formats are read too: see `engine.snapshot_formats`.
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

from weft.engine.combine import partials_schema
from weft.engine.event_log import EventLog
from weft.engine.generation import Generation, TreeState
from weft.engine.slot_store import SlotStore
from weft.engine.snapshot_formats import FORMAT, queries_of, upgrade
from weft.engine.stream_state import StreamState
from weft.engine.windowed.row_queries import RowQueries
from weft.errors import WeftError
from weft.language.model import Query, Stream, Workload
from weft.language.printer import print_query, print_workload
from weft.language.reader import apply
from weft.planning.cost import Prices
from weft.planning.plan import Clock, Shape

MAGIC = b"WEFT"
_PREFIX = struct.Struct("<4sHI")
_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")


class SnapshotError(WeftError):
    """A blob that is no snapshot, or not a whole one, or that this Weft cannot read."""


@dataclass(frozen=True)
class Held:
    """What a snapshot holds."""

    workload: Workload
    streams: dict[str, StreamState]
    row_queries: RowQueries
    memory_limit: int | None


def write_snapshot(
    workload: Workload, streams: Mapping[str, StreamState], row_queries: RowQueries, memory_limit: int | None
) -> bytes:
    """The state of every stream and of the row queries as one blob."""
    tables: list[pa.Table] = []
    header = {
        "workload": print_workload(workload),
        "streams": {name: _describe_stream(state, tables) for name, state in streams.items()},
        "row_queries": row_queries.describe(lambda table: _keep(tables, table)),
        "memory_limit": memory_limit,
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
    """What a blob holds. Whatever is wrong with it is a `SnapshotError`."""
    content, version = _checked(blob)
    try:
        header, tables = _unpack(content)
        return _restore(upgrade(header, version), tables)
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(
            f"the snapshot, of format {version}, is whole, but cannot be restored: {_told(error)}. Restore it with the "
            f"Weft that wrote it, or start an engine anew and push the events again"
        ) from error


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"


def _restore(header: dict[str, Any], tables: list[pa.Table]) -> Held:
    workload = apply(Workload(), header["workload"])
    streams = {
        name: _restore_stream(workload.streams[name], description, tables)
        for name, description in header["streams"].items()
    }
    row_queries = RowQueries(streams)
    row_queries.restore(header["row_queries"], workload.row_queries, tables)
    return Held(workload, streams, row_queries, header["memory_limit"])


def _checked(blob: object) -> tuple[bytes, int]:
    """A blob that is a whole snapshot, and its format."""
    if not (isinstance(blob, bytes) and blob.startswith(MAGIC)):
        raise SnapshotError("this is no snapshot of a Weft engine; give the bytes that Engine.snapshot() returned")
    damaged = SnapshotError(
        f"the snapshot of {len(blob)} bytes is truncated or damaged: its checksum does not match; take another copy"
    )
    if len(blob) < _PREFIX.size + _CHECKSUM.size:
        raise damaged
    _, version, _ = _PREFIX.unpack_from(blob)
    if version > FORMAT:
        # Of a format that is not known, neither is how to tell that it is whole.
        raise SnapshotError(
            f"the snapshot has format {version}: it was written by a newer Weft, or is damaged. This one reads formats "
            f"1 to {FORMAT}; upgrade it"
        )
    if version < 1 or zlib.crc32(blob[: -_CHECKSUM.size]) != _CHECKSUM.unpack(blob[-_CHECKSUM.size :])[0]:
        raise damaged
    return blob, version


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
    return {
        "rate": state.prices.rate,
        "groups": dict(state.prices.groups),
        "in_bulk": state.prices.in_bulk,
        "watermark_us": state.watermark_us,
        "closed_us": state.closed_us,
        "closed_rows": state.closed_rows,
        "newest_us": state.newest_us,
        "oldest_us": state.oldest_us,
        "accepted": state.accepted,
        "late": state.late,
        "corrected": state.corrected,
        "row_times": _keep(tables, pa.table({"time": row_times})),
        "row_times_from": row_times_from,
        "on_demand": [print_query(query) for query in state.on_demand.values()],
        "since_us": state.since_us,
        "generations": [_describe_generation(generation, tables) for generation in state.generations],
        "log": None if state.log is None else _describe_log(state.log, tables),
    }


def _describe_generation(generation: Generation, tables: list[pa.Table]) -> dict[str, Any]:
    return {
        "queries": [print_query(query) for query in generation.queries],
        "bases": generation.plan.shape.bases,
        "shares": generation.plan.shape.trees,
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
        "partials": _keep(tables, pa.Table.from_batches([partials])),
    }


def _describe_log(log: EventLog, tables: list[pa.Table]) -> dict[str, Any]:
    return {
        "final_count": log.final_count,
        "final_held": log.final_held,
        "complete_from_us": log.complete_from_us,
        "trimmed_at_us": log.trimmed_at_us,
        "starts_us": log.starts_us,
        "events": _keep(tables, log.events),
    }


def _restore_stream(stream: Stream, description: dict[str, Any], tables: list[pa.Table]) -> StreamState:
    in_bulk = description.get("in_bulk", False)
    prices = Prices(description["rate"], groups=description["groups"], in_bulk=in_bulk)
    state = StreamState(stream, [], prices)
    for name in ("watermark_us", "closed_us", "closed_rows", "newest_us", "oldest_us", "accepted", "late", "corrected"):
        setattr(state, name, description[name])
    state.row_times = (
        np.asarray(tables[description["row_times"]].column("time")),
        description["row_times_from"],
    )
    state.on_demand = {query.name: query for query in queries_of(stream, description["on_demand"])}
    state.since_us = description["since_us"]
    state.generations = [_restore_generation(stream, part, tables, prices) for part in description["generations"]]
    if description["log"] is not None:
        part = description["log"]
        state.log = EventLog(
            stream,
            final_count=part["final_count"],
            complete_from_us=part["complete_from_us"],
            trimmed_at_us=part["trimmed_at_us"],
            starts_us=part["starts_us"],
            _events=tables[part["events"]],
            final_held=part["final_held"],
        )
        for query in state.on_demand.values():
            state.index_having(query)
            state.follow_within(query)
            state.build_structures(query)
    return state


def _restore_generation(
    stream: Stream, description: dict[str, Any], tables: list[pa.Table], prices: Prices
) -> Generation:
    # The plan follows from the queries that the generation began with and from what was decided then, so that bases,
    # trees, components and bits are the same.
    shape = Shape(
        tuple((clock, tuple(tuple(group_by) for group_by in groupings)) for clock, groupings in description["bases"]),
        tuple(tuple(names) for names in description["shares"]),
    )
    generation = Generation(stream, queries_of(stream, description["queries"]), dict.fromkeys(Clock), prices, shape)
    by_number = {state.tree.number: state for state in generation.trees}
    generation.trees = []
    for part in description["trees"]:
        state = by_number[part["number"]]
        queries = queries_of(stream, part["queries"])
        state.restore(queries, part["waiting"], part["held_from"], part["exact_from"])
        _check_tree(state, queries, tables[part["partials"]])
        for batch in tables[part["partials"]].to_batches():
            state.store.append(batch)
        if part["late"] is not None:
            state.late = SlotStore(state.plan, state.tree)
            for batch in tables[part["late"]].to_batches():
                state.late.append(batch)
        generation.trees.append(state)
    return generation


def _check_tree(state: TreeState, queries: list[Query], partials: pa.Table) -> None:
    """Refuse partials that do not hold all that the queries need as this Weft answers them."""
    missing = [name for name in partials_schema(state.plan, state.tree).names if name not in partials.column_names]
    left = [query.name for query in queries if query.name not in state.queries]
    if missing or left:
        what = f"lack {', '.join(missing)}" if missing else f"do not serve {', '.join(left)}"
        raise SnapshotError(
            f"the snapshot's partials of stream {state.plan.stream.name} {what}: this Weft answers its queries from "
            f"other numbers. Restore it with the Weft that wrote it, or start an engine anew and push the events again"
        )
