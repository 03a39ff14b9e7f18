"""Forms in which times and values may be given, and what is said of others."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panewise

TEXT = """
CREATE STREAM s (t TIMESTAMP, n BIGINT, x DOUBLE) TIMESTAMP BY t;
CREATE QUERY q AS SELECT COUNT(*) AS c, MIN(t) AS first, SUM(n) AS n, SUM(x) AS x FROM s [RANGE 1 DAY];
"""
NEW_YEAR_US = 1_356_998_400_000_000
FIVE_US = NEW_YEAR_US + 5 * 3_600_000_000
PARIS = timezone(timedelta(hours=1))


def answer(**columns: object) -> dict[str, object]:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [FIVE_US], "n": [1], "x": [1.0]} | columns)
    found = engine.lookup_one("q")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "time",
    [
        np.datetime64("2013-01-01T05"),
        np.datetime64("2013-01-01T05:00", "m"),
        np.datetime64("2013-01-01T05:00:00", "ns"),
        pa.scalar(FIVE_US, pa.timestamp("us")),
        pa.scalar(FIVE_US * 1000, pa.timestamp("ns", "UTC")),
        pa.scalar(FIVE_US),
        pd.Timestamp("2013-01-01 05:00"),
        pd.Timestamp("2013-01-01 06:00", tz="Europe/Paris"),
        "2013-01-01T05:00:00",
        "2013-01-01T06:00:00+01:00",
        "20130101T05",
        datetime(2013, 1, 1, 6, tzinfo=PARIS),
    ],
)
def test_a_watermark_in_any_form_of_time(time: object) -> None:
    engine = panewise.Engine(TEXT)
    engine.advance("s", time)
    engine.push("s", {"t": [FIVE_US - 1, FIVE_US], "n": [1, 1], "x": [1.0, 1.0]})
    assert engine.late_events("s") == 1


def test_a_date_of_numpy_is_the_beginning_of_its_day() -> None:
    engine = panewise.Engine(TEXT)
    for day in (np.datetime64("2013-01-01"), np.datetime64("2013-01", "M"), date(2013, 1, 1)):
        engine.advance("s", day)
    engine.push("s", {"t": [NEW_YEAR_US - 1, NEW_YEAR_US], "n": [1, 1], "x": [1.0, 1.0]})
    assert engine.late_events("s") == 1


@pytest.mark.parametrize("wrong", [np.datetime64("nat"), np.datetime64(2**62, "s"), 1.5, Decimal(1), pa.scalar(1.5)])
def test_what_is_no_time_says_what_would_be(wrong: object) -> None:
    with pytest.raises(panewise.TimeError, match=r"the watermark is .*NumPy, pandas or Polars"):
        panewise.Engine(TEXT).advance("s", wrong)


@pytest.mark.parametrize(
    "times",
    [
        ["2013-01-01 05:00:00"],
        ["2013-01-01T05:00:00Z"],
        ["2013-01-01T06:00:00+01:00"],
        ["20130101T050000"],
        ["2013-01-01T05:00:00.000000999"],
        pd.Series(["2013-01-01 05:00"], dtype="string"),
        pd.Series(["2013-01-01 05:00"], dtype="category"),
        pa.array(["2013-01-01 05:00"], pa.large_string()),
        [np.datetime64("2013-01-01T05")],
        np.array(["2013-01-01T05"], "datetime64[h]"),
        np.array(["2013-01-01T05"], "datetime64[ms]"),
        [pd.Timestamp("2013-01-01 05:00")],
        pd.Series([pd.Timestamp("2013-01-01 06:00", tz="Europe/Paris")], dtype=object),
        pd.to_datetime(["2013-01-01 05:00"]),
        [datetime(2013, 1, 1, 5, tzinfo=UTC)],
    ],
)
def test_events_with_times_in_any_form(times: object) -> None:
    assert answer(t=times)["first"] == FIVE_US


@pytest.mark.filterwarnings("ignore::panewise.MixedZonesWarning")
@pytest.mark.parametrize(
    "times",
    [
        ["2013-01-01T06:00:00+01:00", "2013-01-01 05:00"],
        [datetime(2013, 1, 1, 5), datetime(2013, 1, 1, 6, tzinfo=PARIS)],
    ],
)
def test_times_with_and_without_a_zone_in_one_column(times: list[object]) -> None:
    found = answer(t=times, n=[1, 1], x=[1.0, 1.0])
    assert (found["c"], found["first"]) == (2, FIVE_US)


def test_polars_times_and_frames() -> None:
    polars = pytest.importorskip("polars")
    times = polars.Series([datetime(2013, 1, 1, 5)])
    for column in (times, times.dt.replace_time_zone("UTC"), times.cast(polars.Datetime("ms"))):
        frame = polars.DataFrame({"t": column, "n": [True], "x": [1.0]})
        engine = panewise.Engine(TEXT)
        engine.push("s", frame)
        assert engine.lookup_one("q", at=frame["t"].max())["first"] == FIVE_US
        with pytest.raises(panewise.EventsError, match=r"Collect it first: frame\.collect\(\)"):
            engine.push("s", frame.lazy())


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([True], 1),
        (np.array([False]), 0),
        (pd.Series([True], dtype="boolean"), 1),
        ([Decimal("2.00")], 2),
        (pa.array([Decimal(3)]), 3),
        ([np.int8(5)], 5),
    ],
)
def test_booleans_and_decimals_fit_a_bigint(values: object, total: int) -> None:
    assert answer(n=values)["n"] == total


def test_decimals_fit_a_double() -> None:
    assert answer(x=[Decimal("1.25")])["x"] == 1.25


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (pd.Series([1]), "A Series is one column, or one row: give the DataFrame"),
        (pl.Series([1]), "A Series is one column, or one row: give the DataFrame"),
        (pd.DataFrame({"t": [1], "n": [1], "x": [1.0]}).iloc[0], r"frame\.iloc\[\[0\]\] for its first row"),
        ([{"t": 1, "n": 1, "x": 1.0}], r"pyarrow\.Table\.from_pylist\(events\)"),
        ({"t": [1.5], "n": [1], "x": [1.0]}, "Doubles are no exact times: make integers of them"),
        ({"t": ["noon"], "n": [1], "x": [1.0]}, "column 't'.*row 0 is 'noon', which is not a time"),
        ({"t": [1], "n": [Decimal("1.5")], "x": [1.0]}, "column 'n' of type decimal.* is not BIGINT"),
        ({"t": [1], "n": ["1"], "x": [1.0]}, "a numeric column is needed"),
        ({"t": [1_357_016_400 * 10**9], "n": [1], "x": [1.0]}, r"TIMESTAMP\(ns\), or divide them by 1,000"),
    ],
)
def test_other_forms_say_what_would_do(events: object, message: str) -> None:
    with pytest.raises(panewise.EventsError, match=message):
        panewise.Engine(TEXT).push("s", events)
