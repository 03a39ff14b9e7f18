from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.language.strategies import FINITE, INTEGERS, SHORT_TEXTS, TEXTS, Expressions
from tests.oracle import evaluate as evaluate_plainly
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.language.evaluate import evaluate
from panewise.language.expressions import AggregateCall, Attribute, Comparison, InList, Like, Literal, Logical
from panewise.language.reader import read

TYPES = {
    "flag": Type.BOOLEAN,
    "n": Type.BIGINT,
    "x": Type.DOUBLE,
    "y": Type.DOUBLE,
    "word": Type.STRING,
    "other": Type.STRING,
    "t": Type.TIMESTAMP,
}
ARROW = {
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.int64(),
}
DOUBLES = st.one_of(FINITE, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0]))
EVENTS = st.fixed_dictionaries(
    {
        "flag": st.none() | st.booleans(),
        "n": st.none() | INTEGERS,
        "x": st.none() | DOUBLES,
        "y": st.none() | DOUBLES,
        "word": st.none() | SHORT_TEXTS | TEXTS,
        "other": st.none() | SHORT_TEXTS,
        "t": st.none() | st.integers(-(10**15), 10**15),
    }
)
SLOW = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    return type(left) is type(right) and bool(left == right)


def columns_of(events: list[dict[str, Any]], encoding: str) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, kind in TYPES.items():
        column: Any = pa.array([event[name] for event in events], ARROW[kind])
        if kind is Type.STRING and encoding != "plain":
            column = column.dictionary_encode()
        if encoding == "chunked":
            half = len(events) // 2
            column = pa.chunked_array([column[:half], column[half:]])
        columns[name] = column
    return columns


@SLOW
@given(
    Expressions(TYPES).condition(3) | Expressions(TYPES).value(Type.DOUBLE, 3),
    st.lists(EVENTS, max_size=6),
    st.sampled_from(["plain", "dictionary", "chunked"]),
)
def test_agrees_with_plain_python(expression: Any, events: list[dict[str, Any]], encoding: str) -> None:
    values = evaluate(expression, columns_of(events, encoding), TYPES)
    assert isinstance(values, pa.Array)
    expected = [evaluate_plainly(expression, event) for event in events]
    assert len(values) == len(expected)
    assert all(same(got, want) for got, want in zip(values.to_pylist(), expected)), (values, expected)


@SLOW
@given(
    Expressions({"word": Type.STRING}).condition(3),
    st.lists(st.sampled_from(["a", "b", "%", None]), min_size=8, max_size=12),
)
def test_a_dictionary_gives_what_its_strings_give(expression: Any, words: list[str | None]) -> None:
    column = pa.array(words, pa.string())
    plain = evaluate(expression, {"word": column}, TYPES)
    assert evaluate(expression, {"word": column.dictionary_encode()}, TYPES).equals(plain)


def test_nan_is_one_value_above_all_numbers() -> None:
    x = pa.array([math.nan, 1.0, None, math.inf])
    y = pa.array([math.nan, math.nan, math.nan, 1.0])
    want = {
        "=": [True, False, None, False],
        "<>": [False, True, None, True],
        "<": [False, True, None, False],
        "<=": [True, True, None, False],
        ">": [False, False, None, True],
        ">=": [True, False, None, True],
    }
    for operator, expected in want.items():
        node = Comparison(operator, Attribute("x"), Attribute("y"))
        assert evaluate(node, {"x": x, "y": y}, TYPES).to_pylist() == expected


def test_integers_are_compared_exactly_and_with_doubles_as_doubles() -> None:
    n = pa.array([2**53, 2**53 + 1])
    exact = Comparison("=", Attribute("n"), Literal(2**53 + 1, Type.BIGINT))
    rounded = Comparison("=", Attribute("n"), Literal(float(2**53), Type.DOUBLE))
    assert evaluate(exact, {"n": n}, TYPES).to_pylist() == [False, True]
    assert evaluate(rounded, {"n": n}, TYPES).to_pylist() == [True, True]


def test_zeros_of_both_signs_are_equal() -> None:
    node = InList(Attribute("x"), (Literal(-0.0, Type.DOUBLE),))
    assert evaluate(node, {"x": pa.array([0.0, -0.0, 1.0])}, TYPES).to_pylist() == [True, True, False]


def test_like_takes_an_escaped_line_break_as_it_is() -> None:
    column = pa.array(["\n", "\nx", "x", None])
    found = evaluate(Like(Attribute("word"), "\\\n%", False), {"word": column}, TYPES)
    assert found.to_pylist() == [True, True, False, None]


def test_timestamps_of_arrow_are_taken_as_microseconds() -> None:
    node = Comparison(">=", Attribute("t"), Literal(2_000_000, Type.TIMESTAMP))
    column = pa.array([1, 2, None], pa.timestamp("s", "UTC"))
    assert evaluate(node, {"t": column}, TYPES).to_pylist() == [False, True, None]


def test_having_reads_aggregates_beside_keys() -> None:
    workload = read(
        "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT COUNT(*) FROM s [ROWS 5] GROUP BY k HAVING SUM(x) > 2 * COUNT(*) OR k = 'a'"
    )
    query = workload.queries["q"]
    assert query.having is not None
    total, count = AggregateCall("SUM", Attribute("x")), AggregateCall("COUNT_ALL")
    values = evaluate(
        query.having,
        {"k": pa.array(["a", "b", None, "b"]).dictionary_encode()},
        workload.streams["s"].attributes,
        {total: pa.array([1, 9, None, 2]), count: pa.array([1, 2, 3, 4])},
    )
    assert values.to_pylist() == [True, True, None, False]


def test_constants_are_repeated_for_each_row() -> None:
    node = Logical("OR", Literal(True, Type.BOOLEAN), Literal(None, None))
    assert evaluate(node, {}, {}, length=2).to_pylist() == [True, True]
    assert evaluate(Literal(None, None), {"n": pa.array([1])}, TYPES).equals(pa.nulls(1, pa.bool_()))
    with pytest.raises(ValueError, match="pass length"):
        evaluate(node, {}, {})
