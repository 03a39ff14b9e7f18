"""Expressions over columns: Arrow arrays in, one Arrow array out.

Inside the engine a BIGINT and a TIMESTAMP are int64, a DOUBLE is float64, a STRING is string or a dictionary
of strings. NULL is Arrow's null; AND, OR and NOT are three-valued. Arrow follows IEEE 754 and Panewise follows Spark,
so the differences are patched here: NaN equals NaN and is above every number, and a division by zero is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.language import expressions as ex
from panewise.language.expressions import Expression, aggregates_of, bare_attributes
from panewise.language.patterns import as_regular
from panewise.language.scalar_values import call_scalar, cast_to
from panewise.language.scalars import SCALARS, Taking
from panewise.language.typecheck import type_of

# An array, or a scalar that stands for an array of equal values.
Datum = Any

ARROW_TYPES: Mapping[Type, pa.DataType] = {
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.STRING: pa.string(),
    Type.TIMESTAMP: pa.int64(),
}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_COMPARISONS = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
PAIR = ("value", "partner")
"""The fields of a pair."""
_MIRRORED = {">": "<", ">=": "<="}
_UNKNOWN = pa.scalar(None, pa.bool_())


def evaluate(
    expression: Expression,
    columns: Mapping[str, pa.Array[Any] | pa.ChunkedArray[Any]],
    types: Mapping[str, Type],
    aggregates: Mapping[ex.AggregateCall, pa.Array[Any]] | None = None,
    *,
    length: int | None = None,
) -> pa.Array[Any]:
    """The value of a bound expression for each row.

    `types` gives the declared type of each column, and `aggregates` the values of the aggregates in a HAVING.
    `length` is the number of rows, needed only when `columns` and `aggregates` are both empty.
    Cost: one pass of Arrow over the rows per node, and over the dictionary alone where a node reads only one
    dictionary column.
    """
    arrays = {name: _normalised(columns[name], types[name]) for name in _names(expression)}
    if length is None:
        given = next(iter([*columns.values(), *(aggregates or {}).values()]), None)
        if given is None:
            raise ValueError("no column tells how many rows there are: pass length")
        length = len(given)
    result: pa.Array[Any] = _filled(_Evaluation(arrays, aggregates or {}, types).value(expression), length)
    # Only a condition can be a NULL without a type.
    return result.cast(pa.bool_()) if pa.types.is_null(result.type) else result


def _names(expression: Expression) -> list[str]:
    """The columns that an expression reads; those inside its aggregates were read before."""
    return list(dict.fromkeys(attribute.name for attribute in bare_attributes(expression)))


def _normalised(column: Any, declared: Type) -> Any:
    """A column as one array of the Arrow type that stands for its declared type."""
    if isinstance(column, pa.ChunkedArray):
        if pa.types.is_dictionary(column.type):
            column = column.unify_dictionaries()
        column = column.combine_chunks()
    found, wanted = column.type, ARROW_TYPES[declared]
    if pa.types.is_dictionary(found) and found.value_type == wanted:
        return column
    if pa.types.is_timestamp(found):
        column = column.cast(pa.timestamp("us", found.tz))
    return column if column.type == wanted else column.cast(wanted)


def _filled(value: Datum, length: int) -> Any:
    """An array of a value, decoded when it is a dictionary."""
    return _repeated(value, length) if isinstance(value, pa.Scalar) else _decoded(value)


def _repeated(value: Any, length: int) -> Any:
    return pa.repeat(value, length)


def _decoded(value: Datum) -> Datum:
    is_dictionary = isinstance(value, pa.DictionaryArray)
    return value.dictionary_decode() if is_dictionary else value


class _Evaluation:
    """One evaluation: the columns and aggregates that the nodes of an expression read."""

    def __init__(
        self, columns: Mapping[str, Any], aggregates: Mapping[ex.AggregateCall, Any], types: Mapping[str, Type]
    ) -> None:
        self._columns = columns
        self._types = types
        self._aggregates = aggregates
        self._has_dictionary = any(isinstance(column, pa.DictionaryArray) for column in columns.values())

    def value(self, node: Expression) -> Datum:
        """The value of a node, computed over the dictionary if possible."""
        if self._has_dictionary and not isinstance(node, ex.Attribute | ex.Literal):
            names = _names(node)
            column = self._columns[names[0]] if len(names) == 1 and not aggregates_of(node) else None
            # A dictionary longer than the column (a slice of a larger one) is not worth it.
            if isinstance(column, pa.DictionaryArray) and len(column.dictionary) < len(column):
                return _over_dictionary(node, names[0], column, self._types)
        return self._computed(node)

    def _computed(self, node: Expression) -> Datum:
        match node:
            case ex.Literal():
                return pa.scalar(node.value, pa.null() if node.type is None else ARROW_TYPES[node.type])
            case ex.Attribute():
                return _decoded(self._columns[node.name])
            case ex.AggregateCall():
                return self._aggregates[node]
            case ex.Pair():
                return _pair(_decoded(self.value(node.operand)), _decoded(self.value(node.partner)))
            case ex.Arithmetic():
                return _arithmetic(node.operator, self.value(node.left), self.value(node.right))
            case ex.Negate():
                return pc.call_function("negate", [_doubles(self.value(node.operand))])
            case ex.ScalarCall():
                return _scalar(node, [_decoded(self.value(argument)) for argument in node.arguments])
            case ex.Cast():
                return self._cast(node)
            case ex.Case():
                conditions = [_condition(self.value(condition)) for condition in node.conditions]
                others = () if node.otherwise is None else (node.otherwise,)
                return _case(conditions, [_decoded(self.value(value)) for value in (*node.values, *others)])
            case ex.Comparison():
                return _compare(node.operator, self.value(node.left), self.value(node.right))
            case ex.Logical():
                function = "and_kleene" if node.operator == "AND" else "or_kleene"
                sides = [_condition(self.value(node.left)), _condition(self.value(node.right))]
                return pc.call_function(function, sides)
            case ex.Not():
                return pc.call_function("invert", [_condition(self.value(node.operand))])
            case ex.IsNull():
                return pc.call_function("is_valid" if node.negated else "is_null", [self.value(node.operand)])
            case ex.InList():
                return _negated(_in_list(self.value(node.operand), node.items), node.negated)
            case ex.Like():
                return _negated(_like(self.value(node.operand), node.pattern), node.negated)
            case _:
                raise TypeError(f"unknown kind of expression: {node!r}")

    def _cast(self, node: ex.Cast) -> Datum:
        value = _decoded(self.value(node.operand))
        if pa.types.is_null(value.type):
            return pc.cast(value, ARROW_TYPES[node.kind])
        source = type_of(node.operand, self._types)
        if source is node.kind or source is None:
            return value
        (column,), is_one = _arrays([value])
        found = cast_to(node.kind, source, column)
        return found[0] if is_one else found


def _over_dictionary(node: Expression, name: str, column: Any, types: Mapping[str, Type]) -> Datum:
    """Evaluate a node once per distinct value, then spread the results over the rows."""
    values = column.dictionary
    # NULL rows have no index; they get the index of a NULL put behind the dictionary.
    with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
    results = _filled(_Evaluation({name: with_null}, {}, types).value(node), len(with_null))
    indices = column.indices.cast(pa.int64()).fill_null(len(values))
    return results.take(indices)


def _condition(value: Datum) -> Datum:
    """A condition; NULL without a type becomes a BOOLEAN."""
    return _UNKNOWN if pa.types.is_null(value.type) else value


def _doubles(value: Datum) -> Datum:
    """A number as float64, rounded where int64 holds more digits."""
    if value.type == pa.float64():
        return value
    return pc.cast(value, pa.float64(), safe=False)


def _negated(value: Datum, negated: bool) -> Datum:
    return pc.call_function("invert", [value]) if negated else value


def _arithmetic(operator: str, left: Datum, right: Datum) -> Datum:
    left, right = _doubles(left), _doubles(right)
    if operator == "/":
        is_zero = pc.call_function("equal", [right, pa.scalar(0.0)])
        right = pc.call_function("if_else", [is_zero, pa.scalar(None, pa.float64()), right])
    return pc.call_function(_ARITHMETIC[operator], [left, right])


def _pair(value: Datum, partner: Datum) -> Datum:
    """A structure of both; NULL if one of both is."""
    (values, partners), is_one = _arrays([value, partner])
    valid = pc.call_function("and", [values.is_valid(), partners.is_valid()])
    mask = pc.call_function("invert", [valid])
    found = pa.StructArray.from_arrays([values, partners], list(PAIR), mask=mask)
    return found[0] if is_one else found


def _scalar(call: ex.ScalarCall, values: list[Datum]) -> Datum:
    """A function of values that are arrays, constants, or both."""
    entry = SCALARS[call.function]
    match entry.takes:
        case Taking.ALIKE:
            values = alike(values)
            if all(pa.types.is_null(value.type) for value in values):
                return values[0]
        case Taking.NUMBERS if entry.result is Type.DOUBLE or pa.types.is_null(values[0].type):
            values = [*map(_doubles, values[: entry.fewest]), *values[entry.fewest :]]
        case Taking.STRINGS:
            values = [pc.cast(value, pa.string()) if pa.types.is_null(value.type) else value for value in values]
        case Taking.TIME:
            values = [values[0], pc.cast(values[1], pa.int64())]
    columns, is_one = _arrays(values)
    equals, below = (lambda a, b: _compare("=", a, b)), (lambda a, b: _compare("<", a, b))
    found = call_scalar(call.function, columns, equals, below)
    return found[0] if is_one else found


def _arrays(values: list[Datum]) -> tuple[list[Any], bool]:
    """Values as arrays of one length, and whether they were all constants."""
    length = next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)
    return [_filled(value, 1 if length is None else length) for value in values], length is None


def _case(conditions: list[Datum], values: list[Datum]) -> Datum:
    """The value of the first condition that is true; the value behind the conditions, or NULL, if none is."""
    values = alike(values)
    found = values[len(conditions)] if len(values) > len(conditions) else pa.scalar(None, values[0].type)
    for condition, value in reversed(list(zip(conditions, values, strict=False))):
        is_true = pc.call_function("coalesce", [condition, pa.scalar(False)])
        found = pc.call_function("if_else", [is_true, value, found])
    return found


def alike(values: list[Datum]) -> list[Datum]:
    """Values of one type: BIGINT beside DOUBLE becomes DOUBLE, and a NULL without a type gets that of the others."""
    kinds = {value.type for value in values if not pa.types.is_null(value.type)}
    if not kinds:
        return values
    kind = pa.float64() if pa.float64() in kinds else next(iter(kinds))
    return [value if value.type == kind else pc.cast(value, kind, safe=False) for value in values]


def _compare(operator: str, left: Datum, right: Datum) -> Datum:
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return _UNKNOWN
    if pa.float64() in (left.type, right.type):
        left, right = _doubles(left), _doubles(right)
        if _may_hold_nan(left) or _may_hold_nan(right):
            return _compare_with_nan(operator, left, right)
    return pc.call_function(_COMPARISONS[operator], [left, right])


def _may_hold_nan(value: Datum) -> bool:
    found = pc.call_function("is_nan", [value])
    if isinstance(found, pa.Scalar):
        return bool(found.as_py())
    return bool(pc.call_function("any", [found]).as_py())


def _compare_with_nan(operator: str, left: Datum, right: Datum) -> Datum:
    """Compare floats with NaN as one value above all others; NULL on either side stays NULL."""
    if operator in _MIRRORED:
        return _compare_with_nan(_MIRRORED[operator], right, left)
    if operator == "<>":
        return pc.call_function("invert", [_compare_with_nan("=", left, right)])
    plain = pc.call_function(_COMPARISONS[operator], [left, right])
    left_is_nan = pc.call_function("is_nan", [left])
    right_is_nan = pc.call_function("is_nan", [right])
    if operator == "=":
        patch = pc.call_function("and", [left_is_nan, right_is_nan])
    elif operator == "<":
        patch = pc.call_function("and", [pc.call_function("invert", [left_is_nan]), right_is_nan])
    else:
        patch = right_is_nan
    return pc.call_function("or", [plain, patch])


def _in_list(operand: Datum, items: tuple[ex.Literal, ...]) -> Datum:
    """Whether the operand equals an item: BIGINT with BIGINT exactly, BIGINT with DOUBLE as doubles."""
    if pa.types.is_null(operand.type):
        return _UNKNOWN
    if operand.type == pa.int64():
        doubles = [item.value for item in items if item.type is Type.DOUBLE]
        others = [item.value for item in items if item.type is not Type.DOUBLE]
        found = _is_in(operand, others)
        if doubles:
            found = pc.call_function("or", [found, _is_in(_doubles(operand), doubles)])
        return found
    return _is_in(operand, [item.value for item in items])


def _is_in(operand: Datum, values: list[Any]) -> Datum:
    if operand.type == pa.float64():
        # Hashing tells -0.0 from 0.0; adding zero makes them equal.
        operand = pc.call_function("add", [operand, pa.scalar(0.0)])
        values = [float(value) + 0.0 for value in values]
    options = pc.SetLookupOptions(pa.array(values, operand.type))
    found = pc.call_function("is_in", [operand], options)
    return pc.call_function("if_else", [pc.call_function("is_valid", [operand]), found, _UNKNOWN])


def _like(operand: Datum, pattern: str) -> Datum:
    if pa.types.is_null(operand.type):
        return _UNKNOWN
    if "\\" in pattern:
        return pc.call_function("match_substring_regex", [operand], pc.MatchSubstringOptions(as_regular(pattern)))
    return pc.call_function("match_like", [operand], pc.MatchSubstringOptions(pattern))
