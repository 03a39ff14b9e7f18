"""Windows in time zones, with summer time, agree with the oracle: closed, and in training sets."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.training.training_set import training_set

DAY_US = 86_400_000_000

# Clocks go back here in the night to 2024-10-27; in Beirut they go forward at midnight, in Samoa a day was skipped.
ORIGINS = {"Europe/Berlin": 1_729_728_000, "America/New_York": 1_709_942_400, "Pacific/Apia": 1_324_944_000}
ORIGINS |= {"Asia/Beirut": 1_711_584_000, "Australia/Lord_Howe": 1_711_843_200}


@st.composite
def zoned(draw):
    zone = draw(st.sampled_from(sorted(ORIGINS)))
    aligned = f"ALIGN TO TIME ZONE '{zone}'"
    workload = panewise.read(f"""
        CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
        CREATE QUERY day AS SELECT k, SUM(x), MAX(x) FROM s [RANGE 1 DAY SLIDE 1 DAY {aligned}] GROUP BY k;
        CREATE QUERY early AS SELECT k, COUNT(*) FROM s [RANGE 2 DAYS SLIDE 1 DAY OFFSET 6 HOURS {aligned}]
          GROUP BY k HAVING COUNT(*) > 1;
        CREATE QUERY rare AS SELECT SUM(x), MEDIAN(x) FROM s [RANGE 1 DAY SLIDE 2 DAYS OFFSET 1 DAY {aligned}];
        CREATE QUERY shifted AS SELECT k, COUNT(*) FROM s [RANGE 1 DAY SLIDE 12 HOURS OFFSET 90 MINUTES] GROUP BY k;
        CREATE QUERY own AS SELECT k, SUM(x) OVER [RANGE 2 DAYS] AS two, COUNT(*) AS one
          FROM s [RANGE 1 DAY SLIDE 1 DAY {aligned}] GROUP BY k HAVING one < 3 OR two > 0;
        CREATE QUERY grown AS SELECT k, SUM(x) FROM s [CUMULATE 1 DAY SLIDE 6 HOURS] GROUP BY k;
    """)
    half_hours = st.integers(-2 * 48, 8 * 48).map(lambda n: (ORIGINS[zone] + 1800 * n) * 1_000_000)
    event = st.fixed_dictionaries({"t": half_hours, "k": st.sampled_from("ab"), "x": st.integers(-5, 5)})
    return workload, draw(st.lists(event, min_size=1, max_size=40)), draw(st.lists(half_hours, max_size=6))


@settings(max_examples=examples(25), deadline=None)
@given(zoned())
def test_days_of_time_zones_agree_with_the_oracle(case) -> None:
    workload, rows, marks = case
    stream = workload.streams["s"]
    engine = panewise.Engine(workload)
    engine.push("s", as_table(stream, rows))
    watermark = None
    for mark in [*sorted(marks), panewise.END_OF_STREAM]:
        end = None if mark == panewise.END_OF_STREAM else mark
        expected = [
            answer
            for query in workload.queries.values()
            for answer in oracle.closed_answers(query, "t", rows, end, watermark)
        ]
        oracle.assert_same_answers(to_answers(engine.advance("s", mark), workload), expected)
        watermark = mark
        engine = panewise.Engine.restore(engine.snapshot())


@settings(max_examples=examples(10), deadline=None)
@given(zoned())
def test_labels_see_the_newest_day_that_had_closed(case) -> None:
    workload, rows, _ = case
    labels = as_table(workload.streams["s"], rows).select(["t", "k"])
    found = training_set(labels, as_table(workload.streams["s"], rows), workload, time="t", edge="at").to_pylist()
    for label, row in zip(rows, found, strict=True):
        seen = [event for event in rows if event["t"] <= label["t"]]
        newest: dict[str, object] = {}
        for answer in oracle.closed_answers(workload.queries["day"], "t", rows, max(event["t"] for event in seen)):
            closed = oracle.newest_end(workload.queries["day"].window, max(event["t"] for event in seen))
            if answer.window_end == closed and dict(answer.group)["k"] == label["k"]:
                newest[str(answer.item)] = answer.value
        assert row["day__SUM(x)"] == newest.get("1"), (label, row)
