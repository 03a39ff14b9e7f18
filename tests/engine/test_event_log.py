"""The event log and its followers copy few events, even if a stream advances in small steps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

import panewise
from panewise.engine import event_log, integer_queue
from panewise.engine.event_log import EventLog, Retention
from panewise.windows import RowWindow, TimeWindow, Window

STREAM = "CREATE STREAM t (at TIMESTAMP, k STRING, v BIGINT) TIMESTAMP BY at WATERMARK 0 SECONDS;"
STEPS = 2000
DOUBLINGS = STEPS.bit_length()


def batch(log: EventLog, times: list[int], keys: list[str]) -> pa.RecordBatch:
    columns = [pa.array(times).cast(pa.timestamp("us", "UTC")), pa.array(keys), pa.array(times)]
    return pa.record_batch([column.cast(field.type) for column, field in zip(columns, log.schema)], log.schema)


def new_log() -> EventLog:
    return EventLog(panewise.read(STREAM).streams["t"])


def test_many_small_advances_copy_each_event_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = 0
    original = event_log._in_fewer_chunks

    def counting(events: pa.Table) -> pa.Table:
        nonlocal copied
        before = [len(chunk) for chunk in events.column(0).chunks]
        made = original(events)
        after = [len(chunk) for chunk in made.column(0).chunks]
        same = sum(1 for one, other in zip(before, after) if one == other)
        copied += sum(after[same:])
        assert len(after) < event_log.MOST_CHUNKS / 2
        return made

    monkeypatch.setattr(event_log, "_in_fewer_chunks", counting)
    log = new_log()
    retention = Retention.of([RowWindow(10 * STEPS)])
    for time in range(STEPS):
        log.append(batch(log, [time], ["a"]))
        log.advance(time + 1)
        log.trim(retention, time + 1)
    assert len(log.times) == log.final_held == STEPS
    assert log.numbers.tolist() == list(range(STEPS))
    assert log.events.column("v").to_pylist() == list(range(STEPS))
    assert log._numbered().copied <= 2 * STEPS
    assert 0 < copied <= STEPS * DOUBLINGS


def test_events_of_substreams_are_ranked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = 0
    original = EventLog.rank_from_end

    def counting(self: EventLog, attributes: tuple[str, ...], count: int) -> np.ndarray:
        nonlocal ranked
        ranked += count
        return original(self, attributes, count)

    monkeypatch.setattr(EventLog, "rank_from_end", counting)
    log = new_log()
    retention = Retention.of([RowWindow(2, partition_by=("k",))])
    longest = 0
    for time in range(STEPS):
        log.append(batch(log, [time], [f"k{time % 100}"]))
        log.advance(time + 1)
        log.trim(retention, time + 1)
        longest = max(longest, len(log.times))
    assert ranked <= 12 * STEPS
    assert longest <= 3 * 200


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=60),
    time_us=st.integers(0, 20),
    rows=st.integers(0, 6),
    each=st.integers(0, 3),
)
def test_what_lookups_need_is_never_let_go(
    steps: list[tuple[int, str, bool]], time_us: int, rows: int, each: int
) -> None:
    windows: list[Window] = []
    windows += [TimeWindow(time_us)] if time_us else []
    windows += [RowWindow(rows)] if rows else []
    windows += [RowWindow(each, partition_by=("k",))] if each else []
    log = new_log()
    came: list[tuple[int, str]] = []
    clock = 0
    for place, (later, key, is_advanced) in enumerate(steps):
        clock += later
        log.append(batch(log, [clock], [key]))
        came.append((clock, key))
        if not is_advanced:
            continue
        log.advance(clock)
        log.trim(Retention.of(windows), clock)
        held = set(zip(log.times.tolist(), log.events.column("k").to_pylist()))
        final = [event for event in came if event[0] < clock]
        needed = {event for event in came if event[0] > clock - time_us}
        needed |= set(final[len(final) - rows :]) if rows else set()
        for one in "abc":
            of_key = [event for event in final if event[1] == one]
            needed |= set(of_key[len(of_key) - each :]) if each and of_key else set()
        assert needed <= held
        assert held <= set(came)
        assert len(log.numbers) == log.final_held
        assert log.final_count == len(final)
        assert (np.diff(log.numbers) > 0).all()
        values = log.events.column("v").to_pylist()
        assert values == log.times.tolist(), f"rows have come apart after {place} steps"


@given(steps=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=40))
def test_a_queue_of_integers_holds_what_came_and_did_not_leave(steps: list[tuple[int, int]]) -> None:
    column, held, next_value = integer_queue.IntegerQueue(), [], 0
    for coming, leaving in steps:
        column.append(np.arange(next_value, next_value + coming))
        held += range(next_value, next_value + coming)
        next_value += coming
        leaving = min(leaving, len(held))
        column.drop(leaving)
        held = held[leaving:]
        assert column.values.tolist() == held
        assert len(column) == len(held)
        assert len(column._room) <= max(integer_queue.FEWEST, 4 * len(held))
    assert column.copied <= 2 * next_value
