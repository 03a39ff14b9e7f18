"""Planning anew, once a job's plan costs more than the tolerance allows.

A bucket keeps the partials of bases, and feeds new trees from them. So trees may change at any time: each query keeps
the time from which on it is exact, and no window loses its past.

Where other trees are not enough, new bases are opened for all queries beside the old ones. They begin with the next
batch, and only keep their partials. Once these reach back as far as the next windows and lookups do, the new bases take
over, with trees fed from what they kept; the old ones end. So generations of queries do not pile up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from panewise.language.model import Query, Stream
from panewise.planning.cost import Prices
from panewise.planning.drift import cost_at_work
from panewise.planning.optimize import weave
from panewise.planning.trees import Tree
from panewise.spark.fed_bases import FedBase, FedTree, Waiting, next_slot
from panewise.spark.stand_ins import plan_beside, slot_length
from panewise.windows import follows_events, is_unbounded


def sliding_queries(bases: Iterable[FedBase]) -> list[Query]:
    """The queries that the trees of some bases answer."""
    return [planned.query for live in bases for tree in live.trees for planned in tree.queries.values()]


def cost_of_bases(bases: Iterable[FedBase], prices: Prices) -> float:
    """Operations per second of some bases and of their trees, with the queries that they have now."""
    return cost_at_work(prices, ((live.base, tree.tree, tree.windows) for live in bases for tree in live.trees))


def woven_anew(bases: Mapping[int, FedBase], prices: Prices) -> dict[int, FedBase]:
    """The bases with trees as if all queries of each base had come at once."""
    made: dict[int, FedBase] = {}
    by_generation: dict[int, list[FedBase]] = {}
    for live in bases.values():
        by_generation.setdefault(live.generation, []).append(live)
    for members in by_generation.values():
        made |= _generation_anew(members, prices)
    return {number: made[number] for number in bases}


def may_open(bases: Iterable[FedBase]) -> bool:
    """Whether new bases can take over from all bases of a stream.

    Nobody knows how far back a session will reach, and no new base has what came at the start. And lookups are answered
    at the ends of slots, so slots must stay as long as they are.
    """
    bases = list(bases)
    queries = sliding_queries(bases)
    if any(follows_events(query.window) or is_unbounded(query.window) for query in queries):
        return False
    asked = [live for live in bases if live.stand_ins]
    if any(stand_in.window.is_unbounded for live in asked for stand_in in live.stand_ins):
        return False
    if not asked:
        return True
    stream = asked[0].plan.stream
    slot_us = slot_length(stream, queries) if queries or stream.granularity_us else 0
    return all(live.base.granularity == slot_us for live in asked)


def opened(
    stream: Stream, bases: Iterable[FedBase], prices: Prices, first_base: int, since_us: int | None, *, changes: bool
) -> dict[int, FedBase]:
    """New bases for all queries of a stream, which miss no event from a time on and wait to take over.

    `changes` tells whether only changes are reported.
    """
    bases = list(bases)
    asked = [stand_in.query for live in bases for stand_in in live.stand_ins]
    sliding = sliding_queries(bases)
    plan, stand_ins = plan_beside(stream, sliding, asked, prices, first_base)
    made = {}
    for base in plan.bases:
        held_us = None if since_us is None else next_slot(since_us, base.granularity)
        waiting = Waiting(tuple(map(FedTree.of, plan.fed_by(base))), tuple(stand_ins.get(base.number, ())), held_us)
        made[base.number] = FedBase(plan, base, (), held_us, held_us, changes, waiting=waiting)
    return made


def handed_over(bases: Mapping[int, FedBase]) -> dict[int, FedBase]:
    """The bases after those that waited took over; since when each query is exact and reported stays."""
    moved = {name for live in bases.values() if live.waiting is not None for name in _names(live.waiting)}
    trees = [tree for live in bases.values() for tree in live.trees]
    exact_from_us = {name: time_us for tree in trees for name, time_us in tree.exact_from_us.items()}
    reports_after_us = {name: time_us for tree in trees for name, time_us in tree.reports_after_us.items()}
    of_stand_ins = {one.query.name: one.exact_from_us for live in bases.values() for one in live.stand_ins}
    after = {}
    for number, live in bases.items():
        waiting = live.waiting
        if waiting is None:
            after[number] = live.without(moved).pruned()
            continue
        taken = tuple(
            replace(
                tree,
                exact_from_us={name: exact_from_us[name] for name in tree.queries},
                reports_after_us={name: reports_after_us[name] for name in tree.queries},
            )
            for tree in waiting.trees
        )
        stand_ins = tuple(replace(one, exact_from_us=of_stand_ins[one.query.name]) for one in waiting.stand_ins)
        stand_ins = (*live.stand_ins, *stand_ins)
        after[number] = replace(live, trees=(*live.trees, *taken), stand_ins=stand_ins, waiting=None).pruned()
    return {number: live for number, live in after.items() if live.is_needed}


def _names(waiting: Waiting) -> list[str]:
    return [*(name for tree in waiting.trees for name in tree.queries), *(one.query.name for one in waiting.stand_ins)]


def _generation_anew(members: list[FedBase], prices: Prices) -> dict[int, FedBase]:
    plan = members[0].plan
    # A number is never used twice: a bucket knows by it which trees are new.
    number = max((tree.number for tree in plan.trees), default=-1) + 1
    trees: dict[int, list[Tree]] = {}
    for live in members:
        queries = [planned for tree in live.trees for planned in tree.queries.values()]
        trees[live.number] = weave(plan, live.base, queries, prices, number)
        number += len(trees[live.number])
    plan = replace(plan, trees=tuple(tree for several in trees.values() for tree in several))
    return {live.number: _with_trees(replace(live, plan=plan), trees[live.number]) for live in members}


def _with_trees(live: FedBase, trees: list[Tree]) -> FedBase:
    """A base whose queries are in other trees; since when each is exact and reported stays."""
    exact_from_us = {name: time_us for tree in live.trees for name, time_us in tree.exact_from_us.items()}
    reports_after_us = {name: time_us for tree in live.trees for name, time_us in tree.reports_after_us.items()}
    fed = []
    for tree in trees:
        queries = {planned.query.name: planned for planned in tree.queries}
        fed.append(
            FedTree(
                tree,
                queries,
                {name: exact_from_us[name] for name in queries},
                {name: reports_after_us[name] for name in queries},
            )
        )
    return replace(live, trees=tuple(fed))
