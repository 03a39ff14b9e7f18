"""With `changed_only`, following the changes gives every answer of every window, and no row repeats what is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t"
TEXT = """;
CREATE QUERY a AS SELECT k, COUNT(*), MAX(x) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] HAVING SUM(x) > 3;
CREATE QUERY c AS SELECT k, MIN(x) FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY d AS SELECT k, MAX(x) FROM s [RANGE 4 SECONDS SLIDE 6 SECONDS] GROUP BY k HAVING COUNT(*) < 3;
CREATE QUERY e AS SELECT MAX(k), LAST(k), LAST_K(k, 2), MODE(k), COLLECT(k, 3) FROM s [RANGE 3 SECONDS SLIDE 1 SECOND];
"""
WINDOWS = {"a": (6, 2), "b": (5, 5), "c": (3, 1), "d": (4, 6), "e": (3, 1)}
values = st.sampled_from([0.0, 1.0, 2.0, None, math.nan])
keys = st.sampled_from(["a", "b", None])
events = st.lists(st.tuples(st.integers(0, 8), keys, values), max_size=6)
END = 1000
"""The second that stands for the end of the stream."""


def by_place(answers) -> dict:
    """What was answered, by query and the window's end, then by group: the value of each item. NULL is no value."""
    found: dict = {}
    for answer in answers:
        items = found.setdefault((answer.query, answer.window_end), {}).setdefault(answer.group, {})
        if answer.value is not None:
            items[answer.item] = "NaN" if answer.value != answer.value else answer.value
    return found


def ends_of(query: str, after: int, until: int):
    """The ends of a query's windows in (after, until], in microseconds."""
    length, slide = WINDOWS[query]
    return [end * US for end in range(after + 1, until + 1) if (end - length) % slide == 0]


def follow(state: dict, report: dict) -> None:
    """Take a report of one window into what is known of a query; each row of it must be new."""
    for group, items in report.items():
        assert items != state.get(group, {}), "a row repeats what is known"
        state[group] = items


def shown(groups: dict) -> dict:
    return {group: items for group, items in groups.items() if items}


def advanced(engine: panewise.Engine, second: int, workload: panewise.Workload, **options) -> dict:
    watermark = panewise.END_OF_STREAM if second == END else second * US
    return by_place(to_answers(engine.advance("s", watermark, **options), workload))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(events, st.integers(0, 25), st.booleans()), max_size=8), st.booleans())
def test_following_the_changes_gives_every_answer(steps, ends) -> None:
    workload = panewise.read(STREAM + TEXT)
    all_of_them, only_changed = panewise.Engine(workload), panewise.Engine(workload)
    now = 0
    held: dict = {query: {} for query in WINDOWS}
    is_followed = False
    for some, more, ask_all in [*steps, *([([], END, False)] if ends else [])]:
        rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
        for engine in (all_of_them, only_changed):
            engine.push("s", as_table(workload.streams["s"], rows))
        before, now = now, min(now + more, END)
        everything = advanced(all_of_them, now, workload)
        asks_all = ask_all and is_followed
        changes = advanced(only_changed, now, workload, changed_only=not asks_all)
        if asks_all:
            # Asking for all answers in between changes nothing of what is reported as changed later.
            assert changes == everything
        is_followed = True
        for query, state in held.items():
            for end in ends_of(query, before, now):
                expected = shown(everything.get((query, end), {}))
                if asks_all:
                    held[query] = state = dict(expected)
                else:
                    follow(state, changes.get((query, end), {}))
                assert shown(state) == expected


CORRECT = 5
late_events = st.lists(st.tuples(st.integers(-9, 6), keys, values), max_size=6)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(late_events, st.integers(0, 7)), max_size=10))
def test_following_changes_and_corrections_gives_every_answer(steps) -> None:
    """Who keeps the reports of each group by the ends of windows knows the answer of each window: the last report."""
    workload = panewise.read(f"{STREAM} ON LATE CORRECT {CORRECT} SECONDS {TEXT}")
    engine = panewise.Engine(workload)
    reports: dict = {}
    was: dict = {}
    taken: list[dict] = []
    now, watermark = 0, None
    for some, more in steps:
        rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
        engine.push("s", as_table(workload.streams["s"], rows))
        taken += [row for row in rows if watermark is None or row["t"] >= watermark - CORRECT * US]
        before, now = now, now + more
        watermark = now * US
        told = advanced(engine, now, workload, changed_only=True)
        expected = by_place(
            answer
            for query in workload.queries.values()
            for answer in oracle.closed_answers(query, "t", taken, watermark)
        )
        for (query, end), report in sorted(told.items()):
            slide = WINDOWS[query][1] * US
            for group, items in report.items():
                known = reports.setdefault((query, group), {})
                if end > before * US:
                    assert items != at(known, end), "a row repeats what is known"
                else:
                    # It was corrected, or it was left out for the answer of the window before, which was corrected.
                    assert any(
                        expected.get((query, place), {}).get(group, {}) != was.get((query, place), {}).get(group, {})
                        for place in (end, end - slide)
                    )
                known[end] = items
        was = expected
        for query in WINDOWS:
            for end in ends_of(query, -20, now):
                known = {group: at(known, end) for (name, group), known in reports.items() if name == query}
                assert shown(known) == shown(expected.get((query, end), {})), (query, end)


def at(reports: dict, end: int) -> dict:
    """The last report up to a window's end."""
    return reports[max(earlier)] if (earlier := [time for time in reports if time <= end]) else {}


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.lists(st.tuples(keys, values), max_size=5), st.booleans()), max_size=8), st.booleans())
def test_windows_over_rows_are_followed_too(steps, ends) -> None:
    workload = panewise.read(
        f"""{STREAM};
        CREATE QUERY r AS SELECT k, SUM(x) FROM s [ROWS 3 SLIDE 2] GROUP BY k HAVING COUNT(*) > 1;
        CREATE QUERY q AS SELECT MAX(x) FROM s [ROWS 2 SLIDE 1];"""
    )
    all_of_them, only_changed = panewise.Engine(workload), panewise.Engine(workload)
    now = 0
    held: dict = {"r": {}, "q": {}}
    for some, moves in [*steps, *([([], True)] if ends else [])]:
        # Each row has a time of its own, so that windows are told apart by their ends.
        rows = [{"t": (now + place) * US, "k": k, "x": x} for place, (k, x) in enumerate(some)]
        now += len(rows)
        for engine in (all_of_them, only_changed):
            engine.push("s", as_table(workload.streams["s"], rows))
        if not moves:
            continue
        everything = advanced(all_of_them, now, workload)
        changes = advanced(only_changed, now, workload, changed_only=True)
        for query, state in held.items():
            length, slide = {"r": (3, 2), "q": (2, 1)}[query]
            ends_us = {end for name, end in (*everything, *changes) if name == query}
            assert all(end // US % slide == (length - 1) % slide for end in ends_us)
            for end in sorted(ends_us):
                follow(state, changes.get((query, end), {}))
                assert shown(state) == shown(everything.get((query, end), {}))


def test_the_end_of_the_stream_withdraws_what_a_late_watermark_would() -> None:
    text = f"{STREAM}; CREATE QUERY q AS SELECT k, MAX(x) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k;"
    told = []
    for watermark in (100 * US, panewise.END_OF_STREAM):
        engine = panewise.Engine(text)
        engine.push("s", {"t": [0, 20 * US], "k": ["a", "b"], "x": [1.0, 1.0]})
        rows = engine.advance("s", watermark, changed_only=True).long().to_pylist()
        told.append(sorted((row["window_start"].second, row["k"], row["value"] or 0) for row in rows))
        assert engine.advance("s", watermark, changed_only=True).long().num_rows == 0
    assert told[0] == told[1] == [(0, "a", 1.0), (5, "a", 0), (20, "b", 1.0), (25, "b", 0)]


def test_aggregates_of_having_are_no_answers() -> None:
    engine = panewise.Engine(
        f"{STREAM}; CREATE QUERY q AS SELECT k, MAX(x) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] "
        "GROUP BY k HAVING COUNT(*) > 0;"
    )
    times = np.array([0, 5, 6, 10, 11, 12]) * US
    engine.push("s", {"t": times, "k": ["a"] * 6, "x": [7.0] * 6})
    rows = engine.advance("s", 15 * US, changed_only=True).long().to_pylist()
    assert [(row["window_start"].second, row["value"]) for row in rows] == [(0, 7.0)]


@pytest.mark.parametrize("aggregate", ["APPROX_COUNT_DISTINCT(x)", "APPROX_QUANTILE(x, 0.5)"])
def test_bounds_are_part_of_an_answer(aggregate: str) -> None:
    text = f"{STREAM}; CREATE QUERY q AS SELECT {aggregate} FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS];"
    engine = panewise.Engine(text)
    few, many = np.arange(3.0), np.linspace(-1000, 1002, 5000)
    for start, some in ((0, few), (5, few), (10, many), (15, few)):
        engine.push("s", {"t": np.full(len(some), start * US), "k": ["a"] * len(some), "x": some})
    rows = engine.advance("s", 20 * US, changed_only=True).long().to_pylist()
    assert [row["window_start"].second for row in rows] == [0, 10, 15]


def test_a_quiet_stream_reports_nothing_and_a_group_that_is_gone_once() -> None:
    engine = panewise.Engine(panewise.read((STREAM + TEXT).split("CREATE QUERY b")[0]))
    engine.push("s", {"t": np.arange(0, 40) * US, "k": ["a"] * 40, "x": np.ones(40)})
    first = engine.advance("s", 20 * US, changed_only=True).long()
    # COUNT(*) grows with the first windows, and stays.
    assert first.column("window_end").to_pylist()[-1].second == 6
    assert engine.advance("s", 40 * US, changed_only=True).long().num_rows == 0
    gone = engine.advance("s", 60 * US, changed_only=True).long().to_pylist()
    assert [row["value"] for row in gone if row["aggregate"] == "COUNT(*)"] == [4.0, 2.0, None]
    assert engine.advance("s", 80 * US, changed_only=True).long().num_rows == 0
    restored = panewise.Engine.restore(engine.snapshot())
    restored.push("s", {"t": [81 * US], "k": ["a"], "x": [1.0]})
    assert restored.advance("s", 82 * US, changed_only=True).long().num_rows == 2
