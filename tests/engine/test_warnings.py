"""What is allowed but hardly meant: an engine says so once for each stream."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import panewise

US = 1_000_000
PARIS = timezone(timedelta(hours=1), "Paris")
MORNING = 1_357_016_400  # 2013-01-01 05:00:00 UTC
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING) TIMESTAMP BY t WATERMARK 10 SECONDS;
CREATE STREAM other (t TIMESTAMP) TIMESTAMP BY t;
CREATE QUERY hourly AS SELECT k, COUNT(*) FROM s [RANGE 1 HOUR SLIDE 1 HOUR] WHERE k <> 'x' GROUP BY k;
CREATE QUERY minutely AS SELECT COUNT(*) FROM s [RANGE 5 MINUTES SLIDE 1 MINUTE] HAVING COUNT(*) < 1000;
CREATE QUERY now AS SELECT COUNT(*) FROM s [RANGE 1 HOUR];
CREATE QUERY others AS SELECT COUNT(*) FROM other [ROWS 4 SLIDE 2];
"""


def push(engine: panewise.Engine, times: object, stream: str = "s") -> None:
    columns = {"t": times, "k": ["a"] * len(times)}  # type: ignore[arg-type]
    engine.push(stream, columns if stream == "s" else {"t": times})


def said(act, *arguments: object) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act(*arguments)
    return caught


# Times that look like a mistake

UNLIKELY = [
    ([MORNING, MORNING + 7], r"t is 1357016400 in row 0.*looks like seconds: declare .*TIMESTAMP\(s\), or multiply"),
    (np.array([MORNING * 1000 + 1]), r"looks like milliseconds: declare .*TIMESTAMP\(ms\)"),
    (pa.array([MORNING * US + 5, MORNING + 3]), "t is 1357016403 in row 1.*looks like seconds"),
    (pd.Series([MORNING + 1, MORNING + 2]), "looks like seconds"),
    ([datetime(2013, 1, 1), datetime(9999, 12, 31)], "t is 9999-12-31 00:00:00 in row 1, and 1 of 2 .* 1900 to 2200"),
    ([datetime(1, 1, 1)], "outside the years 1900 to 2200"),
    (["2250-01-01"], "outside the years 1900 to 2200"),
]
LIKELY = [
    [0, 5, 10 * US],
    [1_000 * US, 3_000 * US + 5_000],
    [MORNING * US],
    [-5 * US],
    [datetime(1970, 1, 1, 0, 20, 0, 7)],
    [],
]


@pytest.mark.parametrize(("times", "message"), UNLIKELY)
def test_times_that_cannot_be_meant_are_said_once_and_refused_if_strict(times: object, message: str) -> None:
    engine = panewise.Engine(TEXT)
    with pytest.warns(panewise.UnlikelyTimesWarning, match=message):
        push(engine, times)
    assert said(push, engine, times) == []
    engine.warn_again()
    assert [one.category for one in said(push, engine, times)] == [panewise.UnlikelyTimesWarning]
    strict = panewise.Engine(TEXT, strict=True)
    for one in (strict, panewise.Engine.restore(strict.snapshot())):
        with pytest.raises(panewise.UnlikelyTimesError, match=message):
            push(one, times)
        assert one.statistics()["streams"]["s"]["events"] == 0


@pytest.mark.parametrize("times", LIKELY)
def test_times_that_may_be_meant_are_taken_without_a_word(times: list[object]) -> None:
    assert said(push, panewise.Engine(TEXT, strict=True), times) == []


def test_a_stream_that_counts_from_the_epoch_passes_every_unit_without_a_word() -> None:
    engine = panewise.Engine(TEXT, strict=True)
    for time in (7, 700 * US + 1, MORNING + 1, MORNING * 1000 + 1):
        assert said(push, engine, [time]) == []
        engine.advance("s", time)
        engine.lookup("now", at=time)


def test_a_warning_points_to_whoever_pushed() -> None:
    (warning,) = said(push, panewise.Engine(TEXT), [MORNING + 1])
    assert warning.filename == __file__


@pytest.mark.parametrize("time", [MORNING + 1, MORNING * 1000 + 1, datetime(2500, 1, 1), "1850-01-01"])
def test_an_unlikely_watermark_or_time_of_a_lookup_is_said(time: object) -> None:
    for strict in (False, True):
        for method in ("advance", "lookup", "lookup_one"):
            engine = panewise.Engine(TEXT, strict=strict)
            push(engine, [MORNING * US])
            name = "s" if method == "advance" else "now"
            if strict:
                with pytest.raises(panewise.UnlikelyTimesError, match=r"the watermark is|`at` is"):
                    getattr(engine, method)(name, **{"watermark" if name == "s" else "at": time})
            else:
                with pytest.warns(panewise.UnlikelyTimesWarning, match=r"the watermark is|`at` is"):
                    getattr(engine, method)(name, **{"watermark" if name == "s" else "at": time})


@pytest.mark.parametrize("method", ["advance", "lookup"])
def test_a_watermark_or_a_time_in_nanoseconds_is_refused_with_the_cure(method: str) -> None:
    engine = panewise.Engine(TEXT)
    push(engine, [MORNING * US])
    with pytest.raises(panewise.TimeError, match=r"looks like nanoseconds: divide it by 1,000"):
        getattr(engine, method)("s" if method == "advance" else "now", MORNING * 1000 * US)


@pytest.mark.parametrize(
    ("unit", "times"),
    [
        ("s", [MORNING]),
        ("ms", np.array([MORNING * 1000])),
        ("us", [MORNING * US]),
        ("ns", pa.array([MORNING * 1000 * US + 999])),
        # A dtype has a unit of its own, which counts.
        ("ns", np.array([MORNING], "datetime64[s]")),
        ("s", pa.array([MORNING * 1000], pa.timestamp("ms"))),
        ("ms", ["2013-01-01 05:00:00"]),
    ],
)
def test_integers_have_the_declared_unit(unit: str, times: object) -> None:
    engine = panewise.Engine(TEXT.replace("s (t TIMESTAMP,", f"s (t TIMESTAMP({unit}),"), strict=True)
    push(engine, times)
    for one in (engine, panewise.Engine.restore(engine.snapshot())):
        assert one.lookup("now").column("window_end").to_pylist() == [datetime(2013, 1, 1, 5, tzinfo=UTC)]
        push(one, times)
        assert one.lookup_one("now") == {"COUNT(*)": 2}


def test_a_declared_unit_that_does_not_fit_is_refused_and_nanoseconds_round_down() -> None:
    seconds = panewise.Engine("CREATE STREAM s (t TIMESTAMP(s)) TIMESTAMP BY t;")
    with pytest.raises(panewise.EventsError, match=r"column 't'.*overflow"):
        seconds.push("s", {"t": [2**62]})
    fine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP(ns)) TIMESTAMP BY t; CREATE QUERY q AS SELECT MIN(t) FROM s [RANGE 1 HOUR];"
    )
    fine.push("s", {"t": [-1, 999]})
    assert fine.lookup_one("q") == {"MIN(t)": -1}


# Zones

IN_PARIS = pd.Series(pd.to_datetime(["2013-01-01 06:00"]).tz_localize("Europe/Paris"))


@pytest.mark.parametrize("zoned", [IN_PARIS, [datetime(2013, 1, 1, 6, tzinfo=PARIS)]])
@pytest.mark.parametrize("naive", [datetime(2013, 1, 1, 6), "2013-01-01 06:00", np.datetime64("2013-01-01T06")])
def test_a_watermark_without_a_zone_beside_events_in_one_is_said_once(zoned: object, naive: object) -> None:
    engine = panewise.Engine(TEXT)
    assert said(push, engine, zoned) == []
    with pytest.warns(
        panewise.MixedZonesWarning, match="the watermark came without a time zone.*the events' t came in"
    ):
        engine.advance("s", naive)
    assert panewise.MixedZonesWarning not in [one.category for one in said(engine.advance, "s", naive)]


def test_events_without_a_zone_beside_events_in_one_are_said() -> None:
    engine = panewise.Engine(TEXT)
    push(engine, IN_PARIS)
    with pytest.warns(panewise.MixedZonesWarning):
        push(engine, [datetime(2013, 1, 1, 6)])
    with pytest.warns(panewise.MixedZonesWarning):
        push(panewise.Engine(TEXT), [datetime(2013, 1, 1, 6), datetime(2013, 1, 1, 6, tzinfo=PARIS)])


def test_utc_beside_no_zone_is_the_same_and_not_worth_a_word() -> None:
    engine = panewise.Engine(TEXT)
    assert said(push, engine, [datetime(2013, 1, 1, 6, tzinfo=UTC)]) == []
    assert said(push, engine, [datetime(2013, 1, 1, 6)]) == []
    assert said(push, engine, pd.Series(pd.to_datetime(["2013-01-01 06:00"]).tz_localize("UTC"))) == []


# Late events, and events after the end


def test_a_push_that_is_late_as_a_whole_is_said_once() -> None:
    engine = panewise.Engine(TEXT)
    push(engine, [MORNING * US])
    engine.advance("s", MORNING * US)
    assert said(push, engine, [MORNING * US, (MORNING - 1) * US]) == []
    with pytest.warns(
        panewise.LateWarning,
        match="all 2 events of this push are late .* 2013-01-01 04:59:59, and the watermark stands at 2013-01-01 05:00",
    ):
        push(engine, [(MORNING - 1) * US, (MORNING - 9) * US])
    assert said(push, engine, [(MORNING - 1) * US]) == []
    assert engine.late_events("s") == 4


def test_late_events_that_correct_answers_are_not_lost() -> None:
    engine = panewise.Engine(TEXT.replace("WATERMARK 10 SECONDS", "ON LATE CORRECT 1 HOUR"))
    push(engine, [MORNING * US])
    engine.advance("s", MORNING * US)
    assert said(push, engine, [(MORNING - 1) * US]) == []


def test_a_push_after_the_end_is_said_once() -> None:
    engine = panewise.Engine(TEXT)
    push(engine, [MORNING * US])
    engine.advance("s", panewise.END_OF_STREAM)
    with pytest.warns(panewise.EndedWarning, match=r"stream s has ended.*make a new engine"):
        push(engine, [(MORNING + 60) * US])
    assert said(push, engine, [(MORNING + 61) * US]) == []


# Advances that close nothing


def test_an_advance_that_closes_nothing_says_why_once() -> None:
    engine = panewise.Engine(TEXT)
    with pytest.warns(panewise.NothingClosedWarning, match="no event of stream s was taken in"):
        engine.advance("s")
    assert said(engine.advance, "s") == []
    engine = panewise.Engine(TEXT)
    push(engine, [MORNING * US, (MORNING + 20) * US])
    with pytest.warns(
        panewise.NothingClosedWarning,
        match="stands at 2013-01-01 05:00:10, the WATERMARK delay of 10 SECONDS behind the newest event, and the next "
        "window, of query minutely, ends at 2013-01-01 05:01:00",
    ):
        engine.advance("s")
    assert engine.advance("s", (MORNING + 60) * US).num_rows == 1
    engine.warn_again()
    assert said(engine.advance, "s", (MORNING + 61) * US) == [], "it gave answers before"


def test_windows_whose_events_do_not_pass_where_are_said() -> None:
    engine = panewise.Engine(TEXT)
    engine.remove("minutely")
    engine.push("s", {"t": [MORNING * US], "k": ["x"]})
    with pytest.warns(panewise.NothingClosedWarning, match="windows ended, but no event passed WHERE"):
        engine.advance("s", panewise.END_OF_STREAM)


@pytest.mark.parametrize("advance", ["advance", "closing"])
def test_windows_that_closed_are_not_said_whatever_having_says(advance: str) -> None:
    engine = panewise.Engine(TEXT.replace("COUNT(*) < 1000", "COUNT(*) < 0"))
    push(engine, [MORNING * US])
    act = {"advance": engine.advance, "closing": lambda *to: list(engine.closing(*to))}[advance]
    assert said(act, "s", (MORNING + 61) * US) == []
    assert said(engine.advance, "s", (MORNING + 3600) * US) == []


def test_windows_that_a_query_did_not_see_whole_are_said_though_having_would_leave_them_out() -> None:
    engine = panewise.Engine("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;")
    engine.push("s", {"t": [90 * US]})
    engine.add("CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 60 SECONDS SLIDE 60 SECONDS] HAVING COUNT(*) > 9;")
    engine.push("s", {"t": [95 * US]})
    with pytest.warns(panewise.NothingClosedWarning, match="a query came too late to see a whole window"):
        engine.advance("s", 120 * US)


def test_without_a_sliding_query_an_advance_is_silent() -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t; CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 1 HOUR];"
    )
    assert said(engine.advance, "s") == []
    assert "no query of aggregates that slides" in engine.next_closing("s").why


def test_the_next_closing_is_where_the_first_answer_comes() -> None:
    engine = panewise.Engine(TEXT)
    assert engine.next_closing("s").query is None
    assert "no event of stream s" in str(engine.next_closing("s"))
    push(engine, [(MORNING + second) * US for second in (0, 20, 200, 4000)])
    for _ in range(70):
        upcoming = engine.next_closing("s")
        assert upcoming.end_us is not None
        assert engine.advance("s", upcoming.end_us - 1).num_rows == 0
        answers = engine.advance("s", upcoming.end_us)
        if answers.num_rows:
            assert upcoming.query in answers.long().column("query").to_pylist()
            assert set(answers.long().column("window_end").cast(pa.int64()).to_pylist()) == {upcoming.end_us}
    engine.advance("s", panewise.END_OF_STREAM)
    assert engine.next_closing("s").query is None
    assert "has ended" in engine.next_closing("s").why


def test_the_next_closing_of_a_query_that_came_later_is_its_first_whole_window() -> None:
    engine = panewise.Engine("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;")
    engine.push("s", {"t": [90 * US]})
    engine.add("CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 60 SECONDS SLIDE 60 SECONDS];")
    engine.push("s", {"t": [130 * US]})
    assert engine.next_closing("s").end_us == 180 * US
    assert engine.advance("s", 179 * US).num_rows == 0
    assert engine.advance("s", 180 * US).num_rows == 1


def test_the_next_closing_of_rows_counts_rows() -> None:
    engine = panewise.Engine(TEXT)
    push(engine, [1, 2, 3], "other")
    assert engine.next_closing("other").rows == 2, "a window ends after two rows, and none is behind the watermark"
    assert engine.advance("other", 3).num_rows == 1
    assert (engine.next_closing("other").query, engine.next_closing("other").rows) == ("others", 2)
    few = panewise.Engine(TEXT)
    push(few, [1], "other")
    with pytest.warns(panewise.NothingClosedWarning, match="has ended, and query others needs 1 more events"):
        few.advance("other", panewise.END_OF_STREAM)
