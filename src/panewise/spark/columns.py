"""Expressions as native Spark columns: the twin of `panewise.language.evaluate`, with the same truth for each event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from panewise.aggregates.types import Type
from panewise.language import expressions as ex
from panewise.language.evaluate import PAIR
from panewise.language.expressions import Expression
from panewise.language.patterns import as_regular
from panewise.language.scalars import SCALARS, Taking
from panewise.language.typecheck import common_type, type_of
from panewise.spark.scalar_columns import call_scalar, cast_to

SPARK_TYPES = {
    Type.BOOLEAN: "boolean",
    Type.BIGINT: "bigint",
    Type.DOUBLE: "double",
    Type.STRING: "string",
    # Inside Panewise a timestamp is its number of microseconds.
    Type.TIMESTAMP: "bigint",
}


def to_column(expression: Expression, types: Mapping[str, Type]) -> Column:
    """An expression over attributes as a column; timestamps are BIGINT microseconds."""
    match expression:
        case ex.Literal(value=value, type=kind):
            # NULL stays without a type: Spark then compares it with anything, without a cast.
            return F.lit(None) if kind is None else F.lit(value).cast(SPARK_TYPES[kind])
        case ex.Attribute(name=name):
            return named(name)
        case ex.Pair(operand=operand, partner=partner):
            one, other = to_column(operand, types), to_column(partner, types)
            both = F.struct(one.alias(PAIR[0]), other.alias(PAIR[1]))
            return F.when(one.isNotNull() & other.isNotNull(), both)
        case ex.Arithmetic(operator=operator, left=left, right=right):
            return _arithmetic(operator, _double(left, types), _double(right, types))
        case ex.Negate(operand=operand):
            return -_double(operand, types)
        case ex.ScalarCall(function=function, arguments=arguments):
            return _scalar(function, arguments, types)
        case ex.Cast(operand=operand, kind=wanted):
            source = type_of(operand, types)
            column = to_column(operand, types)
            return column.cast(SPARK_TYPES[wanted]) if source in (None, wanted) else cast_to(wanted, source, column)
        case ex.Case(conditions=conditions, values=values, otherwise=otherwise):
            of_all = type_of(expression, types)
            chain = F.when(to_condition(conditions[0], types), _cast(values[0], of_all, types))
            for condition, answer in zip(conditions[1:], values[1:], strict=True):
                chain = chain.when(to_condition(condition, types), _cast(answer, of_all, types))
            return chain if otherwise is None else chain.otherwise(_cast(otherwise, of_all, types))
        case ex.Comparison(operator=operator, left=left, right=right):
            return _compare(operator, to_column(left, types), to_column(right, types))
        case ex.Logical(operator=operator, left=left, right=right):
            first, second = to_condition(left, types), to_condition(right, types)
            return first & second if operator == "AND" else first | second
        case ex.Not(operand=operand):
            return ~to_condition(operand, types)
        case ex.IsNull(operand=operand, negated=negated):
            column = to_column(operand, types)
            return column.isNotNull() if negated else column.isNull()
        case ex.InList(operand=operand, items=items, negated=negated):
            column = to_column(operand, types)
            # One equality for each item, so that each pair is compared in its own types.
            found = reduce(lambda a, b: a | b, (column == to_column(item, types) for item in items))
            return ~found if negated else found
        case ex.Like(operand=operand, pattern=pattern, negated=negated):
            found = to_column(operand, types).rlike(as_regular(pattern))
            return ~found if negated else found
        case _:
            raise AssertionError(f"{expression} is not a scalar expression")


def to_condition(expression: Expression, types: Mapping[str, Type]) -> Column:
    """An expression that is true, false or NULL."""
    column = to_column(expression, types)
    return column.cast("boolean") if type_of(expression, types) is None else column


def named(name: str) -> Column:
    """An attribute by its exact name."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _double(expression: Expression, types: Mapping[str, Type]) -> Column:
    column = to_column(expression, types)
    return column if type_of(expression, types) is Type.DOUBLE else column.cast("double")


def _scalar(function: str, arguments: Sequence[Expression], types: Mapping[str, Type]) -> Column:
    """A function of columns, each in the type that the function takes."""
    entry = SCALARS[function]
    kinds = [type_of(argument, types) for argument in arguments]
    constants = [argument.value if isinstance(argument, ex.Literal) else None for argument in arguments]
    match entry.takes:
        case Taking.ALIKE:
            of_all = common_type(arguments, types, function)
            columns = [_cast(argument, of_all, types) for argument in arguments]
        case Taking.NUMBERS:
            kind = Type.DOUBLE if entry.result is Type.DOUBLE else kinds[0] or Type.DOUBLE
            columns = [_cast(argument, kind, types) for argument in arguments[: entry.fewest]]
            return call_scalar(function, kind, columns, constants)
        case Taking.STRINGS:
            columns = [_cast(argument, Type.STRING, types) for argument in arguments]
        case _:
            columns = [to_column(arguments[0], types), _cast(arguments[1], Type.TIMESTAMP, types)]
    return call_scalar(function, kinds[0] or Type.DOUBLE, columns, constants)


def _cast(expression: Expression, kind: Type | None, types: Mapping[str, Type]) -> Column:
    """An expression in the type that it has among others."""
    column = to_column(expression, types)
    return column if kind is None or type_of(expression, types) is kind else column.cast(SPARK_TYPES[kind])


def _arithmetic(operator: str, left: Column, right: Column) -> Column:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return F.try_divide(left, right)


def _compare(operator: str, left: Column, right: Column) -> Column:
    match operator:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right
