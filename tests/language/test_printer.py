from __future__ import annotations

import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.language.strategies import queries, row_queries, streams
from tests.thoroughness import examples

from panewise.aggregates.types import Type
from panewise.language.expressions import Arithmetic, Attribute, Comparison, Expression, Literal, Logical, Negate, Not
from panewise.language.limits import MAX_DEPTH
from panewise.language.model import SelectItem
from panewise.language.printer import label_of, print_expression, print_query, print_row_query, print_stream
from panewise.language.reader import read
from panewise.language.workload import Workload, print_workload

A, B, C = Attribute("a"), Attribute("b"), Attribute("c")
SLOW = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


@SLOW
@given(st.data())
def test_a_printed_query_parses_to_the_same_query(data: st.DataObject) -> None:
    stream = data.draw(streams())
    query = data.draw(queries(stream))
    text = print_stream(stream) + "\n" + print_query(query)
    assert read(text) == Workload({stream.name: stream}, {query.name: query})
    assert print_workload(read(text)) == text + "\n"


@SLOW
@given(st.data())
def test_a_printed_row_query_parses_to_the_same_query(data: st.DataObject) -> None:
    stream = data.draw(streams())
    query = data.draw(row_queries(stream))
    text = print_stream(stream) + "\n" + print_row_query(query)
    assert read(text) == Workload({stream.name: stream}, {}, {query.name: query})
    assert print_workload(read(text)) == text + "\n"


def test_parentheses_stand_only_where_they_are_needed() -> None:
    cases: list[tuple[Expression, str]] = [
        (Arithmetic("-", Arithmetic("-", A, B), C), "a - b - c"),
        (Arithmetic("-", A, Arithmetic("-", B, C)), "a - (b - c)"),
        (Arithmetic("*", Arithmetic("+", A, B), C), "(a + b) * c"),
        (Arithmetic("+", A, Arithmetic("*", B, C)), "a + b * c"),
        (Negate(Negate(A)), "-(-a)"),
        (Arithmetic("-", A, Literal(-5, Type.BIGINT)), "a - -5"),
        (Logical("AND", Logical("OR", A, B), C), "(a OR b) AND c"),
        (Logical("OR", Logical("AND", A, B), C), "a AND b OR c"),
        (Logical("AND", A, Logical("AND", B, C)), "a AND (b AND c)"),
        (Not(Comparison("=", A, B)), "NOT a = b"),
        (Comparison("=", Not(A), B), "(NOT a) = b"),
        (Not(Logical("AND", A, B)), "NOT (a AND b)"),
    ]
    for expression, text in cases:
        assert print_expression(expression) == text


def test_durations_are_printed_in_the_largest_whole_unit() -> None:
    text = (
        "CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t WATERMARK 90 MINUTES GRANULARITY 1 SECOND "
        "ON LATE CORRECT 1 DAY;\n"
        "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 14 DAYS SLIDE 86400 SECONDS];\n"
    )
    assert print_workload(read(text)) == text.replace("14 DAYS", "2 WEEKS").replace("86400 SECONDS", "1 DAY")


def test_what_becomes_of_events_and_answers_that_do_not_fit_is_printed_unless_it_is_the_default() -> None:
    stream = "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t"
    query = "CREATE QUERY q AS SELECT SUM(x) FROM s [RANGE 1 HOUR] WITHIN 0.5"
    for bound, overflow, using in (
        (" FUTURE BOUND 1 HOUR", "", ""),
        (" FUTURE BOUND 0 SECONDS", " ON OVERFLOW ERROR", ""),
        (" ON LATE CORRECT 1 DAY FUTURE BOUND NONE", " ON OVERFLOW ERROR", " USING timegram"),
    ):
        text = f"{stream}{bound};\n{query}{overflow}{using};\n"
        assert print_workload(read(text)) == text
    assert read(f"{stream}; {query} ON OVERFLOW NULL;") == read(f"{stream}; {query};")


def test_labels_are_the_alias_or_the_text() -> None:
    workload = read(
        'CREATE STREAM s (t TIMESTAMP, "odd name" BIGINT, x DOUBLE) TIMESTAMP BY t;'
        'CREATE QUERY q AS SELECT "odd name", quantile(x, 0.9), mean(x) AS m, COUNT(DISTINCT x + 1), COUNT(*)'
        ' FROM s [ROWS 5] GROUP BY "odd name"'
    )
    labels = [label_of(item) for item in workload.queries["q"].select]
    assert labels == ["odd name", "QUANTILE(x, 0.9)", "m", "COUNT(DISTINCT x + 1)", "COUNT(*)"]
    assert label_of(SelectItem(A, "z")) == "z"


def test_the_deepest_expression_can_be_hashed_compared_printed_and_pickled() -> None:
    chain = " OR ".join(f"x = {n}" for n in range(MAX_DEPTH - 1))
    workload = read(
        "CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT COUNT(*) FROM s [ROWS 5] WHERE {chain}"
    )
    query = workload.queries["q"]
    assert hash(query) == hash(pickle.loads(pickle.dumps(query)))
    assert read(print_workload(workload)) == workload


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("COUNT_IF(x > 1)", "COUNT(*) FILTER (WHERE x > 1)"),
        ("SUM(CASE WHEN x > 1 THEN x END)", "SUM(x) FILTER (WHERE x > 1)"),
        ("COUNT(DISTINCT k) FILTER (WHERE x > 1)", "COUNT(DISTINCT k) FILTER (WHERE x > 1)"),
        ("QUANTILE(x, 0.5) FILTER (WHERE k = 'a')", "QUANTILE(x, 0.5) FILTER (WHERE k = 'a')"),
        ("SUM(x) / count_if(x > 1)", "SUM(x) / COUNT(*) FILTER (WHERE x > 1)"),
        ("round(avg(x), 2)", "ROUND(AVG(x), 2)"),
        ("max(extract(hour from t))", "MAX(EXTRACT(HOUR FROM t))"),
        ("MAX(CAST(k AS LONG))", "MAX(CAST(k AS BIGINT))"),
    ],
)
def test_short_forms_are_printed_as_what_they_stand_for(written: str, printed: str) -> None:
    stream = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t;"
    workload = read(f"{stream} CREATE QUERY q AS SELECT {written} FROM s [ROWS 1] HAVING {written} > 0;")
    query = workload.queries["q"]
    assert label_of(query.select[0]) == printed
    assert query.having == Comparison(">", query.select[0].expression, Literal(0, Type.BIGINT))
    assert read(stream + print_query(query)).queries["q"] == query
