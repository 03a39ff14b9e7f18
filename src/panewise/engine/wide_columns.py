"""The columns of a wide table: which there are, of what type, and what fills them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.answers import (
    INTERVAL_COLUMNS,
    TIMESTAMP,
    answer_type,
    is_exact,
    is_list,
    public_type,
    result_type,
)
from panewise.engine.families import WINDOW_END
from panewise.language.expressions import Attribute, Expression
from panewise.language.model import Query, Stream
from panewise.language.printer import label_of
from panewise.planning.within import may_be_interval

WINDOW_START = "window_start"


class GroupColumn(NamedTuple):
    """A column of a group-by attribute."""

    name: str
    kind: pa.DataType
    attribute: str


class AggregateColumn(NamedTuple):
    """A column of an aggregate, or of an expression over aggregates: as doubles, as integers, or their bounds."""

    name: str
    kind: pa.DataType
    call: Expression
    content: Literal["values", "exact", "low", "high"]


@lru_cache(maxsize=4096)
def query_columns(stream: Stream, query: Query) -> tuple[GroupColumn | AggregateColumn, ...]:
    """The columns of a query's table behind those of the window: groups that are not selected, then SELECT.

    They are kept, as each closing asks for those of the same queries.
    """
    return tuple(_query_columns(stream, query))


def _query_columns(stream: Stream, query: Query) -> Iterator[GroupColumn | AggregateColumn]:
    selected = {item.expression.name for item in query.select if isinstance(item.expression, Attribute)}
    for name in query.group_by:
        if name not in selected:
            yield GroupColumn(name, public_type(stream.attributes[name]), name)
    for item in query.select:
        if isinstance(item.expression, Attribute):
            attribute = item.expression.name
            yield GroupColumn(label_of(item), public_type(stream.attributes[attribute]), attribute)
        else:
            yield from aggregate_columns(stream, query, item.expression, label_of(item))


def group_columns(stream: Stream, query: Query) -> dict[str, str]:
    """Under which name a query's table has each group-by attribute, in the order of GROUP BY."""
    columns = query_columns(stream, query)
    names = {column.attribute: column.name for column in columns if isinstance(column, GroupColumn)}
    return {attribute: names[attribute] for attribute in query.group_by}


def aggregate_columns(stream: Stream, query: Query, call: Expression, name: str) -> Iterator[AggregateColumn]:
    """The column of an aggregate, and those of its bounds if it may be answered as an interval."""
    kind = result_type(call, stream)
    is_interval = may_be_interval(stream, query, call)
    if (kind is Type.DOUBLE and not is_list(call)) or (is_interval and is_exact(call)):
        yield AggregateColumn(name, pa.float64(), call, "values")
    else:
        yield AggregateColumn(name, answer_type(call, stream), call, "exact")
    if is_interval:
        low, high = (f"{name} {label}" for label in INTERVAL_COLUMNS)
        yield AggregateColumn(low, pa.float64(), call, "low")
        yield AggregateColumn(high, pa.float64(), call, "high")


def query_schema(stream: Stream, query: Query) -> pa.Schema:
    """The columns of a query's table with those of the window, as Arrow says it."""
    window = [(WINDOW_START, TIMESTAMP), (WINDOW_END, TIMESTAMP)]
    return pa.schema([*window, *((column.name, column.kind) for column in query_columns(stream, query))])
