"""ON LATE CORRECT: late events correct what was reported, and following the corrections gives the true answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.engine.test_moving import MOVING, settings_of
from tests.thoroughness import examples

import panewise

US = 1_000_000
CORRECT = 5
TEXT = f"""
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t ON LATE CORRECT {CORRECT} SECONDS;
CREATE QUERY a AS SELECT COUNT(*), MAX(x) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 4 SECONDS SLIDE 3 SECONDS] WHERE x > 1 HAVING COUNT(*) < 3;
CREATE QUERY c AS SELECT MEDIAN(x) FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS];
CREATE QUERY d AS SELECT MAX(x) FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] GROUP BY k HAVING COUNT(*) > 2;
"""
events = st.lists(st.tuples(st.integers(-9, 6), st.sampled_from(["a", "b"]), st.integers(0, 4)), max_size=6)


def by_place(answers) -> dict:
    return {(a.query, a.window_start, a.group, a.item): a.value for a in answers}


STEPS = st.lists(st.tuples(events, st.integers(0, 4), st.booleans()), max_size=14)


@settings(max_examples=examples(50), deadline=None)
@given(STEPS)
def test_windows_that_move_are_corrected(steps) -> None:
    with settings_of(MOVING):
        check_what_was_reported_last(steps)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_what_was_reported_last_is_what_is_true(steps) -> None:
    check_what_was_reported_last(steps)


def check_what_was_reported_last(steps) -> None:
    workload = panewise.read(TEXT)
    engine = panewise.Engine(workload)
    taken: list[dict] = []
    reported: dict = {}
    now = dropped = 0
    watermark = None
    for some, more, save in steps:
        rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
        engine.push("s", as_table(workload.streams["s"], rows))
        kept = [row for row in rows if watermark is None or row["t"] >= watermark - CORRECT * US]
        dropped += len(rows) - len(kept)
        taken += kept
        if save:
            engine = panewise.Engine.restore(engine.snapshot())
        now += more
        watermark = now * US
        told = by_place(to_answers(engine.advance("s", watermark), workload))
        expected = by_place(
            answer
            for query in workload.queries.values()
            for answer in oracle.closed_answers(query, "t", taken, now * US)
        )
        assert windows_of(told) == differing(reported, expected), (
            "rows are reported that did not change, or are missing"
        )
        reported |= told
        assert shown(reported) == shown(expected)
    assert engine.late_events("s") == dropped


def shown(answers: dict) -> dict:
    return {place: value for place, value in answers.items() if value is not None}


def windows_of(answers: dict) -> set:
    """The windows and groups of some answers."""
    return {place[:3] for place in answers}


def differing(before: dict, after: dict) -> set:
    """The windows and groups of which some answer differs; one that is new is there even if all of it is NULL."""
    changed = {place for place in {*before, *after} if before.get(place) != after.get(place)}
    return windows_of(changed) | (windows_of(after) - windows_of(before))


def test_only_answers_that_a_late_event_touches_come_again() -> None:
    engine = panewise.Engine(panewise.read(TEXT))
    times = np.arange(12) * US
    engine.push("s", {"t": times, "k": ["a", "b"] * 6, "x": np.arange(12)})
    engine.advance("s", 12 * US)
    engine.push("s", {"t": [9 * US, 3 * US], "k": ["a", "a"], "x": [0, 50]})
    again = [row for row in engine.advance("s", 12 * US).long().to_pylist() if row["query"] == "a"]
    assert {row["k"] for row in again} == {"a"}
    assert sorted({row["window_start"].second for row in again}) == [4, 6]
    assert [row["value"] for row in again if row["aggregate"] == "COUNT(*)"] == [4.0, 4.0]
    assert engine.late_events("s") == 1
    assert engine.advance("s", 12 * US).long().num_rows == 0
    assert engine.statistics()["streams"]["s"]["correcting_events"] == 1


def test_changes_are_told_from_corrected_answers() -> None:
    engine = panewise.Engine(panewise.read(TEXT.split("CREATE QUERY b")[0]))
    engine.push("s", {"t": [1 * US, 3 * US], "k": ["a", "a"], "x": [1, 1]})
    engine.advance("s", 6 * US, changed_only=True)
    engine.push("s", {"t": [2 * US, 7 * US], "k": ["a", "a"], "x": [9, 0]})
    rows = engine.advance("s", 8 * US, changed_only=True).long().to_pylist()
    # The window from 0 is corrected, and the window from 2 has the same answers as the corrected one.
    assert [
        (row["window_start"].second, row["aggregate"], row["value"]) for row in rows if row["window_start"].second < 4
    ] == [
        (0, "COUNT(*)", 3.0),
        (0, "MAX(x)", 9.0),
    ]


def test_only_what_differs_is_corrected() -> None:
    text = TEXT.split("CREATE QUERY a")[0] + (
        "CREATE QUERY m AS SELECT MAX(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;"
        "CREATE QUERY h AS SELECT MAX(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k HAVING COUNT(*) > 5;"
    )
    engine = panewise.Engine(text)
    engine.push("s", {"t": [8 * US, 9 * US], "k": ["a", "b"], "x": [5, 5]})
    assert engine.advance("s", 10 * US).long().num_rows == 2
    # The MAX of a stays 5, that of b does not, and h never had an answer.
    engine.push("s", {"t": [8 * US, 9 * US], "k": ["a", "b"], "x": [3, 6]})
    rows = engine.advance("s", 10 * US).long().to_pylist()
    assert [(row["query"], row["k"], row["value"]) for row in rows] == [("m", "b", 6.0)]


def test_a_window_from_before_a_query_was_there_is_not_corrected() -> None:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [8 * US], "k": ["a"], "x": [5]})
    engine.advance("s", 12 * US)
    engine.add("CREATE QUERY more AS SELECT MAX(x) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;")
    engine = panewise.Engine.restore(engine.snapshot())
    engine.push("s", {"t": [9 * US], "k": ["a"], "x": [7]})
    rows = engine.advance("s", 14 * US).long().to_pylist()
    assert {row["window_end"].second for row in rows if row["query"] == "more"} == {14}
    assert {row["window_end"].second for row in rows if row["query"] == "a"} == {10, 12, 14}


def test_a_correction_that_failed_comes_when_the_query_is_gone() -> None:
    """Late events stay late until an advance has reported what they change."""
    text = TEXT.split("CREATE QUERY a")[0] + (
        "CREATE QUERY m AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;"
        "CREATE QUERY total AS SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k ON OVERFLOW ERROR;"
    )
    engine = panewise.Engine(text)
    engine.push("s", {"t": [8 * US], "k": ["a"], "x": [2**62]})
    engine.advance("s", 10 * US)
    engine.push("s", {"t": [9 * US], "k": ["a"], "x": [2**62]})
    for _ in range(2):
        with pytest.raises(panewise.PanewiseError, match="total"):
            engine.advance("s", 11 * US)
    engine = panewise.Engine.restore(engine.snapshot())
    engine.push("s", {"t": [9 * US], "k": ["a"], "x": [1]})
    engine.remove("total")
    rows = engine.advance("s", 11 * US).long().to_pylist()
    assert [(row["query"], row["value"]) for row in rows] == [("m", 3.0)]
