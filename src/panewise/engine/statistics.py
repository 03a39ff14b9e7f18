"""What an engine holds and has done, as plain data."""

from __future__ import annotations

from typing import Any, NamedTuple

from panewise.engine.aside import FUTURE, UNTIMED
from panewise.engine.explain import predicted
from panewise.engine.generation import TreeState
from panewise.engine.stream_state import StreamState


class StreamPosition(NamedTuple):
    """How far a stream is. Times are None before the first watermark or event."""

    watermark_us: int | None
    newest_us: int | None
    events: int
    """How many events were taken; late ones are not among them."""
    late_events: int


def stream_statistics(state: StreamState) -> dict[str, Any]:
    """The numbers of one stream: events, trees with their rows and bytes, the event log, approximate answers."""
    trees = [_tree_statistics(at_work, state) for generation in state.generations for at_work in generation.trees]
    return {
        "events": state.accepted,
        "late_events": state.late,
        "correcting_events": state.corrected,
        "untimed_events": state.aside.counts[UNTIMED],
        "future_events": state.aside.counts[FUTURE],
        "overflown_answers": state.overflows.counts,
        "rate_per_s": state.seen_rate or 0.0,
        "generations": len(state.generations),
        "trees": trees,
        "log": None
        if state.log is None
        else {"events": len(state.log.times), "final_events": state.log.final_held, "bytes": state.log.events.nbytes},
        "substreams": [
            {"partition_by": list(one.partition_by), "queries": len(one.queries), "rows": one.rows_held}
            for one in state.substreams
        ],
        "within": dict(state.within.statistics),
        "bytes": sum(tree["bytes"] for tree in trees)
        + sum(one.nbytes for one in state.substreams)
        + state.totals.nbytes
        + (0 if state.log is None else state.log.events.nbytes),
    }


def _tree_statistics(at_work: TreeState, state: StreamState) -> dict[str, Any]:
    store = at_work.store
    # Counting bytes merges what is new, so that fragments are counted once.
    held = store.bytes_held
    foreseen = predicted(at_work, state)
    return {
        "queries": len(at_work.queries),
        "waiting_queries": len(at_work.waiting),
        "group_by": list(at_work.tree.group_by),
        "fragments": store.live_rows,
        "groups": store.live_keys,
        "bytes": held,
        "fed": store.fed,
        "folded": store.folded,
        "predicted_fed": foreseen.fed,
        "predicted_folded": foreseen.folded,
    }
