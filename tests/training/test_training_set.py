"""Training sets agree with the oracle in every cell: for each label, the answers over the events that it may see."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import microseconds
from tests.thoroughness import examples
from tests.workloads import EVERY_WINDOW, FORMS, OF_SUBSTREAMS, events, unit_of, workloads

import panewise
from panewise.engine.columns import arrow_type
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of
from panewise.language.workload import Workload

LABEL_TIME = "label time"


def as_table(stream: Stream, rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])
    return pa.Table.from_pylist(rows, schema)


def labels_table(stream: Stream, names: list[str], rows: list[dict[str, Any]]) -> pa.Table:
    columns = [(name, arrow_type(stream.attributes[name])) for name in names]
    return pa.Table.from_pylist(rows, pa.schema([*columns, (LABEL_TIME, pa.int64())]))


def expected_cells(
    query: Query, stream: Stream, rows: list[dict[str, Any]], label: dict[str, Any], edge: str
) -> dict[int, oracle.Answer]:
    """The answers of one label by the place in SELECT, from the definition."""
    at = label[LABEL_TIME]
    seen = [row for row in rows if (row[stream.timestamp] < at if edge == "before" else row[stream.timestamp] <= at)]
    window = query.window
    if not window.is_sliding:
        if type(window).__name__ == "TimeWindow":
            found = _time_window(query, stream, rows, at, edge)
        else:
            # Of the rows up to the label all were seen, so the last moment is as good as any other.
            found = oracle.lookup(query, stream.timestamp, seen, at)
    else:
        if not seen:
            return {}
        mark = max(row[stream.timestamp] for row in seen) - stream.watermark_us
        found = newest_closed(query, stream, seen, mark, label)
    key = tuple((name, label[name]) for name in query.group_by)
    return {one.item: one for one in found if _same_group(one.group, key)}


def _time_window(query: Query, stream: Stream, rows: list[dict[str, Any]], at: int, edge: str) -> list[oracle.Answer]:
    """[t - l, t - r) for "before", (t - l, t - r] for "at"."""
    begin, end = at - query.window.left_us, at - query.window.right_us
    covered = [
        row
        for row in rows
        if (begin <= row[stream.timestamp] < end if edge == "before" else begin < row[stream.timestamp] <= end)
    ]
    return oracle._answers_of_window(query, covered, begin, end, even_when_empty=True)


def newest_closed(
    query: Query, stream: Stream, seen: list[dict[str, Any]], mark: int, label: dict[str, Any]
) -> list[oracle.Answer]:
    """The answers of the newest window that the watermark had closed, over rows in the substream of the label."""
    window = query.window
    if type(window).__name__ == "TimeWindow":
        end = oracle.newest_end(window, mark)
        return [one for one in oracle.closed_answers(query, stream.timestamp, seen, mark) if one.window_end == end]
    ordered = sorted(seen, key=lambda row: row[stream.timestamp])
    mine = tuple((name, label[name]) for name in window.partition_by)
    reached = [
        row
        for row in ordered
        if row[stream.timestamp] < mark and _same_group(tuple((name, row[name]) for name in window.partition_by), mine)
    ]
    count = len(reached)
    while count > 0 and (count - window.left) % window.slide:
        count -= 1
    covered = reached[max(0, count - window.left) : count]
    return oracle._answers_of_window(query, covered, 0, 0) if covered else []


def _same_group(group: tuple[tuple[str, Any], ...], key: tuple[tuple[str, Any], ...]) -> bool:
    identity = oracle._identity
    return [(name, identity(value)) for name, value in group] == [(name, identity(value)) for name, value in key]


def check(workload: Workload, rows: list[dict[str, Any]], labels: pa.Table, result: pa.Table, edge: str) -> None:
    (stream,) = workload.streams.values()
    assert result.num_rows == labels.num_rows
    kept = result.select(labels.column_names)
    assert kept.schema.equals(labels.schema)
    # To Arrow NaN does not equal NaN. As text each value equals itself alone, and 0.0 is not -0.0.
    assert repr(kept.to_pylist()) == repr(labels.to_pylist())
    wrong = []
    found = result.to_pylist()
    names = result.column_names[len(labels.column_names) :]
    wanted = [
        (query, place, item)
        for query in workload.queries.values()
        for place, item in enumerate(query.select)
        if item.is_answer
    ]
    assert len(names) == len(wanted)
    for row in found:
        for name, (query, place, item) in zip(names, wanted, strict=True):
            assert name.startswith(f"{query.name}__{label_of(item)}")
            cell = expected_cells(query, stream, rows, row, edge).get(place)
            value, scale = (None, 0.0) if cell is None else (cell.value, cell.scale)
            if not oracle.same_value(microseconds(row[name]), value, scale):
                wrong.append(f"{name} at {row}: expected {value!r}, got {row[name]!r}")
    assert not wrong, "\n".join(wrong[:10])


@st.composite
def programs(draw: st.DrawFn) -> tuple[Workload, list[dict[str, Any]], list[dict[str, Any]], str]:
    """A workload, events, labels near them, and an edge."""
    workload = draw(workloads(windows=(*EVERY_WINDOW, *FORMS, OF_SUBSTREAMS), full_int64=draw(st.booleans())))
    (stream,) = workload.streams.values()
    rows = draw(events(stream))
    names = list(workload.group_by_attributes)
    unit = unit_of(stream)
    times = [row[stream.timestamp] for row in rows] or [0]
    near = st.sampled_from(times) | st.integers(min(times) - 3 * unit, max(times) + 15 * unit)
    # Keys of events, and now and then one that no event has.
    keys = st.sampled_from([{name: row[name] for name in names} for row in rows] or [dict.fromkeys(names)])
    labels = draw(st.lists(st.tuples(keys, near), max_size=12))
    mixed = [{**key, LABEL_TIME: at} for key, at in labels]
    if names and mixed and draw(st.booleans()):
        mixed[0][names[0]] = None
    return workload, rows, mixed, draw(st.sampled_from(["before", "at"]))


@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")  # times are near 1970
@settings(max_examples=examples(400), deadline=None)
@given(programs(), st.sampled_from([1, 6, 1 << 22]))
def test_training_sets_agree_with_the_oracle(program, part_events) -> None:
    """With keys in groups of any size."""
    workload, rows, mixed, edge = program
    (stream,) = workload.streams.values()
    labels = labels_table(stream, list(workload.group_by_attributes), mixed)
    with patch("panewise.engine.as_of.substreams.PART_EVENTS", part_events):
        result = panewise.training_set(labels, as_table(stream, rows), workload, time=LABEL_TIME, edge=edge)
    check(workload, rows, labels, result, edge)


@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")  # times are near 1970
@settings(max_examples=examples(100), deadline=None)
@given(programs(), st.sampled_from([1, 1500, 1 << 30]), st.integers(1, 20))
def test_events_that_do_not_fit_into_memory(program, memory_limit, piece) -> None:
    """With a limit of some events or of one, and events in pieces, a training set is the same."""
    workload, rows, mixed, edge = program
    (stream,) = workload.streams.values()
    labels = labels_table(stream, list(workload.group_by_attributes), mixed)
    table = as_table(stream, rows)
    given_events = (table.slice(begin, piece) for begin in range(0, len(rows), piece))
    result = panewise.training_set(
        labels, given_events, workload, time=LABEL_TIME, edge=edge, memory_limit=memory_limit
    )
    check(workload, rows, labels, result, edge)


def test_a_label_whose_key_is_nan_comes_back_as_it_was() -> None:
    workload = panewise.read(
        "CREATE STREAM trips (ts TIMESTAMP, fare DOUBLE) TIMESTAMP BY ts;"
        "CREATE QUERY q AS SELECT COUNT(*) FROM trips [RANGE 10 SECONDS] GROUP BY fare;"
    )
    (stream,) = workload.streams.values()
    rows = [{"ts": 0, "fare": float("nan")}, {"ts": 1, "fare": -0.0}]
    labels = labels_table(stream, ["fare"], [{"fare": fare, LABEL_TIME: 5} for fare in (float("nan"), -0.0, 0.0, None)])
    result = panewise.training_set(labels, as_table(stream, rows), workload, time=LABEL_TIME)
    check(workload, rows, labels, result, "before")
    assert result.column("q__COUNT(*)").to_pylist() == [1, 1, 1, None]
