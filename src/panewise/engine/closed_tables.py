"""The answers of windows that closed, as users hold them: a wide table per query and per family, and the long form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from panewise.engine.answers import QueryAnswers, to_table
from panewise.engine.families import Family, families_of
from panewise.engine.wide_tables import Closed, family_table, query_table
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload
from panewise.named_tables import NamedTables
from panewise.notebook import MOST_ROWS, block, counted, folded, table


class ArrowTables(NamedTables[pa.Table]):
    """Arrow tables by name, each made when it is first asked for."""

    def __init__(self, kind: str, known: Collection[str], make: Callable[[str], pa.Table]) -> None:
        super().__init__(kind, known)
        self._make = make
        self._made: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        self._check(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]


@dataclass(frozen=True, eq=False)
class _Content:
    """What the tables of answers are made of. It does not know the tables, so that unused ones are freed at once."""

    workload: Workload
    streams: Sequence[Stream]
    """The stream that was advanced, and those of answers that follow it."""
    closed: Mapping[str, Sequence[Closed]]
    """What closed of each stream, in parts that follow each other in time."""
    changed_only: bool
    long_schema: pa.Schema

    @cached_property
    def queries(self) -> Mapping[str, Query]:
        """The sliding queries of the streams."""
        if len(self.streams) == 1:
            return self.workload.sliding_queries[self.streams[0].name]
        return {
            name: query for stream in self.streams for name, query in self.workload.sliding_queries[stream.name].items()
        }

    @cached_property
    def families(self) -> dict[str, Family]:
        """The families of these queries."""
        return families_of(self.queries.values())

    @cached_property
    def _by_query(self) -> dict[str, list[dict[str, list[QueryAnswers]]]]:
        """The answers of each query, for each part in time, by stream."""
        found: dict[str, list[dict[str, list[QueryAnswers]]]] = {}
        for stream, parts in self.closed.items():
            found[stream] = [{} for _ in parts]
            for place, closed in enumerate(parts):
                for part in closed.reported:
                    found[stream][place].setdefault(part.query.name, []).append(part)
        return found

    def reported(self) -> Iterator[QueryAnswers]:
        """All answers, one part after the other."""
        return (part for parts in self.closed.values() for closed in parts for part in closed.reported)

    def query_table(self, name: str) -> pa.Table:
        """The wide table of a query."""
        query = self.queries[name]
        by_query = self._by_query.get(query.stream, ())
        parts = [found[name] for found in by_query if name in found] or [[]]
        stream = self.workload.streams[query.stream]
        marks_ended = self._marks_ended(stream)
        return pa.concat_tables(query_table(stream, query, some, marks_ended=marks_ended) for some in parts)

    def family_table(self, name: str) -> pa.Table:
        """The wide table of a family."""
        family = self.families[name]
        stream = self.workload.streams[family.queries[0].stream]
        members = {query.name for query in family.queries}
        held = [closed.of(members) for closed in self.closed.get(stream.name, ())]
        parts = [closed for closed in held if closed.reported] or [Closed([], [])]
        marks_ended = self._marks_ended(stream)
        return pa.concat_tables(family_table(stream, family, closed, marks_ended=marks_ended) for closed in parts)

    def _marks_ended(self, stream: Stream) -> bool:
        return self.changed_only or stream.correct_us > 0


@dataclass(frozen=True, repr=False, eq=False)
class Answers:
    """The answers of one stream's windows that closed, and of windows over answers that closed with them.

    Tables are made when you first ask for them, straight from the columns that were computed. A table lists windows in
    the order of their ends.
    """

    _content: _Content

    @staticmethod
    def of(
        workload: Workload,
        stream: Stream,
        closed: Mapping[str, Sequence[Closed]],
        long_schema: pa.Schema,
        *,
        changed_only: bool,
    ) -> Answers:
        """The answers of what closed of a stream and of those that follow it, in parts that follow each other in time.

        Those of the streams are by name.
        """
        return Answers(
            _Content(
                workload,
                [workload.streams[name] for name in workload.following(stream.name)],
                closed,
                changed_only,
                long_schema,
            )
        )

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
        """The answers of each sliding query of the stream by its name, and of those that read their answers.

        A table has `window_start`, `window_end`, the groups, and the SELECT items under their names; a row for each
        window and group. If only changes were asked for, or if the stream corrects answers, the column `ended` is true
        for a group that no longer has an answer.

        Cost: O(rows) a column, the first time.
        """
        return ArrowTables("sliding query", self._content.queries, self._content.query_table)

    @cached_property
    def families(self) -> Mapping[str, pa.Table]:
        """The answers of queries with the same stream, GROUP BY and slide, side by side.

        A table has `window_end`, the groups, and a column for each aggregate: under its alias if no other column has
        that name, otherwise as `query__item`. A query without an answer for a window and group shows NULL. The column
        `ended` is there as in `tables`.

        Cost: O(rows) a column, the first time.
        """
        return ArrowTables("family", self._content.families, self._content.family_table)

    def long(self, *, encoded: bool = False) -> pa.Table:
        """Make one long table for all queries, with a row for each answer.

        Args:
            encoded: Return columns of strings as Arrow dictionaries, which take less time and memory for many answers.

        Returns:
            The columns `query`, `window_start`, `window_end`, every group-by attribute of the workload, `aggregate`,
            `value` and `exact`.

        Cost: O(answers).
        """
        return to_table(list(self._content.reported()), self._content.long_schema, encoded=encoded)

    @property
    def num_rows(self) -> int:
        """How many rows the tables of all queries have together. Cost: O(queries)."""
        return sum(map(len, self._content.reported()))

    @property
    def nbytes(self) -> int:
        """The memory of the answers, before tables are made of them. Cost: O(queries)."""
        return sum(closed.nbytes for parts in self._content.closed.values() for closed in parts)


def _first_rows(found: pa.Table) -> str:
    rows = found.slice(0, MOST_ROWS).to_pylist()
    return table(found.column_names, (row.values() for row in rows), found.num_rows)
