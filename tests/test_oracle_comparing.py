"""How answers are compared with those of the oracle."""

from __future__ import annotations

import pytest
from tests.hand_written import INF, NAN, X
from tests.oracle import TOLERANCE, Answer, Value, aggregate, assert_same_answers, differences, same_value

from panewise.language.expressions import AggregateCall


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

    def test_a_scale_beyond_floats(self) -> None:
        value, scale = aggregate(AggregateCall("SUM", X), [{"x": 1e308}, {"x": 1e308}, {"x": -1e308}])
        assert value == 1e308
        assert same_value(1e308 * (1 + 2**-51), value, scale)
        assert not same_value(1.1e308, value, scale)
        assert not same_value(INF, value, scale)
        assert not same_value(None, value, scale)
        greatest = 1.7976931348623157e308
        assert same_value(greatest, INF, 1e308)
        assert not same_value(-INF, greatest, 1e308)

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

    def test_scales_of_variances_are_their_own(self) -> None:
        near, far = [{"x": 0.0}, {"x": 2.0}], [{"x": 1e15}, {"x": 1e15 + 2.0}]
        for function in ("VAR_POP", "STDDEV_POP"):
            for rows in (near, far):
                value, scale = aggregate(AggregateCall(function, X), rows)
                assert value == scale == 1.0
                assert same_value(1.0 + TOLERANCE, value, scale)
                assert not same_value(1.0 + 2 * TOLERANCE, value, scale)

    def test_the_deviation_of_equal_values_is_0(self) -> None:
        value, scale = aggregate(AggregateCall("STDDEV_POP", X), [{"x": 1.0}, {"x": 1.0}])
        assert value == 0.0
        assert not same_value(1e-300, value, scale)

    def test_a_failure_shows_the_first_differences_and_the_context(self) -> None:
        wanted = [self.one(1, start=start) for start in range(-25, 0)]
        with pytest.raises(AssertionError, match=r"(?s)^25 answers differ:.*and 5 more\nseed 7$"):
            assert_same_answers([], wanted, "seed 7")
