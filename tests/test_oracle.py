"""The oracle, pinned down by hand: each rule of the semantics at least once, in small numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import (
    INT64_MAX,
    INT64_MIN,
    TOLERANCE,
    Answer,
    Event,
    Value,
    aggregate,
    assert_same_answers,
    closed_answers,
    differences,
    evaluate,
    lookup,
    same_value,
)
from tests.workloads import (
    EVERY_WINDOW,
    SLIDING,
    TIME_SLIDING,
    events,
    queries,
    random_events,
    random_workload,
    streams,
    workloads,
)

from weft.aggregates.types import Type
from weft.language.expressions import (
    AggregateCall,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from weft.language.model import Query, SelectItem, Stream, Workload
from weft.windows.window import RowWindow, TimeWindow, Window

NAN, INF = math.nan, math.inf
X, Y, K = Attribute("x"), Attribute("y"), Attribute("k")
COUNT = AggregateCall("COUNT_ALL")
TRUE, FALSE, NULL = Literal(True, Type.BOOLEAN), Literal(False, Type.BOOLEAN), Literal(None, None)
RANGE_10_SLIDE_5 = TimeWindow(10, slide_us=5)


def integer(value: int) -> Literal:
    return Literal(value, Type.BIGINT)


def double(value: float) -> Literal:
    return Literal(value, Type.DOUBLE)


def string(value: str) -> Literal:
    return Literal(value, Type.STRING)


def query(window: Window, *calls: AggregateCall, by: tuple[str, ...] = (), **clauses: Any) -> Query:
    """A query named q over the stream s; COUNT(*) when no aggregate is named."""
    items = tuple(SelectItem(call) for call in calls or (COUNT,))
    return Query("q", "s", window, items, group_by=by, **clauses)


def at(*times: int, **columns: list[Value]) -> list[Event]:
    """Events at times t, in order of arrival, with the other attributes given by column."""
    return [{"t": time, **{name: column[i] for name, column in columns.items()}} for i, time in enumerate(times)]


def windows_of(answers: list[Answer]) -> list[tuple[int, int, Value]]:
    return [(answer.window_start, answer.window_end, answer.value) for answer in answers]


def values_by_group(answers: list[Answer]) -> dict[tuple[Value, ...], Value]:
    return {tuple(value for _, value in answer.group): answer.value for answer in answers}


def value_of(function: str, *values: Value, parameter: float | None = None) -> Any:
    return aggregate(AggregateCall(function, X, parameter), [{"x": value} for value in values])[0]


def ask(expression: Expression, **event: Value) -> Any:
    return evaluate(expression, event)


class TestSlidingTimeWindows:
    def test_an_event_is_in_every_window_whose_start_it_reached_and_whose_end_it_did_not(self) -> None:
        # 5 opens [5, 15), and is no longer in [-5, 5).
        answers = closed_answers(query(RANGE_10_SLIDE_5), "t", at(5), None)
        assert windows_of(answers) == [(0, 10, 1), (5, 15, 1)]

    def test_windows_before_the_epoch(self) -> None:
        answers = closed_answers(query(RANGE_10_SLIDE_5), "t", at(-1), None)
        assert windows_of(answers) == [(-10, 0, 1), (-5, 5, 1)]

    def test_a_range_that_is_no_multiple_of_the_slide(self) -> None:
        # [-4, 3) and [-2, 5) hold the 1, [0, 7) both, the later ones the 6.
        answers = closed_answers(query(TimeWindow(7, slide_us=2)), "t", at(1, 6), None)
        assert windows_of(answers) == [(-4, 3, 1), (-2, 5, 1), (0, 7, 2), (2, 9, 1), (4, 11, 1), (6, 13, 1)]

    def test_a_slide_longer_than_the_range_leaves_gaps(self) -> None:
        answers = closed_answers(query(TimeWindow(2, slide_us=5)), "t", at(1, 2, 4, 5), None)
        assert windows_of(answers) == [(0, 2, 1), (5, 7, 1)]

    def test_a_window_closes_when_the_watermark_reaches_its_end(self) -> None:
        closing = query(RANGE_10_SLIDE_5)
        assert windows_of(closed_answers(closing, "t", at(5), 9)) == []
        assert windows_of(closed_answers(closing, "t", at(5), 10)) == [(0, 10, 1)]

    def test_a_window_that_closed_before_is_not_reported_again(self) -> None:
        closing = query(RANGE_10_SLIDE_5)
        assert windows_of(closed_answers(closing, "t", at(5), 15, previous=10)) == [(5, 15, 1)]
        assert windows_of(closed_answers(closing, "t", at(5), None, previous=9)) == [(0, 10, 1), (5, 15, 1)]

    def test_a_window_without_an_event_of_the_group_is_not_reported(self) -> None:
        tumbling = query(TimeWindow(10, slide_us=10), by=("k",))
        answers = closed_answers(tumbling, "t", at(1, 21, 22, k=["a", "b", "b"]), None)
        assert [(a.window_start, a.group, a.value) for a in answers] == [
            (0, (("k", "a"),), 1),
            (20, (("k", "b"),), 2),
        ]

    def test_nor_is_one_whose_events_where_drops(self) -> None:
        positive = query(TimeWindow(10, slide_us=10), where=Comparison(">", X, integer(0)))
        answers = closed_answers(positive, "t", at(1, 2, 11, 21, x=[5, None, -5, 1]), None)
        assert windows_of(answers) == [(0, 10, 1), (20, 30, 1)]

    def test_arrival_out_of_order_changes_nothing(self) -> None:
        assert windows_of(closed_answers(query(RANGE_10_SLIDE_5), "t", at(12, 3, 7), 10)) == [
            (-5, 5, 1),
            (0, 10, 2),
        ]

    def test_a_query_on_demand_does_not_close(self) -> None:
        with pytest.raises(ValueError, match="q: its window has no slide: use lookup"):
            closed_answers(query(TimeWindow(10)), "t", [], None)


class TestTimeLookups:
    def test_the_window_excludes_its_start_and_includes_the_time_of_the_lookup(self) -> None:
        assert windows_of(lookup(query(TimeWindow(10)), "t", at(10, 11, 20, 21), 20)) == [(10, 20, 2)]

    def test_a_historical_window_ends_before_the_lookup(self) -> None:
        answers = lookup(query(TimeWindow(10, 4)), "t", at(10, 11, 16, 17, 20), 20)
        assert windows_of(answers) == [(10, 16, 2)]

    def test_over_nothing_an_ungrouped_query_has_one_answer(self) -> None:
        functions = ("SUM", "AVG", "MIN", "MAX", "VAR_POP", "STDDEV_SAMP", "MEDIAN")
        calls = (COUNT, *(AggregateCall(f, X) for f in ("COUNT", "COUNT_DISTINCT", *functions)))
        answers = lookup(query(TimeWindow(10), *calls), "t", [], 5)
        assert [a.value for a in answers] == [0, 0, 0] + [None] * 7
        assert {(a.window_start, a.window_end, a.group) for a in answers} == {(-5, 5, ())}

    def test_over_nothing_a_grouped_query_has_no_answer(self) -> None:
        assert lookup(query(TimeWindow(10), by=("k",)), "t", [], 5) == []

    def test_having_applies_to_the_answer_over_nothing(self) -> None:
        some = query(TimeWindow(10), having=Comparison(">", COUNT, integer(0)))
        none = query(TimeWindow(10), having=IsNull(AggregateCall("MAX", X)))
        assert lookup(some, "t", [], 5) == []
        assert windows_of(lookup(none, "t", [], 5)) == [(-5, 5, 0)]

    def test_a_sliding_query_is_not_looked_up(self) -> None:
        with pytest.raises(ValueError, match="q: its window has a slide: use closed_answers"):
            lookup(query(RANGE_10_SLIDE_5), "t", [], 5)


class TestRowWindows:
    def test_a_lookup_covers_the_last_rows_up_to_its_time(self) -> None:
        last_two = query(RowWindow(2), AggregateCall("SUM", X))
        assert windows_of(lookup(last_two, "t", at(1, 3, 5, 9, x=[1, 10, 100, 1000]), 5)) == [(3, 5, 110)]

    def test_fewer_rows_than_the_window_has(self) -> None:
        assert windows_of(lookup(query(RowWindow(5)), "t", at(1, 3), 5)) == [(1, 3, 2)]

    def test_a_historical_lookup_leaves_out_the_latest_rows(self) -> None:
        earlier = query(RowWindow(4, 1), AggregateCall("SUM", X))
        rows = at(1, 2, 3, 4, 5, x=[1, 10, 100, 1000, 10_000])
        assert windows_of(lookup(earlier, "t", rows, 5)) == [(2, 4, 1110)]
        assert windows_of(lookup(earlier, "t", rows, 2)) == [(1, 1, 1)]

    def test_a_lookup_that_covers_no_row_stands_at_its_own_time(self) -> None:
        assert windows_of(lookup(query(RowWindow(4, 1)), "t", at(3), 7)) == [(7, 7, 0)]
        assert windows_of(lookup(query(RowWindow(2)), "t", at(3), 2)) == [(2, 2, 0)]
        assert lookup(query(RowWindow(2), by=("k",)), "t", at(3, k=["a"]), 2) == []

    def test_where_filters_inside_the_window_and_does_not_move_it(self) -> None:
        positive = query(RowWindow(3), where=Comparison(">", X, integer(0)))
        assert windows_of(lookup(positive, "t", at(1, 2, 3, 4, x=[1, 1, -1, -1]), 4)) == [(2, 4, 1)]
        assert windows_of(lookup(positive, "t", at(1, 2, 3, x=[-1, -1, -1]), 3)) == [(1, 3, 0)]

    def test_ties_keep_their_order_of_arrival(self) -> None:
        last = query(RowWindow(1), AggregateCall("MAX", X))
        assert windows_of(lookup(last, "t", at(5, 5, 1, x=[1, 2, 3]), 5)) == [(5, 5, 2)]

    def test_a_slide_counts_rows_congruent_to_the_length(self) -> None:
        # left 3, slide 2: after 1, 3 and 5 rows.
        answers = closed_answers(query(RowWindow(3, slide=2)), "t", at(10, 20, 30, 40, 50), None)
        assert windows_of(answers) == [(10, 10, 1), (10, 30, 3), (30, 50, 3)]

    def test_a_slide_longer_than_the_window(self) -> None:
        answers = closed_answers(query(RowWindow(2, slide=3)), "t", at(1, 2, 3, 4, 5), None)
        assert windows_of(answers) == [(1, 2, 2), (4, 5, 2)]

    def test_rows_are_final_once_the_watermark_has_passed_them(self) -> None:
        each = query(RowWindow(2, slide=1))
        rows = at(10, 20, 20, 30)
        assert windows_of(closed_answers(each, "t", rows, 20)) == [(10, 10, 1)]
        assert windows_of(closed_answers(each, "t", rows, 21, previous=20)) == [(10, 20, 2), (20, 20, 2)]
        assert windows_of(closed_answers(each, "t", rows, None, previous=21)) == [(20, 30, 2)]

    def test_a_sliding_window_without_a_row_that_where_keeps_is_not_reported(self) -> None:
        positive = query(RowWindow(2, slide=2), where=Comparison(">", X, integer(0)))
        assert windows_of(closed_answers(positive, "t", at(1, 2, 3, 4, x=[-1, -1, -1, 1]), None)) == [(3, 4, 1)]

    def test_positions_are_of_the_whole_stream_when_only_grouped(self) -> None:
        answers = lookup(query(RowWindow(2), by=("k",)), "t", at(1, 2, 3, k=["a", "b", "b"]), 3)
        assert values_by_group(answers) == {("b",): 2}

    def test_partition_by_counts_in_each_substream(self) -> None:
        by_key = query(RowWindow(2, partition_by=("k",)), AggregateCall("SUM", X), by=("k",))
        answers = lookup(by_key, "t", at(1, 2, 3, 4, k=["a", "b", "a", "a"], x=[1, 10, 100, 1000]), 4)
        assert [(a.group, *w) for a, w in zip(answers, windows_of(answers))] == [
            ((("k", "a"),), 3, 4, 1100),
            ((("k", "b"),), 2, 2, 10),
        ]

    def test_groups_finer_than_the_partition_have_its_times(self) -> None:
        finer = query(RowWindow(3, partition_by=("k",)), by=("k", "x"))
        answers = lookup(finer, "t", at(1, 2, 3, 4, k=["a", "a", "a", "b"], x=[7, 8, 7, 7]), 4)
        assert [(a.group, *w) for a, w in zip(answers, windows_of(answers))] == [
            ((("k", "a"), ("x", 7)), 1, 3, 2),
            ((("k", "a"), ("x", 8)), 1, 3, 1),
            ((("k", "b"), ("x", 7)), 4, 4, 1),
        ]

    def test_null_is_a_partition_too(self) -> None:
        by_key = query(RowWindow(1, partition_by=("k",)), by=("k",))
        assert values_by_group(lookup(by_key, "t", at(1, 2, k=[None, None]), 2)) == {(None,): 1}

    def test_a_partition_that_is_not_grouped_by_is_refused(self) -> None:
        with pytest.raises(ValueError, match="GROUP BY must name every attribute of PARTITION BY"):
            lookup(query(RowWindow(1, partition_by=("k",))), "t", [], 1)


class TestGroupsAndClauses:
    def test_null_and_nan_are_groups_and_the_zeros_are_one(self) -> None:
        rows = at(*range(7), k=[None, NAN, -0.0, 0.0, None, -NAN, 1.0])
        answers = lookup(query(TimeWindow(100), by=("k",)), "t", rows, 50)
        assert [(repr(a.group[0][1]), a.value) for a in answers] == [
            ("None", 2),
            ("nan", 2),
            ("0.0", 2),
            ("1.0", 1),
        ]

    def test_groups_follow_the_order_of_group_by(self) -> None:
        answers = lookup(query(TimeWindow(10), by=("y", "k")), "t", at(1, k=["a"], y=[2]), 5)
        assert answers == [Answer("q", -5, 5, (("y", 2), ("k", "a")), 0, 1)]

    def test_items_are_positions_in_select_and_attributes_give_no_answer(self) -> None:
        items = (SelectItem(COUNT), SelectItem(K), SelectItem(AggregateCall("MAX", X), "largest"))
        both = Query("q", "s", TimeWindow(10), items, group_by=("k",))
        answers = lookup(both, "t", at(1, 2, k=["a", "a"], x=[3, 4]), 5)
        assert [(a.item, a.value) for a in answers] == [(0, 2), (2, 4)]

    def test_having_may_use_what_select_does_not(self) -> None:
        rows = at(1, 2, 3, 4, k=["a", "a", "b", None], x=[1, 2, 3, None])
        over_two = query(TimeWindow(10), by=("k",), having=Comparison(">", AggregateCall("SUM", X), integer(2)))
        assert values_by_group(lookup(over_two, "t", rows, 5)) == {("a",): 2, ("b",): 1}
        named_b = query(TimeWindow(10), by=("k",), having=Comparison("=", K, string("b")))
        assert values_by_group(lookup(named_b, "t", rows, 5)) == {("b",): 1}

    def test_having_null_is_not_true(self) -> None:
        # AVG over NULL alone is NULL, and so is NOT (NULL > 0).
        positive = Comparison(">", AggregateCall("AVG", X), integer(0))
        for having in (positive, Not(positive)):
            assert lookup(query(TimeWindow(10), having=having), "t", at(1, x=[None]), 5) == []

    def test_an_overflow_names_the_query_the_window_and_the_group(self) -> None:
        total = query(TimeWindow(10, slide_us=10), AggregateCall("SUM", X), by=("k",))
        rows = at(1, 2, 11, k=["a", "a", "a"], x=[INT64_MAX, 1, 1])
        with pytest.raises(OverflowError, match=r"q, window 0 to 10, group {'k': 'a'}: the sum 9223372036854775808"):
            closed_answers(total, "t", rows, None)

    def test_only_the_sum_of_the_window_itself_can_overflow(self) -> None:
        total = query(TimeWindow(10, slide_us=10), AggregateCall("SUM", X))
        rows = at(1, 11, 12, 13, x=[INT64_MAX, INT64_MAX, 1, -1])
        assert windows_of(closed_answers(total, "t", rows, None)) == [(0, 10, INT64_MAX), (10, 20, INT64_MAX)]


class TestExpressions:
    @pytest.mark.parametrize(
        ("operator", "left", "right", "result"),
        [
            ("+", 1, 2, 3.0),
            ("-", 1.5, 2, -0.5),
            ("*", 3, 4, 12.0),
            ("/", 7, 2, 3.5),
            ("/", 1, 0, None),
            ("/", 0.0, -0.0, None),
            ("/", NAN, 0, None),
            ("+", None, 1, None),
            ("/", 1, None, None),
            ("+", 2**53 + 1, 0, 2.0**53),
            ("*", 1e308, 10, INF),
        ],
    )
    def test_arithmetic_is_in_floats(self, operator: str, left: Value, right: Value, result: Value) -> None:
        found = ask(Arithmetic(operator, X, Y), x=left, y=right)
        assert found == result
        assert found is None or isinstance(found, float)

    def test_negation_is_in_floats(self) -> None:
        assert repr(ask(Negate(X), x=2)) == "-2.0"
        assert repr(ask(Negate(X), x=0)) == "-0.0"
        assert ask(Negate(X), x=None) is None

    @pytest.mark.parametrize(
        ("left", "operator", "right", "result"),
        [
            (1, "=", 1, True),
            (1, "<>", 1, False),
            (1, "<", 2, True),
            (2, "<=", 1, False),
            (2, ">", 1, True),
            (1, ">=", 1, True),
            (None, "=", None, None),
            (None, "<>", 1, None),
            # BIGINT with BIGINT is exact; with DOUBLE the integer is rounded to 2**53 first.
            (2**53 + 1, "=", 2**53, False),
            (2**53 + 1, "=", 2.0**53, True),
            (1, "=", 1.0, True),
            # NaN equals itself and is above all else.
            (NAN, "=", NAN, True),
            (NAN, ">=", NAN, True),
            (NAN, "<>", NAN, False),
            (NAN, ">", INF, True),
            (NAN, "<", 1, False),
            (5, "<", NAN, True),
            (-0.0, "=", 0.0, True),
            (-0.0, "<", 0.0, False),
            (False, "<", True, True),
            # Strings by UTF-8 bytes, which is not the order of UTF-16.
            ("a", "<", "b", True),
            ("Z", "<", "a", True),
            ("z", "<", "é", True),
            ("\ufffd", "<", "\U0001f600", True),
            ("", "<", "a", True),
        ],
    )
    def test_comparisons(self, left: Value, operator: str, right: Value, result: bool | None) -> None:
        assert ask(Comparison(operator, X, Y), x=left, y=right) is result

    def test_a_double_literal_is_a_float_even_when_written_as_an_integer(self) -> None:
        assert ask(Comparison("=", integer(2**53 + 1), Literal(2**53, Type.DOUBLE))) is True

    @pytest.mark.parametrize(
        ("left", "right", "conjunction", "disjunction"),
        [
            (TRUE, TRUE, True, True),
            (TRUE, FALSE, False, True),
            (FALSE, FALSE, False, False),
            (TRUE, NULL, None, True),
            (FALSE, NULL, False, None),
            (NULL, NULL, None, None),
        ],
    )
    def test_three_valued_logic(
        self, left: Literal, right: Literal, conjunction: bool | None, disjunction: bool | None
    ) -> None:
        for one, other in ((left, right), (right, left)):
            assert ask(Logical("AND", one, other)) is conjunction
            assert ask(Logical("OR", one, other)) is disjunction

    def test_not(self) -> None:
        assert [ask(Not(literal)) for literal in (TRUE, FALSE, NULL)] == [False, True, None]

    def test_is_null_is_never_null_and_nan_is_not_null(self) -> None:
        assert [ask(IsNull(X), x=x) for x in (None, NAN, 0)] == [True, False, False]
        assert [ask(IsNull(X, negated=True), x=x) for x in (None, NAN, 0)] == [False, True, True]

    def test_in_list(self) -> None:
        one_or_two = (integer(1), double(2.0))
        assert [ask(InList(X, one_or_two), x=x) for x in (1, 2, 3, None)] == [True, True, False, None]
        assert [ask(InList(X, one_or_two, True), x=x) for x in (1, 2, 3, None)] == [False, False, True, None]

    @pytest.mark.parametrize(
        ("text", "pattern", "result"),
        [
            ("JFK", "JFK", True),
            ("JFK", "jfk", False),
            ("JFK", "J%", True),
            ("JFK", "%K", True),
            ("JFK", "%F%", True),
            ("JFK", "%", True),
            ("", "%", True),
            ("", "", True),
            ("JFK", "", False),
            ("JFK", "_F_", True),
            ("JFK", "__", False),
            ("", "_", False),
            ("\U0001f600", "_", True),
            ("a\nb", "a_b", True),
            ("abab", "%ab", True),
            ("100%", "100\\%", True),
            ("1000", "100\\%", False),
            ("a_b", "a\\_b", True),
            ("axb", "a\\_b", False),
            ("\\", "\\\\", True),
            ("a.c", "a.c", True),
            ("abc", "a.c", False),
        ],
    )
    def test_like(self, text: str, pattern: str, result: bool) -> None:
        assert ask(Like(X, pattern), x=text) is result
        assert ask(Like(X, pattern, negated=True), x=text) is not result

    def test_null_is_like_nothing_and_not_unlike_it_either(self) -> None:
        assert ask(Like(X, "%"), x=None) is None
        assert ask(Like(X, "%", negated=True), x=None) is None

    def test_an_unknown_node_is_refused(self) -> None:
        with pytest.raises(TypeError, match="the oracle knows no expression object"):
            evaluate(object(), {})


class TestAggregates:
    def test_only_count_of_everything_counts_null(self) -> None:
        assert aggregate(COUNT, [{"x": None}, {"x": 1}]) == (2, 0.0)
        assert value_of("COUNT", None, 1, NAN) == 2
        assert value_of("SUM", None, 1, 2) == 3
        assert value_of("AVG", None, 1, 2) == 1.5
        assert value_of("MIN", None, 1) == 1
        assert value_of("COUNT_DISTINCT", None, 1, 1) == 1

    @pytest.mark.parametrize("function", ["SUM", "AVG", "MIN", "MAX", "VAR_POP", "STDDEV_SAMP", "MEDIAN"])
    def test_over_null_alone_it_is_null(self, function: str) -> None:
        assert value_of(function, None, None) is None

    def test_counts_over_null_alone_are_0(self) -> None:
        assert value_of("COUNT", None) == 0
        assert value_of("COUNT_DISTINCT", None) == 0

    def test_an_argument_may_be_an_expression(self) -> None:
        doubled = AggregateCall("SUM", Arithmetic("/", X, Y))
        assert aggregate(doubled, [{"x": 3, "y": 2}, {"x": 1, "y": 0}, {"x": 1, "y": 1}]) == (2.5, 2.5)

    def test_sum_of_integers_is_exact(self) -> None:
        found = value_of("SUM", 2**53, 1)
        assert found == 2**53 + 1
        assert isinstance(found, int)
        assert value_of("SUM", INT64_MAX, 5, -5) == INT64_MAX
        assert value_of("SUM", INT64_MIN) == INT64_MIN
        for beyond in ((INT64_MAX, 1), (INT64_MIN, -1)):
            with pytest.raises(OverflowError, match="beyond BIGINT"):
                value_of("SUM", *beyond)

    def test_sum_of_floats_is_the_exact_sum_rounded_once(self) -> None:
        assert value_of("SUM", 1e16, 1.0, -1e16) == 1.0
        assert value_of("SUM", *[0.1] * 10) == 1.0
        assert value_of("SUM", 1e308, 1e308) == INF

    def test_average(self) -> None:
        assert value_of("AVG", 1, 2) == 1.5
        assert value_of("AVG", INT64_MAX, INT64_MAX) == 2.0**63
        assert value_of("AVG", 1e16, 2.0, -1e16) == 2.0 / 3

    @pytest.mark.parametrize("function", ["SUM", "AVG"])
    def test_sums_with_nan_and_infinities(self, function: str) -> None:
        assert value_of(function, 1.0, INF, INF) == INF
        assert value_of(function, 1.0, -INF) == -INF
        assert math.isnan(value_of(function, INF, -INF))
        assert math.isnan(value_of(function, NAN, 1.0))
        assert math.isnan(value_of(function, NAN, INF))

    def test_extremes_have_nan_on_top(self) -> None:
        assert value_of("MIN", NAN, 3.0, -INF) == -INF
        assert value_of("MIN", NAN, INF) == INF
        assert math.isnan(value_of("MIN", NAN, NAN))
        assert value_of("MAX", 3.0, INF) == INF
        assert math.isnan(value_of("MAX", 3.0, NAN, INF))
        assert value_of("MIN", 0.0, -0.0) == value_of("MAX", 0.0, -0.0) == 0.0
        assert value_of("MAX", 2**53, 2**53 + 1) == 2**53 + 1

    def test_variances(self) -> None:
        # Mean 5, squared distances 9 1 1 1 0 0 4 16: 32 over 8 values.
        values = (2, 4, 4, 4, 5, 5, 7, 9)
        assert value_of("VAR_POP", *values) == 4.0
        assert value_of("VAR_SAMP", *values) == 32 / 7
        assert value_of("STDDEV_POP", *values) == 2.0
        assert value_of("STDDEV_SAMP", *values) == math.sqrt(32 / 7)
        assert value_of("VAR_POP", 1e9 + 1, 1e9 + 2, 1e9 + 3) == 2 / 3

    def test_variances_are_of_floats(self) -> None:
        assert value_of("VAR_POP", 2**53, 2**53 + 1) == 0.0

    def test_the_variance_of_one_value(self) -> None:
        assert value_of("VAR_POP", 7.5) == value_of("STDDEV_POP", 7.5) == 0.0
        for x in (7.5, NAN, INF):
            assert value_of("VAR_SAMP", x, None) is None
            assert value_of("STDDEV_SAMP", x) is None

    @pytest.mark.parametrize("function", ["VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"])
    def test_variances_with_nan_and_infinities_are_nan(self, function: str) -> None:
        for x in (NAN, INF, -INF):
            assert math.isnan(value_of(function, 1.0, x))

    @pytest.mark.parametrize(
        ("phi", "result"),
        [
            (0.0, 10),
            (0.05, 10),
            (0.1, 10),
            (0.19, 10),
            (0.2, 20),
            (0.5, 50),
            (0.7, 70),
            (0.99, 90),
            (1.0, 100),
        ],
    )
    def test_quantile_is_the_element_at_the_floor_of_phi_n(self, phi: float, result: int) -> None:
        # 0.7 * 10 is 7, although the float nearest to 0.7 is below it.
        tens = [100, 20, 30, 40, 50, 60, 70, 80, 90, 10]
        assert value_of("QUANTILE", *tens, None, parameter=phi) == result

    def test_the_median_is_the_lower_of_the_middle_two(self) -> None:
        assert value_of("MEDIAN", 3, 1, 2, 4) == 2
        # floor(0.5 * 3) = 1: the definition, not the usual middle.
        assert value_of("MEDIAN", 3, 1, 2) == 2
        assert value_of("MEDIAN", 5.5) == 5.5

    def test_the_mode_is_the_smallest_of_the_most_frequent(self) -> None:
        assert value_of("MODE", 3, 1, 2, 3, 1) == 1
        assert value_of("MODE", 3, 1, 3, None) == 3
        assert value_of("MODE", 0.0, -0.0, 5.0) == 0.0
        assert value_of("MODE", NAN, -NAN, INF) != value_of("MODE", NAN, -NAN, INF)

    def test_quantiles_sort_nan_last(self) -> None:
        assert value_of("QUANTILE", NAN, INF, 1.0, parameter=0.7) == INF
        assert math.isnan(value_of("QUANTILE", NAN, 1.0, parameter=1.0))

    def test_distinct_values(self) -> None:
        assert value_of("COUNT_DISTINCT", NAN, -NAN, 0.0, -0.0, 1.0) == 3
        assert value_of("COUNT_DISTINCT", "a", "A", "a", "") == 3
        assert value_of("COUNT_DISTINCT", True, False, True) == 2
        assert value_of("COUNT_DISTINCT", 2**53, 2**53 + 1) == 2


class TestComparing:
    def one(self, value: Value, scale: float = 0.0, start: int = 0, group: Value = "a") -> Answer:
        return Answer("q", start, 10, (("k", group),), 0, value, scale)

    def test_equal_answers_in_any_order(self) -> None:
        answers = [self.one(1), self.one(2, start=5), self.one(NAN, group=NAN), self.one(None, group=None)]
        other_nan = float("-nan")
        others = [answers[3], self.one(other_nan, group=other_nan), answers[1], answers[0]]
        assert_same_answers(others, answers)

    def test_what_is_missing_and_what_is_too_much(self) -> None:
        assert differences([self.one(1)], [self.one(2, start=5)]) == [
            "q, window 5 to 10, group (k='a'), item 0: expected 2, got no answer",
            "q, window 0 to 10, group (k='a'), item 0: expected no answer, got 1",
        ]

    def test_integers_are_compared_exactly(self) -> None:
        assert same_value(3.0, 3)
        assert not same_value(float(2**53), 2**53 + 1)
        assert not same_value(3 + 1e-12, 3)

    def test_floats_within_8_ulps_of_the_scale(self) -> None:
        assert same_value(1.0 + TOLERANCE, 1.0, scale=1.0)
        assert not same_value(1.0 + 2 * TOLERANCE, 1.0, scale=1.0)
        assert same_value(1.0 + 2 * TOLERANCE, 1.0, scale=2.0)
        assert not same_value(INF, 1.0, scale=1.0)

    def test_null_nan_and_infinities_are_only_themselves(self) -> None:
        kinds: list[Value] = [None, NAN, INF, -INF, 0.0]
        for one in kinds:
            for other in kinds:
                assert same_value(one, other, scale=1.0) == (one is other)

    def test_the_zeros_are_equal(self) -> None:
        assert same_value(-0.0, 0.0)
        assert differences([self.one(1, group=-0.0)], [self.one(1, group=0.0)]) == []

    def test_a_scale_beyond_floats_allows_any_number(self) -> None:
        value, scale = aggregate(AggregateCall("SUM", X), [{"x": 1e308}, {"x": 1e308}, {"x": -1e308}])
        assert value == 1e308
        assert same_value(INF, value, scale)
        assert not same_value(None, value, scale)

    def test_windows_of_rows_at_one_time_are_paired_by_value(self) -> None:
        three = [self.one(3), self.one(None), self.one(1)]
        assert differences([self.one(None), self.one(1), self.one(3)], three) == []
        assert len(differences([self.one(None), self.one(1), self.one(1)], three)) == 1
        assert len(differences([self.one(1), self.one(3)], three)) > 0

    def test_scales_of_sums_and_averages(self) -> None:
        rows = [{"x": 3.0}, {"x": -5.0}]
        assert aggregate(AggregateCall("SUM", X), rows) == (-2.0, 8.0)
        assert aggregate(AggregateCall("AVG", X), rows) == (-1.0, 4.0)
        assert aggregate(AggregateCall("SUM", X), [{"x": 3}, {"x": -5}]) == (-2, 0.0)
        assert aggregate(AggregateCall("MAX", X), rows) == (3.0, 0.0)

    def test_scales_of_variances_allow_a_billionth_and_the_rounding_of_squares(self) -> None:
        near, far = [{"x": 0.0}, {"x": 2.0}], [{"x": 1e8}, {"x": 1e8 + 2.0}]
        for function in ("VAR_POP", "STDDEV_POP"):
            value, scale = aggregate(AggregateCall(function, X), near)
            assert same_value(1.0 + 0.9e-9, value, scale)
            assert not same_value(1.0 + 2e-9, value, scale)
            # The squares are 1e16, with ulps of 2: all that is left of a variance of 1 is its size.
            value, scale = aggregate(AggregateCall(function, X), far)
            assert value == 1.0
            assert same_value(3.0, value, scale)
            assert not same_value(300.0, value, scale)

    def test_the_deviation_of_equal_values_may_be_the_root_of_a_rounding_error(self) -> None:
        value, scale = aggregate(AggregateCall("STDDEV_POP", X), [{"x": 1.0}, {"x": 1.0}])
        assert value == 0.0
        assert same_value(math.sqrt(2.0**-53), value, scale)
        assert not same_value(1e-6, value, scale)

    def test_a_failure_shows_the_first_differences_and_the_context(self) -> None:
        wanted = [self.one(1, start=start) for start in range(-25, 0)]
        with pytest.raises(AssertionError, match=r"(?s)^25 answers differ:.*and 5 more\nseed 7$"):
            assert_same_answers([], wanted, "seed 7")


class TestRandomWorkloads:
    """The generators and the oracle together: what must hold for every query."""

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_closing_step_by_step_closes_each_window_once(self, data: st.DataObject) -> None:
        workload = data.draw(workloads(sliding_only=True, max_queries=3))
        (stream,) = workload.streams.values()
        rows = data.draw(events(stream))
        steps = sorted(data.draw(st.lists(st.sampled_from([row["dep"] for row in rows] or [0]), max_size=4)))
        for each in workload.queries.values():
            together = closed_answers(each, "dep", rows, None)
            apart = []
            for previous, watermark in zip([None, *steps], [*steps, None]):
                if previous is None or previous != watermark:
                    # What is at or after the watermark may still be missing.
                    seen = [row for row in rows if watermark is None or row["dep"] < watermark]
                    apart += closed_answers(each, "dep", seen, watermark, previous)
            assert_same_answers(apart, together)

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_lookups_do_not_see_later_events(self, data: st.DataObject) -> None:
        stream = data.draw(streams())
        each = data.draw(queries(stream, windows=[kind for kind in EVERY_WINDOW if kind not in SLIDING]))
        rows = data.draw(events(stream, in_order=True))
        moment = data.draw(st.sampled_from([row["dep"] for row in rows] or [0]))
        earlier = [row for row in rows if row["dep"] <= moment]
        assert_same_answers(lookup(each, "dep", earlier, moment), lookup(each, "dep", rows, moment))

    @given(data=st.data())
    @settings(max_examples=60, deadline=None)
    def test_windows_fit_the_granularity_and_labels_are_unique(self, data: st.DataObject) -> None:
        workload = data.draw(workloads())
        (stream,) = workload.streams.values()
        for each in workload.queries.values():
            window, granularity = each.window, stream.granularity_us or 1
            if isinstance(window, TimeWindow):
                assert {length % granularity for length in (window.left_us, window.right_us, window.slide_us or 0)} == {
                    0
                }
            calls = [item.expression for item in each.select if isinstance(item.expression, AggregateCall)]
            assert calls
            assert len(calls) == len(set(calls))

    def test_the_same_seed_gives_the_same_workload_and_events(self) -> None:
        assert random_workload(7) == random_workload(7) != random_workload(8)
        stream = random_workload(7).streams["flights"]
        assert repr(random_events(7, stream, 20)) == repr(random_events(7, stream, 20))

    def test_random_events_keep_within_their_disorder(self) -> None:
        stream = Stream("flights", {"dep": Type.TIMESTAMP, "gate": Type.BIGINT}, "dep", 3_000_000, 1_000_000)

        def largest_delay(rows: list[dict[str, Any]]) -> int:
            times: list[int] = [row["dep"] for row in rows]
            return max(max(times[: i + 1]) - time for i, time in enumerate(times))

        assert 0 < largest_delay(random_events(1, stream, 200)) <= 3_000_000
        assert largest_delay(random_events(1, stream, 200, disorder_us=9_000_000)) > 3_000_000
        assert largest_delay(random_events(1, stream, 200, disorder_us=0)) == 0

    def test_random_workloads_use_every_clause_and_aggregate(self) -> None:
        drawn = [each for seed in range(60) for each in random_workload(seed).queries.values()]
        assert {call.function for each in drawn for call in each.aggregates} == {
            *("COUNT_ALL", "COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "MODE", "QUANTILE", "COUNT_DISTINCT"),
            *("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"),
            *("APPROX_QUANTILE", "APPROX_COUNT_DISTINCT"),
        }
        for clause in ("where", "group_by", "having"):
            assert 0 < sum(bool(getattr(each, clause)) for each in drawn) < len(drawn)

    def test_most_random_queries_have_answers(self) -> None:
        def answered(workload: Workload) -> list[bool]:
            (stream,) = workload.streams.values()
            rows = random_events(1, stream, 100)
            return [bool(closed_answers(each, "dep", rows, None)) for each in workload.queries.values()]

        found = [one for seed in range(30) for one in answered(random_workload(seed, windows=TIME_SLIDING))]
        assert sum(found) > 0.7 * len(found)
