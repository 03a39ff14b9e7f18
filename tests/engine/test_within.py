"""WITHIN: intervals that contain the exact answer and are no wider than promised; otherwise exact answers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import lookup_rows, microseconds
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.engine.answers import answers_schema
from panewise.engine.event_log import EventLog
from panewise.engine.within import TimeGrams
from panewise.engine.within_column import RisingNumbers
from panewise.errors import HistoryError, PanewiseWarning
from panewise.language.model import Query
from panewise.language.printer import label_of

STREAM = "CREATE STREAM t (at TIMESTAMP, s STRING, v BIGINT, p DOUBLE) TIMESTAMP BY at WATERMARK 0 SECONDS;"
QUERIES = """
CREATE QUERY recent AS SELECT MAX(p), MIN(p), SUM(p) AS total, AVG(p), COUNT(p), COUNT(*)
  FROM t [RANGE 60 MICROSECONDS] WITHIN 0.5;
CREATE QUERY narrow AS SELECT SUM(p), AVG(v) FROM t [RANGE 25 MICROSECONDS] WITHIN 0.01;
CREATE QUERY before AS SELECT SUM(v), AVG(v), MAX(v)
  FROM t [RANGE BETWEEN 50 MICROSECONDS PRECEDING AND 10 MICROSECONDS PRECEDING] WHERE v > 0 WITHIN 30 PERCENT;
CREATE QUERY latest AS SELECT MIN(v), MAX(p), COUNT(v) FROM t [ROWS 90] WHERE s = 'a' WITHIN 0.4;
CREATE QUERY older AS SELECT SUM(v), MAX(v * p) FROM t [ROWS BETWEEN 70 PRECEDING AND 5 PRECEDING] WITHIN 0.4;
CREATE QUERY counts AS SELECT COUNT(*), COUNT(s) FROM t [ROWS 120] WHERE p > 0 WITHIN 0.1;
"""
PLAIN = STREAM + "".join(part.split(" WITHIN ")[0] + ";" for part in QUERIES.split(";")[:-1])


@pytest.fixture(autouse=True)
def many_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of these tests are small and their aggregates few: reading them, or structures, would be cheaper."""
    monkeypatch.setattr("panewise.planning.within._events", lambda query, rate: 10_000)
    monkeypatch.setattr("panewise.planning.structure_choice.structure_steps", lambda stream, query, rate: math.inf)


@st.composite
def batches(draw: st.DrawFn, clock: int) -> list[dict[str, Any]]:
    """Events about a time; mostly of one kind, so that the buckets must follow when the kind changes."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([0, 1, 3, 20, 70]))
    center, spread = draw(st.sampled_from([(0, 0), (0, 5), (100, 10), (-100, 3), (10**6, 1), (0, 10**9)]))
    nulls = draw(st.sampled_from([0.0, 0.3, 1.0]))
    odd = draw(st.sampled_from([0.0, 0.0, 0.0, 0.02]))
    rows = []
    for _ in range(size):
        v: int | None = center + int(random.integers(-spread, spread + 1))
        p: float | None = center + spread * float(random.normal())
        if random.random() < odd:
            p = float(random.choice([math.nan, math.inf, -math.inf]))
        v, p = (None if random.random() < nulls else value for value in (v, p))
        rows.append({"at": clock + int(random.integers(-3, 9)), "s": str(random.choice(["a", "b"])), "v": v, "p": p})
    return rows


def check(table: pa.Table, query: Query, expected: list[oracle.Answer]) -> None:
    """One row with every aggregate, with the promise of WITHIN kept."""
    assert query.within is not None
    assert table.num_rows == 1
    for row, answer in zip(lookup_rows(table, query), expected, strict=True):
        context = f"{query.name}: {row}, expected {answer.value!r}"
        assert row["aggregate"] == label_of(query.select[answer.item]), context
        assert microseconds(row["window_start"]) == answer.window_start, context
        assert microseconds(row["window_end"]) == answer.window_end, context
        low, high, value, exact = (row[name] for name in ("low", "high", "value", "exact"))
        if answer.value is None:
            assert low is high is value is exact is None, context
        elif low == high or math.isnan(low):
            assert oracle.same_value(value if exact is None else exact, answer.value, answer.scale), context
            assert oracle.same_value(low, value), context
            assert oracle.same_value(high, value), context
        else:
            assert exact is None, context
            # Rounding to the nearest double keeps order, so this also holds for the answer that is not rounded.
            assert low <= answer.value <= high, context
            assert low <= value <= high, context
            assert high - low <= query.within * max(abs(low), abs(high)), context


def grams(engine: panewise.Engine) -> TimeGrams:
    (state,) = engine._streams.values()
    return state.within


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_intervals_contain_the_answers_of_the_oracle(data: st.DataObject) -> None:
    workload = panewise.read(STREAM + QUERIES)
    assert all(plan.buckets is not None for plan in panewise.optimize(workload).within.values())
    (stream,) = workload.streams.values()
    engine, plain = panewise.Engine(workload), panewise.Engine(PLAIN)
    accepted: list[dict[str, Any]] = []
    clock, watermark = 1000, -1
    for _ in range(data.draw(st.integers(1, 7))):
        clock += data.draw(st.integers(0, 40))
        batch = data.draw(batches(clock))
        for each in (engine, plain):
            each.push("t", as_table(stream, batch))
        accepted += [row for row in batch if row["at"] >= watermark]
        if data.draw(st.booleans(), label="advance"):
            watermark = max(watermark, clock - data.draw(st.integers(-5, 4)))
            for each in (engine, plain):
                each.advance("t", watermark)
        if data.draw(st.integers(0, 3), label="snapshot") == 0:
            engine = panewise.Engine.restore(engine.snapshot())
        at = max(watermark, clock) + data.draw(st.integers(-30, 12), label="at")
        for query in workload.queries.values():
            try:
                plain.lookup(query.name, at)
            except HistoryError:
                with pytest.raises(HistoryError):
                    engine.lookup(query.name, at)
                continue
            check(engine.lookup(query.name, at), query, oracle.lookup(query, "at", accepted, at))
        grams(engine).check_invariants()


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_queries_come_and_go(data: st.DataObject) -> None:
    """Beside queries that stay and so keep the events from the beginning."""
    workload = panewise.read(STREAM + QUERIES)
    (stream,) = workload.streams.values()
    texts = {text.split()[2]: f"{text};" for text in QUERIES.split(";")[:-1]}
    engine = panewise.Engine(
        STREAM + "CREATE QUERY keeps AS SELECT MAX(v) FROM t [RANGE 1 SECOND]; CREATE QUERY rows AS "
        "SELECT MAX(v) FROM t [ROWS 1000];"
    )
    accepted: list[dict[str, Any]] = []
    clock = 1000
    for _ in range(data.draw(st.integers(1, 6))):
        batch = data.draw(batches(clock))
        engine.push("t", as_table(stream, batch))
        accepted += batch
        engine.advance("t", clock - 5)  # nothing that comes is late
        clock += data.draw(st.integers(0, 40))
        for name in data.draw(st.sets(st.sampled_from(sorted(texts)), max_size=3)):
            if name in engine.workload.queries:
                engine.remove(name)
            else:
                engine.add(texts[name])
        for name in engine.workload.queries.keys() & texts.keys():
            query = workload.queries[name]
            check(engine.lookup(name, clock), query, oracle.lookup(query, "at", accepted, clock))
        grams(engine).check_invariants()
    for name in engine.workload.queries.keys() & texts.keys():
        engine.remove(name)
    assert not grams(engine)._columns


def values(count: int, low: float = 50.0, high: float = 150.0) -> dict[str, Any]:
    """Events a microsecond apart from 1 on."""
    random = np.random.default_rng(7)
    return {
        "at": np.arange(1, count + 1).astype("datetime64[us]"),
        "s": ["a"] * count,
        "v": random.integers(int(low), int(high), count),
        "p": random.uniform(low, high, count),
    }


def engine_of(query: str, events: dict[str, Any] | None = None, until: int | None = None) -> panewise.Engine:
    """An engine with one query q, and events; those before a time are final."""
    engine = panewise.Engine(f"{STREAM} CREATE QUERY q AS SELECT {query};")
    if events is not None:
        engine.push("t", events)
        engine.advance("t", len(events["at"]) + 1 if until is None else until)
    return engine


def rows_of(engine: panewise.Engine, at: int | None = None) -> dict[str, dict[str, Any]]:
    found = lookup_rows(engine.lookup("q", at), engine.workload.queries["q"])
    return {row["aggregate"]: row for row in found}


def test_final_events_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    events = values(5000)
    engine = engine_of("SUM(p), MAX(p), AVG(v), COUNT(*) FROM t [RANGE 4000 MICROSECONDS] WITHIN 0.05", events, 4996)
    monkeypatch.setattr(EventLog, "covered", lambda *_: pytest.fail("the events of the window were read"))
    rows = rows_of(engine, 4998)
    inside = slice(998, 4998)
    total, mean = math.fsum(events["p"][inside]), events["v"][inside].mean()
    assert rows["SUM(p)"]["low"] < total < rows["SUM(p)"]["high"]
    assert rows["SUM(p)"]["value"] == pytest.approx((rows["SUM(p)"]["low"] + rows["SUM(p)"]["high"]) / 2)
    assert rows["SUM(p)"]["exact"] is None
    assert rows["MAX(p)"]["low"] <= events["p"][inside].max() <= rows["MAX(p)"]["high"]
    assert rows["AVG(v)"]["low"] <= mean <= rows["AVG(v)"]["high"]
    assert rows["COUNT(*)"]["exact"] == rows["COUNT(*)"]["low"] == rows["COUNT(*)"]["high"] == 4000
    assert grams(engine).statistics["within_intervals"] == 1


def test_an_interval_that_is_too_wide_is_answered_exactly_and_buckets_grow() -> None:
    events = values(40)
    engine = engine_of("SUM(p), COUNT(*) FROM t [ROWS 30] WITHIN 0.001", events)
    engine.add("CREATE QUERY keeps AS SELECT COUNT(*) FROM t [ROWS 1000]")
    (column,) = [column for column in grams(engine)._columns.values() if column.buckets]
    before = column.buckets
    events["p"][:] = np.random.default_rng(3).uniform(-100, 100, 40)
    events["at"] = events["at"] + 40
    engine.push("t", events)
    engine.advance("t", 81)
    seen = []
    for _ in range(12):
        row = rows_of(engine)["SUM(p)"]
        assert row["low"] == row["high"] == row["value"] == pytest.approx(math.fsum(events["p"][10:]))
        seen.append(column.buckets)
    statistics = grams(engine).statistics
    assert statistics["within_too_wide"] == 12
    assert statistics["within_intervals"] == 0
    assert seen[0] == before
    assert seen[1] >= 2 * before
    assert seen[-1] == seen[-2] == 8_192  # and no further
    assert statistics["within_growths"] == len(set(seen)) - 1


def test_nan_and_infinities_are_read_while_they_are_in_the_window() -> None:
    events = values(300)
    events["p"][120] = math.nan
    events["p"][150] = math.inf
    engine = engine_of("MAX(p), SUM(p), COUNT(p) FROM t [RANGE 50 MICROSECONDS] WITHIN 0.2", events, 0)

    def at(time: int) -> dict[str, dict[str, Any]]:
        engine.advance("t", time)  # so that the event at that very time is pending
        return rows_of(engine, time)

    assert at(120)["SUM(p)"]["low"] < at(120)["SUM(p)"]["high"]
    assert math.isnan(at(121)["MAX(p)"]["low"])
    assert math.isnan(at(122)["MAX(p)"]["high"])
    assert at(170)["COUNT(p)"]["exact"] == 50
    assert at(171)["SUM(p)"]["low"] == math.inf
    assert at(200)["MAX(p)"]["value"] == math.inf
    assert at(201)["SUM(p)"]["low"] < at(201)["SUM(p)"]["high"]
    statistics = grams(engine).statistics
    assert (statistics["within_not_finite"], statistics["within_intervals"]) == (5, 4)


def test_counts_need_no_values() -> None:
    events = {"at": [1, 2, 3, 4], "s": ["a", None, "b", None], "v": [1, 2, 3, 4], "p": [1.0, math.nan, None, math.inf]}
    engine = engine_of("COUNT(*), COUNT(s), COUNT(p) FROM t [ROWS 3] WITHIN 0.1", events, 4)
    assert {name: row["exact"] for name, row in rows_of(engine).items()} == {
        "COUNT(*)": 3,
        "COUNT(s)": 1,
        "COUNT(p)": 2,
    }
    assert grams(engine).statistics["within_intervals"] == 1


@pytest.mark.parametrize("is_gram", [True, False])
def test_large_integers_are_rounded_outwards(is_gram: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_gram:
        monkeypatch.setattr("panewise.planning.within._events", lambda query, rate: 1)
    events = {"at": [1, 2, 3], "s": ["a"] * 3, "v": [2**60 + 1] * 3, "p": [1.0] * 3}
    engine = engine_of("MAX(v), SUM(v), MIN(v) FROM t [ROWS 2] WITHIN 0.5", events)
    rows = rows_of(engine)
    assert grams(engine).statistics["within_intervals"] == is_gram
    for name, wanted in (("MAX(v)", 2**60 + 1), ("MIN(v)", 2**60 + 1), ("SUM(v)", 2**61 + 2)):
        row = rows[name]
        assert row["value"] == float(wanted)
        assert row["low"] <= wanted <= row["high"], "Python compares the integer as it is"
        assert row["low"] == math.nextafter(row["high"], -math.inf)
    assert engine.lookup_one("q") == {"MAX(v)": 2**60 + 1, "SUM(v)": 2**61 + 2, "MIN(v)": 2**60 + 1}


def test_the_mean_of_large_integers_is_rounded_outwards() -> None:
    events = {"at": [1, 2, 3], "s": ["a"] * 3, "v": [2**60 + 1] * 3, "p": [1.0] * 3}
    row = rows_of(engine_of("AVG(v) FROM t [ROWS 2] WITHIN 0.5", events))["AVG(v)"]
    assert row["low"] <= 2**60 + 1 <= row["high"]
    assert row["low"] < row["high"]


def test_a_sum_beyond_bigint_is_null() -> None:
    events = {"at": [1, 2, 3], "s": ["a"] * 3, "v": [2**62, 2**62, 2**62], "p": [1.0] * 3}
    engine = engine_of("SUM(v) FROM t [ROWS 2] WITHIN 0.5", events)
    found = rows_of(engine)["SUM(v)"]
    assert [found[name] for name in ("value", "exact", "low", "high")] == [None] * 4
    assert engine.statistics()["streams"]["t"]["overflown_answers"] == {"q": 1}
    assert rows_of(engine, 1)["SUM(v)"]["exact"] == 2**62


def test_doubles_beyond_the_largest_are_read() -> None:
    events = {"at": [1, 2, 3], "s": ["a"] * 3, "v": [1, 2, 3], "p": [1.7e308, 1.7e308, -1e308]}
    engine = engine_of("SUM(p), MAX(p) FROM t [ROWS 2] WITHIN 0.5", events, 3)
    assert rows_of(engine, 2)["SUM(p)"]["low"] == math.inf
    assert rows_of(engine, 3)["SUM(p)"]["value"] == pytest.approx(0.7e308)


def test_a_timegram_that_cannot_hold_its_events_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise panewise.PanewiseError("a TimeGram holds fewer than so many elements")

    monkeypatch.setattr("panewise.engine.within_column.TimeGram.update", full)
    with pytest.warns(PanewiseWarning, match="answered exactly from now on: a TimeGram holds fewer"):
        engine = engine_of("SUM(v), COUNT(v) FROM t [ROWS 5] WITHIN 0.5", values(20))
    rows = rows_of(engine)
    assert rows["SUM(v)"]["exact"] == values(20)["v"][15:].sum()
    assert rows["COUNT(v)"]["exact"] == 5
    assert grams(engine).statistics["within_gave_up"] == 1


def test_before_the_first_event() -> None:
    rows = rows_of(engine_of("COUNT(*), MAX(p) FROM t [RANGE 1 SECOND] WITHIN 0.5"))
    assert rows["COUNT(*)"]["low"] == rows["COUNT(*)"]["exact"] == 0
    assert rows["MAX(p)"]["low"] is rows["MAX(p)"]["high"] is None


def test_queries_share_a_column() -> None:
    engine = panewise.Engine(STREAM)
    for name, rest in [("a", "[ROWS 50]"), ("b", "[RANGE 1 SECOND]"), ("c", "[ROWS 50] WHERE v > 1")]:
        engine.add(f"CREATE QUERY {name} AS SELECT MAX(p), AVG(p) FROM t {rest} WITHIN 0.1")
    assert len(grams(engine)._columns) == 2
    engine.remove("b")
    assert len(grams(engine)._columns) == 2
    engine.remove("c")
    engine.remove("a")
    assert not grams(engine)._columns


def test_a_query_that_is_added_later_sees_rows_without_gaps_only() -> None:
    """Old rows of a rare substream are held, and the rows in between are not."""
    kept = "CREATE QUERY kept AS SELECT s, MAX(v) FROM t [PARTITION BY s ROWS 10] GROUP BY s;"
    events = values(100)
    events["s"] = ["rare"] * 8 + ["often"] * 92
    engine = panewise.Engine(STREAM + kept)
    engine.push("t", events)
    engine.advance("t", 101)
    engine.add("CREATE QUERY q AS SELECT COUNT(*), MIN(v) FROM t [ROWS 50] WITHIN 0.1")
    rows = rows_of(engine)
    assert rows["COUNT(*)"]["exact"] == 10
    assert rows["MIN(v)"]["low"] <= events["v"][90:].min() <= rows["MIN(v)"]["high"]


def test_spark_has_the_same_columns() -> None:
    unpacking = pytest.importorskip("panewise.spark.unpack")
    queries = STREAM + "CREATE QUERY a AS SELECT s, MAX(p) FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY s"
    for workload in (panewise.read(queries), panewise.read(queries + " WITHIN 0.1")):
        assert unpacking.answers_type(answers_schema(workload)).names == answers_schema(workload).names


def columns_of(queries: str) -> list[str]:
    engine = panewise.Engine(STREAM + queries)
    return engine.advance("t", 5).long().column_names


def test_low_and_high_are_columns_if_some_query_has_within() -> None:
    plain = "CREATE QUERY a AS SELECT s, MAX(p) FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY s;"
    fixed = ["query", "window_start", "window_end", "s", "aggregate", "value", "exact"]
    assert columns_of(plain) == fixed
    engine = panewise.Engine(STREAM + plain)
    engine.add("CREATE QUERY b AS SELECT MAX(v), COUNT(*) FROM t [RANGE 2 SECONDS SLIDE 1 SECOND] WITHIN 0.1")
    engine.push("t", {"at": [1, 2], "s": ["x", "y"], "v": [3, None], "p": [1.5, None]})
    table = engine.advance("t", panewise.END_OF_STREAM).long()
    assert table.column_names == [*fixed, "low", "high"]
    assert table.num_rows == 6
    assert table.column("low").to_pylist() == table.column("high").to_pylist() == table.column("value").to_pylist()
    assert set(panewise.wide(table, engine.workload, "b").column_names) == {
        "window_start",
        "window_end",
        "MAX(v)",
        "COUNT(*)",
    }
    engine.remove("b")
    assert engine.advance("t", panewise.END_OF_STREAM).long().column_names == fixed


def test_attributes_called_low_and_high() -> None:
    stream = "CREATE STREAM t (at TIMESTAMP, low STRING, high STRING, p DOUBLE) TIMESTAMP BY at;"
    grouped = "CREATE QUERY g AS SELECT low, high, MAX(p) FROM t [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY low, high;"
    whole = "CREATE QUERY w AS SELECT MAX(p) FROM t [RANGE 1 SECOND SLIDE 1 SECOND]"
    engine = panewise.Engine(stream + grouped + whole)
    engine.push("t", {"at": [1], "low": ["a"], "high": ["b"], "p": [1.0]})
    rows = {row["query"]: row for row in engine.advance("t", panewise.END_OF_STREAM).long().to_pylist()}
    assert (rows["g"]["low"], rows["g"]["high"], rows["w"]["low"]) == ("a", "b", None)
    with pytest.raises(
        panewise.PanewiseError, match="groups by 'high', which is the name of a column of answers where a query"
    ):
        engine.add("CREATE QUERY n AS SELECT MAX(p) FROM t [ROWS 5] WITHIN 0.1")
    assert list(engine.workload.queries) == ["g", "w"]


def test_lookups_have_the_bounds_beside_the_value() -> None:
    engine = engine_of("SUM(v) AS total, COUNT(*), MAX(p) FROM t [ROWS 900] WITHIN 0.05", values(1000))
    table = engine.lookup("q")
    assert table.column_names[2:] == [
        "total", "total low", "total high", "COUNT(*)", "MAX(p)", "MAX(p) low", "MAX(p) high",
    ]  # fmt: skip
    assert table.schema.field("total").type == pa.float64()
    assert table.schema.field("COUNT(*)").type == pa.int64()
    (row,) = table.to_pylist()
    assert row["total low"] <= row["total"] <= row["total high"]
    with pytest.raises(panewise.PanewiseError, match="'a low' of a SELECT item hides another column"):
        engine_of('SUM(v) AS a, MAX(v) AS "a low" FROM t [ROWS 900] WITHIN 0.05')


def test_queries_that_read_their_events_have_equal_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panewise.planning.within._events", lambda query, rate: 1)
    engine = engine_of("SUM(p) FROM t [ROWS 900] WITHIN 0.05", values(1000))
    row = rows_of(engine)["SUM(p)"]
    assert row["low"] == row["high"] == row["value"]
    assert not any(grams(engine).statistics.values())


def test_rising_numbers_keep_their_places() -> None:
    numbers = RisingNumbers()
    numbers.append(np.arange(0, 300, 3))
    assert (numbers.place(0), numbers.place(4), numbers.place(10**9), numbers.between(3, 10)) == (0, 2, 100, 3)
    numbers.let_go_below(90)
    numbers.let_go_below(240)
    numbers.append(np.arange(300, 330, 3))
    assert (numbers.place(240), numbers.place(300), numbers.place(10**9)) == (80, 100, 110)
