"""Layouts: the tables that a bucket's answers leave in, either one long table or wide ones by name.

Wide tables are those of the engine, made by the same code from the same columns. A family fits into one bucket: the
queries of a plan that group by the same attributes share a base, and so the place of each group. Queries that come and
go may have another base, so with a control stream only tables of single queries are made. A query that was added or
changed while the job runs has no table: its answers go to the long one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, get_args

import pyarrow as pa

from panewise.engine.answers import QueryAnswers, to_batches
from panewise.engine.families import Family, families_of
from panewise.engine.wide_tables import Closed, family_table, query_table
from panewise.errors import ArgumentError, NamesClashError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.spark.tuple_plan import LATER_ROWS

By = Literal["family", "query"]
"""What has a wide table of its own."""

AnyBy = Literal["family", "query", "long"]
"""The same, or one long table for all answers."""

LONG: Literal["long"] = "long"
"""The name of the long table."""

ROWS_AT_ONCE = 1 << 18
"""So many rows of a wide table are packed at once, to bound what a worker holds when it unpacks them."""


class TableRows(NamedTuple):
    """Rows of a table that leave together, and how many answers they report."""

    table: str
    rows: pa.RecordBatch
    answers: int
    part: int = 0
    """The same for all rows that are merged with these, from whatever bucket they come."""


class Layout(ABC):
    """The tables that answers leave in."""

    @property
    @abstractmethod
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of each table, by its name."""

    def table_of(self, query: Query) -> str:
        """The table of a query's answers."""
        return LONG

    @property
    def families(self) -> Iterable[Family]:
        """The families that are shown as one table each: a row of theirs needs the answers of all their queries."""
        return ()

    @abstractmethod
    def rows(self, closed: Closed) -> Iterator[TableRows]:
        """The rows of what closed together."""


@dataclass(frozen=True)
class LongLayout(Layout):
    """One long table."""

    schema: pa.Schema

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of the long table."""
        return {LONG: self.schema}

    def rows(self, closed: Closed) -> Iterator[TableRows]:
        """The rows of what closed together, strings dictionary-encoded."""
        for batch in to_batches(closed.reported, self.schema):
            yield TableRows(LONG, batch, batch.num_rows)


@dataclass(frozen=True)
class _WideTable:
    """A query, or a family of them, and what its table is made of."""

    stream: Stream
    what: Query | Family
    marks_ended: bool

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.what.queries if isinstance(self.what, Family) else (self.what,)

    def of(self, closed: Closed) -> pa.Table:
        """The table of what closed of its queries."""
        if isinstance(self.what, Family):
            return family_table(self.stream, self.what, closed, marks_ended=self.marks_ended)
        return query_table(self.stream, self.what, closed.reported, marks_ended=self.marks_ended)


@dataclass(frozen=True)
class WideLayout(Layout):
    """A table for each query, or for each family."""

    tables: Mapping[str, _WideTable]
    others: LongLayout | None = None
    """For the queries that have no table, if there may be some."""

    @staticmethod
    def of(workload: Workload, by: By, *, changed_only: bool, others: LongLayout | None = None) -> WideLayout:
        """The tables of a workload's sliding queries; with `others`, queries may come and go."""
        check_by(by, is_live=others is not None)
        shown = _shown(workload, by)
        if others is not None and LONG in shown:
            raise NamesClashError(
                f"query {LONG}: with a control stream, {LONG!r} is the name of the table for queries that come later; "
                f"rename the query"
            )
        tables = {}
        for name, what in shown.items():
            query = what.queries[0] if isinstance(what, Family) else what
            stream = workload.streams[query.stream]
            tables[name] = _WideTable(stream, what, changed_only or stream.correct_us > 0)
        return WideLayout(tables, others)

    @cached_property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """The columns of each table, by its name."""
        nothing = Closed([], [])
        wide = {name: table.of(nothing).schema for name, table in self.tables.items()}
        return wide if self.others is None else {**wide, **self.others.schemas}

    @cached_property
    def families(self) -> list[Family]:
        """The families that have a table."""
        return [table.what for table in self.tables.values() if isinstance(table.what, Family)]

    def rows(self, closed: Closed) -> Iterator[TableRows]:
        """The rows of what closed together, of each table that has some."""
        reported, every = self._by_table(closed.reported), self._by_table(closed.every)
        for name, parts in reported.items():
            if name not in self.tables:
                assert self.others is not None, "the queries stay"
                yield from self.others.rows(Closed(parts, parts))
                continue
            answers = sum(answers_of(parts).values())
            made = self.tables[name].of(Closed(parts, every.get(name, [])))
            for batch in made.combine_chunks().to_batches(max_chunksize=ROWS_AT_ONCE):
                yield TableRows(name, batch, answers)
                answers = 0

    def _by_table(self, parts: Iterable[QueryAnswers]) -> dict[str, list[QueryAnswers]]:
        found: dict[str, list[QueryAnswers]] = {}
        for part in parts:
            found.setdefault(self.table_of(part.query), []).append(part)
        return found

    def table_of(self, query: Query) -> str:
        """The table of a query's answers."""
        name, known = self._homes.get(query.name, (LONG, query))
        return name if known == query else LONG

    @cached_property
    def _homes(self) -> dict[str, tuple[str, Query]]:
        """The table of each query, and the query as the table knows it."""
        return {query.name: (name, query) for name, table in self.tables.items() for query in table.queries}


def table_names(workload: Workload, by: AnyBy, *, is_live: bool = False) -> list[str]:
    """The names of the tables of a workload; if queries come and go, with that of the long table for others."""
    if by == "long":
        shown = [LONG] if is_live or _sliding(workload) else []
    else:
        shown = [*_shown(workload, by), *([LONG] if is_live else [])]
    rows = [name for name, query in workload.row_queries.items() if query.into is None]
    return [*shown, *rows, *([LATER_ROWS] if is_live and rows else [])]


def check_by(by: str, *, is_live: bool) -> None:
    """Raise if wide tables cannot be made so."""
    if by not in get_args(AnyBy):
        raise ArgumentError(f"by is one of {', '.join(map(repr, get_args(AnyBy)))}, not {by!r}")
    if is_live and by == "family":
        raise ArgumentError(
            "queries that come and go are not joined into families; give by='query' with a control stream (queries "
            "that come later go to the table 'long'), or leave the control stream out"
        )


def answers_of(parts: Iterable[QueryAnswers]) -> Counter[str]:
    """How many answers some parts have, by query: a row of the long table each."""
    found: Counter[str] = Counter()
    for part in parts:
        found[part.query.name] += len(part) * len(part.query.answers)
    return found


def _shown(workload: Workload, by: By) -> dict[str, Query] | dict[str, Family]:
    sliding = _sliding(workload)
    return families_of(sliding.values()) if by == "family" else sliding


def _sliding(workload: Workload) -> dict[str, Query]:
    return {name: query for name, query in workload.queries.items() if query.window.is_sliding}
