"""Labels: their times and keys as columns, and the table that they came in with more columns behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.ingest import GivenTimes, given_times, outside_span, to_column
from panewise.errors import EventsError, LabelsError, NamesClashError
from panewise.language.model import Query, Stream
from panewise.windows.clock import SPAN


@dataclass(frozen=True)
class Labels:
    """A table of labels of some kind."""

    columns: Mapping[str, Any]
    length: int
    joined: Callable[[pa.Table], Any]
    """Makes a table of the same kind, with the columns of an Arrow table behind those of the labels."""

    def times(self, stream: Stream, name: str | None) -> Ints:
        """The time of each label in microseconds."""
        wanted = stream.timestamp if name is None else name
        if wanted not in self.columns:
            near = get_close_matches(wanted, list(self.columns), 1)
            near = near or [some for some, column in self.columns.items() if _has_times(column)]
            instead = near[0] if near else "decided_at"
            raise LabelsError(
                f"the labels have no column {wanted!r} with their times; name the column that has them, such as "
                f"training_set(..., time={instead!r}); the columns are {', '.join(self.columns) or 'none'}"
            )
        column = self._column(stream, wanted, Type.TIMESTAMP, "it is their time")
        if column.null_count:
            row = pc.index(column.is_null(), True).as_py()
            raise LabelsError(
                f"labels: {wanted!r} is NULL in {column.null_count} of {len(column)} rows, first in row {row}; a label "
                f"needs a time: filter those rows out"
            )
        times = np.asarray(column)
        outside = outside_span(times)
        if outside.any():
            row = int(np.argmax(outside))
            raise LabelsError(f"labels: {wanted!r} is {times[row]} in row {row}; {SPAN}")
        return times

    def given_times(self, stream: Stream, name: str | None) -> GivenTimes:
        """How these times were given."""
        wanted = stream.timestamp if name is None else name
        return given_times(self.columns[wanted], stream.units.get(wanted))

    def keys(self, stream: Stream, queries: Iterable[Query]) -> dict[str, pa.Array]:
        """The columns that some queries over a stream group by."""
        asked = {name: query for query in reversed([*queries]) for name in query.group_by}
        for name, query in asked.items():
            if name not in self.columns:
                near = get_close_matches(name, list(self.columns), 1)
                hint = f"rename your column {near[0]!r}" if near else f"add a column {name!r} to the labels"
                raise LabelsError(
                    f"query {query.name} groups by {name!r}, which the labels do not have; {hint}, or leave the query "
                    f"out with training_set(..., queries=[...]); the columns are {', '.join(self.columns) or 'none'}"
                )
        return {
            name: self._column(stream, name, stream.attributes[name], f"query {query.name} groups by it")
            for name, query in asked.items()
        }

    def check_names(self, names: Iterable[str]) -> None:
        """Refuse labels with a column of the result's name."""
        clash = next((name for name in names if name in self.columns), None)
        if clash is not None:
            raise NamesClashError(
                f"the labels have a column {clash!r}, which is the name of an answer; rename or drop it, or give the "
                f"SELECT item another name with AS"
            )

    def _column(self, stream: Stream, name: str, kind: Type, why: str) -> pa.Array:
        try:
            return to_column(stream, name, kind, self.columns, stream.units.get(name))
        except EventsError as error:
            fault = str(error).removeprefix(f"stream {stream.name}: ")
            raise LabelsError(f"labels: {fault}; {why}: cast the column") from None


def _has_times(column: Any) -> bool:
    kind = getattr(column, "type", None) or getattr(column, "dtype", None)
    return str(kind).startswith(("timestamp", "datetime64", "date32"))


def read_labels(labels: object) -> Labels:
    """Labels of any kind of table."""
    library = type(labels).__module__.partition(".")[0]
    table: Any = labels
    if isinstance(labels, pa.Table):
        return Labels(_named(labels.schema.names, labels.column), len(labels), lambda more: _beside(table, more))
    if isinstance(labels, pa.RecordBatch):
        return Labels(
            _named(labels.schema.names, labels.column),
            labels.num_rows,
            lambda more: (
                _beside(pa.Table.from_batches([table]), more).combine_chunks().to_batches()[0]
                if table.num_rows
                else pa.RecordBatch.from_pylist([], _beside(pa.Table.from_batches([table]), more).schema)
            ),
        )
    if library == "pandas" and hasattr(labels, "iloc") and hasattr(labels, "columns"):
        names = [str(name) for name in table.columns]
        return Labels(_named(names, lambda place: table.iloc[:, place]), len(table), lambda more: _pandas(table, more))
    if library == "polars" and hasattr(labels, "hstack"):
        arrow = table.to_arrow()
        return Labels(_named(arrow.schema.names, arrow.column), len(table), lambda more: _polars(table, more))
    raise LabelsError(
        f"cannot read labels from {type(labels).__name__}; give an Arrow table or record batch, or a pandas or Polars "
        f"DataFrame{': collect it first' if type(labels).__name__ == 'LazyFrame' else ''}"
    )


def _named(names: list[str], column: Callable[[int], Any]) -> dict[str, Any]:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LabelsError(f"the labels have {names.count(twice)} columns {twice!r}; keep or rename one of them")
    return {name: column(place) for place, name in enumerate(names)}


def _beside(table: pa.Table, more: pa.Table) -> pa.Table:
    for name in more.schema.names:
        table = table.append_column(more.schema.field(name), more.column(name))
    return table


def _pandas(frame: Any, more: pa.Table) -> Any:
    """BIGINT becomes pandas' Int64, which has NULL and all digits."""
    import pandas

    other = more.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get)
    other.index = frame.index
    return pandas.concat([frame, other], axis=1)


def _polars(frame: Any, more: pa.Table) -> Any:
    import polars

    added: Any = polars.from_arrow(more)
    return frame.hstack(added)
