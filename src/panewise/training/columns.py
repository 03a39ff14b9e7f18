"""The columns of a training set: which queries fill them, their names, their types, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from panewise.engine.answers import array_of_objects, objects_or_none
from panewise.engine.as_of.answers import AnswersAt
from panewise.engine.families import free_name
from panewise.engine.names import aggregate_query
from panewise.engine.wide_columns import AggregateColumn, aggregate_columns
from panewise.errors import ArgumentError, QueryKindError
from panewise.language.model import Query
from panewise.language.printer import label_of
from panewise.language.workload import Workload


def chosen_queries(workload: Workload, names: Iterable[str] | None) -> list[Query]:
    """The queries to answer; all answer with aggregates."""
    if isinstance(names, str):
        raise ArgumentError(f"`queries` is a list of names; write queries=[{names!r}]")
    wanted = [*workload.queries, *workload.row_queries] if names is None else list(dict.fromkeys(names))
    for name in wanted:
        if name in workload.row_queries:
            raise QueryKindError(
                f"query {name} answers with rows, and a label needs one value; choose others with "
                f"training_set(..., queries=[...])"
            )
    return [aggregate_query(workload, name) for name in wanted]


def answer_columns(workload: Workload, queries: Sequence[Query]) -> Iterator[tuple[Query, AggregateColumn]]:
    """The column of each aggregate of SELECT, with its query."""
    taken: set[str] = set()
    for query in queries:
        for item in query.answers:
            name = free_name(f"{query.name}__{label_of(item)}", taken)
            taken.add(name)
            yield query, next(aggregate_columns(workload.streams[query.stream], query, item.expression, name))


def filled(answers: AnswersAt, column: AggregateColumn) -> pa.Array:
    """The answers of a column in its type."""
    found = answers.columns[column.call]
    if found.values.dtype == np.object_:
        return array_of_objects(objects_or_none(found.values, found.valid), column.kind)
    values = found.values.astype(np.float64, copy=False) if pa.types.is_floating(column.kind) else found.values
    array = pa.array(values, mask=None if found.valid.all() else ~found.valid)
    return array.view(column.kind) if pa.types.is_timestamp(column.kind) else array.cast(column.kind)
