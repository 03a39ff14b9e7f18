"""What users may give to an engine, and the error they get for anything else."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

import panewise
from panewise.windows.clock import FIRST_US, LAST_US

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t;
CREATE QUERY sliding AS SELECT k, COUNT(*) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] GROUP BY k;
CREATE QUERY total AS SELECT COUNT(*) FROM s [RANGE 5 SECONDS];
CREATE QUERY grouped AS SELECT k, SUM(x) FROM s [RANGE 5 SECONDS] GROUP BY k;
CREATE QUERY listed AS SELECT x FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] ORDER BY x;
"""


def engine_of() -> panewise.Engine:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [1, 2], "k": ["a", "b"], "x": [1.0, 2.0]})
    return engine


# Watermarks


@pytest.mark.parametrize("watermark", [0, -5, 7])
def test_advance_without_a_watermark_stays_where_it_is(watermark: int) -> None:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [-9 * US], "k": ["a"], "x": [1.0]})
    engine.advance("s", watermark)
    assert engine.advance("s").long().num_rows == 0
    engine.push("s", {"t": [watermark], "k": ["a"], "x": [1.0]})
    assert engine.late_events("s") == 0


@pytest.mark.parametrize(
    "watermark",
    [
        date(2013, 1, 2),
        datetime(2013, 1, 2),
        datetime(2013, 1, 2, 1, tzinfo=timezone(timedelta(hours=1))),
        pd.Timestamp("2013-01-02"),
        "2013-01-02",
        "2013-01-02T00:00:00Z",
        np.int64(1_357_084_800_000_000),
    ],
)
def test_a_time_is_given_in_any_form(watermark: object) -> None:
    engine = engine_of()
    engine.advance("s", watermark)
    engine.push("s", {"t": [1_357_084_800_000_000, 1_357_084_799_999_999], "k": ["a", "a"], "x": [1.0, 1.0]})
    assert engine.late_events("s") == 1
    assert engine.lookup("total", at=watermark).column("COUNT(*)").to_pylist() == [1]


@pytest.mark.parametrize("wrong", ["x", 1.5, b"1", True, pd.NaT, [1], "2013-13-01", object, timedelta(1)])
def test_what_is_no_time_is_refused(wrong: object) -> None:
    engine = engine_of()
    with pytest.raises(panewise.PanewiseError, match=r"the watermark is .*(ISO text|years 1 to 9999)"):
        engine.advance("s", wrong)
    for look in (engine.lookup, engine.lookup_one):
        with pytest.raises(panewise.PanewiseError, match="`at` is"):
            look("total", at=wrong)
    with pytest.raises(panewise.PanewiseError, match="`at` is"):
        engine.lookup_many("grouped", ["a"], at=wrong)


# The span of times

OUTSIDE = [LAST_US + 1, FIRST_US - 1, 2**63 - 1, -(2**63), 2**62, 1_700_000_000_000_000_000]


@pytest.mark.parametrize("outside", OUTSIDE)
def test_times_outside_the_span_are_refused(outside: int) -> None:
    engine = engine_of()
    with pytest.raises(
        panewise.PanewiseError, match=f"stream s: t is {outside} in row 1, and 2 of 3 .* years 1 to 9999 .*Before push"
    ):
        engine.push("s", {"t": [5, outside, outside], "k": ["a"] * 3, "x": [1.0] * 3})
    assert engine.lookup("total").column("COUNT(*)").to_pylist() == [2]
    with pytest.raises(panewise.PanewiseError, match=r"`at` is .*years 1 to 9999"):
        engine.lookup("total", at=outside)
    if outside != panewise.END_OF_STREAM:
        with pytest.raises(panewise.PanewiseError, match=r"the watermark is .*years 1 to 9999"):
            engine.advance("s", outside)


@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")
@pytest.mark.parametrize("time_us", [FIRST_US, LAST_US])
@pytest.mark.parametrize("length", ["5 SECONDS", f"{2**60} MICROSECONDS"])
def test_nothing_wraps_at_the_ends_of_the_span(time_us: int, length: str) -> None:
    engine = panewise.Engine(
        f"""CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t WATERMARK {length};
        CREATE QUERY sliding AS SELECT COUNT(*) FROM s [RANGE {length} SLIDE {length}];
        CREATE QUERY total AS SELECT COUNT(*) FROM s [RANGE {length}];
        CREATE QUERY listed AS SELECT x FROM s [RANGE {length} SLIDE {length}] ORDER BY x;"""
    )
    engine.push("s", {"t": [time_us], "k": ["a"], "x": [1.0]})
    assert engine.lookup("total").column("COUNT(*)").to_pylist() == [1]
    assert engine.lookup("total", at=time_us).column("COUNT(*)").to_pylist() == [1]
    engine.advance("s")
    closed = engine.advance("s", panewise.END_OF_STREAM).long()
    assert closed.column("exact").to_pylist() == [1]
    for table in (closed, engine.rows("listed")):
        start, end = (table.column(name).cast(pa.int64()).to_pylist()[0] for name in ("window_start", "window_end"))
        assert start <= time_us < end


# Events and keys

EVENTS = {"t": [1, 2], "k": ["a", "b"], "x": [1.0, 2.0]}
TWICE = pa.table([[1], ["a"], [1.0], ["b"]], names=["t", "k", "x", "k"])


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ({**EVENTS, "x": 5.0}, "column 'x' of type float"),
        ({**EVENTS, "k": "ab"}, "column 'k' of type str .* one value and not a list"),
        ({**EVENTS, "k": None}, "column 'k' of type NoneType"),
        ({**EVENTS, "k": ["a", "\ud800"]}, "column 'k' holds text that cannot be written as UTF-8"),
        ({**EVENTS, "k": ["a", b"b"]}, "column 'k'"),
        ({**EVENTS, "x": [[1.0], [2.0]]}, "column 'x'"),
        ({**EVENTS, "x": np.ones((2, 2))}, "column 'x'"),
        ({**EVENTS, "x": [1.0, object()]}, "column 'x'"),
        (TWICE, "the events have 2 columns 'k'"),
        (TWICE.to_batches()[0], "the events have 2 columns 'k'"),
        (pd.DataFrame([[1, "a", 1.0, "b"]], columns=["t", "k", "x", "k"]), "the events have 2 columns 'k'"),
        (pd.Series([1, 2]), "cannot read events from Series"),
        (pd.DataFrame({"t": [1, 2], "k": ["a", 5], "x": [1.0, 2.0]}), "column 'k'"),
        (None, "cannot read events from NoneType"),
        ([1, 2], "cannot read events from list"),
    ],
)
def test_events_that_do_not_fit_are_refused(events: object, message: str) -> None:
    engine = engine_of()
    with pytest.raises(panewise.PanewiseError, match=f"stream s: .*{message}"):
        engine.push("s", events)


def test_columns_that_no_attribute_needs_may_hold_anything() -> None:
    engine = engine_of()
    frame = pd.DataFrame({"t": [3], "k": ["c"], "x": [3.0], "odd": [object()]})
    engine.push("s", frame)
    engine.push("s", pa.table([[4], ["c"], [1.0], [1], [2]], names=["t", "k", "x", "other", "other"]))
    assert engine.lookup("total").column("COUNT(*)").to_pylist() == [4]


@pytest.mark.parametrize("keys", [["\ud800"], {"k": "\ud800"}, [("\ud800",)], [5], [object()], 5, None, {"z": 1}, [()]])
def test_keys_that_do_not_fit_are_refused(keys: object) -> None:
    engine = engine_of()
    with pytest.raises(panewise.PanewiseError):
        engine.lookup_many("grouped", keys)
    if keys is not None:
        with pytest.raises(panewise.PanewiseError):
            engine.lookup("grouped", keys=keys)
    for one in keys if isinstance(keys, list) else [keys]:
        with pytest.raises(panewise.PanewiseError):
            engine.lookup_one("grouped", one if one is not None else object())


def test_one_value_of_numpy_is_one_key() -> None:
    assert engine_of().lookup("grouped", keys={"k": np.array("a")}).num_rows == 1


@pytest.mark.parametrize("wrong", [None, 5, b"CREATE", [], object()])
def test_a_workload_and_statements_are_text(wrong: object) -> None:
    for read in (panewise.read, panewise.Engine):
        with pytest.raises(panewise.PanewiseError, match="a workload is read from a text"):
            read(wrong)
    with pytest.raises(panewise.PanewiseError, match="statements are given as text"):
        engine_of().add(wrong)
    with pytest.raises(panewise.PanewiseError, match="a stream is named by a text"):
        engine_of().advance(wrong)


# Whatever is given

NAMES = st.sampled_from(["s", "sliding", "total", "grouped", "listed", "none", ""])
ODD = st.one_of(
    NAMES,
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.dates(),
    st.datetimes(),
    st.just(datetime.min.replace(tzinfo=UTC)),
    st.sampled_from(
        [object(), object, pd.NaT, pd.NA, np.nan, np.datetime64("nat"), np.array(5), np.ones((2, 2)), len, "\ud800"]
    ),
    st.lists(st.one_of(st.integers(), st.text(max_size=2), st.none()), max_size=3),
    st.tuples(st.integers()),
    st.dictionaries(st.sampled_from(["t", "k", "x", 1]), st.lists(st.integers(), max_size=2), max_size=3),
    st.just(EVENTS),
    st.just(pa.table(EVENTS)),
)
METHODS = {
    "push": 2,
    "advance": 2,
    "closing": 2,
    "rows": 1,
    "lookup": 3,
    "lookup_one": 3,
    "lookup_many": 3,
    "lookup_at": 3,
    "add": 1,
    "remove": 1,
    "late_events": 1,
    "position": 1,
    "set_aside_events": 1,
    "exact_from": 1,
    "next_closing": 1,
    "restore": 1,
}


def test_every_public_method_is_called_with_odd_arguments() -> None:
    public = {name for name in dir(panewise.Engine) if not name.startswith("_")}
    # What makes files has odd arguments in test_outputs.py.
    others = {"workload", "plan", "statistics", "explain", "snapshot", "warn_again", "write"}
    assert public - METHODS.keys() == others, "these take no odd argument"


@pytest.mark.filterwarnings("ignore::panewise.PanewiseWarning")
@settings(max_examples=examples(400), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(METHODS)), st.lists(ODD, min_size=3, max_size=3)), max_size=5))
def test_only_errors_of_panewise_escape(calls) -> None:
    engine = engine_of()
    for name, arguments in calls:
        with suppress(panewise.PanewiseError):
            getattr(engine, name)(*arguments[: METHODS[name]])


@pytest.mark.filterwarnings("ignore::panewise.PanewiseWarning")
@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(sorted(METHODS)), NAMES, ODD, ODD)
def test_only_errors_of_panewise_escape_behind_a_right_name(method, name, second, third) -> None:
    engine = engine_of()
    with suppress(panewise.PanewiseError):
        getattr(engine, method)(*[name, second, third][: METHODS[method]])


@settings(max_examples=examples(200), deadline=None)
@given(ODD, ODD, ODD)
def test_only_errors_of_panewise_escape_from_making_an_engine(rate, groups, memory_limit) -> None:
    for options in ({"rate": rate}, {"groups": groups}, {"memory_limit": memory_limit}):
        with suppress(panewise.PanewiseError):
            panewise.Engine(TEXT, **options)


@pytest.mark.parametrize("watermark", [None, 1, 60 * US])
def test_after_the_end_of_the_stream_a_lookup_answers_at_the_last_time_known(watermark: int | None) -> None:
    engine = engine_of()
    if watermark is not None:
        engine.advance("s", watermark)
    before = engine.lookup("total")
    assert before.column("window_end").cast(pa.int64()).to_pylist() == [max(2, watermark or 0)]
    engine.advance("s", panewise.END_OF_STREAM)
    for ended in (engine, panewise.Engine.restore(engine.snapshot())):
        assert ended.lookup("total").equals(before)
        assert [ended.lookup_one("total")["COUNT(*)"]] == before.column("COUNT(*)").to_pylist()
