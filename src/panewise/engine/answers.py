"""Answers as they are computed, the long table for all queries, and one query's rows of it as a wide table.

Columns: `query`, `window_start`, `window_end`, every group-by attribute of the workload (NULL where the query does not
group by it), `aggregate` (its text or alias), `value` (DOUBLE) and `exact` (BIGINT; set where the answer is an integer
or a timestamp in microseconds, so that nothing is lost above 2**53). Further columns follow where some query of the
workload needs them: `text` for answers that are strings; `items` for lists, each item with `value`, `exact` and `text`
as an answer has them; and with WITHIN or approximate aggregates `low` and `high` (DOUBLE), the bounds of the answer,
both equal to `value` where it is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.lowering import Lowered, objects_of
from panewise.aggregates.types import Type
from panewise.arrays import Floats, Ints
from panewise.engine.columns import arrow_type
from panewise.engine.tables import KeyTable
from panewise.errors import ArgumentError, NamesClashError, UnknownNameError
from panewise.language.evaluate import evaluate
from panewise.language.expressions import AggregateCall, Attribute, Expression, aggregates_of, bare_attributes
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of
from panewise.language.typecheck import type_of
from panewise.language.workload import Workload
from panewise.planning.within import may_be_interval
from panewise.windows.window import NO_START_US

TIMESTAMP = pa.timestamp("us", tz="UTC")
NO_TIME = -(2**63)
"""Stands for NULL among times."""
FIXED_COLUMNS = frozenset({"query", "window_start", "window_end", "aggregate", "value", "exact"})
TEXT, ITEMS = "text", "items"
INTERVAL_COLUMNS = ("low", "high")
FURTHER_COLUMNS: Mapping[str, pa.DataType] = {
    TEXT: pa.string(),
    ITEMS: pa.list_(pa.struct({"value": pa.float64(), "exact": pa.int64(), TEXT: pa.string()})),
    **dict.fromkeys(INTERVAL_COLUMNS, pa.float64()),
}
"""Columns that follow the others if some query needs them."""
_NEEDED_BY = {
    TEXT: "where a query answers with strings",
    ITEMS: "where a query answers with lists",
    **dict.fromkeys(INTERVAL_COLUMNS, "where a query has WITHIN or an approximate aggregate"),
}


def _further_columns(stream: Stream, query: Query) -> Iterator[str]:
    """The columns of the long table that a query needs beside those that every query has."""
    if query.within is not None or not all(CATALOGUE[call.function].is_exact for call in query.aggregates):
        yield from INTERVAL_COLUMNS
    objects = [item.expression for item in query.answers if is_object(item.expression, stream)]
    if any(map(is_list, objects)):
        yield ITEMS
    if not all(map(is_list, objects)):
        yield TEXT


def public_type(kind: Type) -> pa.DataType:
    """The Arrow type that users see."""
    return TIMESTAMP if kind is Type.TIMESTAMP else arrow_type(kind)


def answers_schema(workload: Workload) -> pa.Schema:
    """The columns of a workload's answers. Cost: O(queries)."""
    return AnswerColumns.of(workload).schema


@dataclass(frozen=True)
class AnswerColumns:
    """The columns of the long table, and how many queries need those that not every query has."""

    schema: pa.Schema
    attributes: Mapping[str, Type]
    """What queries group by, in the order of the columns."""
    grouping: Mapping[str, int]
    """How many queries group by each attribute."""
    further: Mapping[str, int]
    """How many queries need each further column."""

    @staticmethod
    def of(workload: Workload) -> AnswerColumns:
        """The columns of a workload's answers."""
        nothing = AnswerColumns(pa.schema([]), {}, {}, {})
        return nothing.after(Workload(workload.streams), workload, list(workload.queries))

    def after(self, before: Workload, workload: Workload, named: Iterable[str]) -> AnswerColumns:
        """The columns once some queries have come or gone; names that would hide a column are refused.

        Cost: O(queries that came or went), and a look at queries that stay, up to the first with each attribute.
        """
        counts, types = Counter(self.grouping), dict(self.attributes)
        further, has_gone = Counter(self.further), False
        for name in named:
            old, new = before.queries.get(name), workload.queries.get(name)
            if old is not None and old is not new:
                counts.subtract(old.group_by)
                further.subtract(_further_columns(before.streams[old.stream], old))
                has_gone = True
            if new is not None and old is not new:
                _check_labels(workload.streams[new.stream], new)
                counts.update(new.group_by)
                types |= {name: workload.streams[new.stream].attributes[name] for name in new.group_by}
                further.update(_further_columns(workload.streams[new.stream], new))
        kept = [name for name in types if counts[name]]
        attributes = {name: types[name] for name in (_in_order(workload, len(kept)) if has_gone else kept)}
        return AnswerColumns(_long_schema(attributes, +further), attributes, +counts, +further)


def _in_order(workload: Workload, size: int) -> list[str]:
    """The attributes that queries group by, in the order of the first that do, if there are `size`."""
    found: dict[str, None] = {}
    for query in workload.queries.values():
        if len(found) == size:
            break
        found.update(dict.fromkeys(query.group_by))
    return list(found)


def _long_schema(attributes: Mapping[str, Type], further: Container[str]) -> pa.Schema:
    shown = [name for name in FURTHER_COLUMNS if name in further]
    clash = sorted((FIXED_COLUMNS | set(shown)) & attributes.keys())
    if clash:
        tables = "every answers table" if clash[0] in FIXED_COLUMNS else f"answers {_NEEDED_BY[clash[0]]}"
        raise NamesClashError(
            f"a query groups by {clash[0]!r}, which is the name of a column of {tables}; "
            f"rename the attribute in CREATE STREAM"
        )
    return pa.schema(
        [
            pa.field("query", pa.string(), nullable=False),
            pa.field("window_start", TIMESTAMP),
            pa.field("window_end", TIMESTAMP),
            *(pa.field(name, public_type(kind)) for name, kind in attributes.items()),
            pa.field("aggregate", pa.string(), nullable=False),
            pa.field("value", pa.float64()),
            pa.field("exact", pa.int64()),
            *(pa.field(name, FURTHER_COLUMNS[name]) for name in shown),
        ]
    )


@dataclass(frozen=True)
class Groups:
    """The groups that answers belong to: numbers of a key table, and the names of its columns."""

    names: tuple[str, ...]
    table: KeyTable

    def decode(self, keys: Ints) -> dict[str, pa.Array]:
        """The group-by attributes of some groups."""
        return dict(zip(self.names, self.table.decode(keys), strict=True))


@dataclass(frozen=True)
class QueryAnswers:
    """The answers of one query, columnar: a row per window and group, a `Lowered` per aggregate and computed item."""

    query: Query
    starts_us: Ints
    ends_us: Ints
    keys: Ints
    groups: Groups
    lowered: Mapping[Expression, Lowered]
    bounds: Mapping[Expression, tuple[Floats, Floats]] = field(default_factory=dict)
    """The bounds of an aggregate's answers; an aggregate with exact answers has none."""
    instances: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    """The instance of a sliding window that each row belongs to."""
    overflows: int = 0
    """How many answers are NULL because they do not fit in 64 bits, those that HAVING read and left out included."""
    touched: Ints | None = None
    """The groups whose answers may differ from those of the window before, if only these were asked for."""
    is_gone: bool = False
    """Whether these are groups that no longer have an answer; all their aggregates are NULL."""

    def __len__(self) -> int:
        return len(self.starts_us)

    def having(self, stream: Stream) -> QueryAnswers:
        """The rows for which HAVING is true."""
        if self.query.having is None or not len(self):
            return self
        read = {call: self.lowered[call] for call in aggregates_of(self.query.having)}
        return self.from_rows(rows_that_pass(self.query.having, stream, self.groups, self.keys, read))

    def with_computed(self, stream: Stream) -> QueryAnswers:
        """The answers with those that are made of aggregates."""
        if not self.query.computed:
            return self
        return replace(self, lowered=with_computed(self.query, stream, self.groups, self.keys, self.lowered))

    def from_rows(self, rows: Ints) -> QueryAnswers:
        """Some of the rows."""
        return replace(
            self,
            starts_us=self.starts_us[rows],
            ends_us=self.ends_us[rows],
            keys=self.keys[rows],
            lowered={call: lowered.take(rows) for call, lowered in self.lowered.items()},
            bounds={call: (low[rows], high[rows]) for call, (low, high) in self.bounds.items()},
            instances=self.instances[rows] if len(self.instances) else self.instances,
        )


def overflows_of(
    lowered: Mapping[AggregateCall, Lowered] | Mapping[Expression, Lowered], read_by: Expression | None = None
) -> int:
    """How many answers are NULL because they do not fit in 64 bits, without those that HAVING read and counted."""
    found = {call: answers.overflows for call, answers in lowered.items() if answers.overflown is not None}
    return sum(count for call, count in found.items() if call not in aggregates_of(read_by)) if found else 0


def rows_that_pass(
    having: Expression, stream: Stream, groups: Groups, keys: Ints, lowered: Mapping[AggregateCall, Lowered]
) -> Ints:
    """The rows of some groups for which HAVING is true; `lowered` has the aggregates that HAVING reads."""
    holds = _of_groups(having, stream, groups, keys, lowered)
    return np.flatnonzero(np.asarray(pc.fill_null(holds, False)))


def with_computed(
    query: Query, stream: Stream, groups: Groups, keys: Ints, lowered: Mapping[Any, Lowered]
) -> dict[Expression, Lowered]:
    """The answers of aggregates, and behind them those of the items of SELECT that are made of aggregates."""
    found = {
        expression: _as_lowered(_of_groups(expression, stream, groups, keys, lowered)) for expression in query.computed
    }
    return {**lowered, **found}


def _of_groups(
    expression: Expression, stream: Stream, groups: Groups, keys: Ints, lowered: Mapping[AggregateCall, Lowered]
) -> pa.Array:
    """An expression over aggregates and the attributes of some groups."""
    if not len(keys):
        return pa.array([], arrow_type(result_type(expression, stream)))
    arrays = {call: _typed(call, lowered[call], stream) for call in aggregates_of(expression)}
    names = {attribute.name for attribute in bare_attributes(expression)}
    attributes = groups.decode(keys) if names else {}
    return evaluate(expression, attributes, stream.attributes, aggregates=arrays, length=len(keys))


def _as_lowered(values: pa.Array) -> Lowered:
    if pa.types.is_string(values.type):
        return Lowered(
            np.zeros(len(values)), objects_of(values.to_pylist(), len(values)), np.asarray(values.is_valid())
        )
    valid = np.ones(len(values), np.bool_) if not values.null_count else np.asarray(values.is_valid())
    nothing = pa.scalar(0).cast(values.type)
    numbers = np.asarray(values.fill_null(nothing) if values.null_count else values)
    if pa.types.is_floating(values.type):
        return Lowered(numbers, None, valid)
    return Lowered(numbers.astype(np.float64), numbers, valid)


def to_table(answers: Sequence[QueryAnswers], schema: pa.Schema, *, encoded: bool = False) -> pa.Table:
    """The long table of several queries' answers; `encoded` leaves strings as dictionaries."""
    if not encoded:
        return pa.Table.from_batches([batch.cast(schema) for batch in to_batches(answers, schema)], schema)
    schema = pa.schema([field.with_type(_encoded(field.type)) for field in schema])
    return pa.Table.from_batches(
        [batch.cast(schema) for batch in to_batches(answers, schema)], schema
    ).unify_dictionaries()


def _encoded(kind: pa.DataType) -> pa.DataType:
    return pa.dictionary(pa.int32(), kind) if pa.types.is_string(kind) else kind


def to_batches(answers: Iterable[QueryAnswers], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The long form as one batch per key table, its strings still dictionary-encoded: cheap to build and to ship."""
    by_groups: dict[int, list[QueryAnswers]] = {}
    for part in answers:
        if len(part):
            by_groups.setdefault(id(part.groups.table), []).append(part)
    for parts in by_groups.values():
        yield _long_batch(parts, schema)


def _long_batch(parts: list[QueryAnswers], schema: pa.Schema) -> pa.RecordBatch:
    """Parts that share a key table, a row per window, group and selected aggregate."""
    owners = [(part, item) for part in parts for item in part.query.answers]
    lowered = [part.lowered[item.expression] for part, item in owners]
    place = np.repeat(np.arange(len(owners), dtype=np.int32), [len(part) for part, _ in owners])
    absent = ~np.concatenate([answer.valid for answer in lowered])
    inexact, objects = (
        np.repeat(marks, [len(answer.values) for answer in lowered])
        for marks in ([answer.exact is None for answer in lowered], [answer.is_object for answer in lowered])
    )
    columns = {
        "query": _dictionary(place, pa.array([part.query.name for part, _ in owners])),
        "window_start": timestamps(np.concatenate([part.starts_us for part, _ in owners])),
        "window_end": timestamps(np.concatenate([part.ends_us for part, _ in owners])),
        "aggregate": _dictionary(place, pa.array([label_of(item) for _, item in owners])),
        "value": pa.array(np.concatenate([answer.values for answer in lowered]), mask=absent | objects),
        "exact": pa.array(np.concatenate([_integers(answer) for answer in lowered]), mask=absent | inexact | objects),
    }
    # By place: where no query needs them, these may be names of attributes, which come earlier.
    further = schema.names[schema.names.index("exact") + 1 :]
    if TEXT in further:
        columns[TEXT] = pa.array([text for answer in lowered for text in _objects(answer, str)], pa.string())
    if ITEMS in further:
        columns[ITEMS] = _items([one for answer in lowered for one in _objects(answer, list)])
    if further[-2:] == [*INTERVAL_COLUMNS]:
        bounds = [
            part.bounds.get(item.expression, (answer.values, answer.values))
            for (part, item), answer in zip(owners, lowered, strict=True)
        ]
        for name, ends in zip(INTERVAL_COLUMNS, zip(*bounds, strict=True), strict=True):
            columns[name] = pa.array(np.concatenate(ends), mask=absent)
    groups = parts[0].groups
    keys = np.concatenate([part.keys for part, _ in owners]).astype(np.int32)
    if 4 * len(keys) < len(groups.table):
        used, places = np.unique(keys, return_inverse=True)
        every_key, keys = groups.decode(used.astype(np.int64)), places.astype(np.int32)
    else:
        every_key = groups.decode(np.arange(len(groups.table)))
    for name, values in every_key.items():
        kind = schema.field(name).type
        typed = values.cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
        columns[name] = _dictionary(keys, typed) if pa.types.is_string(typed.type) else typed.take(pa.array(keys))
    length = len(place)
    arrays = [columns[field.name] if field.name in columns else pa.nulls(length, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _objects(lowered: Lowered, kind: type) -> list[Any]:
    """The answers that are strings, or those that are lists; None elsewhere."""
    if not lowered.is_object:
        return [None] * len(lowered.values)
    assert lowered.exact is not None
    known = zip(lowered.exact.tolist(), lowered.valid.tolist())
    return [value if is_valid and isinstance(value, kind) else None for value, is_valid in known]


def _items(lists: list[Any]) -> pa.Array:
    """Lists of values as lists of what the long table has of an answer."""
    return pa.array([None if one is None else [_item(value) for value in one] for one in lists], FURTHER_COLUMNS[ITEMS])


def _item(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {TEXT: value}
    return {"value": float(value)} if isinstance(value, float) else {"value": float(value), "exact": int(value)}


def _of_items(items: pa.ChunkedArray, kind: Type) -> list[Any]:
    """The inverse, of the values of a list."""
    name = TEXT if kind is Type.STRING else "value" if kind is Type.DOUBLE else "exact"
    lists = (None if one is None else [item[name] for item in one] for one in items.to_pylist())
    return [[value == 1 for value in one] if one and kind is Type.BOOLEAN else one for one in lists]


def wide(answers: pa.Table, workload: Workload, query: str) -> pa.Table:
    """Take one query's answers out of a long table, with a typed column for each SELECT item.

    The bounds of an aggregate that may be answered as an interval are two more columns: `MAX(x) low` and `MAX(x) high`.
    With WITHIN such an aggregate is DOUBLE.

    Args:
        answers: A long table of a Spark job or of `Answers.long`, for all queries or for some.
        workload: The workload that was answered.
        query: The name of the query.

    Returns:
        `window_start`, `window_end`, the groups, and the SELECT items under their names; a row per window and group.

    Raises:
        PanewiseError: There is no such query.

    Cost: O(rows of the long table), and sorting those of the query.
    """
    named: object = query
    if not isinstance(named, str) or named not in workload.queries:
        raise UnknownNameError(f"no query named {query!r}; there are {', '.join(workload.queries) or 'none'}")
    needed = FIXED_COLUMNS.union(workload.queries[query].group_by)
    if not (isinstance(answers, pa.Table) and needed <= set(answers.column_names)):
        raise ArgumentError(
            f"query {query}: give a long table, as a Spark job or Answers.long() gives, not {type(answers).__name__}"
        )
    bound = workload.queries[query]
    stream = workload.streams[bound.stream]
    rows = answers.filter(pc.equal(answers.column("query"), query))
    labels = {item: label_of(item) for item in bound.select}
    # Every aggregate lists the same windows and groups; sorting makes their rows line up wherever they came from.
    by = [(name, "ascending") for name in ("window_start", "window_end", *bound.group_by)]
    parts = {
        item: rows.filter(pc.equal(rows.column("aggregate"), label)).sort_by(by)
        for item, label in labels.items()
        if item.is_answer
    }
    first = next(iter(parts.values()))
    columns = {name: first.column(name) for name in ("window_start", "window_end")}
    selected = {item.expression.name for item in bound.select if isinstance(item.expression, Attribute)}
    columns |= {name: first.column(name) for name in bound.group_by if name not in selected}
    for item, label in labels.items():
        if isinstance(item.expression, Attribute):
            columns[label] = first.column(item.expression.name)
        else:
            is_interval = may_be_interval(stream, bound, item.expression)
            columns[label] = _typed_column(parts[item], stream, item.expression, is_interval=is_interval)
            if is_interval:
                columns |= {f"{label} {name}": parts[item].column(name) for name in INTERVAL_COLUMNS}
    return pa.table(columns)


def _check_labels(stream: Stream, query: Query) -> None:
    """Refuse names that would hide another column of the query's wide answers."""
    selected = {item.expression.name for item in query.select if isinstance(item.expression, Attribute)}
    taken = {"window_start", "window_end", *(name for name in query.group_by if name not in selected)}
    taken |= {
        f"{label_of(item)} {name}"
        for item in query.select
        if item.is_answer and may_be_interval(stream, query, item.expression)
        for name in INTERVAL_COLUMNS
    }
    for item in query.select:
        if label_of(item) in taken:
            raise NamesClashError(
                f"query {query.name}: the name {label_of(item)!r} of a SELECT item hides another column of its "
                f"answers; choose another name after AS"
            )


def is_exact(expression: Expression) -> bool:
    """Whether answers have no error: sketches give approximate ones, and nothing is computed from these."""
    return not isinstance(expression, AggregateCall) or CATALOGUE[expression.function].is_exact


def result_type(call: Expression, stream: Stream) -> Type:
    """The type of the answers of an aggregate, or of an expression over aggregates."""
    if not isinstance(call, AggregateCall):
        return type_of(call, stream.attributes) or Type.DOUBLE
    argument = None if call.argument is None else type_of(call.argument, stream.attributes)
    return CATALOGUE[call.function].result_type(argument or Type.BIGINT)


def is_list(call: Expression) -> bool:
    """Whether answers are lists."""
    return isinstance(call, AggregateCall) and CATALOGUE[call.function].is_list


def is_object(call: Expression, stream: Stream) -> bool:
    """Whether answers are strings or lists."""
    return is_list(call) or result_type(call, stream) is Type.STRING


def answer_type(call: Expression, stream: Stream) -> pa.DataType:
    """The Arrow type that users see of answers."""
    kind = public_type(result_type(call, stream))
    return pa.list_(kind) if is_list(call) else kind


def array_of_objects(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Strings or lists in the type that users see; None is NULL."""
    if pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        return pa.array(values, pa.list_(pa.int64())).cast(kind)
    return pa.array(values, kind)


def objects_or_none(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_]) -> list[Any]:
    """Strings or lists, None where they are not valid."""
    return [value if is_valid else None for value, is_valid in zip(values.tolist(), valid.tolist())]


def _typed_column(rows: pa.Table, stream: Stream, call: Expression, *, is_interval: bool) -> pa.ChunkedArray:
    """A column of a wide table from the rows of a long one."""
    kind = result_type(call, stream)
    if is_list(call):
        return pa.chunked_array([array_of_objects(_of_items(rows.column(ITEMS), kind), answer_type(call, stream))])
    if kind is Type.STRING:
        return rows.column(TEXT)
    if kind is Type.DOUBLE or (is_interval and is_exact(call)):
        return rows.column("value")
    return rows.column("exact").cast(public_type(kind))


def _typed(call: AggregateCall, lowered: Lowered, stream: Stream) -> pa.Array:
    """An aggregate's answers in the type that HAVING compares."""
    kind = result_type(call, stream)
    if kind is Type.STRING:
        return pa.array(_objects(lowered, str), pa.string())
    if kind is Type.DOUBLE or lowered.exact is None:
        return _values(lowered).cast(arrow_type(kind))
    return _exact(lowered).cast(arrow_type(kind))


def _values(lowered: Lowered) -> pa.Array:
    return pa.array(lowered.values, mask=~lowered.valid)


def _exact(lowered: Lowered) -> pa.Array:
    assert lowered.exact is not None
    return pa.array(lowered.exact, mask=~lowered.valid)


def _integers(lowered: Lowered) -> Ints:
    if lowered.exact is None or lowered.is_object:
        return np.zeros(len(lowered.values), np.int64)
    return lowered.exact.astype(np.int64, copy=False)


def _dictionary(places: npt.NDArray[np.int32], values: pa.Array) -> pa.Array:
    """The values at some places, as a dictionary without NULL among its values: Arrow unifies only such ones."""
    if not values.null_count:
        return pa.DictionaryArray.from_arrays(pa.array(places), values)
    valid = np.asarray(values.is_valid())
    behind = np.cumsum(valid, dtype=np.int32) - 1
    return pa.DictionaryArray.from_arrays(pa.array(behind[places], mask=~valid[places]), values.drop_null())


def timestamps(times_us: Ints) -> pa.Array:
    """A column of times, NULL where there is none, and where a window goes back to the start."""
    if len(times_us) and times_us.min() > NO_START_US:
        return pa.array(times_us).view(TIMESTAMP)
    return pa.array(times_us, mask=times_us <= NO_START_US).view(TIMESTAMP)
