"""The plan that an engine uses, and the work predicted for its trees beside the work that they did.

The prediction knows what was seen: events, groups, how many pushes brought the events, and how often windows closed.
Each push makes partials of its own. Windows that close one by one visit all their fragments each time, or they move and
visit what enters and leaves; the more instances close together, the nearer a fragment comes to one visit. The real work
can be less: a tree that joined later has seen only a part of the stream, and a WHERE lets a part of the fragments pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import expm1

from panewise.engine.generation import Generation, TreeState
from panewise.engine.stream_state import StreamState
from panewise.language.model import Query
from panewise.language.printer import print_window
from panewise.language.workload import Workload
from panewise.planning.cost import Prices, moving_windows
from panewise.planning.optimize import optimize
from panewise.planning.plan import Plan
from panewise.planning.trees import DEFAULT_RATE, Clock, StreamPlan
from panewise.windows import Window, reports_by_substream
from panewise.windows.clock import show_time
from panewise.windows.slots import lengths_in_slots

MOST_CHOICES = 10
"""So many windows of a tree are shown with their choice."""


@dataclass(frozen=True)
class TreeWork:
    """Operations of one tree: partials fed to it, and fragments visited and answers made as windows closed."""

    fed: float
    folded: float


def explain_engine(workload: Workload, streams: Mapping[str, StreamState], *, analyze: bool) -> str:
    """The plan as text, with a section of its own for queries that a stream got later."""
    plan = plan_at_work(workload, streams)
    lines: list[str] = []
    if analyze:
        numbers = (tree.number for tree in plan.trees)
        for state in streams.values():
            for generation in state.generations:
                for at_work in generation.trees:
                    lines += _analysis(next(numbers), at_work, state)
        overflown = overflow_lines(streams)
        lines += ["", *overflown] if overflown else []
    return "\n".join([plan.explain(), *_cost_lines(streams), *lines])


def _cost_lines(streams: Mapping[str, StreamState]) -> list[str]:
    """What each stream's plan costs beside a fresh one, once queries have come or gone or it was made anew."""
    lines = []
    for name, state in streams.items():
        if (state.has_changed or state.replans) and len(state.reports_after_us) > 1:
            when = "never planned anew"
            if state.replans:
                at = "before any event" if state.replanned_us is None else f"at {show_time(state.replanned_us)}"
                when = f"planned anew {state.replans:,} times, last {at}"
            if any(generation.waits for generation in state.generations):
                when += "; queries are still moving over"
            costs = f"{state.cost:,.0f} operations a second now, {state.fresh_cost:,.0f} if planned anew"
            why = "queries came and went" if state.has_changed else "rate and groups were seen"
            lines += ["", f"stream {name} as {why}: {costs}; {when}"]
    return lines


def overflow_lines(streams: Mapping[str, StreamState]) -> list[str]:
    """A line on the queries with answers that do not fit; none if all fit."""
    counts = {name: count for state in streams.values() for name, count in state.overflows.counts.items()}
    shown = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return [f"NULL because a sum does not fit in a BIGINT or a list in its bound: {shown}"] if counts else []


def plan_at_work(workload: Workload, streams: Mapping[str, StreamState]) -> Plan:
    """The plan of all generations together, with what it costs at the rate that was seen.

    A plan has one rate; it is that of the stream with most events.
    Cost: O(queries), and planning those that are answered on demand.
    """
    asked = replace(workload, queries={q.name: q for q in workload.queries.values() if _is_in_no_tree(q)})
    plans: dict[str, StreamPlan] = {}
    trees = bases = 0
    for name, state in streams.items():
        for place, generation in enumerate(state.generations):
            plans[f"{name} {place}"] = _at_work(generation, trees, bases)
            trees += len(generation.plan.trees)
            bases += len(generation.plan.bases)
    busiest = max(streams.values(), key=lambda state: state.accepted, default=None)
    prices, seen_rate = (Prices(), None) if busiest is None else (busiest.prices, busiest.seen_rate)
    plan = optimize(asked, rate=None if prices.rate == DEFAULT_RATE else prices.rate, groups=prices.groups)
    if seen_rate is not None:
        plan = replace(plan, rate=seen_rate, rate_is_assumed=False)
    above = {name: state for name, state in streams.items() if state.stream.is_of_answers}
    rates = {name: state.seen_rate or state.prices.rate for name, state in above.items()}
    return replace(plan, streams=plans, rates=rates)


def _is_in_no_tree(query: Query) -> bool:
    return not query.window.is_sliding or reports_by_substream(query.window)


def predicted(at_work: TreeState, state: StreamState) -> TreeWork:
    """What the cost model predicts for a tree, for the events, groups, pushes and closings that were seen."""
    tree = at_work.tree
    if tree.clock is Clock.ROWS:
        ticks = state.log.final_count if state.log is not None else 0
    else:
        ticks = 0 if state.oldest_us is None or state.newest_us is None else state.newest_us - state.oldest_us + 1
    slots = -(-ticks // tree.granularity)
    keys = max(1, at_work.store.live_keys)
    if not slots or not state.pushes:
        return TreeWork(0.0, 0.0)
    cells_of_push = max(1.0, slots / state.pushes) * keys
    fed = state.pushes * _occupied(cells_of_push, state.accepted / state.pushes)
    fragments = _occupied(slots * keys * tree.cuts.rate, state.accepted)
    closings = max(1, at_work.store.closings)
    folded = 0.0
    for windows in _windows_by_predicate(at_work):
        by_edge: dict[tuple[int, int], list[int]] = {}
        for length, slide in windows:
            at_once = max(1.0, slots / slide / closings)
            if at_work.store.folds_ranges(at_once):
                folded += fragments * (length + (at_once - 1) * slide) / (at_once * slide)
            else:
                by_edge.setdefault((slide, length % slide), []).append(length)
            folded += _occupied(slots / slide * keys, state.accepted * length / slide)  # answers
        visits = _visits_of_moving(at_work)
        folded += sum(_folded_at(lengths, slide, fragments, visits) for (slide, _), lengths in by_edge.items())
    return TreeWork(fed, folded)


def _visits_of_moving(at_work: TreeState) -> int:
    """How often a moving window visits a fragment: as it enters and leaves, and twice to note what remains after it."""
    inputs = tuple(one.type for one in at_work.plan.inputs)
    return 2 if all(component.can_be_taken_off(inputs) for component in at_work.tree.components) else 4


def _folded_at(lengths: list[int], slide: int, fragments: float, visits: int) -> float:
    """How many fragments are visited by windows that end together, if the longest move and the others are folded.

    Of the others the longest covers the fragments of all.
    """
    covered = [length / slide for length in sorted(lengths, reverse=True)]
    moving = moving_windows(covered)
    return fragments * (visits * moving + sum(covered[moving : moving + 1]))


def _windows_by_predicate(at_work: TreeState) -> Iterable[set[tuple[int, int]]]:
    """Length and slide, in slots, of the different windows of each WHERE clause."""
    windows: dict[int | None, set[tuple[int, int]]] = {}
    for planned in at_work.queries.values():
        lengths = lengths_in_slots(planned.query.window, at_work.tree.granularity)
        windows.setdefault(planned.predicate, set()).add(lengths)
    return windows.values()


def _occupied(cells: float, events: float) -> float:
    """How many of `cells` get at least one of `events`, if each event falls into a random cell."""
    return -cells * expm1(-events / cells)


def _at_work(generation: Generation, first_tree: int, first_base: int) -> StreamPlan:
    """A generation's plan with the queries that are active now, numbered on from other generations."""
    plan, bits = generation.plan, len(generation.plan.predicates) - len(generation.twins)
    trees = tuple(
        replace(
            state.tree,
            number=first_tree + place,
            base=first_base + state.tree.base,
            predicates=tuple(bit for bit in state.tree.predicates if bit < bits),
            queries=(*map(state.plainly, state.queries.values()), *state.waiting.values()),
        )
        for place, state in enumerate(generation.trees)
    )
    bases = tuple(
        replace(base, number=first_base + base.number, predicates=tuple(bit for bit in base.predicates if bit < bits))
        for base in plan.bases
    )
    return replace(plan, trees=trees, bases=bases)


def _analysis(number: int, at_work: TreeState, state: StreamState) -> list[str]:
    model, store = predicted(at_work, state), at_work.store
    return [
        "",
        f"tree {number} after {state.accepted:,} events:",
        f"  fed         {model.fed:,.0f} partials predicted, {store.fed:,} counted",
        f"  folded      {model.folded:,.0f} combines predicted, {store.folded:,} counted",
        f"  held        {store.live_rows:,} fragments of {store.live_keys:,} groups, {store.bytes_held:,} bytes",
        *_closing_lines(list(store.choices)),
    ]


def _closing_lines(choices: list[tuple[Window, bool, float, float]]) -> list[str]:
    """How windows close that end again and again, and why so."""
    lines = []
    for window, is_moving, moved, folded in choices[:MOST_CHOICES]:
        way = "is carried on" if is_moving else "is folded anew"
        costs = f"{moved:,.0f} a closing to carry it on, {folded:,.0f} to fold it anew"
        lines.append(f"  closes      {print_window(window)} {way}: {costs}")
    if len(choices) > MOST_CHOICES:
        lines.append(f"              and {len(choices) - MOST_CHOICES:,} windows more")
    return lines
