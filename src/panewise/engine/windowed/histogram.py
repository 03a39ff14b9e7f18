"""HISTOGRAM, TOP_K and DISTINCT: the values of a sliding window and how often each occurs, from one set-valued index.

All queries over the same values of the same window share the index, whatever they show of it. NULL is not a value.

Cost: the index's maintenance for each tuple; an evaluation reads the index, never the tuples.
Source: Golab, Garg and Özsu, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from panewise.aggregates.types import Type
from panewise.engine.windowed.basic_windows import TICK, BasicWindowOperator
from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.grouped_values import GroupedValues, in_groups
from panewise.engine.windowed.operator import Feeds, choice_for
from panewise.engine.windowed.output import value_type
from panewise.engine.windowed.values import indexed, observed, plain
from panewise.indexes import IndexChoice, SetWindow
from panewise.indexes.values import ValueCodes, Width, codes_of
from panewise.language.expressions import Attribute
from panewise.language.model import Stream
from panewise.language.row_queries import DistinctQuery, HistogramQuery, RowQuery, TopKQuery, ValueQuery
from panewise.planning.windowed import choose_set, index_type, share_key

VALUE = "\0value"
COUNT = "\0count"


class HistogramOperator(BasicWindowOperator):
    """One set-valued index over one window."""

    index: SetWindow

    def __init__(self, query: ValueQuery, streams: Mapping[str, Stream], feeds: Feeds) -> None:
        super().__init__([(query.stream, query.window)], feeds, query.basic_windows)
        self.key = share_key(query)
        self._argument, self._where, self._using = query.argument, query.where, query.using
        kind = value_type(query, streams)
        self._type = index_type(kind)
        self._width = query.width if isinstance(query, HistogramQuery) else None
        self._ranges: ValueCodes | None = None
        """Which range a value of a group is in; values without groups are put into ranges by the index."""
        self._group_by = query.group_by
        self._groups: GroupedValues | None = None
        if query.group_by:
            if self._width is not None:
                self._ranges, self._width, kind = codes_of(self._type, self._width), None, Type.BIGINT
            groups = [streams[query.stream].attributes[name] for name in query.group_by]
            self._type, self._groups = index_type(Type.STRING), GroupedValues([*groups, kind])
        self._choice = choice_for(query, streams)
        self.index = self._build()

    def _build(self) -> SetWindow:
        return SetWindow(
            self.sides[0].basic.count,
            self._type,
            storage=self._choice.storage,
            index=self._choice.index,
            purge=self._choice.purge,
            group_width=self._width,
        )

    def tuples_of(self, side: int, events: Events) -> pa.Table:
        """The values that are not NULL, each with its group."""
        passing = events.passing(self._where)
        values = passing.values(self._argument)
        if self._groups is not None:
            passing = passing.filtered(np.asarray(values.is_valid()))
            values = self._grouped(passing, values.drop_null(), self._groups)
        values = indexed(values)
        return pa.table({TICK: self.ticks(side, passing), VALUE: values}).filter(values.is_valid())

    def _grouped(self, events: Events, values: pa.Array, groups: GroupedValues) -> pa.Array:
        if self._ranges is not None:
            values = pa.array(self._ranges.encode(np.asarray(values)))
        return groups.texts([*(events.values(Attribute(name)) for name in self._group_by), values])

    def condensed(self, side: int, tuples: pa.Table) -> pa.Table:
        """Values and their counts; each value range gives one value."""
        return condensed(tuples, self._type, self._width)

    def attach(self, side: int, tuples: pa.Table | None, count: int = 1) -> None:
        """Count the values of a basic window, and attach it."""
        if tuples is not None and tuples.num_rows:
            self.index.append(plain(tuples.column(VALUE)))
        self.index.attach(count)

    def shown(self, query: RowQuery) -> tuple[dict[str, Any], int]:
        """The columns that a query shows of the attached basic windows, and their length."""
        if self._groups is not None:
            return self._shown_by_group(query, self._groups)
        if isinstance(query, TopKQuery):
            values, counts = self.index.top_k(query.k)
            return {"rank": np.arange(1, len(counts) + 1), "value": values, "count": counts}, len(counts)
        values, counts = self.index.histogram()
        if self._width is not None:
            return {"low": values.low, "high": values.high, "count": counts}, len(counts)
        shown = {"value": values} if isinstance(query, DistinctQuery) else {"value": values, "count": counts}
        return shown, len(counts)

    def _shown_by_group(self, query: RowQuery, grouped: GroupedValues) -> tuple[dict[str, Any], int]:
        texts, counts = self.index.histogram()
        *groups, values = grouped.columns(texts)
        keys = [(values, "ascending")]
        if isinstance(query, TopKQuery):
            keys.insert(0, (pa.array(counts), "descending"))
        order, ranks = in_groups(groups, keys)
        if isinstance(query, TopKQuery):
            order, ranks = order.filter(pa.array(ranks <= query.k)), ranks[ranks <= query.k]
        shown: dict[str, Any] = {name: group.take(order) for name, group in zip(self._group_by, groups)}
        values, counts = values.take(order), counts[np.asarray(order)]
        if isinstance(query, TopKQuery):
            shown["rank"] = ranks
        if self._ranges is None:
            shown["value"] = values
        else:
            found = self._ranges.decode(np.asarray(values))
            shown |= {"low": found.low, "high": found.high}
        return {**shown, **({} if isinstance(query, DistinctQuery) else {"count": counts})}, len(counts)

    def choose(self) -> IndexChoice:
        """The choice that the numbers observed in full windows make."""
        side = self.sides[0]
        numbers = observed(side.tables, side.basic.count, VALUE, COUNT, self.index.statistics()["distinct"])
        return choose_set("histogram", [side.basic], [numbers], self._type, self._width, self._using)

    def replay(self) -> None:
        """Rebuild the index from the values held."""
        self.index = self._build()
        for table, count in self.attachments(0):
            self.index.append(expanded(table))
            self.index.attach(count)


def condensed(tuples: pa.Table, type: str, width: Width | None) -> pa.Table:
    """Values with their counts, as they must be held to rebuild an index."""
    if width is None:
        return tuples.select([VALUE])
    values = plain(tuples.column(VALUE))
    _, first, counts = np.unique(codes_of(type, width).encode(values), return_index=True, return_counts=True)
    return pa.table({VALUE: pa.array(values[first]), COUNT: pa.array(counts)})


def expanded(table: pa.Table) -> Any:
    """The inverse of `condensed`, for an index."""
    values = plain(table.column(VALUE))
    return np.repeat(values, np.asarray(table.column(COUNT))) if COUNT in table.column_names else values
