"""A second oracle: DuckDB answers a bound query from the raw events, by SQL that is written from the query's parts.

It knows every window, WHERE, GROUP BY, HAVING, and every aggregate that is no sketch. Times are BIGINT microseconds.
Its numbers, where its own aggregates would be worse than what is tested:

- sums of doubles are Kahan sums (`fsum`), of BIGINT they are HUGEINT;
- variances of BIGINT, and of doubles that are `whole`, come from exact HUGEINT sums; of other doubles from DuckDB's own
  update of a mean, whose error grows with n and with the mean's size beside the deviation: `scale` allows for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from tests.oracle import Answer, Event

from panewise.aggregates.types import Type
from panewise.language.expressions import (
    AggregateCall,
    Arithmetic,
    Attribute,
    Case,
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
from panewise.language.model import Query, Stream
from panewise.windows.window import TimeWindow

_TYPES = {
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.BIGINT: pa.int64(),
    Type.DOUBLE: pa.float64(),
    Type.TIMESTAMP: pa.int64(),
}
_VARIANCES = {"VAR_POP": 0, "STDDEV_POP": 0, "VAR_SAMP": 1, "STDDEV_SAMP": 1}


class DuckDBOracle:
    """The events of one stream in DuckDB; `whole` says that all doubles are integers of less than 2**55."""

    def __init__(self, stream: Stream, events: Sequence[Event] | pa.Table, *, whole: bool = False) -> None:
        self._stream = stream
        self._whole = whole
        schema = pa.schema([(name, _TYPES[kind]) for name, kind in stream.attributes.items()])
        table = events if isinstance(events, pa.Table) else pa.Table.from_pylist(list(events), schema)
        columns = {name: _as_column(table.column(name), schema.field(name).type) for name in schema.names}
        columns["arrival"] = pa.array(range(table.num_rows), pa.int64())
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.register("given", pa.table(columns))
        self._connection.execute("CREATE TABLE events AS SELECT * FROM given")

    def closed(self, query: Query) -> list[Answer]:
        """The answers of all windows of a query with a slide, at the end of the stream."""
        time, window = _name(self._stream.timestamp), query.window
        if isinstance(window, TimeWindow):
            slide, length = window.slide_us, window.left_us
            assert slide is not None
            first, last = self._one(f"SELECT min({time}), max({time}) FROM events")
            if first is None:
                return []
            series = f"generate_series({(first - length) // slide + 1}, {last // slide})"
            windows = f"SELECT k * {slide} AS ws, k * {slide} + {length} AS we FROM {series} AS s(k)"
            covered = f"SELECT ws, we, events.* FROM ({windows}) JOIN events ON {time} >= ws AND {time} < we"
        else:
            ends = f"SELECT position AS m FROM numbered WHERE (position - {window.left}) % {window.slide} = 0"
            covered = (
                f"SELECT min({time}) OVER (PARTITION BY m) AS ws, max({time}) OVER (PARTITION BY m) AS we, "
                f"m AS instance, numbered.* FROM ({ends}) "
                f"JOIN numbered ON position > m - {window.left} AND position <= m - {window.right}"
            )
        return self._answers(query, covered, ["ws", "we", *([] if isinstance(window, TimeWindow) else ["instance"])])

    def looked_up(self, query: Query, at: int) -> list[Answer]:
        """The answers of a query without slide, at a time."""
        time, window = _name(self._stream.timestamp), query.window
        if isinstance(window, TimeWindow):
            start, end = at - window.left_us, at - window.right_us
            covered = f"SELECT {start} AS ws, {end} AS we, * FROM events WHERE {time} > {start} AND {time} <= {end}"
        else:
            by = ", ".join(map(_name, window.partition_by))
            over = f"OVER (PARTITION BY {by})" if by else "OVER ()"
            reached = f"SELECT *, count(*) {over} AS m FROM numbered WHERE {time} <= {at}"
            covered = (
                f"SELECT min({time}) {over} AS ws, max({time}) {over} AS we, * FROM ({reached}) "
                f"WHERE position > m - {window.left} AND position <= m - {window.right}"
            )
            if not query.group_by:
                start, end = self._one(f"{self._numbered(query)} SELECT min(ws), max(we) FROM ({covered})")
                start, end = (at, at) if start is None else (start, end)
        if query.group_by:
            return self._answers(query, covered, ["ws", "we"])
        return self._answers(query, covered, [], (start, end))

    def _numbered(self, query: Query) -> str:
        """Every event with its position in the stream, or in its substream."""
        by = ", ".join(map(_name, getattr(query.window, "partition_by", ())))
        partition = f"PARTITION BY {by} " if by else ""
        order = f"{partition}ORDER BY {_name(self._stream.timestamp)}, arrival"
        return f"WITH numbered AS (SELECT *, row_number() OVER ({order}) AS position FROM events)"

    def _answers(
        self, query: Query, covered: str, places: list[str], ends: tuple[int, int] | None = None
    ) -> list[Answer]:
        calls = _calls(query)
        keys = [f"{_name(name)} AS key_{place}" for place, name in enumerate(query.group_by)]
        columns = [f"{self._value(call)} AS value_{place}" for place, call in enumerate(calls)]
        columns += [f"{self._scale(call)} AS scale_{place}" for place, call in enumerate(calls)]
        # What is computed from aggregates is read from the inner SELECT, and exact.
        computed = [f"{self._sql(one, calls, query.group_by)} AS computed_{i}" for i, one in enumerate(query.computed)]
        where = "" if query.where is None else f" WHERE {self._sql(query.where)}"
        by = [*places, *(f"key_{place}" for place in range(len(query.group_by)))]
        group = f" GROUP BY {', '.join(by)}" if by else ""
        having = "" if query.having is None else f" WHERE {self._sql(query.having, calls, query.group_by)}"
        text = (
            f"{self._numbered(query)}, covered AS ({covered}) SELECT {', '.join(['*', *computed])} FROM "
            f"(SELECT {', '.join([*places, *keys, *columns])} FROM covered{where}{group}){having}"
        )
        found = []
        result = self._connection.execute(text)
        names = [column[0] for column in result.description]
        for row in result.fetchall():
            one = dict(zip(names, row))
            start, end = ends or (one["ws"], one["we"])
            group_key = tuple((name, _plain(one[f"key_{place}"])) for place, name in enumerate(query.group_by))
            for item, selected in enumerate(query.select):
                if isinstance(selected.expression, AggregateCall):
                    place = calls.index(selected.expression)
                    scale = one[f"scale_{place}"]
                    scale = 0.0 if scale is None or not math.isfinite(scale) else float(scale)
                    value = _plain(one[f"value_{place}"])
                    found.append(Answer(query.name, start, end, group_key, item, value, scale))
                elif selected.is_answer:
                    value = _plain(one[f"computed_{query.computed.index(selected.expression)}"])
                    found.append(Answer(query.name, start, end, group_key, item, value))
        return found

    def _one(self, text: str) -> tuple[Any, ...]:
        row = self._connection.execute(text).fetchone()
        assert row is not None
        return row

    # Aggregates

    def _is_double(self, node: Expression) -> bool:
        if isinstance(node, Attribute):
            return self._stream.attributes[node.name] is Type.DOUBLE
        if isinstance(node, Case):
            return any(map(self._is_double, node.values))
        return isinstance(node, Arithmetic | Negate) or (isinstance(node, Literal) and node.type is Type.DOUBLE)

    def _value(self, call: AggregateCall) -> str:
        if call.argument is None:
            return "count(*)"
        x = self._sql(call.argument)
        n, is_double = f"count({x})", self._is_double(call.argument)
        match call.function:
            case "COUNT":
                return n
            case "COUNT_DISTINCT":
                return f"count(DISTINCT {_positive_zero(x) if is_double else x})"
            case "MIN" | "MAX":
                return f"{call.function.lower()}({x})"
            case "SUM":
                return _special(x, f"fsum({x}) FILTER (isfinite({x}))") if is_double else f"sum({x})"
            case "AVG":
                mean = f"favg({x}) FILTER (isfinite({x}))"
                return _special(x, mean) if is_double else f"CAST(sum({x}) AS DOUBLE) / nullif({n}, 0)"
            case "QUANTILE" | "MEDIAN":
                rank = f"({n} + 1) // 2"
                if call.function == "QUANTILE":
                    rank = f"greatest(1, CAST(floor(CAST('{call.parameter!r}' AS DECIMAL(9, 6)) * {n}) AS BIGINT))"
                return f"(list_sort(list({x}) FILTER ({x} IS NOT NULL)))[{rank}]"
            case "MODE":
                # Of the values in order the first whose count is the greatest: equal ones are neighbours.
                values = f"list_sort(list({_positive_zero(x) if is_double else x}) FILTER ({x} IS NOT NULL))"
                counts = "list_transform(l, lambda v: len(list_filter(l, lambda w: w = v)))"
                first = f"l[list_position({counts}, list_max({counts}))]"
                return f"list_extract(list_transform([{values}], lambda l: {first}), 1)"
        sample, is_root = _VARIANCES[call.function], call.function.startswith("STDDEV")
        if not is_double or self._whole:
            found = self._exact_variance(x, sample)
            if is_double:
                found = _not_finite(x, found)
        else:
            found = _not_finite(x, f"{'var_samp' if sample else 'var_pop'}({x}) FILTER (isfinite({x}))")
        found = f"CASE WHEN {n} > {sample} THEN {found} END"
        return f"sqrt({found})" if is_root else found

    def _exact_variance(self, x: str, sample: int) -> str:
        """n * squares - sum**2 in HUGEINT, and one division."""
        whole = f"CAST({_finite(x)} AS HUGEINT)"
        n, total, squares = f"CAST(count({x}) AS HUGEINT)", f"sum({whole})", f"sum({whole} * {whole})"
        return f"CAST({n} * {squares} - {total} * {total} AS DOUBLE) / nullif(count({x}) * (count({x}) - {sample}), 0)"

    def _scale(self, call: AggregateCall) -> str:
        """How far an answer may be off, in the units of `tests.oracle.TOLERANCE`; 0 for exact ones."""
        if call.argument is None or call.function not in ("SUM", "AVG", *_VARIANCES):
            return "0.0"
        x, is_double = self._sql(call.argument), self._is_double(call.argument)
        finite = f"FILTER (isfinite(CAST({x} AS DOUBLE)))"
        if call.function in ("SUM", "AVG"):
            if call.function == "SUM" and not is_double:
                return "0.0"
            return f"{'sum' if call.function == 'SUM' else 'avg'}(abs(CAST({x} AS DOUBLE))) {finite}"
        sample, is_root = _VARIANCES[call.function], call.function.startswith("STDDEV")
        if not is_double or self._whole:
            found = self._value(AggregateCall(call.function, call.argument))
            return f"abs({found})"
        n, square = f"count({x})", f"avg({x} * {x}) {finite}"
        spread = f"{'var_samp' if sample else 'var_pop'}({x}) {finite}"
        off = f"({n} * ({spread} + sqrt({spread} * {square})) + {n} * {n} * 1.2e-16 * {square})"
        root = f"least({off} / nullif(sqrt({spread}), 0), sqrt({off} / 1e-15))"
        return f"CASE WHEN {n} > {sample} THEN {root if is_root else off} END"

    # Expressions

    def _sql(self, node: Expression, calls: Sequence[AggregateCall] = (), group_by: Sequence[str] = ()) -> str:
        def sql(inner: Expression) -> str:
            return self._sql(inner, calls, group_by)

        match node:
            case AggregateCall():
                return f"value_{calls.index(node)}"
            case Attribute(name=name):
                return f"key_{list(group_by).index(name)}" if group_by and calls else _name(name)
            case Literal(value=value):
                return _literal(value)
            case Arithmetic(operator=operator, left=left, right=right):
                one, other = f"CAST({sql(left)} AS DOUBLE)", f"CAST({sql(right)} AS DOUBLE)"
                if operator == "/":
                    return f"(CASE WHEN {other} = 0 THEN NULL ELSE {one} / {other} END)"
                return f"({one} {operator} {other})"
            case Case(conditions=conditions, values=values, otherwise=otherwise):
                whens = " ".join(f"WHEN {sql(c)} THEN {sql(v)}" for c, v in zip(conditions, values, strict=True))
                return f"(CASE {whens}{'' if otherwise is None else f' ELSE {sql(otherwise)}'} END)"
            case Negate(operand=operand):
                return f"(-CAST({sql(operand)} AS DOUBLE))"
            case Comparison(operator=operator, left=left, right=right):
                return f"({sql(left)} {operator} {sql(right)})"
            case Logical(operator=operator, left=left, right=right):
                return f"({sql(left)} {operator} {sql(right)})"
            case Not(operand=operand):
                return f"(NOT {sql(operand)})"
            case IsNull(operand=operand, negated=negated):
                return f"({sql(operand)} IS {'NOT ' if negated else ''}NULL)"
            case InList(operand=operand, items=items, negated=negated):
                listed = ", ".join(sql(item) for item in items)
                return f"({sql(operand)} {'NOT ' if negated else ''}IN ({listed}))"
            case Like(operand=operand, pattern=pattern, negated=negated):
                return f"({sql(operand)} {'NOT ' if negated else ''}LIKE {_literal(pattern)} ESCAPE '\\')"
        raise AssertionError(node)


def _calls(query: Query) -> list[AggregateCall]:
    return list(query.aggregates)


def _as_column(column: Any, kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(kind)


def _special(x: str, finite: str) -> str:
    """A sum with the NaNs and infinities among the values; NULL of none."""
    odd = f"bool_or(isnan({x})) OR (bool_or({x} = 'inf'::DOUBLE) AND bool_or({x} = '-inf'::DOUBLE))"
    return (
        f"CASE WHEN {odd} THEN 'nan'::DOUBLE WHEN bool_or({x} = 'inf'::DOUBLE) THEN 'inf'::DOUBLE "
        f"WHEN bool_or({x} = '-inf'::DOUBLE) THEN '-inf'::DOUBLE ELSE {finite} END"
    )


def _not_finite(x: str, finite: str) -> str:
    return f"CASE WHEN bool_or(NOT isfinite({x})) THEN 'nan'::DOUBLE ELSE {finite} END"


def _finite(x: str) -> str:
    return f"CASE WHEN isfinite(CAST({x} AS DOUBLE)) THEN {x} ELSE 0 END"


def _positive_zero(x: str) -> str:
    return f"(CASE WHEN {x} = 0 THEN 0.0::DOUBLE ELSE {x} END)"


def _name(name: str) -> str:
    return f'"{name}"'


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case int():
            return f"CAST({value} AS BIGINT)"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
    return "'" + value.replace("'", "''") + "'"


def _plain(value: Any) -> Any:
    """A value as the tests compare it: zeros have no sign."""
    return 0.0 if isinstance(value, float) and value == 0.0 else value
