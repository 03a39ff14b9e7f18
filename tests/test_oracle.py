"""The oracle, pinned down by hand: each rule of windows, lookups and groups at least once, in small numbers."""

from __future__ import annotations

import pytest
from tests.hand_written import (
    COUNT,
    NAN,
    RANGE_10_SLIDE_5,
    K,
    X,
    at,
    integer,
    query,
    string,
    values_by_group,
    windows_of,
)
from tests.oracle import INT64_MAX, Answer, closed_answers, lookup

from panewise.language.expressions import AggregateCall, Comparison, IsNull, Not
from panewise.language.model import Query, SelectItem
from panewise.windows.window import RowWindow, TimeWindow


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

    def test_a_sum_that_does_not_fit_is_null_in_its_window_and_group_alone(self) -> None:
        total = query(TimeWindow(10, slide_us=10), AggregateCall("SUM", X), by=("k",))
        rows = at(1, 2, 2, 11, k=["a", "a", "b", "a"], x=[INT64_MAX, 1, 5, 1])
        found = {(one.window_start, one.group): one.value for one in closed_answers(total, "t", rows, None)}
        assert found == {(0, (("k", "a"),)): None, (0, (("k", "b"),)): 5, (10, (("k", "a"),)): 1}

    def test_a_sum_that_does_not_fit_passes_no_comparison_in_having(self) -> None:
        positive = Comparison(">", AggregateCall("SUM", X), integer(0))
        rows = at(1, 2, x=[INT64_MAX, 1])
        for having in (positive, Not(positive)):
            assert lookup(query(TimeWindow(10), having=having), "t", rows, 5) == []

    def test_only_the_sum_of_the_window_itself_can_overflow(self) -> None:
        total = query(TimeWindow(10, slide_us=10), AggregateCall("SUM", X))
        rows = at(1, 11, 12, 13, x=[INT64_MAX, INT64_MAX, 1, -1])
        assert windows_of(closed_answers(total, "t", rows, None)) == [(0, 10, INT64_MAX), (10, 20, INT64_MAX)]
