"""Snapshots of every format go on with right answers; whatever else is given for one is refused with a reason."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.snapshots.programs import CORRECTING, FIRST, LAST, PROGRAMS, US, run, start_of

import weft
from weft.engine.snapshot import SnapshotError
from weft.engine.snapshot_formats import FORMAT
from weft.language.model import Workload

FOLDER = Path(__file__).parent / "snapshots"
FILES = sorted(path.name for path in FOLDER.glob("*.snapshot"))


def accepted_events(steps: list) -> tuple[list[dict], int | None]:
    """The events that were on time, and the watermark."""
    events, watermark = [], None
    for kind, given_ in steps:
        if kind == "push":
            events += [event for event in given_ if watermark is None or event["t"] >= watermark]
        elif kind == "advance":
            watermark = given_
    return events, watermark


def expected_answers(engine: weft.Engine, events: list[dict], until: int, after: int) -> list[oracle.Answer]:
    """What the oracle says of the windows that each query has seen whole."""
    found = []
    for query in engine.workload.queries.values():
        if not query.window.is_sliding:
            continue
        answers = oracle.closed_answers(query, "t", events, until, after)
        exact_from = engine.exact_from(query.name)
        found += [one for one in answers if exact_from is None or one.window_start >= exact_from]
    return found


def check_lookups(engine: weft.Engine, events: list[dict], at: int) -> None:
    for name, query in engine.workload.queries.items():
        if not query.window.is_sliding:
            answers = to_answers(engine.lookup(name, at), engine.workload)
            oracle.assert_same_answers(answers, oracle.lookup(query, "t", events, at), query)


@pytest.mark.parametrize("file", FILES)
def test_older_snapshots_go_on_with_right_answers(file: str) -> None:
    name = file.split(".")[0]
    engine = weft.Engine.restore((FOLDER / file).read_bytes())
    steps = list(PROGRAMS[name][1])
    events, watermark = accepted_events(steps)
    began = weft.read(start_of(name)).queries
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
    # The past was taken over: what the engine began with did not begin anew.
    assert all(engine.exact_from(query) is None or engine.exact_from(query) < 11 * US for query in seen)
    again = weft.Engine.restore(engine.snapshot())
    rest = [to_answers(one.advance("s", weft.END_OF_STREAM), one.workload) for one in (again, engine)]
    oracle.assert_same_answers(*rest)


@pytest.mark.parametrize("file", [file for file in FILES if file.split(".")[0] in CORRECTING])
def test_row_queries_and_corrections_go_on(file: str) -> None:
    """Against an engine that was never interrupted."""
    name = file.split(".")[0]
    restored = weft.Engine.restore((FOLDER / file).read_bytes())
    never = weft.Engine(start_of(name))
    run(never, PROGRAMS[name][1])
    for one, other in zip(run(restored, LAST), run(never, LAST), strict=True):
        oracle.assert_same_answers(to_answers(one, never.workload), to_answers(other, never.workload))
    assert restored.rows("top").equals(never.rows("top"))
    corrected = [engine.statistics()["streams"]["s"]["correcting_events"] for engine in (restored, never)]
    assert corrected[0] == corrected[1] > 0


def test_every_format_has_files() -> None:
    assert {file.split(".")[1].removeprefix("early_") for file in FILES} == {str(number) for number in range(1, FORMAT)}


def some_blob(**options: int) -> bytes:
    engine = weft.Engine(start_of("sliding"), **options)
    run(engine, FIRST)
    return engine.snapshot()


@pytest.fixture(scope="module")
def blob() -> bytes:
    return some_blob()


def signed(content: bytes) -> bytes:
    return content + struct.pack("<I", zlib.crc32(content))


@settings(max_examples=150)
@given(st.data())
def test_a_cut_snapshot_is_refused(blob: bytes, data: st.DataObject) -> None:
    with pytest.raises(SnapshotError):
        weft.Engine.restore(blob[: data.draw(st.integers(0, len(blob) - 1))])


@settings(max_examples=300)
@given(st.data())
def test_a_snapshot_with_a_changed_byte_is_refused(blob: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, 40) | st.integers(0, len(blob) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = blob[:place] + bytes([blob[place] ^ change]) + blob[place + 1 :]
    with pytest.raises(SnapshotError):
        weft.Engine.restore(damaged)


@settings(max_examples=60)
@given(st.data())
def test_a_changed_snapshot_with_a_right_checksum_raises_nothing_else(blob: bytes, data: st.DataObject) -> None:
    """Such a blob was made on purpose; it may even be a snapshot."""
    place = data.draw(st.integers(6, len(blob) - 5))
    content = blob[:place] + bytes([data.draw(st.integers(0, 255))]) + blob[place + 1 : -4]
    with contextlib.suppress(SnapshotError):
        weft.Engine.restore(signed(content))


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (b"", "this is no snapshot"),
        (b"PK\x03\x04 something else", "this is no snapshot"),
        ("WEFT", "this is no snapshot"),
        (b"WEFT", "truncated or damaged"),
        (signed(struct.pack("<4sHI", b"WEFT", FORMAT + 1, 0)), "written by a newer Weft"),
        (signed(struct.pack("<4sHI", b"WEFT", 0, 0)), "truncated or damaged"),
        (signed(struct.pack("<4sHI", b"WEFT", FORMAT, 2) + b"{}"), "cannot be restored"),
        (signed(struct.pack("<4sHI", b"WEFT", 1, 2) + b"{}"), "cannot be restored"),
        (signed(struct.pack("<4sHI", b"WEFT", FORMAT, 1) + b"?"), "cannot be restored"),
    ],
)
def test_what_is_no_snapshot_is_refused_with_a_reason(given_: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        weft.Engine.restore(given_)


def test_partials_without_a_column_are_refused_with_a_cure(blob: bytes) -> None:
    """As if this Weft made answers of a number that another one did not keep."""
    length = struct.unpack_from("<I", blob, 6)[0]
    header = json.loads(blob[10 : 10 + length])
    number = header["streams"]["s"]["generations"][0]["trees"][0]["partials"]
    content, at, place = blob[: 10 + length], 10 + length, 0
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
        SnapshotError, match=r"lack count_0: this Weft .* start an engine anew and push the events again"
    ):
        weft.Engine.restore(signed(content))


def test_the_memory_limit_is_kept() -> None:
    engine = weft.Engine.restore(some_blob(memory_limit=10**12))
    engine.add("CREATE QUERY small AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE]")
    engine = weft.Engine.restore(engine.snapshot())
    with pytest.raises(weft.WeftError, match="the workload would hold about"):
        engine.add("CREATE QUERY large AS SELECT COUNT(*) FROM s [ROWS 1000000000000]")
    assert weft.Engine.restore(some_blob()).workload == Workload(
        engine.workload.streams, weft.read(start_of("sliding")).queries
    )
