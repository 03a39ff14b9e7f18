"""INTERSECT, UNION and EXCEPT: the values of two sliding windows, from one index whose nodes hold two counts.

With value ranges, the G-INDEX over GROUP says which ranges occur in both windows. NULL is not a value.

Cost: the index's maintenance for each tuple; an evaluation reads the index once.
Source: Golab, Garg and Özsu, sections 3.2 and 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panewise.engine.windowed.basic_windows import TICK, BasicWindowOperator
from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.histogram import COUNT, VALUE, condensed, expanded
from panewise.engine.windowed.operator import Feeds, choice_for
from panewise.engine.windowed.output import value_type
from panewise.engine.windowed.values import indexed, observed, plain
from panewise.indexes import IndexChoice, TwoSetWindow
from panewise.language.model import Stream
from panewise.language.row_queries import IntersectionQuery, RowQuery
from panewise.planning.windowed import choose_set, index_type, share_key


class IntersectionOperator(BasicWindowOperator):
    """One index over two windows, which step together."""

    index: TwoSetWindow

    def __init__(self, query: IntersectionQuery, streams: Mapping[str, Stream], feeds: Feeds) -> None:
        pairs = [(side.stream, side.window) for side in (query.left, query.right)]
        super().__init__(pairs, feeds, query.basic_windows)
        self.key = share_key(query)
        self._query = query
        self._type = index_type(value_type(query, streams))
        self._choice = choice_for(query, streams)
        self.index = self._build()

    def _build(self) -> TwoSetWindow:
        left, right = self.sides
        return TwoSetWindow(
            (left.basic.count, right.basic.count),
            self._type,
            storage=self._choice.storage,
            index=self._choice.index,
            purge=self._choice.purge,
            group_width=self._query.width,
        )

    def tuples_of(self, side: int, events: Events) -> pa.Table:
        """The values of a side that are not NULL."""
        bound = (self._query.left, self._query.right)[side]
        passing = events.passing(bound.where)
        values = indexed(passing.values(bound.argument))
        return pa.table({TICK: self.ticks(side, passing), VALUE: values}).filter(values.is_valid())

    def condensed(self, side: int, tuples: pa.Table) -> pa.Table:
        """Values and their counts; each value range gives one value."""
        return condensed(tuples, self._type, self._query.width)

    def attach(self, side: int, tuples: pa.Table | None, count: int = 1) -> None:
        """Count the values of a basic window on its side, and attach it."""
        if tuples is not None and tuples.num_rows:
            self.index.append(side, plain(tuples.column(VALUE)))
        self.index.attach(side, count)

    def shown(self, query: RowQuery) -> tuple[dict[str, Any], int]:
        """The columns that a query shows of the attached basic windows, and their length."""
        assert isinstance(query, IntersectionQuery)
        values, left, right = {
            "INTERSECT": self.index.intersection,
            "UNION": self.index.union,
            "EXCEPT": self.index.difference,
        }[query.operation]()
        named = {"value": values} if self._query.width is None else {"low": values.low, "high": values.high}
        return {**named, "left_count": left, "right_count": right}, len(left)

    def choose(self) -> IndexChoice:
        """The choice that the numbers observed in full windows make."""
        numbers = [
            observed(side.tables, side.basic.count, VALUE, COUNT, self.index.statistics(place)["distinct"])
            for place, side in enumerate(self.sides)
        ]
        basics = [side.basic for side in self.sides]
        return choose_set("intersection", basics, numbers, self._type, self._query.width, self._query.using)

    def replay(self) -> None:
        """Rebuild the index from the values held."""
        self.index = self._build()
        for place in range(len(self.sides)):
            for table, count in self.attachments(place):
                self.index.append(place, expanded(table))
                self.index.attach(place, count)
