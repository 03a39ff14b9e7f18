"""Approximate aggregates in the engine: within the error stated beside each answer, and exact over a few values."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import lookup_rows, to_answer
from tests.thoroughness import examples

import panewise
from panewise import extras
from panewise.aggregates import sketches
from panewise.aggregates.components import Kind
from panewise.aggregates.sketches import lift
from panewise.engine import sketches as engine_sketches
from panewise.engine.sketches import column_of, combine_stretches, fold_sketches, from_arrow, to_arrow
from panewise.errors import StatementError
from panewise.language.workload import print_workload

MINUTE = 60_000_000
RANK_ERROR = 0.0133
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE, n BIGINT, u STRING) TIMESTAMP BY t;"
WORKLOAD = f"""{STREAM}
CREATE QUERY whole AS SELECT APPROX_QUANTILE(x, 0.9), APPROX_COUNT_DISTINCT(u), COUNT(x)
  FROM s [RANGE 20 MINUTES SLIDE 5 MINUTES];
CREATE QUERY grouped AS SELECT k, APPROX_QUANTILE(n, 0.5), APPROX_COUNT_DISTINCT(n), MAX(n)
  FROM s [RANGE 15 MINUTES SLIDE 2 MINUTES] WHERE n > 100 GROUP BY k;
CREATE QUERY now AS SELECT APPROX_QUANTILE(x, 0.1), APPROX_COUNT_DISTINCT(u) FROM s [RANGE 30 MINUTES];
CREATE QUERY rows AS SELECT APPROX_QUANTILE(x, 0.5) FROM s [ROWS 2000 SLIDE 700];
"""
TOP = f"""{STREAM}
CREATE QUERY whole AS SELECT APPROX_TOP_K(n, 3), COUNT(n) FROM s [RANGE 20 MINUTES SLIDE 5 MINUTES];
CREATE QUERY grouped AS SELECT k, APPROX_TOP_K(x, 2) AS most, APPROX_TOP_COUNT(u, 1)
  FROM s [RANGE 15 MINUTES SLIDE 2 MINUTES] WHERE n > 100 GROUP BY k HAVING APPROX_TOP_COUNT(n, 1) > 1;
CREATE QUERY now AS SELECT APPROX_TOP_K(n, 2) AS top FROM s [RANGE 30 MINUTES];
CREATE QUERY rows AS SELECT APPROX_TOP_ITEM(x, 1), APPROX_TOP_COUNT(x, 1) FROM s [ROWS 2000 SLIDE 700];
"""


def some_events(count: int, seed: int = 1) -> pa.Table:
    random = np.random.default_rng(seed)
    x = np.round(random.normal(size=count), 3)
    return pa.table(
        {
            "t": pa.array(np.sort(random.integers(0, 40 * MINUTE, count)), pa.timestamp("us", "UTC")),
            "k": pa.array(random.choice(["a", "b"], count)),
            "x": pa.array(x, mask=random.random(count) < 0.05),
            "n": pa.array(random.integers(0, 4000, count)),
            "u": pa.array([f"user {number}" for number in random.integers(0, 3000, count)]),
        }
    )


def plain(events: pa.Table) -> list[dict]:
    return events.set_column(0, "t", events.column("t").cast(pa.int64())).to_pylist()


def check(found: list[dict], workload: panewise.Workload, expected: list[oracle.Answer], events: list[dict]) -> None:
    """Every answer is present: approximate ones within three times the error, the others exact."""
    rows = {to_answer(row, workload)[:5]: row for row in found}
    assert rows.keys() == {answer[:5] for answer in expected}
    for answer in expected:
        row = rows[answer[:5]]
        assert row["low"] <= row["value"] <= row["high"]
        call = workload.queries[answer.query].select[answer.item].expression
        if call.function == "APPROX_COUNT_DISTINCT":
            assert abs(row["exact"] - answer.value) <= 0.1 * answer.value
            assert row["high"] - row["low"] <= 0.1 * answer.value
        elif call.function == "APPROX_QUANTILE":
            assert row["exact"] is None
            values = sorted(covered(workload.queries[answer.query], call.argument.name, answer, events))
            rank = max(1, int(call.parameter * len(values)))
            error = 3 * RANK_ERROR * len(values) + 1
            assert np.searchsorted(values, row["value"], "left") + 1 <= rank + error
            assert np.searchsorted(values, row["value"], "right") >= rank - error
        else:
            assert row["low"] == row["high"] == row["value"] == answer.value


def covered(query, name: str, answer: oracle.Answer, events: list[dict]) -> list[float]:
    """The values of a window and group."""
    start, end, group = answer.window_start, answer.window_end, dict(answer.group)
    # A sliding window over time has its start, others have their end.
    if query.name == "rows":
        inside = [event for event in events if start <= event["t"] <= end]
    elif query.window.is_sliding:
        inside = [event for event in events if start <= event["t"] < end]
    else:
        inside = [event for event in events if start < event["t"] <= end]
    return [
        event[name]
        for event in inside
        if event[name] is not None
        and all(event[key] == value for key, value in group.items())
        and (query.where is None or oracle.evaluate(query.where, event) is True)
    ]


def test_answers_are_within_the_error_stated() -> None:
    events = some_events(8000)
    engine = panewise.Engine(WORKLOAD)
    rows = plain(events)
    at = 0
    for stop in (900, 901, 5000, 8000):
        engine.push("s", events.slice(at, stop - at))
        at = stop
        if stop == 5000:
            engine = panewise.Engine.restore(engine.snapshot())
    looked = lookup_rows(engine.lookup("now"), engine.workload.queries["now"])
    now = rows[-1]["t"]
    workload = engine.workload
    check(looked, workload, oracle.lookup(workload.queries["now"], "t", rows, now), rows)
    watermark = 25 * MINUTE
    table = pa.concat_tables(
        [engine.advance("s", watermark).long(), engine.advance("s", panewise.END_OF_STREAM).long()]
    )
    expected = [
        answer
        for name in ("whole", "grouped", "rows")
        for answer in oracle.closed_answers(workload.queries[name], "t", rows, None)
    ]
    check(table.to_pylist(), workload, expected, rows)


def check_top(
    found: list[dict], workload: panewise.Workload, expected: list[oracle.Answer], events: list[dict]
) -> None:
    """Bounds always hold: for the exact answer, and for the count of the named value."""
    rows = {to_answer(row, workload)[:5]: row for row in found}
    assert rows.keys() == {answer[:5] for answer in expected}
    for answer in expected:
        row = rows[answer[:5]]
        query = workload.queries[answer.query]
        call = query.select[answer.item].expression
        assert row["value"] is None or row["low"] <= row["value"] <= row["high"]
        if call.function == "APPROX_TOP_COUNT" or row["low"] == row["high"]:
            assert row["low"] <= answer.value <= row["high"]
        if call.function == "APPROX_TOP_COUNT" and call.parameter == 1 and query.name != "grouped":
            item = rows[(*answer[:4], answer.item - 1)]
            values = covered(query, call.argument.name, answer, events)
            assert row["low"] <= values.count(item["value"]) <= row["high"]


def test_the_most_frequent_values_are_within_the_error_stated() -> None:
    events = some_events(8000)
    random = np.random.default_rng(9)
    skewed = pa.array(random.zipf(1.2, 8000) % 20_000)
    events = events.set_column(events.schema.get_field_index("n"), "n", skewed)
    events = events.set_column(events.schema.get_field_index("x"), "x", pa.array(np.sqrt(skewed)))
    answers = []
    for _ in range(2):
        engine = panewise.Engine(TOP)
        for low, high in ((0, 900), (900, 5000), (5000, 8000)):
            engine.push("s", events.slice(low, high - low))
            engine = panewise.Engine.restore(engine.snapshot())
        looked = engine.lookup("now")
        answers.append((looked, engine.advance("s", panewise.END_OF_STREAM).long()))
    # The same again: nothing is left to chance.
    assert answers[0][0].equals(answers[1][0])
    assert answers[0][1].equals(answers[1][1])
    rows, workload = plain(events), engine.workload
    looked = lookup_rows(answers[0][0], workload.queries["now"])
    check_top(looked, workload, oracle.lookup(workload.queries["now"], "t", rows, rows[-1]["t"]), rows)
    for name in ("whole", "rows"):
        table = answers[0][1].filter(pc.equal(answers[0][1].column("query"), name))
        check_top(table.to_pylist(), workload, oracle.closed_answers(workload.queries[name], "t", rows, None), rows)
    table = answers[0][1].filter(pc.equal(answers[0][1].column("query"), "grouped"))
    check_top(table.to_pylist(), workload, oracle.closed_answers(workload.queries["grouped"], "t", rows, None), rows)
    whole = answers[0][1].filter(pc.equal(answers[0][1].column("query"), "whole")).to_pylist()
    assert any(row["low"] < row["high"] for row in whole if row["aggregate"] == "APPROX_TOP_K(n, 3)[1] count")


def test_the_most_frequent_values_wide() -> None:
    engine = panewise.Engine(f"{STREAM} CREATE QUERY q AS SELECT APPROX_TOP_K(t, 2) AS at FROM s [RANGE 1 HOUR]")
    engine.push("s", {"t": [7, 7, 9], "k": ["a"] * 3, "x": [0.0] * 3, "n": [1] * 3, "u": [None] * 3})
    (row,) = engine.lookup("q").to_pylist()
    shown = {name: value for name, value in row.items() if name.startswith("at") and not name.endswith(("low", "high"))}
    assert list(shown) == ["at[1]", "at[1] count", "at[2]", "at[2] count"]
    assert [getattr(value, "microsecond", value) for value in shown.values()] == [7, 2, 9, 1]


def test_the_most_frequent_values_of_some_groups() -> None:
    engine = panewise.Engine(
        f"{STREAM} CREATE QUERY q AS SELECT k, APPROX_TOP_K(x, 1) AS top FROM s [RANGE 1 HOUR] GROUP BY k"
    )
    engine.push("s", {"t": [9] * 3, "k": ["b", "a", "b"], "x": [3.0, 0.5, 3.0], "n": [1] * 3, "u": [None] * 3})
    found = engine.lookup_many("q", [("b",), ("z",), ("a",)])
    assert {name: values.tolist() for name, values in found.items()} == {
        "top[1]": [3.0, None, 0.5],
        "top[1] count": [2, None, 1],
    }
    assert engine.lookup_one("q", "b") == {"top[1]": 3.0, "top[1] count": 2}
    assert engine.lookup_one("q", "z") is None


def test_a_query_with_frequent_values_is_read_again_as_it_is_printed() -> None:
    workload = panewise.read(TOP)
    again = panewise.read(print_workload(workload))
    assert again.queries == workload.queries
    long = " + ".join(["n"] * 90)
    with pytest.raises(StatementError, match=r"the query written out makes [0-9,]+ characters"):
        panewise.read(f"{STREAM} CREATE QUERY q AS SELECT APPROX_TOP_K({long}, 100) FROM s [RANGE 1 HOUR]")


def test_wide_answers_are_typed_and_have_bounds() -> None:
    engine = panewise.Engine(WORKLOAD)
    engine.push("s", some_events(3000))
    table = engine.advance("s", panewise.END_OF_STREAM).tables["grouped"]
    assert [(field.name, str(field.type)) for field in table.schema][2:] == [
        ("k", "string"),
        ("APPROX_QUANTILE(n, 0.5)", "double"),
        ("APPROX_QUANTILE(n, 0.5) low", "double"),
        ("APPROX_QUANTILE(n, 0.5) high", "double"),
        ("APPROX_COUNT_DISTINCT(n)", "int64"),
        ("APPROX_COUNT_DISTINCT(n) low", "double"),
        ("APPROX_COUNT_DISTINCT(n) high", "double"),
        ("MAX(n)", "int64"),
    ]


def test_nothing_and_null() -> None:
    engine = panewise.Engine(WORKLOAD)
    query = engine.workload.queries["now"]
    quantile, count = lookup_rows(engine.lookup("now"), query)
    assert [quantile[name] for name in ("value", "low", "high")] == [None, None, None]
    assert [count[name] for name in ("exact", "low", "high")] == [0, 0.0, 0.0]
    engine.push("s", {"t": [1], "k": ["a"], "x": [None], "n": [200], "u": [None]})
    assert [row["exact"] for row in lookup_rows(engine.lookup("now"), query)] == [None, 0]
    answers = engine.advance("s", panewise.END_OF_STREAM).long()
    found = {row["aggregate"]: row["value"] for row in engine.advance("s", panewise.END_OF_STREAM).long().to_pylist()}
    assert not found
    first = {row["aggregate"]: (row["value"], row["low"]) for row in answers.to_pylist() if row["query"] == "whole"}
    assert first == {"APPROX_QUANTILE(x, 0.9)": (None, None), "APPROX_COUNT_DISTINCT(u)": (0, 0), "COUNT(x)": (0, 0)}


def test_having_compares_the_answer_given() -> None:
    engine = panewise.Engine(
        f"{STREAM} CREATE QUERY q AS SELECT k, COUNT(*) FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k "
        "HAVING APPROX_COUNT_DISTINCT(u) >= 2 AND APPROX_QUANTILE(n, 0.5) < 5"
    )
    engine.push("s", {"t": [0, 1, 2], "k": ["a", "a", "b"], "x": [0.0] * 3, "n": [1, 9, 1], "u": ["p", "q", "p"]})
    assert [row["k"] for row in engine.advance("s", panewise.END_OF_STREAM).long().to_pylist()] == ["a"]


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_folding_ranges_is_the_union_of_their_rows(data: st.DataObject) -> None:
    """Runs of ranges, as instances of one window over several keys, against unions of plain lists."""
    values: list[np.ndarray] = []
    low: list[int] = []
    high: list[int] = []
    for _ in range(data.draw(st.integers(1, 3))):
        first = len(values)
        sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
        values += [np.arange(size) + 10.0 * (first + place) for place, size in enumerate(sizes)]
        begin, end = first, first
        while data.draw(st.booleans()) or end == first:
            begin = data.draw(st.integers(begin, len(values) - 1))
            end = data.draw(st.integers(max(begin + 1, end), len(values)))
            low.append(begin)
            high.append(end)
    for kind in (Kind.QUANTILES, Kind.DISTINCT, Kind.FREQUENT):
        column = column_of([lift(kind, part) for part in values])
        if data.draw(st.booleans()):
            column = from_arrow(to_arrow(kind, column))
        folded = fold_sketches(kind, column, np.array(low, np.int64), np.array(high, np.int64))
        bounds = np.array([0, *sorted(set(low) - {0}), len(values)])
        combined = combine_stretches(kind, column, bounds)
        for found, begin, end in [*zip(folded, low, high), *zip(combined, bounds[:-1], bounds[1:])]:
            wanted = np.concatenate(values[begin:end])
            found = sketches.opened(kind, found)
            if not len(wanted):
                assert found is None
            elif kind is Kind.QUANTILES:
                assert found.n == len(wanted)
                ranks = [(place + 0.5) / len(wanted) for place in range(len(wanted))]
                assert found.get_quantiles(ranks, True) == sorted(wanted)
            elif kind is Kind.FREQUENT:
                assert found.total == len(wanted)
                assert sketches.doubles_of(found.ranking.words).tolist() == sorted(wanted)
            else:
                assert round(found.get_estimate()) == len(wanted)


def test_a_combine_is_done_a_constant_number_of_times() -> None:
    column = column_of([lift(Kind.QUANTILES, np.array([float(row)])) for row in range(1000)])
    low = np.arange(900)
    merged = 0
    real = engine_sketches.union

    def counted(kind, parts, **more):
        nonlocal merged
        parts = [part for part in parts if part is not None]
        merged += len(parts) - 1
        return real(kind, parts, **more)

    with patch.object(engine_sketches, "union", counted):
        fold_sketches(Kind.QUANTILES, column, low, low + 100)
    assert merged <= 2 * 1000 + 900


def test_a_store_keeps_bytes_until_they_are_needed() -> None:
    engine = panewise.Engine(
        f"{STREAM} CREATE QUERY q AS SELECT APPROX_QUANTILE(x, 0.5) FROM s [RANGE 9 HOURS SLIDE 1 HOUR]"
    )
    engine.push("s", some_events(500))
    (generation,) = engine._streams["s"].generations
    (state,) = generation.trees
    assert state.store.partials().schema.field("quantiles_0").type == pa.large_binary()
    assert {type(sketch) for run in state.store._runs for sketch in run.column("quantiles_0")} == {bytes}
    held = state.store.bytes_held
    assert 1000 < held < 10_000
    state.store.check_invariants()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(StatementError, match="APPROX_QUANTILE needs datasketches, which is not installed") as told:
        panewise.read(WORKLOAD)
    assert "pip install 'panewise[sketches]'" in str(told.value)
    assert "line 2, column" in str(told.value)


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        ("APPROX_QUANTILE(x)", "APPROX_QUANTILE takes two arguments, got 1"),
        ("APPROX_QUANTILE(x, 2)", "the second argument of APPROX_QUANTILE must be a number from 0 to 1"),
        ("APPROX_QUANTILE(u, 0.5)", "APPROX_QUANTILE needs BIGINT or DOUBLE, u is STRING"),
        ("APPROX_COUNT_DISTINCT(u, 1)", "APPROX_COUNT_DISTINCT takes one argument, got 2"),
        ("APPROX_TOP_K(x)", "APPROX_TOP_K takes two arguments, got 1"),
        ("APPROX_TOP_K(x, 0)", "the second argument of APPROX_TOP_K must be a whole number from 1 to 100"),
        ("APPROX_TOP_COUNT(x, 1.5)", "the second argument of APPROX_TOP_COUNT must be a whole number from 1 to 100"),
        (
            "APPROX_TOP_K(u, 3)",
            r"APPROX_TOP_K needs .*, u is STRING(.|\n)*the row query SELECT TOP_K\(u, 3\) gives such",
        ),
        ("APPROX_TOP_K(x, 3), APPROX_TOP_K(x, 3)", r"two SELECT items are called 'APPROX_TOP_K\(x, 3\)\[1\]'"),
        ("APPROX_TOP_K(x, 3) + 1", "APPROX_TOP_K stands for several values, and one is needed here"),
    ],
)
def test_mistakes_are_named(aggregate: str, message: str) -> None:
    with pytest.raises(StatementError, match=message):
        panewise.read(f"{STREAM} CREATE QUERY q AS SELECT {aggregate} FROM s [RANGE 1 HOUR]")


def test_having_takes_one_value() -> None:
    with pytest.raises(StatementError, match="APPROX_TOP_K stands for several values, and one is needed here"):
        panewise.read(f"{STREAM} CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 1 HOUR] HAVING APPROX_TOP_K(x, 2) > 3")


def test_structures_are_not_chosen_for_lookups() -> None:
    assert "lookups keep no structure of quantiles, which are sketches" in str(panewise.Engine(WORKLOAD).explain())
    with pytest.raises(panewise.PanewiseError, match="USING base_intervals cannot answer"):
        panewise.Engine(
            f"{STREAM} CREATE QUERY q AS SELECT APPROX_QUANTILE(x, 0.5) FROM s [RANGE 1 HOUR] USING base_intervals"
        )
