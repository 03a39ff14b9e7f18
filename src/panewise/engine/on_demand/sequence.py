"""A sequence: the elements that pass one WHERE, by the groups of one GROUP BY, in structures for all queries over them.

Elements are events, or partials of slots. The final part has those before which nothing comes any more, in the
structures that were chosen. The pending part has the others, and is made again when they change. What the elements are
made of is their *source*: the log of an engine, or the slot log of a job on Spark as far as it was read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Generic, Protocol, TypeVar

from panewise.engine.on_demand.candidates import CandidateIndex, IndexKey, Needs
from panewise.engine.on_demand.columns import ColumnKey, HeldColumn
from panewise.engine.on_demand.parts import Part
from panewise.engine.tables import KeyTable
from panewise.language.expressions import Expression
from panewise.language.model import Stream
from panewise.structures.recompute import Recompute

PENDING_STRUCTURE = Recompute.sheet.name
"""What holds pending elements: they are few, and made anew whenever they change."""


class ElementSource(Protocol):
    """What elements are made of."""

    @property
    def final_count(self) -> int:
        """Elements whose number is less are final."""
        ...


S = TypeVar("S", bound=ElementSource)


class Sequence(ABC, Generic[S]):
    """Final and pending elements of one WHERE and GROUP BY."""

    are_partials: ClassVar[bool]
    """Whether its elements are partials, not events."""
    table: KeyTable
    known_keys: dict[tuple[object, ...], int]
    """The codes of keys that were looked up one at a time."""
    final: Part
    _pending: Part

    def __init__(self, stream: Stream, where: Expression | None, group_by: tuple[str, ...]) -> None:
        self.stream = stream
        self.where = where
        self.group_by = group_by
        self.columns: list[HeldColumn] = []
        self.indexes: dict[IndexKey, CandidateIndex] = {}
        """What finds the groups that may pass HAVING."""
        self.queries: set[str] = set()
        self.rebuilds = 0
        self.was_asked = False
        self._is_stale = True
        self._clear()

    def column(self, key: ColumnKey, structure: str | None) -> HeldColumn | None:
        """The column that holds something, in a given structure if one is named."""
        for column in self.columns:
            if column.key == key and structure in (None, column.structure):
                return column
        return None

    def change(self, columns: Iterable[HeldColumn]) -> None:
        """Change the columns; structures are built from the source when they are next needed."""
        self.columns = list(columns)
        self._is_stale = True

    def drop(self, column: HeldColumn) -> None:
        """Drop one column."""
        self.columns.remove(column)
        self.final.drop(column)
        self._pending.drop(column)

    def add_index(self, key: IndexKey, name: str, needs: Needs) -> None:
        """Let a collective index serve one more query; it is built from the source when it is next needed."""
        index = self.indexes.get(key)
        if index is None:
            index = self.indexes[key] = CandidateIndex(self.stream, key, are_partials=self.are_partials)
        index.queries[name] = needs
        self._is_stale |= not index.serves(needs)

    def drop_index(self, key: IndexKey, name: str) -> None:
        """Serve one query less; the index is dropped with the last query that it served."""
        del self.indexes[key].queries[name]
        if not self.indexes[key].queries:
            del self.indexes[key]

    def rebuild(self) -> None:
        """Rebuild all structures when they are next needed."""
        self._is_stale = True

    @abstractmethod
    def append(self, source: S) -> None:
        """Take in elements that became final, at once or later."""

    @abstractmethod
    def prepare(self, source: S) -> Part:
        """Bring everything up to date for a lookup; returns the pending elements."""

    @abstractmethod
    def let_go(self, source: S) -> None:
        """Rebuild the structures if most of what they hold has left the source."""

    def nbytes(self, column: HeldColumn) -> int:
        """The memory of a column's final part."""
        return self.final.nbytes(column)

    @property
    def index_nbytes(self) -> int:
        """The memory of the numbers of final elements."""
        return self.final.index_nbytes

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        self.final.check_invariants()
        self._pending.check_invariants()
        if not self._is_stale:
            for index in self.indexes.values():
                index.check_invariants()

    def _clear(self) -> None:
        self.table = KeyTable([self.stream.attributes[name] for name in self.group_by])
        self.known_keys = {}
        self.final = Part(self.columns)
        for index in self.indexes.values():
            index.clear()
        self._pending = Part(self.columns, PENDING_STRUCTURE)
        self._is_stale = False
