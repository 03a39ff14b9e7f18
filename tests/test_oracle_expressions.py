"""The oracle, pinned down by hand: expressions over one event."""

from __future__ import annotations

import pytest
from tests.hand_written import FALSE, INF, NAN, NULL, TRUE, X, Y, ask, double, integer
from tests.oracle import Value, evaluate

from panewise.aggregates.types import Type
from panewise.language.expressions import Arithmetic, Comparison, InList, IsNull, Like, Literal, Logical, Negate, Not


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
            # NaN equals itself and is above everything else.
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
