"""The engine agrees with the oracle on random workloads, events, watermarks and lookups."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.thoroughness import examples
from tests.workloads import EVERY_WINDOW, FORMS, OF_SUBSTREAMS, SESSIONS, events, workloads

import panewise
from panewise.engine.columns import arrow_type
from panewise.language.model import Stream


def as_table(stream: Stream, rows: list[dict]) -> pa.Table:
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])
    return pa.Table.from_pylist(rows, schema)


@st.composite
def programs(draw):
    """What trees cost, a workload, and steps: ("push", rows), ("advance", watermark) or ("lookup", query, at)."""
    workload = draw(workloads(windows=(*EVERY_WINDOW, *FORMS, OF_SUBSTREAMS, *SESSIONS)))
    (stream,) = workload.streams.values()
    rows = draw(events(stream))
    times = [row[stream.timestamp] for row in rows] or [0]
    near = st.integers(min(times) - 10, max(times) + 10)
    steps = []
    at = 0
    while at < len(rows):
        size = draw(st.integers(1, 12))
        steps.append(("push", rows[at : at + size]))
        at += size
        match draw(st.integers(0, 3)):
            case 0:
                steps.append(("advance", draw(near | st.sampled_from(times))))
            case 1 if on_demand := [q for q in workload.queries.values() if not q.window.is_sliding]:
                steps.append(("lookup", draw(st.sampled_from(on_demand)), draw(near | st.none())))
            case 2:
                steps.append(("snapshot",))
    steps.append(("advance", panewise.END_OF_STREAM))
    # A tree for each window, a few trees, or one tree for all windows.
    method = draw(st.sampled_from(["no_share", "random", "shared"]))
    return method, workload, stream, steps


# Drawn times are microseconds of 1970, and some look like seconds.
@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")
@settings(max_examples=examples(400), deadline=None)
@given(programs())
def test_the_engine_agrees_with_the_oracle(program) -> None:
    method, workload, stream, steps = program
    engine = panewise.Engine(workload, method=method)
    accepted: list[dict] = []
    watermark = None
    late = 0
    for step in steps:
        match step:
            case ("push", rows):
                engine.push(stream.name, as_table(stream, rows))
                on_time = [row for row in rows if watermark is None or row[stream.timestamp] >= watermark]
                late += len(rows) - len(on_time)
                accepted += on_time
            case ("advance", to):
                if watermark is not None and to < watermark:
                    continue
                table = engine.advance(stream.name, to)
                end = None if to == panewise.END_OF_STREAM else to
                expected = [
                    answer
                    for query in workload.queries.values()
                    if query.window.is_sliding
                    for answer in oracle.closed_answers(query, stream.timestamp, accepted, end, watermark)
                ]
                oracle.assert_same_answers(to_answers(table, workload), expected)
                watermark = to
            case ("lookup", query, at):
                if at is None:
                    at = max([row[stream.timestamp] for row in accepted] + ([] if watermark is None else [watermark]))
                    table = engine.lookup(query.name)
                elif watermark is not None and at < watermark:
                    continue
                else:
                    table = engine.lookup(query.name, at)
                oracle.assert_same_answers(
                    to_answers(table, workload, query.name), oracle.lookup(query, stream.timestamp, accepted, at)
                )
            case ("snapshot",):
                engine = panewise.Engine.restore(engine.snapshot())
    assert engine.late_events(stream.name) == late
