"""An engine as people see it: a line of text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from panewise.engine.aside import FUTURE, UNTIMED
from panewise.engine.explain import overflow_lines, plan_at_work
from panewise.engine.stream_state import StreamState
from panewise.language.workload import Workload, queries_table
from panewise.notebook import block, counted, folded, line, table
from panewise.planning.memory import show_bytes
from panewise.planning.show import picture_html
from panewise.windows.clock import END_OF_STREAM, show_time


def engine_text(workload: Workload, streams: Mapping[str, StreamState]) -> str:
    """The engine's state, in a line. Cost: O(streams)."""
    queries = counted(len(workload.queries) + len(workload.row_queries), "query", "queries")
    shown = "; ".join(_stream_text(name, state) for name, state in streams.items())
    return f"Engine({'; '.join(part for part in (queries, shown, *overflow_lines(streams)) if part)})"


def engine_html(workload: Workload, streams: Mapping[str, StreamState], statistics: Mapping[str, Any]) -> str:
    """Streams, what is held for their queries, the queries, and the plan's picture. Cost: as for the statistics."""
    total = len(workload.queries) + len(workload.row_queries)
    headings = ("stream", "events", "late", "set aside", "newest event", "watermark", "held")
    held = list(_held_rows(statistics))
    return block(
        f"Engine: {counted(len(streams), 'stream')}, {counted(total, 'query', 'queries')}",
        table(headings, (_stream_row(name, streams[name], statistics) for name in streams), len(streams)),
        queries_table(workload),
        folded("what is held", table(("of", "what", "grouped by", "queries", "rows", "bytes"), held, len(held)))
        if held
        else line("nothing is held yet"),
        *(line(text) for text in overflow_lines(streams)),
        picture_html(plan_at_work(workload, streams)),
    )


def _stream_text(name: str, state: StreamState) -> str:
    text = f"{name}: {counted(state.accepted, 'event')}"
    if state.newest_us is not None:
        text += f" to {show_time(state.newest_us)}"
    return text if state.watermark_us is None else f"{text}, watermark {_watermark(state)}"


def _watermark(state: StreamState) -> str:
    if state.watermark_us is None:
        return "not yet"
    return "end of stream" if state.watermark_us == END_OF_STREAM else show_time(state.watermark_us)


def _stream_row(name: str, state: StreamState, statistics: Mapping[str, Any]) -> tuple[object, ...]:
    structures = sum(structure["bytes"] for structure in statistics["structures"][name])
    return (
        name,
        state.accepted,
        state.late,
        state.aside.counts[UNTIMED] + state.aside.counts[FUTURE],
        "none yet" if state.newest_us is None else show_time(state.newest_us),
        _watermark(state),
        show_bytes(statistics["streams"][name]["bytes"] + structures),
    )


def _held_rows(statistics: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for name, stream in statistics["streams"].items():
        for tree in stream["trees"]:
            queries = tree["queries"] + tree["waiting_queries"]
            grouped = ", ".join(tree["group_by"])
            yield name, "fragments of an execution tree", grouped, queries, tree["fragments"], tree["bytes"]
        if stream["log"] is not None:
            yield name, "events for lookups", "", "", stream["log"]["events"], stream["log"]["bytes"]
    for name, structures in statistics["structures"].items():
        for held in structures:
            what = f"{held['structure']} of {held['holds']}({held['input']})"
            yield name, what, ", ".join(held["group_by"]), held["queries"], held["elements"], held["bytes"]
    for name, rows in statistics["row_queries"].items():
        yield name, "index and rows", "", 1, "", rows["bytes"]
