"""The types of expressions.

>>> from panewise.language.expressions import Arithmetic, Attribute, Literal
>>> str(type_of(Arithmetic("+", Attribute("x"), Literal(1, Type.BIGINT)), {"x": Type.BIGINT}))
'DOUBLE'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panewise.aggregates.catalogue import CATALOGUE, Partner
from panewise.aggregates.sketches import PACKAGE, is_installed
from panewise.aggregates.types import Type
from panewise.extras import cure
from panewise.language import expressions as ex
from panewise.language.expressions import Expression
from panewise.language.printer import print_expression
from panewise.language.scalars import CASTS, SCALARS, Taking
from panewise.language.source import PlacedError, hint_for, shortened


def type_of(expression: Expression, attributes: Mapping[str, Type]) -> Type | None:
    """The type of an expression over attributes of these types; None is the type of NULL and fits everywhere.

    An unknown attribute or a wrong type raises a `PlacedError` at its place.
    """
    match expression:
        case ex.Literal():
            return expression.type
        case ex.Attribute():
            return _attribute(expression, attributes)
        case ex.AggregateCall():
            return _aggregate(expression, attributes)
        case ex.Pair():
            type_of(expression.partner, attributes)
            return type_of(expression.operand, attributes)
        case ex.RowCall():
            message = f"{expression.function} gives rows, not a value"
            raise PlacedError(message, expression.span, "it must be alone in SELECT")
        case ex.Arithmetic():
            for side in (expression.left, expression.right):
                _expect_number(side, type_of(side, attributes), f"the operator {expression.operator}")
            return Type.DOUBLE
        case ex.Negate():
            _expect_number(expression.operand, type_of(expression.operand, attributes), "a minus sign")
            return Type.DOUBLE
        case ex.ScalarCall():
            return _scalar(expression, attributes)
        case ex.Cast():
            operand = type_of(expression.operand, attributes)
            if operand not in (None, expression.kind, *CASTS[expression.kind]):
                message = f"CAST cannot turn {written(expression.operand)}, which is {operand}, into {expression.kind}"
                known = ", ".join(str(kind) for kind in Type if kind in CASTS[expression.kind])
                hint = f"it takes {known}" if known else "declare the attribute as TIMESTAMP"
                raise PlacedError(message, expression.operand.span, hint)
            return expression.kind
        case ex.Case():
            for condition in expression.conditions:
                expect_condition(condition, attributes, "this place")
            values = (*expression.values, *([] if expression.otherwise is None else [expression.otherwise]))
            return common_type(values, attributes, "the values of a CASE")
        case ex.Comparison():
            left = type_of(expression.left, attributes)
            _expect_comparable(expression.left, left, expression.right, type_of(expression.right, attributes))
        case ex.Logical():
            for side in (expression.left, expression.right):
                expect_condition(side, attributes, expression.operator)
        case ex.Not():
            expect_condition(expression.operand, attributes, "NOT")
        case ex.IsNull():
            type_of(expression.operand, attributes)
        case ex.InList():
            operand = type_of(expression.operand, attributes)
            for item in expression.items:
                _expect_comparable(expression.operand, operand, item, item.type)
        case ex.Like():
            operand = type_of(expression.operand, attributes)
            if operand not in (None, Type.STRING):
                message = f"LIKE needs a STRING, {written(expression.operand)} is {operand}"
                raise PlacedError(message, expression.operand.span, "compare other types with = < > or BETWEEN")
        case _:
            raise TypeError(f"unknown kind of expression: {expression!r}")
    return Type.BOOLEAN


def _scalar(call: ex.ScalarCall, attributes: Mapping[str, Type]) -> Type | None:
    entry = SCALARS[call.function]
    if entry.takes is Taking.ALIKE:
        found = common_type(call.arguments, attributes, f"the arguments of {call.function}")
        return type_of(call.arguments[0], attributes) if call.function == "NULLIF" else found
    if entry.takes is Taking.NUMBERS:
        for argument in call.arguments:
            _expect_number(argument, type_of(argument, attributes), call.function)
        return entry.result or type_of(call.arguments[0], attributes) or Type.DOUBLE
    is_time = entry.takes is Taking.TIME
    wanted = Type.TIMESTAMP if is_time else Type.STRING
    checked = call.arguments[1:] if is_time else call.arguments[:1]
    for argument in call.arguments if call.function == "CONCAT" else checked:
        kind = type_of(argument, attributes)
        if kind not in (None, wanted):
            hint = "name an attribute of that type" if is_time else "CAST(x AS STRING) makes a STRING of a BIGINT"
            raise PlacedError(f"{call.function} needs {wanted}, {written(argument)} is {kind}", argument.span, hint)
    is_fraction = call.function == "EXTRACT" and call.arguments[0] == ex.Literal("SECOND", Type.STRING)
    return Type.DOUBLE if is_fraction else entry.result


def common_type(values: Sequence[Expression], attributes: Mapping[str, Type], what: str) -> Type | None:
    """The one type of several values: BIGINT and DOUBLE together are DOUBLE, and NULL fits everywhere."""
    found: Type | None = None
    for value in values:
        kind = type_of(value, attributes)
        if found is None or kind is None or kind is found:
            found = found or kind
        elif kind.is_number and found.is_number:
            found = Type.DOUBLE
        else:
            message = f"{what} have one type, and {written(value)} is {kind}, not {found}"
            raise PlacedError(message, value.span, "make them all of one type")
    return found


def expect_condition(expression: Expression, attributes: Mapping[str, Type], place: str) -> None:
    """Refuse an expression that is neither true nor false where a condition is needed."""
    found = type_of(expression, attributes)
    if found not in (None, Type.BOOLEAN):
        message = f"{place} needs a condition, {written(expression)} is {found}"
        raise PlacedError(message, expression.span, "compare it with something, for instance x > 0")


def _attribute(attribute: ex.Attribute, attributes: Mapping[str, Type]) -> Type:
    found = attributes.get(attribute.name)
    if found is None:
        raise unknown_attribute(attribute, attributes)
    return found


def unknown_attribute(attribute: ex.Attribute, attributes: Mapping[str, Type]) -> PlacedError:
    """The error for a name that is not an attribute."""
    hint = hint_for(attribute.name, attributes, "the stream has no attributes")
    return PlacedError(f"unknown attribute {shortened(attribute.name)}", attribute.span, hint)


def _aggregate(call: ex.AggregateCall, attributes: Mapping[str, Type]) -> Type:
    aggregate = CATALOGUE.get(call.function)
    if aggregate is None:
        hint = "APPROX_TOP_COUNT(x, 1) is how often the most frequent value occurs, APPROX_TOP_ITEM(x, 1) the value"
        raise PlacedError(f"{call.function} stands for several values, and one is needed here", call.span, hint)
    if not aggregate.is_exact and not is_installed():
        message = f"{call.function} needs {PACKAGE}, which is not installed"
        raise PlacedError(message, call.span, cure("sketches"))
    if call.argument is None:
        return aggregate.result_type(None)
    value = call.argument.operand if isinstance(call.argument, ex.Pair) else call.argument
    argument = type_of(call.argument, attributes)
    if argument is None:
        message = f"the argument of {call.function} is NULL, which has no type"
        raise PlacedError(message, value.span, "aggregate an attribute")
    if not aggregate.accepts(argument):
        accepted = " or ".join(str(kind) for kind in Type if aggregate.accepts(kind))
        message = f"{call.function} needs {accepted}, {written(value)} is {argument}"
        raise PlacedError(message, value.span, "COUNT and COUNT(DISTINCT ...) take every type")
    if isinstance(call.argument, ex.Pair) and aggregate.partner is Partner.ARGUMENT:
        _check_partner(call.function, call.argument.partner, aggregate.partner_types, attributes)
    return aggregate.result_type(argument)


def _check_partner(
    function: str, partner: Expression, accepted: frozenset[Type], attributes: Mapping[str, Type]
) -> None:
    """Refuse a second argument of another type."""
    found = type_of(partner, attributes)
    if found not in accepted:
        wanted = " or ".join(str(kind) for kind in Type if kind in accepted)
        message = f"the second argument of {function} must be {wanted}, {written(partner)} is {found or 'NULL'}"
        raise PlacedError(message, partner.span, "name an attribute of that type")


def _expect_number(expression: Expression, found: Type | None, place: str) -> None:
    if found is not None and not found.is_number:
        hint = "compare timestamps with TIMESTAMP '...'" if found is Type.TIMESTAMP else "use BIGINT or DOUBLE"
        raise PlacedError(f"{place} needs numbers, {written(expression)} is {found}", expression.span, hint)


def _expect_comparable(left: Expression, left_type: Type | None, right: Expression, right_type: Type | None) -> None:
    if left_type is None or right_type is None or left_type is right_type:
        return
    if left_type.is_number and right_type.is_number:
        return
    both = {left_type, right_type}
    hint = "compare values of one type"
    if both == {Type.TIMESTAMP, Type.STRING}:
        hint = "write a timestamp as TIMESTAMP '2013-01-31 05:00:00'"
    elif Type.STRING in both:
        hint = "a value in '...' is a STRING, a name in \"...\" is an attribute"
    # The constant is what the reader would change.
    wrong = left if isinstance(left, ex.Literal) and not isinstance(right, ex.Literal) else right
    message = f"cannot compare {written(left)} ({left_type}) with {written(right)} ({right_type})"
    raise PlacedError(message, wrong.span, hint)


def written(expression: Expression) -> str:
    """An expression for use in a message, cut when it is long."""
    text = print_expression(expression)
    return text if len(text) <= 40 else text[:37] + "..."
