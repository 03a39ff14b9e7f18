"""Selection: the events that pass a condition, as they come (Golab, Garg and Özsu, section 3.1, modes 1 and 3).

No event waits for the watermark and nothing is indexed; with INTO the output is held as a window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from panewise.engine.windowed.feed import Events
from panewise.engine.windowed.operator import Keep, Operator
from panewise.language.printer import label_of
from panewise.language.row_queries import SelectionQuery


class SelectionOperator(Operator):
    """One condition on one stream."""

    def __init__(self, query: SelectionQuery, starts_us: int | None) -> None:
        super().__init__()
        self._query = query
        self._starts_us = starts_us
        self._taken = 0

    @property
    def streams(self) -> tuple[str, ...]:
        """The one stream."""
        return (self._query.stream,)

    def push(self, stream: str, events: Events) -> None:
        """Answer with the events that pass."""
        passing = events.passing(self._query.where)
        columns = {label_of(column): passing.values(column.expression) for column in self._query.columns}
        self._taken += len(events)
        for output in self.outputs.values():
            output.add({"time": passing.times_us, **columns}, len(passing))

    def take(self, stream: str, events: Events) -> None:
        """Final events were seen when they came."""

    def advance(self) -> None:
        """Nothing waits."""

    @property
    def exact_from(self) -> int | None:
        """Every event from here on was seen."""
        return self._starts_us

    def statistics(self) -> dict[str, Any]:
        """No window, no index."""
        nothing = ("basic_windows_attached", "evaluations", "most_basic_windows_between_evaluations", "nodes", "bytes")
        return {**dict.fromkeys(nothing, 0), "evaluations": self._taken, "index": None, "storage": None, "ring": None}

    def describe(self, keep: Keep) -> dict[str, Any]:
        """Two numbers."""
        return {"starts_us": self._starts_us, "taken": self._taken}

    def restore(self, description: Mapping[str, Any], tables: list[pa.Table]) -> None:
        """Take them over."""
        self._starts_us, self._taken = description["starts_us"], description["taken"]
