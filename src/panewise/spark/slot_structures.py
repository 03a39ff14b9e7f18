"""Structures over the partials of slots: the machinery of the engine's lookups, with slots in the place of events.

The elements of a sequence are partials of one key and slot each; the number of an element is that of its slot. Slots
that ended by the watermark, less ON LATE CORRECT, get no more partials, so they are final. In the folder of a batch job
all are, and structures are made anew if more comes.
Cost: a partial is fed to each structure once; a batch takes a look at all rows of the store besides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from panewise.aggregates.catalogue import CATALOGUE, carrier_of
from panewise.aggregates.components import Component, Kind
from panewise.arrays import Ints
from panewise.engine.on_demand.candidates import SUM_LIMIT, CandidateIndex
from panewise.engine.on_demand.columns import ColumnKey, HeldColumn
from panewise.engine.on_demand.coverage import Coverage
from panewise.engine.on_demand.parts import Part
from panewise.engine.on_demand.sequence import PENDING_STRUCTURE, Sequence
from panewise.engine.on_demand.served import Served, ServedAggregate
from panewise.engine.on_demand.shared_structures import SharedStructures
from panewise.engine.rows import Rows
from panewise.language.expressions import AggregateCall, Expression
from panewise.language.model import Query
from panewise.planning.cost import Prices
from panewise.planning.having import Threshold, plan_having
from panewise.planning.structure_choice import choose_structure
from panewise.spark.lookup_plan import Covered, Lookup
from panewise.spark.lookup_store import LookupStore
from panewise.spark.stand_ins import slot_rates
from panewise.structures.lifting import LiftedPartials
from panewise.windows import TimeWindow

NEVER, END = -(2**62), 2**62
"""Before all slots, and after: a store that gets no more partials is final to its end."""
FOLD_ROWS = 1_000
"""About as many partials are put into structures in the time that it takes to find and fold those of one group."""


@dataclass(frozen=True)
class SlotMoment:
    """What a lookup covers of a store, and from which slot on more may come."""

    store: LookupStore
    final_count: int
    covered: Covered

    @property
    def coverage(self) -> Coverage:
        """The slots, and the times to show."""
        covered = self.covered
        bounds = covered.from_slot, covered.to_slot, covered.start_us, covered.end_us
        return Coverage(*np.array(bounds, np.int64)[:, None])


class SlotSequence(Sequence[SlotMoment]):
    """The partials of one store that pass one WHERE. The codes of groups are those of the store that is read next."""

    are_partials: ClassVar[bool] = True
    predicate: int | None = None
    inputs: Mapping[ColumnKey, int]
    """The number of the input that a column is made of; the events themselves have none."""
    _numbering: str | None
    _version: int
    _final_to: int
    """What was read: with which numbers of keys, which state of the store, and which slots for the last time."""

    def append(self, source: SlotMoment) -> None:
        """Take in what is new while lookups come."""
        if self.was_asked:
            self.was_asked = False
            self._catch_up(source)

    def let_go(self, source: SlotMoment) -> None:
        """Rebuild the structures if most of what they hold has left the store."""
        self._is_stale |= self.final.elements > 2 * source.store.live_rows + FOLD_ROWS

    def prepare(self, source: SlotMoment) -> Part:
        """Bring everything up to date for a lookup; returns the pending partials."""
        self.was_asked = True
        self._catch_up(source)
        return self._pending

    def _catch_up(self, source: SlotMoment) -> None:
        store, final_to = source.store, source.final_count
        read, there = (self._numbering, self._version, self._final_to), (store.numbering, store.version, final_to)
        if read == there and not self._is_stale:
            return
        self.let_go(source)
        if self._is_stale or store.numbering != self._numbering or final_to < self._final_to or self._final_to == END:
            self.rebuilds += self._numbering is not None
            self._clear()
        fresh = self._from(store)
        is_final = fresh.slots < final_to
        before = self.final.elements
        self.table = store.key_table
        self._feed(self.final, fresh.take(np.flatnonzero(is_final)))
        self._pending = Part(self.columns, PENDING_STRUCTURE)
        self._feed(self._pending, fresh.take(np.flatnonzero(~is_final)))
        for column in self.columns:
            column.updates += self.final.elements - before
        self._numbering, self._version, self._final_to = there

    @property
    def components(self) -> tuple[Component, ...]:
        """What is read of partials."""
        return tuple({one: None for column in self.columns for one in self._components(column).values()})

    def _from(self, store: LookupStore) -> Rows:
        """The partials that were not final, one for each key and slot."""
        return store.rows_from(self.predicate, self.components, self._final_to).merged(self.components)

    def _components(self, column: HeldColumn) -> dict[Kind, Component]:
        """What a column is made of."""
        if column.key.argument is None:
            return {Kind.COUNT: Component(Kind.ROWS)}
        kinds = CATALOGUE[column.key.carrier].kinds(column.structure_type)
        return {kind: Component(kind, self.inputs[column.key]) for kind in kinds}

    def _feed(self, part: Part, rows: Rows) -> None:
        if not len(rows):
            return
        values = {column: self._lifted(column, rows) for column in self.columns}
        part.append(rows.slots, rows.keys if self.group_by else None, values)
        if part is self.final and self.indexes:
            order = np.argsort(rows.slots, kind="stable")
            of_key = {column.key: lifted for column, lifted in values.items()}
            for key, index in self.indexes.items():
                lifted = of_key[ColumnKey(key.argument, carrier_of(key.function))].take(order)
                _count_by(index, rows.keys[order], lifted, rows.slots[order])

    def _lifted(self, column: HeldColumn, rows: Rows) -> LiftedPartials:
        columns = {
            kind: tuple(rows.columns[name] for name in component.column_names())
            for kind, component in self._components(column).items()
        }
        (counts,) = columns.pop(Kind.COUNT)
        return LiftedPartials(columns, counts)

    def _clear(self) -> None:
        super()._clear()
        self._numbering, self._version, self._final_to = None, -1, NEVER


def _count_by(index: CandidateIndex, codes: Ints, lifted: LiftedPartials, slots: Ints) -> None:
    """Give an index the partials that its aggregate counts."""
    kind = next(iter(lifted.columns), Kind.COUNT)
    if kind is Kind.SUM_INT and lifted.greatest() >= SUM_LIMIT:
        index.give_up("the sum of a slot reaches 2**61; use larger units")
        return
    counted = np.flatnonzero(lifted.counts > 0)
    words = lifted.columns.get(kind, (lifted.counts,))
    values = words[0] if len(words) == 1 else (words[0] << 32) + words[1]
    index.append(codes[counted], values[counted], slots[counted])


@dataclass(eq=False)
class ServedFromSlots(Served[SlotMoment]):
    """A query over partials of slots."""

    slot_us: int = 1

    @cached_property
    def made_of(self) -> tuple[object, ...]:
        """What a query must have in common with this one to get the same answers from the same window."""
        return id(self.sequence), *((id(one.column), one.entry.name) for one in self.aggregates)

    @property
    def index_range(self) -> int:
        """The length of its window in slots."""
        assert isinstance(self.query.window, TimeWindow)
        return self.query.window.left_us // self.slot_us

    def coverage(self, source: SlotMoment, at: int, since_us: int | None, codes: Ints) -> Coverage:
        """What the window covers, the same of all groups."""
        return source.coverage

    def has_elements(self, source: SlotMoment) -> bool:
        """Whether the window of a query without groups covers anything."""
        pending, covered = self.prepare(source), source.covered
        bounds = 0, covered.from_slot, covered.to_slot
        return any(
            low < high for low, high in (part.positions_of_one(*bounds) for part in (self.sequence.final, pending))
        )


class SlotStructures(SharedStructures[SlotMoment]):
    """The structures over one store."""

    def __init__(self, lookup: Lookup) -> None:
        super().__init__(lookup.family.fed.plan.stream)
        self._slot_us = lookup.family.fed.base.granularity
        self._added = lookup

    @property
    def nbytes(self) -> int:
        """The memory of all structures and indexes."""
        sequences = self._sequences.values()
        held = sum(one.index_nbytes + sum(map(one.nbytes, one.columns)) for one in sequences)
        return held + sum(index.nbytes for index in self.indexes)

    @property
    def indexes(self) -> Iterator[CandidateIndex]:
        """All indexes of HAVING."""
        return (index for sequence in self._sequences.values() for index in sequence.indexes.values())

    def has_columns(self, query: Query) -> bool:
        """Whether all columns that a query without USING needs are there."""
        sequence = self._sequences.get((query.where, tuple(sorted(query.group_by))))
        return sequence is not None and all(
            sequence.column(ColumnKey(call.argument, carrier_of(call.function)), None) for call in query.aggregates
        )

    def serve(self, lookup: Lookup, prices: Prices) -> None:
        """Answer one more query, if structures can."""
        self._added, query = lookup, lookup.query
        rates = slot_rates(query, self._slot_us, prices)
        plan = choose_structure(self._stream, query, rates, over_slots=True)
        self.add(query, plan, plan_having(self._stream, query, prices.rate, plan.reads_log))

    def _new_sequence(self, query: Query, where: Expression | None, group_by: tuple[str, ...]) -> SlotSequence:
        sequence = SlotSequence(self._stream, where, group_by)
        sequence.predicate, sequence.inputs = self._added.planned.predicate, {}
        return sequence

    def _new_served(
        self,
        query: Query,
        sequence: Sequence[SlotMoment],
        aggregates: tuple[ServedAggregate, ...],
        columns: tuple[HeldColumn, ...],
        threshold: Threshold | None,
    ) -> ServedFromSlots:
        return ServedFromSlots(query, sequence, aggregates, columns, threshold, slot_us=self._slot_us)

    def _aggregate(
        self, sequence: Sequence[SlotMoment], query: Query, call: AggregateCall, structure: str, *, is_forced: bool
    ) -> ServedAggregate:
        """An aggregate, with the column that answers it: events are counted as the values of a column of their own."""
        assert isinstance(sequence, SlotSequence)
        carrier = carrier_of(call.function)
        key = ColumnKey(call.argument, carrier)
        place = next(one.input for one in self._added.planned.aggregates if one.call == call)
        if place is not None:
            sequence.inputs = {**sequence.inputs, key: place}
        column = self._column(sequence, query, call, key, structure, is_forced=is_forced)
        return ServedAggregate(call, column, CATALOGUE[call.function if call.argument is not None else carrier])
