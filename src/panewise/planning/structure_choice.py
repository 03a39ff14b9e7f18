"""Which structure answers each aggregate of an on-demand query, or whether its events are read from the log.

A structure can serve if it holds what the aggregate is made from, and answers windows of any width: how many events a
window covers changes with the stream. Of these, the structure with the least work a second is chosen, by the costs that
the structures declare and the rates of events and lookups. `USING` names one instead, which may be a rival of the
papers, and then it must be able to serve.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from panewise.aggregates.catalogue import CATALOGUE, Reading, carrier_of
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.errors import StructureChoiceError
from panewise.language.expressions import AggregateCall
from panewise.language.model import Query, Stream
from panewise.language.printer import print_expression
from panewise.language.typecheck import type_of
from panewise.language.words import TIMEGRAM
from panewise.planning.within import ASSUMED_UPDATES, FEWEST_STEPS, WithinPlan, plan_within, why_exact
from panewise.structures import BY_NAME
from panewise.structures.sheet import FIXED_SIZE, SKETCHES, DataSheet, Lookups, Shape
from panewise.windows import RowWindow, TimeWindow, is_unbounded


@dataclass(frozen=True)
class Rates:
    """What a structure is chosen for: events a second, answers looked up a second, and how many groups there are.

    A lookup of all groups asks for as many answers as there are groups.
    """

    updates_per_s: float
    answers_per_s: float
    groups: int = 1

    @staticmethod
    def assumed(rate: float, groups: int = 1) -> Rates:
        """The rates of a stream if only its events a second are known."""
        return Rates(rate, rate / ASSUMED_UPDATES * groups, groups)


@dataclass(frozen=True)
class AggregateChoice:
    """What answers one aggregate: a structure, or None for the event log; and why."""

    call: AggregateCall
    structure: str | None
    reason: str


@dataclass(frozen=True)
class StructurePlan:
    """How an on-demand query is answered: all of its aggregates by structures, or all from the event log."""

    choices: tuple[AggregateChoice, ...]
    is_forced: bool = False

    @property
    def reads_log(self) -> bool:
        """Whether the events that a window covers are read at each lookup."""
        return any(choice.structure is None for choice in self.choices)


def choose_structure(stream: Stream, query: Query, rates: Rates, *, over_slots: bool = False) -> StructurePlan:
    """The structures of an on-demand query.

    USING decides first. Otherwise it is what the plan of WITHIN uses; then the log, if some aggregate can
    only be read from it; and last, for each aggregate, the structure that takes the least work. On Spark the elements
    are partials of slots (`over_slots`): rates are those of partials, and the log that of slots.
    """
    calls = query.aggregates
    if is_unbounded(query.window):
        total = "a running total: one partial for each group holds everything since the start"
        return StructurePlan(tuple(AggregateChoice(call, None, total) for call in calls))
    many = next((call for call in calls if over_slots and _needs_values(stream, call)), None)
    if many is not None:
        needs = (
            f"{print_expression(many)} needs all values of a slot, and structures over slots hold one number of each"
        )
        if query.using is not None:
            refusal = f"query {query.name}: USING {query.using} cannot answer it: {needs}"
            raise StructureChoiceError(f"{refusal}; leave out USING")
        return _from_log(calls, needs)
    if query.using == TIMEGRAM:
        exact = why_exact(stream, query)
        if exact is not None:
            raise StructureChoiceError(
                f"query {query.name}: USING {TIMEGRAM} cannot answer it: {exact}; leave out USING"
            )
    elif query.using is not None:
        for call in calls:
            _check_forced(stream, query, call)
        forced = tuple(AggregateChoice(call, query.using, f"{query.using}, as USING says") for call in calls)
        return StructurePlan(forced, is_forced=True)
    why = _why_log(stream, query, rates)
    if why is None:
        unserved = [call for call in calls if not any(_serving(stream, query, call))]
        if unserved:
            call = unserved[0]
            refusals = dict.fromkeys(_why_not(sheet, stream, query, call) for sheet in _sheets())
            why = f"no structure answers {print_expression(call)}: {'; '.join(str(one) for one in refusals)}"
    if why is not None:
        return _from_log(calls, why)
    return StructurePlan(tuple(_cheapest(stream, query, call, rates) for call in calls))


def _from_log(calls: Iterable[AggregateCall], why: str) -> StructurePlan:
    return StructurePlan(tuple(AggregateChoice(call, None, f"read from the event log: {why}") for call in calls))


def _needs_values(stream: Stream, call: AggregateCall) -> bool:
    return Kind.VALUES in CATALOGUE[call.function].kinds(input_type(stream, call))


def within_plan(stream: Stream, query: Query, rate: float) -> WithinPlan | None:
    """How a query with WITHIN is answered, compared with the structures that would answer it exactly."""
    if query.within is None:
        return None
    return plan_within(stream, query, rate, structure_steps(stream, query, rate))


def structure_steps(stream: Stream, query: Query, rate: float) -> float:
    """What an exact lookup through structures takes in combines, including updates; infinite without structures."""
    rates = Rates.assumed(rate)
    shape = shape_of(query, rates)
    steps = FEWEST_STEPS
    folds = {(call.argument, carrier_of(call.function)): call for call in query.aggregates}
    for call in folds.values():
        works = [work_per_s(name, call.function, shape, rates) for name in candidates(stream, query, call)]
        steps += min(works, default=inf) / rates.answers_per_s
    return steps


def work_per_s(name: str, function: str, shape: Shape, rates: Rates) -> float:
    """What a structure costs a second, in combines of two elements, for its updates and the answers of an aggregate."""
    return BY_NAME[name].sheet.work_per_s(function, shape, rates.updates_per_s, rates.answers_per_s)


def shape_of(query: Query, rates: Rates) -> Shape:
    """How many events of a group a window covers, and how far back it reaches, at some rates."""
    match query.window:
        case TimeWindow(left_us=left, right_us=right):
            share = rates.updates_per_s / 1e6 / rates.groups
        case RowWindow(left=left, right=right, partition_by=partition_by):
            share = 1.0 if partition_by else 1.0 / rates.groups
    return shape_for(max(1, round(left * share)), max(1, round((left - right) * share)))


def shape_for(largest: int, width: int) -> Shape:
    """A shape in which every width within the largest is served."""
    return Shape(largest, width, largest.bit_length())


def candidates(stream: Stream, query: Query, call: AggregateCall) -> list[str]:
    """The structures that can answer an aggregate of a query."""
    return [sheet.name for sheet in _serving(stream, query, call)]


def _cheapest(stream: Stream, query: Query, call: AggregateCall, rates: Rates) -> AggregateChoice:
    shape = shape_of(query, rates)
    able = candidates(stream, query, call)
    if CATALOGUE[call.function].only_counts:
        # Every structure counts NULLs in the same way, so that the plainest will do.
        plainest = min(
            (BY_NAME[name].sheet for name in able), key=lambda one: one.update.of(shape) + one.lookup.of(shape)
        )
        return AggregateChoice(call, plainest.name, "counted by position")
    works = {name: work_per_s(name, call.function, shape, rates) for name in able}
    best, *others = sorted(able, key=lambda name: works[name])
    reason = f"{best} ({BY_NAME[best].sheet.title}) takes {works[best]:,.0f} combines a second"
    if others:
        reason += f", {others[0]} {works[others[0]]:,.0f}"
    return AggregateChoice(call, best, f"{reason}, for {shape.width:,} events a window")


def _why_log(stream: Stream, query: Query, rates: Rates) -> str | None:
    """Why a query is better off with the event log than with structures; None if it is not."""
    within = within_plan(stream, query, rates.updates_per_s)
    if within is not None and within.buckets is not None:
        return "a TimeGram answers most lookups, and the others are rare"
    if any(CATALOGUE[call.function].reading is Reading.FREQUENCY for call in query.aggregates):
        return "the most frequent value is found by counting all of the window's values"
    return None


def _check_forced(stream: Stream, query: Query, call: AggregateCall) -> None:
    assert query.using is not None
    refusal = _why_not(BY_NAME[query.using].sheet, stream, query, call)
    if refusal is None:
        return
    able = candidates(stream, query, call)
    cure = f"USING {' or '.join(able)} can" if able else "leave out USING: it is read from the event log"
    raise StructureChoiceError(
        f"query {query.name}: USING {query.using} cannot answer {print_expression(call)}: {refusal}; {cure}"
    )


def _sheets() -> Iterable[DataSheet]:
    return (structure.sheet for structure in BY_NAME.values())


def _serving(stream: Stream, query: Query, call: AggregateCall) -> Iterable[DataSheet]:
    return (sheet for sheet in _sheets() if not sheet.is_rival and _why_not(sheet, stream, query, call) is None)


def _why_not(sheet: DataSheet, stream: Stream, query: Query, call: AggregateCall) -> str | None:
    """Why a structure cannot answer an aggregate of an on-demand query; None if it can."""
    if sheet.lookups is Lookups.REGISTERED:
        return (
            f"{sheet.name} answers windows that end at the newest element and have a fixed width, and those of lookups "
            f"end anywhere"
        )
    entry = CATALOGUE[call.function]
    if entry.only_counts:
        return None
    kind = input_type(stream, call)
    made_of = set(entry.kinds(kind))
    foreign = made_of - FIXED_SIZE - {Kind.VALUES}
    if foreign:
        why = ", which are sketches" if foreign <= SKETCHES else ""
        return f"lookups keep no structure of {', '.join(sorted(part.value for part in foreign))}{why}"
    if kind is Type.STRING and Kind.VALUES in made_of:
        return "structures hold numbers and timestamps, and this is STRING"
    return sheet.why_not(call.function, kind)


def input_type(stream: Stream, call: AggregateCall) -> Type:
    """The type of an aggregate's argument; any type will do for a bare NULL."""
    return Type.BIGINT if call.argument is None else type_of(call.argument, stream.attributes) or Type.BIGINT
