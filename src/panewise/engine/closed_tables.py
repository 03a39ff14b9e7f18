"""The answers of windows that closed, as users hold them: a wide table per query and per family, and the long form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from panewise.engine.answers import QueryAnswers, to_table
from panewise.engine.families import Family, families_of
from panewise.engine.wide_tables import Closed, family_table, query_table
from panewise.errors import UnknownNameError
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.notebook import MOST_ROWS, block, counted, folded, names, table


class NamedTables(Mapping[str, pa.Table]):
    """Arrow tables by name, each made when it is first asked for."""

    def __init__(self, kind: str, known: Collection[str], make: Callable[[str], pa.Table]) -> None:
        self._kind, self._known, self._make = kind, known, make
        self._made: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._known:
            raise UnknownNameError(f"no {self._kind} named {name!r} is here; there are: {names(self._known) or 'none'}")
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Tables({names(self._known)})"


@dataclass(frozen=True, eq=False)
class _Content:
    """What the tables of answers are made of. It does not know the tables, so that unused ones are freed at once."""

    workload: Workload
    stream: Stream
    closed: Sequence[Closed]
    """What closed, in parts that follow each other in time."""
    marks_ended: bool
    long_schema: pa.Schema

    @property
    def queries(self) -> Mapping[str, Query]:
        """The sliding queries of the stream."""
        return self.workload.sliding_queries[self.stream.name]

    @cached_property
    def families(self) -> dict[str, Family]:
        """The families of these queries."""
        return families_of(self.queries.values())

    @cached_property
    def _by_query(self) -> list[dict[str, list[QueryAnswers]]]:
        """The answers of each query, for each part in time."""
        found: list[dict[str, list[QueryAnswers]]] = [{} for _ in self.closed]
        for place, closed in enumerate(self.closed):
            for part in closed.reported:
                found[place].setdefault(part.query.name, []).append(part)
        return found

    def query_table(self, name: str) -> pa.Table:
        """The wide table of a query."""
        parts = [by_query[name] for by_query in self._by_query if name in by_query] or [[]]
        query = self.queries[name]
        return pa.concat_tables(query_table(self.stream, query, some, marks_ended=self.marks_ended) for some in parts)

    def family_table(self, name: str) -> pa.Table:
        """The wide table of a family."""
        family = self.families[name]
        members = {query.name for query in family.queries}
        held = [closed.of(members) for closed in self.closed]
        parts = [closed for closed in held if closed.reported] or [Closed([], [])]
        return pa.concat_tables(
            family_table(self.stream, family, closed, marks_ended=self.marks_ended) for closed in parts
        )


@dataclass(frozen=True, repr=False, eq=False)
class Answers:
    """The answers of one stream's windows that closed.

    Tables are made when you first ask for them, straight from the columns that were computed. A table lists windows in
    the order of their ends.
    """

    _content: _Content

    @staticmethod
    def of(
        workload: Workload, stream: Stream, closed: Sequence[Closed], long_schema: pa.Schema, *, marks_ended: bool
    ) -> Answers:
        """The answers of what closed, in parts that follow each other in time."""
        return Answers(_Content(workload, stream, closed, marks_ended, long_schema))

    def __repr__(self) -> str:
        return f"Answers({counted(len(self.tables), 'query', 'queries')}, {counted(self.num_rows, 'row')})"

    def _repr_html_(self) -> str:
        """The families with their rows, and the first rows of each. Cost: O(rows), as families are made."""
        parts = (
            folded(f"{name}: {counted(found.num_rows, 'row')}", _first_rows(found))
            for name, found in self.families.items()
        )
        return block(repr(self), *parts)

    @cached_property
    def tables(self) -> Mapping[str, pa.Table]:
        """The answers of each sliding query of the stream, by its name.

        A table has `window_start`, `window_end`, the groups, and the SELECT items under their names; a row for each
        window and group. If only changes were asked for, or if the stream corrects answers, the column `ended` is true
        for a group that no longer has an answer.

        Cost: O(rows) a column, the first time.
        """
        return NamedTables("sliding query", self._content.queries, self._content.query_table)

    @cached_property
    def families(self) -> Mapping[str, pa.Table]:
        """The answers of queries with the same stream, GROUP BY and slide, side by side.

        A table has `window_end`, the groups, and a column for each aggregate: under its alias if no other column has
        that name, otherwise as `query__item`. A query without an answer for a window and group shows NULL. The column
        `ended` is there as in `tables`.

        Cost: O(rows) a column, the first time.
        """
        return NamedTables("family", self._content.families, self._content.family_table)

    def long(self, *, encoded: bool = False) -> pa.Table:
        """Make one long table for all queries, with a row for each answer.

        Args:
            encoded: Return columns of strings as Arrow dictionaries, which take less time and memory for many answers.

        Returns:
            The columns `query`, `window_start`, `window_end`, every group-by attribute of the workload, `aggregate`,
            `value` and `exact`.

        Cost: O(answers).
        """
        parts = [part for closed in self._content.closed for part in closed.reported]
        return to_table(parts, self._content.long_schema, encoded=encoded)

    @property
    def num_rows(self) -> int:
        """How many rows the tables of all queries have together. Cost: O(queries)."""
        return sum(len(part) for closed in self._content.closed for part in closed.reported)

    @property
    def nbytes(self) -> int:
        """The memory of the answers, before tables are made of them. Cost: O(queries)."""
        return sum(closed.nbytes for closed in self._content.closed)


def _first_rows(found: pa.Table) -> str:
    rows = found.slice(0, MOST_ROWS).to_pylist()
    return table(found.column_names, (row.values() for row in rows), found.num_rows)
