"""Which groups a HAVING clause lets through: by a collective index over the groups, or by checking each of them.

An on-demand query over the newest events (`[RANGE r]`) asks at every lookup for the groups that pass a threshold. If
its HAVING compares an aggregate that a collective index follows, the index gives those groups, and structures answer
only them. That is compared with structures that answer every group. Any other HAVING is checked group by group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Comparison, Expression, Literal, conjuncts
from panewise.language.model import Query, Stream
from panewise.language.printer import print_expression
from panewise.language.typecheck import type_of
from panewise.planning.within import ASSUMED_UPDATES
from panewise.substreams import FilterShape, collective_index
from panewise.windows import TimeWindow

ASSUMED_KEYS = 10_000
"""The assumed number of groups of a stream."""
ASSUMED_SHARE = 0.05
"""The assumed share of groups that pass in the direction in which few do, among those with events in a window."""

FEWEST_STEPS = 100.0
"""The fixed cost of asking an index, in steps of an index."""
GROUP_STEPS = 3.0
"""What structures take to check one group, in steps of an index. Measured: about 0.15 us, and a step 0.05 us."""

EXACT_DOUBLES = 2.0**53
"""Every integer up to here is exact as a double."""

_FLIPPED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True)
class Threshold:
    """An aggregate on one side of a comparison and a number on the other."""

    call: AggregateCall
    comparison: str
    bound: int | float


@dataclass(frozen=True)
class HavingPlan:
    """How the groups of a query with HAVING are found; without a filter each group is checked."""

    reason: str
    filter: str | None = None
    threshold: Threshold | None = None


def plan_having(stream: Stream, query: Query, rate: float, reads_log: bool = False) -> HavingPlan | None:
    """The plan of an on-demand query's HAVING; None for a query without one, and for sliding queries.

    `reads_log` says that no structures answer the query, but the events that its window covers.
    """
    if query.having is None or query.window.is_sliding:
        return None
    if not isinstance(query.window, TimeWindow) or query.window.right_us:
        return HavingPlan("each group is checked: collective indexes follow windows of time that end now")
    if not query.group_by:
        return HavingPlan("there is only one group, and it is checked")
    if reads_log:
        return HavingPlan("each group is checked: the window's events are read, and so all groups are at hand")
    refusals = []
    for threshold in _thresholds(query.having):
        refusal = _why_not(stream, query, threshold, rate)
        if refusal is None:
            sheet = collective_index(threshold.call.function)
            assert sheet is not None
            name = sheet.name
            text = f"{print_expression(threshold.call)} {threshold.comparison} {threshold.bound}"
            return HavingPlan(f"{name} finds the groups with {text}; structures answer only these", name, threshold)
        refusals.append(refusal)
    why = "; ".join(refusals) or "no part of HAVING compares an aggregate with a number"
    return HavingPlan(f"each group is checked: {why}")


def _thresholds(having: Expression) -> Iterator[Threshold]:
    for condition in conjuncts(having):
        match condition:
            case Comparison("=" | "<>"):
                continue
            case Comparison(operator, AggregateCall() as call, Literal(int() | float() as bound)):
                yield Threshold(call, operator, bound)
            case Comparison(operator, Literal(int() | float() as bound), AggregateCall() as call):
                yield Threshold(call, _FLIPPED[operator], bound)


def _why_not(stream: Stream, query: Query, threshold: Threshold, rate: float) -> str | None:
    """Why a collective index cannot serve a threshold, or is not worth it; None if it serves."""
    call = threshold.call
    text = print_expression(call)
    sheet = collective_index(call.function)
    if sheet is None:
        return f"no collective index follows {text}"
    is_double = call.argument is not None and type_of(call.argument, stream.attributes) is Type.DOUBLE
    refusal = sheet.why_not(call.function, doubles=is_double, least=_least(query, call))
    if refusal is not None:
        if call.argument is not None and "above zero" in refusal:
            refusal += f"; add WHERE {print_expression(call.argument)} > 0 to use it"
        return f"{text}: {refusal}"
    entry = CATALOGUE[call.function]
    if entry.only_counts and entry.takes_argument and _zero_passes(threshold):
        return f"{text}: groups in which every value is NULL pass too, and no index has them"
    if isinstance(threshold.bound, float) and abs(threshold.bound) >= EXACT_DOUBLES and not is_double:
        return f"{text}: with a DOUBLE from 2**53 on integers are compared as DOUBLE; write the number without a point"
    assert isinstance(query.window, TimeWindow)
    events = max(1, int(rate * query.window.left_us / 1e6))
    active = min(ASSUMED_KEYS, events)
    passing = ASSUMED_SHARE * active if sheet.goes_up(threshold.comparison) else active
    shape = FilterShape(ASSUMED_KEYS, events, passing, active)
    updates = ASSUMED_UPDATES * sheet.update.of(shape)
    cost = FEWEST_STEPS + updates + sheet.lookup_cost(threshold.comparison, shape) + GROUP_STEPS * passing
    if cost >= GROUP_STEPS * active:
        checking = f"checking each of {active:,} groups takes {GROUP_STEPS * active:,.0f}"
        return f"{text}: {sheet.name} would take {cost:,.0f} steps a lookup, and {checking}"
    return None


def _zero_passes(threshold: Threshold) -> bool:
    match threshold.comparison:
        case "<":
            return threshold.bound > 0
        case "<=":
            return threshold.bound >= 0
        case ">":
            return threshold.bound < 0
        case _:
            return threshold.bound <= 0


def _least(query: Query, call: AggregateCall) -> float | None:
    """A lower bound of the argument's values that WHERE guarantees."""
    bounds = []
    for condition in conjuncts(query.where) if query.where is not None else ():
        match condition:
            case Comparison(">" | ">=", argument, Literal(int() | float() as bound)):
                is_strict = condition.operator == ">"
            case Comparison("<" | "<=", Literal(int() | float() as bound), argument):
                is_strict = condition.operator == "<"
            case _:
                continue
        if argument == call.argument:
            # Indexes of sums follow only integers, and an integer above n is at least n + 1.
            bounds.append(bound + 1 if is_strict and isinstance(bound, int) else bound)
    return max(bounds, default=None)
