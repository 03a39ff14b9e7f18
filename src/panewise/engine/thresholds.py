"""Thresholds: which answers pass a HAVING that compares aggregates with numbers, without Arrow in between.

Most HAVING clauses of standing queries do just that, and most groups do not pass, so their other aggregates need not be
lowered. `panewise.language.evaluate` takes conditions of any other form, and answers that are NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from panewise.aggregates.lowering import Lowered
from panewise.aggregates.types import Type
from panewise.arrays import Bools
from panewise.language.expressions import AggregateCall, Comparison, Expression, Literal, Logical

_COMPARE: dict[str, Callable[..., Bools]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_NUMBERS = (Type.BIGINT, Type.DOUBLE)


def passing(having: Expression, lowered: Callable[[AggregateCall], Lowered]) -> Bools | None:
    """Where a condition over aggregates is true; None if it is not of this form."""
    match having:
        case Logical(operator=operator, left=left, right=right):
            first = passing(left, lowered)
            second = None if first is None else passing(right, lowered)
            if first is None or second is None:
                return None
            # Either side may be unknown; whether the whole is true does not depend on that.
            return first & second if operator == "AND" else first | second
        case Comparison(operator=operator, left=AggregateCall() as call, right=Literal(type=kind) as literal) if (
            kind in _NUMBERS and operator in _COMPARE
        ):
            return _compared(lowered(call), operator, literal)
        case _:
            return None


def _compared(answers: Lowered, operator: str, literal: Literal) -> Bools | None:
    assert isinstance(literal.value, (int, float))
    if answers.exact is not None and literal.type is Type.BIGINT:
        return answers.valid & _COMPARE[operator](answers.exact, np.int64(literal.value))
    if np.isnan(literal.value) or bool(np.any(np.isnan(answers.values) & answers.valid)):
        return None
    return answers.valid & _COMPARE[operator](answers.values, np.float64(literal.value))
