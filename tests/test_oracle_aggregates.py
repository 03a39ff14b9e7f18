"""The oracle, pinned down by hand: aggregates over a list of events."""

from __future__ import annotations

import math

import pytest
from tests.hand_written import COUNT, INF, NAN, X, Y, value_of
from tests.oracle import INT64_MAX, INT64_MIN, aggregate

from panewise.language.expressions import AggregateCall, Arithmetic


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
            assert value_of("SUM", *beyond) is None

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
        assert value_of("VAR_POP", 2**53, 2**53 + 1) == 0.25
        assert value_of("VAR_POP", -(2**63), 2**63 - 1) == (2.0**63 - 0.5) ** 2

    def test_deviations_whose_squares_are_no_floats(self) -> None:
        assert value_of("VAR_POP", 1e300, -1e300) == INF
        assert value_of("STDDEV_POP", 1e300, -1e300) == 1e300
        assert value_of("VAR_POP", 1e-200, -1e-200) == 0.0
        assert value_of("STDDEV_POP", 1e-200, -1e-200) == 1e-200

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
