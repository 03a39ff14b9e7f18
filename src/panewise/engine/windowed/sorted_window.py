"""ORDER BY: a sliding window that is sorted by one attribute and shows others, from rings over an index.

The ring knows tuples by row number; the columns shown lie here, in the order of arrival. Tuples whose key is NULL are
in no ring: they come first when the order ascends, last when it descends, as in Spark.

Cost: the ring's maintenance for each tuple; an evaluation walks the rings in the order of their values.
Source: Golab, Garg and Özsu, sections 5 and 6.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.windowed.basic_windows import TICK, BasicWindowOperator
from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.grouped_values import group_ranks
from panewise.engine.windowed.operator import Feeds, choice_for
from panewise.engine.windowed.positions import positions
from panewise.engine.windowed.values import indexed, observed, plain
from panewise.indexes import IndexChoice, RingWindow
from panewise.language.expressions import Attribute
from panewise.language.model import Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import RowQuery, SortedQuery
from panewise.planning.windowed import choose_ring, index_type, share_key

KEY = "\0key"


def _group(place: int) -> str:
    """The name of the column that has an attribute of GROUP BY."""
    return f"group {place}"


class SortedOperator(BasicWindowOperator):
    """One ring index over one window, and the columns that its queries show."""

    index: RingWindow

    def __init__(self, query: SortedQuery, streams: Mapping[str, Stream], feeds: Feeds) -> None:
        super().__init__([(query.stream, query.window)], feeds, query.basic_windows)
        self.key = share_key(query)
        self._query = query
        self._type = index_type(streams[query.stream].attributes[query.by])
        self._choice = choice_for(query, streams)
        self.index = self._build()

    def _build(self) -> RingWindow:
        count, choice = self.sides[0].basic.count, self._choice
        assert choice.ring is not None
        return RingWindow(count, self._type, ring=choice.ring, index=choice.index, purge=choice.purge)

    def tuples_of(self, side: int, events: Events) -> pa.Table:
        """The keys, with NULLs, and the columns shown."""
        passing = events.passing(self._query.where)
        columns = {TICK: self.ticks(side, passing), KEY: indexed(passing.values(Attribute(self._query.by)))}
        for place, column in enumerate(self._query.columns):
            columns[str(place)] = passing.values(column.expression)
        for place, name in enumerate(self._query.group_by):
            columns[_group(place)] = passing.values(Attribute(name))
        return pa.table(columns)

    def attach(self, side: int, tuples: pa.Table | None, count: int = 1) -> None:
        """Link the tuples of a basic window into the rings, and attach it."""
        if tuples is not None and tuples.num_rows:
            self.index.append(plain(tuples.column(KEY).drop_null()))
        self.index.attach(count)

    def shown(self, query: RowQuery) -> tuple[dict[str, Any], int]:
        """The columns that a query shows of the attached basic windows, and their length."""
        assert isinstance(query, SortedQuery)
        held = pa.concat_tables(self.sides[0].tables).combine_chunks()
        has_key = np.asarray(held.column(KEY).is_valid())
        with_key, without = np.flatnonzero(has_key), np.flatnonzero(~has_key)
        ordered = with_key[self.index.sorted_rows(query.descending) - self.index.first_row]
        parts = [ordered, without] if query.descending else [without, ordered]
        rows, places = self._by_group(held, np.concatenate(parts))
        if query.limit is not None:
            rows, places = rows[places <= query.limit], places[places <= query.limit]
        taken = pa.array(rows)
        columns = {label_of(c): held.column(str(place)).take(taken) for place, c in enumerate(query.columns)}
        return {"position": places, **columns}, len(rows)

    def _by_group(self, held: pa.Table, rows: Ints) -> tuple[Ints, Ints]:
        """Rows that are in order, group by group, and the position of each in its group."""
        if not self._query.group_by:
            return rows, np.arange(1, len(rows) + 1)
        columns = [held.column(_group(place)).combine_chunks() for place in range(len(self._query.group_by))]
        groups = group_ranks(columns)[rows]
        order = np.argsort(groups, kind="stable")
        return rows[order], positions(groups[order])

    def choose(self) -> IndexChoice:
        """The choice that the numbers observed in full windows make."""
        side = self.sides[0]
        numbers = observed(side.tables, side.basic.count, KEY, "", self.index.statistics()["distinct"])
        return choose_ring("sorted", side.basic, numbers, self._type, self._query.using)

    def replay(self) -> None:
        """Rebuild the rings from the tuples held."""
        self.index = self._build()
        for table, count in self.attachments(0):
            self.attach(0, table, count)
