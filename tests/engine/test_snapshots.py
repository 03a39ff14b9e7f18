"""A restored engine goes on with right answers; anything that is not a snapshot is refused with a reason."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.snapshot_programs import CORRECTING, FIRST, LAST, PROGRAMS, US, run, start_of
from tests.thoroughness import examples

import panewise
from panewise.engine.snapshot import FORMAT
from panewise.errors import SnapshotError
from panewise.language.workload import Workload


def interrupted(name: str) -> panewise.Engine:
    """An engine that was written to a snapshot in the middle of a program, and restored."""
    engine = panewise.Engine(start_of(name))
    run(engine, PROGRAMS[name][1])
    return panewise.Engine.restore(engine.snapshot())


def accepted_events(steps: list) -> tuple[list[dict], int | None]:
    """The events that were on time, and the watermark."""
    events, watermark = [], None
    for kind, given_ in steps:
        if kind == "push":
            events += [event for event in given_ if watermark is None or event["t"] >= watermark]
        elif kind == "advance":
            watermark = given_
    return events, watermark


def expected_answers(engine: panewise.Engine, events: list[dict], until: int, after: int) -> list[oracle.Answer]:
    """The oracle's answers for the windows that each query has seen whole."""
    found = []
    for query in engine.workload.queries.values():
        if not query.window.is_sliding:
            continue
        answers = oracle.closed_answers(query, "t", events, until, after)
        exact_from = engine.exact_from(query.name)
        found += [one for one in answers if exact_from is None or one.window_start >= exact_from]
    return found


def check_lookups(engine: panewise.Engine, events: list[dict], at: int) -> None:
    for name, query in engine.workload.queries.items():
        if not query.window.is_sliding:
            answers = to_answers(engine.lookup(name, at), engine.workload, name)
            oracle.assert_same_answers(answers, oracle.lookup(query, "t", events, at), query)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_restored_engine_goes_on_with_right_answers(name: str) -> None:
    engine = interrupted(name)
    steps = list(PROGRAMS[name][1])
    events, watermark = accepted_events(steps)
    began = panewise.read(start_of(name)).queries
    seen = [query for query in began if query in engine.workload.queries]
    assert seen
    check_lookups(engine, events, max(event["t"] for event in events))
    for step in LAST:
        steps.append(step)
        events, _ = accepted_events(steps)
        if step[0] == "push":
            run(engine, [step])
            continue
        (table,) = run(engine, [step])
        if name not in CORRECTING:
            answers = to_answers(table, engine.workload)
            oracle.assert_same_answers(answers, expected_answers(engine, events, step[1], watermark), name)
            assert answers
        watermark = step[1]
        check_lookups(engine, events, watermark)
    # The past was taken over: the engine's first queries did not start again.
    assert all(engine.exact_from(query) is None or engine.exact_from(query) < 11 * US for query in seen)
    again = panewise.Engine.restore(engine.snapshot())
    rest = [to_answers(one.advance("s", panewise.END_OF_STREAM), one.workload) for one in (again, engine)]
    oracle.assert_same_answers(*rest)


@pytest.mark.parametrize("name", sorted(CORRECTING))
def test_row_queries_and_corrections_go_on(name: str) -> None:
    """Against an engine that was never interrupted."""
    restored = interrupted(name)
    never = panewise.Engine(start_of(name))
    run(never, PROGRAMS[name][1])
    for one, other in zip(run(restored, LAST), run(never, LAST), strict=True):
        oracle.assert_same_answers(to_answers(one, never.workload), to_answers(other, never.workload))
    assert restored.rows("top").equals(never.rows("top"))
    corrected = [engine.statistics()["streams"]["s"]["correcting_events"] for engine in (restored, never)]
    assert corrected[0] == corrected[1] > 0


def some_blob(**options: int) -> bytes:
    engine = panewise.Engine(start_of("sliding"), **options)
    run(engine, FIRST)
    return engine.snapshot()


@pytest.fixture(scope="module")
def blob() -> bytes:
    return some_blob()


def signed(content: bytes) -> bytes:
    return content + struct.pack("<I", zlib.crc32(content))


@settings(max_examples=examples(150))
@given(st.data())
def test_a_cut_snapshot_is_refused(blob: bytes, data: st.DataObject) -> None:
    with pytest.raises(SnapshotError):
        panewise.Engine.restore(blob[: data.draw(st.integers(0, len(blob) - 1))])


@settings(max_examples=examples(300))
@given(st.data())
def test_a_snapshot_with_a_changed_byte_is_refused(blob: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 40) | st.integers(0, len(blob) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = blob[:place] + bytes([blob[place] ^ change]) + blob[place + 1 :]
    with pytest.raises(SnapshotError):
        panewise.Engine.restore(damaged)


@settings(max_examples=examples(60))
@given(st.data())
def test_a_changed_snapshot_with_a_right_checksum_raises_nothing_else(blob: bytes, data: st.DataObject) -> None:
    """Such a blob was made on purpose; it may even be a snapshot."""
    place = data.draw(st.integers(10, len(blob) - 5))
    content = blob[:place] + bytes([data.draw(st.integers(0, 255))]) + blob[place + 1 : -4]
    with contextlib.suppress(SnapshotError):
        panewise.Engine.restore(signed(content))


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (b"", "this is not a snapshot"),
        (b"PK\x03\x04 something else", "this is not a snapshot"),
        ("PANESNAP", "this is not a snapshot"),
        (b"PANESNAP", "truncated or damaged"),
        (signed(struct.pack("<8sHI", b"PANESNAP", FORMAT + 1, 0)), "written by a newer Panewise"),
        (signed(struct.pack("<8sHI", b"PANESNAP", 0, 0)), "truncated or damaged"),
        (signed(struct.pack("<8sHI", b"PANESNAP", FORMAT, 2) + b"{}"), "cannot be restored"),
        (signed(struct.pack("<8sHI", b"PANESNAP", FORMAT, 1) + b"?"), "cannot be restored"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_a_reason(given_: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        panewise.Engine.restore(given_)


def test_partials_without_a_column_are_refused_with_a_cure(blob: bytes) -> None:
    """As if this Panewise needed a number for its answers that another one did not keep."""
    length = struct.unpack_from("<I", blob, 10)[0]
    header = json.loads(blob[14 : 14 + length])
    number = header["streams"]["s"]["generations"][0]["trees"][0]["partials"]
    content, at, place = blob[: 14 + length], 14 + length, 0
    while at < len(blob) - 4:
        (size,) = struct.unpack_from("<Q", blob, at)
        part = blob[at + 8 : at + 8 + size]
        if place == number:
            table = pa.ipc.open_stream(part).read_all()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.drop_columns(["count_0"]).schema) as writer:
                writer.write_table(table.drop_columns(["count_0"]))
            part = sink.getvalue().to_pybytes()
        content += struct.pack("<Q", len(part)) + part
        at, place = at + 8 + size, place + 1
    with pytest.raises(
        SnapshotError, match=r"lack count_0: this Panewise .* start a new engine and push the events again"
    ):
        panewise.Engine.restore(signed(content))


def test_the_memory_limit_is_kept() -> None:
    engine = panewise.Engine.restore(some_blob(memory_limit=10**12))
    engine.add("CREATE QUERY small AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]")
    engine = panewise.Engine.restore(engine.snapshot())
    with pytest.raises(panewise.PanewiseError, match="the workload would hold about"):
        engine.add("CREATE QUERY large AS SELECT COUNT(*) FROM s [ROWS 1000000000000]")
    assert panewise.Engine.restore(some_blob()).workload == Workload(
        engine.workload.streams, panewise.read(start_of("sliding")).queries
    )
