"""What new trees take over from older ones: their partials, and which of them each query sees.

A window opens and closes at edges of its tree, so it covers a fragment of that tree wholly or not at all. So a partial
of an older tree counts for the fragment of the new tree in which it begins, and the older tree can end at once.

Two older trees hold the same events, cut at other edges and with other predicates. So that no query counts an event
twice, or misses one, the rows of each older tree have bits of their own in the new tree: where two of them need a bit,
the second gets a *twin* of it. An event that comes later has both. Once the rows of older trees have left, queries read
the predicate itself again (`TreeState.settle_past`).

Cost: O(partials that older trees hold), and O(queries).
Source: Guirguis et al., section 5.2, have a plan woven anew; how state moves over is not in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component
from panewise.arrays import Bools, Ints
from panewise.engine.columns import arrow_type
from panewise.engine.combine import Combiner, partials_schema
from panewise.engine.generation import Generation, Past, TreeState
from panewise.engine.projection import project
from panewise.planning.trees import BITS_PER_WORD, Clock, PlannedQuery, StreamPlan, Tree, Twin
from panewise.windows import follows_events, is_unbounded


def take_over(fresh: Generation, older: Iterable[Generation], until: Mapping[Clock, int | None]) -> None:
    """Let trees that wait take over from older ones all that these hold, as far as that can be.

    `until` tells where, by clock, the events begin that older trees have not seen. What follows events or goes back to
    the start stays where it is.
    """
    homes = {name: state for generation in older for state in generation.trees for name in state.queries}
    held: dict[int, _Move] = {}
    moves: dict[int, list[_Move]] = {}
    twins: list[Twin] = []
    for tree in fresh.plan.trees:
        if any(follows_events(window) or is_unbounded(window) for window in tree.windows):
            continue
        moves[tree.number] = _moves_into(tree, homes, held)
        _give_bits(fresh.plan, tree, moves[tree.number], twins)
    fresh.begin_with(twins, until, waits=True)
    for state in fresh.trees:
        if state.tree.number in moves:
            _fill(state, moves[state.tree.number], until[state.tree.clock])
    moved = {name for several in moves.values() for move in several for name in move.queries}
    for generation in older:
        generation.leave(moved)


@dataclass
class _Move:
    """What one tree takes over from one older tree."""

    old: TreeState
    held: pa.RecordBatch
    late: pa.RecordBatch | None
    words: Ints
    """The different sets of predicates that rows of `held` and of `late` have, a column each."""
    places: Ints
    """Which of these each row of `held`, and then of `late`, has."""
    queries: dict[str, PlannedQuery]
    """The queries as they are planned in the new tree, by name."""
    seen: dict[int | None, Bools] = field(default_factory=dict)
    """By bit in the new tree, which sets of predicates get it."""
    pasts: dict[int | None, tuple[Past, ...]] = field(default_factory=dict)

    @staticmethod
    def of(old: TreeState) -> _Move:
        """All that an older tree holds, and none of its queries."""
        held, late = old.store.partials(), None if old.late is None else old.late.partials()
        batches = [held] if late is None else [held, late]
        rows, words = sum(batch.num_rows for batch in batches), old.plan.shard_words
        if not words:
            return _Move(old, held, late, np.zeros((0, min(rows, 1)), np.int64), np.zeros(rows, np.int64), {})
        several = [
            np.concatenate([np.asarray(batch.column(f"shard_{word}")) for batch in batches]) for word in range(words)
        ]
        if words == 1:
            different, places = np.unique(several[0], return_inverse=True)
            return _Move(old, held, late, different.reshape(1, -1), places, {})
        different, places = np.unique(np.stack(several), axis=1, return_inverse=True)
        return _Move(old, held, late, different, places.reshape(-1), {})

    @property
    def old_queries(self) -> list[PlannedQuery]:
        """The queries as they are planned in the older tree; those that read a twin come last."""
        planned = [self.old.queries[name] for name in self.queries]
        return sorted(planned, key=lambda one: -1 if one.predicate is None else one.predicate)

    def sets_with(self, bit: int | None) -> Bools:
        """Which sets of predicates have a bit of the older tree."""
        if bit is None:
            return np.ones(self.words.shape[1], np.bool_)
        has: Bools = ((self.words[bit // BITS_PER_WORD] >> (bit % BITS_PER_WORD)) & 1).astype(np.bool_)
        return has


def _moves_into(tree: Tree, homes: Mapping[str, TreeState], held: dict[int, _Move]) -> list[_Move]:
    """What a tree takes over, from the older tree with most of its queries first; `held` is what older trees hold."""
    found: dict[int, _Move] = {}
    for planned in tree.queries:
        old = homes[planned.query.name]
        if id(old) not in found:
            if id(old) not in held:
                held[id(old)] = _Move.of(old)
            found[id(old)] = replace(held[id(old)], queries={}, seen={}, pasts={})
        found[id(old)].queries[planned.query.name] = planned
    return sorted(found.values(), key=lambda move: -len(move.queries))


def _give_bits(plan: StreamPlan, tree: Tree, moves: list[_Move], twins: list[Twin]) -> None:
    """Give each query the bit in the new tree that stands for the rows that it saw in the older one."""
    is_alone = sum(bool(len(move.places)) for move in moves) <= 1
    taken: set[int] = set()
    for move in moves:
        given: dict[tuple[int | None, int | None], int | None] = {}
        by_rows: dict[tuple[int | None, bytes], int | None] = {}
        for old in move.old_queries:
            planned = move.queries[old.query.name]
            key = old.predicate, planned.predicate
            if key not in given:
                sets = move.sets_with(old.predicate)
                known = planned.predicate, sets.tobytes()
                if known not in by_rows:
                    by_rows[known] = bit = _bit_for(
                        plan, tree, planned.predicate, sets, taken, twins, is_alone=is_alone
                    )
                    move.seen[bit] = sets
                    move.pasts[bit] = move.old.pasts.get(old.predicate, ())
                given[key] = by_rows[known]
            if planned.predicate != given[key]:
                move.queries[old.query.name] = replace(planned, predicate=given[key])


def _bit_for(
    plan: StreamPlan,
    tree: Tree,
    predicate: int | None,
    sets: Bools,
    taken: set[int],
    twins: list[Twin],
    *,
    is_alone: bool,
) -> int | None:
    """The bit of a predicate for some rows of the past; all others must not have it."""
    if not len(sets):
        # There are no rows to tell from others: where others have events, this tree would have them too.
        return predicate
    if predicate is None and is_alone and sets.all():
        return None
    if predicate is not None and predicate not in taken:
        taken.add(predicate)
        return predicate
    twins.append(Twin(tree.number, predicate))
    return len(plan.predicates) + len(twins) - 1


def _fill(state: TreeState, moves: list[_Move], until: int | None) -> None:
    """Put what older trees hold into a tree, and answer their queries there."""
    queries: dict[str, PlannedQuery] = {}
    exact_from: dict[str, int | None] = {}
    for move in moves:
        rows = move.held.num_rows
        state.store.take_over(_moved(state, move, move.held, move.places[:rows]), move.old.store.combinations)
        if move.late is not None:
            state.add_late(_moved(state, move, move.late, move.places[rows:]))
        if len(move.places) and until is not None:
            old, components = move.old, frozenset(_renamed(state.plan, move.old.plan, move.old.tree))
            past = Past(old.tree.cuts, old.tree.granularity, components, old.held_from, until)
            for bit, before in move.pasts.items():
                renamed = (replace(one, components=one.components_in(state.plan, old.plan)) for one in before)
                state.pasts[bit] = (past, *renamed)
        start = move.old.store.last_start
        if start is not None:
            state.store.last_start = max(start, state.store.last_start if state.store.last_start is not None else start)
        queries |= move.queries
        exact_from |= {name: move.old.exact_from[name] for name in move.queries}
    state.begin({planned.query.name: queries[planned.query.name] for planned in state.tree.queries}, exact_from, until)


def _renamed(plan: StreamPlan, before: StreamPlan, tree: Tree) -> dict[Component, Component]:
    """The components of an older tree that a plan has inputs for, by what they are called in it."""
    places = {column: place for place, column in enumerate(plan.inputs)}
    found = {}
    for component in tree.components:
        if component.input is None:
            found[component] = component
        elif before.inputs[component.input] in places:
            found[Component(component.kind, places[before.inputs[component.input]])] = component
    return found


def _moved(state: TreeState, move: _Move, held: pa.RecordBatch, places: Ints) -> pa.RecordBatch:
    """Partials of an older tree as partials of the new one; `places` tells the set of predicates of each."""
    plan, tree, old = state.plan, state.tree, move.old
    words = np.zeros((plan.shard_words, move.words.shape[1]), np.int64)
    for bit, sets in move.seen.items():
        if bit is not None:
            words[bit // BITS_PER_WORD] |= sets.astype(np.int64) << np.int64(bit % BITS_PER_WORD)
    if None not in move.seen:
        # What no query sees is left behind.
        is_seen = np.bitwise_or.reduce(words, axis=0) != 0
        kept = np.flatnonzero(is_seen[places])
        held, places = held.take(pa.array(kept)), places[kept]
    slots = np.asarray(held.column("slot")) * old.tree.granularity // tree.granularity
    columns: list[pa.Array] = [pa.array(slots)]
    columns += [held.column(old.plan.key_column(key)) for key in tree.group_by]
    columns += [pa.array(word[places]) for word in words]
    known = _renamed(plan, old.plan, old.tree)
    nothing = None
    for component in tree.components:
        if component in known:
            columns += [held.column(name) for name in known[component].column_names()]
            continue
        # The queries of the older tree do not read it.
        nothing = _nothing(plan, tree) if nothing is None else nothing
        first = pa.array(np.zeros(held.num_rows, np.int64))
        columns += [nothing.column(name).take(first) for name in component.column_names()]
    return pa.RecordBatch.from_arrays(columns, schema=partials_schema(plan, tree))


def _nothing(plan: StreamPlan, tree: Tree) -> pa.RecordBatch:
    """The partial of an event all of whose inputs are NULL."""
    attributes = plan.stream.attributes
    event = pa.RecordBatch.from_pydict({name: pa.nulls(1, arrow_type(kind)) for name, kind in attributes.items()})
    projected = project(plan, event)
    columns = {
        name: pa.nulls(1, column.type) if name.startswith("input_") else column
        for name, column in zip(projected.schema.names, projected.columns, strict=True)
    }
    base = replace(plan.base_of(tree), group_by=tree.group_by, predicates=(), components=tree.components)
    return Combiner(plan, pa.RecordBatch.from_pydict(columns)).partials(base, np.zeros(1, np.int64))
