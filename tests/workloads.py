"""Random streams, events, queries and workloads: hypothesis strategies, and from a seed for the slow tests.

Both are drawn by the same code, which asks a `Dice` for its choices. Every query is well typed and bound.
What is drawn is small and nasty: few keys, a short time around the epoch so that windows overlap, NULLs,
NaN, infinities, integers and floats of very different sizes, equal timestamps, events out of order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from tests.dice import Dice, HypothesisDice, SeededDice, one_in, subset

from panewise.aggregates.types import Type
from panewise.language.expressions import (
    AggregateCall,
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
    Pair,
    aggregates_of,
    with_aggregates,
)
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.workload import Workload
from panewise.windows.window import RowWindow, SessionWindow, TimeWindow, Window

Value = bool | int | float | str | None
Event = dict[str, Any]

TIME_SLIDING = ("range slide",)
SLIDING = (*TIME_SLIDING, "rows slide")
ON_DEMAND = ("range", "range between", "rows", "rows between")
EVERY_WINDOW = (*SLIDING, *ON_DEMAND)
FORMS = ("offset", "cumulate", "own windows")
"""Forms of sliding windows over time that lookups on Spark and audits do not take, or not all of them."""
SESSIONS = ("sessions",)
"""Windows that lookups, training sets and audits do not take."""

UNIT_US = 1_000_000
"""Ranges, slides and the span of events are counted in the stream's granularity, or in this if it has none."""

OF_SUBSTREAMS = "substreams slide"
"""Windows over rows that each substream reports by itself; without GROUP BY, those of the whole stream."""

SPAN = (-8, 16)
"""The events lie in these units around the origin, the windows are up to 12 units long."""

KEYS = {"origin": Type.STRING, "gate": Type.BIGINT, "cancelled": Type.BOOLEAN}
MEASURES = {
    "delay": Type.DOUBLE,
    "seats": Type.BIGINT,
    "fare": Type.DOUBLE,
    "carrier": Type.STRING,
    "booked": Type.TIMESTAMP,
}

STRINGS = ("JFK", "LGA", "EWR", "", "Öre", "a_b", "100%", "it's", "\U0001f600")
PATTERNS = ("%", "J%", "_F_", "%R", "a\\_b", "100\\%", "", "%'%", "%r%", "_", "\\\\")
SMALL_INTS = (0, 1, 2, 3, -1, 7, -7, 10)
LARGE_INTS = (2**40, -(2**40), 2**33 + 1)
HUGE_INTS = (2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63))
SMALL_FLOATS = (0.0, 1.0, 2.5, -1.0, 0.1, -0.3, 7.0, 1e-9)
NASTY_FLOATS = (-0.0, math.nan, math.inf, -math.inf, 1e16, -1e16)

OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
FLOAT_AGGREGATES = ("AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP")
MOMENTS = ("SKEWNESS", "KURTOSIS")
OF_TWO = ("COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT")
PICKED = ("FIRST", "LAST", "ARG_MIN", "ARG_MAX")
LISTS = ("LAST_K", "COLLECT")
DECAYED = ("EWM_SUM", "EWM_AVG")
OF_CONDITIONS = ("BOOL_AND", "BOOL_OR")
QUANTILES = (0.5, 0.9, 0.7, 0.25, 0.01, 1.0)


# Hypothesis strategies


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """A stream named `flights` with one to three keys, one to five measures, and the event time `dep`."""
    return draw_stream(HypothesisDice(draw))


def events(
    stream: Stream,
    *,
    min_size: int = 0,
    max_size: int = 40,
    full_int64: bool = False,
    in_order: bool = False,
    origin_us: int = 0,
) -> st.SearchStrategy[list[Event]]:
    """Events around `origin_us` in order of arrival, which is the order of time only with `in_order`."""

    @st.composite
    def event(draw: st.DrawFn) -> Event:
        dice = HypothesisDice(draw)
        return draw_event(dice, stream, origin_us + draw_time(dice, stream), full_int64)

    def by_time(rows: list[Event]) -> list[Event]:
        return sorted(rows, key=lambda row: row[stream.timestamp])

    lists = st.lists(event(), min_size=min_size, max_size=max_size)
    return lists.map(by_time) if in_order else lists


@st.composite
def queries(
    draw: st.DrawFn,
    stream: Stream,
    windows: Sequence[str] = EVERY_WINDOW,
    name: str = "q1",
    full_int64: bool = False,
) -> Query:
    """A bound query over the stream, whose window is of one of the given kinds."""
    return draw_query(HypothesisDice(draw), stream, name, windows, full_int64)


@st.composite
def workloads(
    draw: st.DrawFn,
    sliding_only: bool = False,
    windows: Sequence[str] | None = None,
    max_queries: int = 6,
    full_int64: bool = False,
) -> Workload:
    """One stream and up to `max_queries` queries of mixed windows; `windows` takes precedence over `sliding_only`."""
    kinds = windows or (SLIDING if sliding_only else EVERY_WINDOW)
    dice = HypothesisDice(draw)
    return draw_workload(dice, dice.integer(1, max_queries), kinds, full_int64)


# From a seed


def random_workload(
    seed: int,
    queries: int = 6,
    windows: Sequence[str] = TIME_SLIDING,
    full_int64: bool = False,
    granularity_us: int | None = UNIT_US,
) -> Workload:
    """A workload of this many queries, the same for the same arguments."""
    return draw_workload(SeededDice(seed), queries, windows, full_int64, granularity_us)


def random_events(
    seed: int,
    stream: Stream,
    n: int,
    span_us: int | None = None,
    disorder_us: int | None = None,
    full_int64: bool = False,
    origin_us: int = 0,
) -> list[Event]:
    """n events that move through `span_us`; none is more than `disorder_us` behind the latest time before it.

    The default disorder is the stream's own watermark delay, so that nothing is late; more makes late events.
    """
    dice = SeededDice(seed)
    unit = unit_of(stream)
    span = (SPAN[1] - SPAN[0]) * unit if span_us is None else span_us
    disorder = stream.watermark_us if disorder_us is None else disorder_us
    rows = []
    latest = start = origin_us + SPAN[0] * unit
    for i in range(n):
        front = start + span * i // max(n, 1)
        # A third of the times are whole units: equal to each other, and on the edges of windows.
        time = front // unit * unit if one_in(dice, 3) else front
        if one_in(dice, 2):
            time -= dice.integer(0, disorder)
        time = max(time, latest - disorder)
        latest = max(latest, time)
        rows.append(draw_event(dice, stream, time, full_int64))
    return rows


# What is drawn


def in_any_order(workload: Workload) -> Workload:
    """The queries whose answers have the same digits whatever the order of events is."""
    foreign = (*MOMENTS, *OF_TWO, *DECAYED)
    kept = {
        name: query
        for name, query in workload.queries.items()
        if not any(call.function in foreign for call in query.aggregates)
    }
    return Workload(workload.streams, kept)


def unit_of(stream: Stream) -> int:
    """The unit of time of the stream's windows and events."""
    return stream.granularity_us or UNIT_US


def draw_workload(
    dice: Dice,
    queries: int,
    windows: Sequence[str],
    full_int64: bool = False,
    granularity_us: int | None = -1,
) -> Workload:
    """One stream and its queries `q1`, `q2`, ..."""
    stream = draw_stream(dice, granularity_us)
    drawn = [draw_query(dice, stream, f"q{i + 1}", windows, full_int64) for i in range(queries)]
    return Workload({stream.name: stream}, {query.name: query for query in drawn})


def draw_stream(dice: Dice, granularity_us: int | None = -1) -> Stream:
    """A stream; its granularity is drawn when -1 is given."""
    granularity = dice.pick((None, UNIT_US, 60_000_000, 1000)) if granularity_us == -1 else granularity_us
    measures = subset(dice, list(MEASURES), 0, 4)
    if "delay" not in measures and "seats" not in measures:
        measures.append(dice.pick(("delay", "seats")))
    names = [*subset(dice, list(KEYS), 1, 3), *measures]
    names.insert(dice.integer(0, len(names)), "dep")
    types = {**KEYS, **MEASURES, "dep": Type.TIMESTAMP}
    watermark = dice.integer(0, 5) * (granularity or UNIT_US)
    return Stream("flights", {name: types[name] for name in names}, "dep", watermark, granularity)


def draw_time(dice: Dice, stream: Stream) -> int:
    """A time in the span: often on a multiple of the unit, or one microsecond beside it."""
    unit = unit_of(stream)
    return dice.integer(*SPAN) * unit + dice.pick((0, 0, 1, -1, unit // 2, unit // 3))


def draw_event(dice: Dice, stream: Stream, time: int, full_int64: bool = False) -> Event:
    """An event at a time."""
    return {
        name: time if name == stream.timestamp else draw_value(dice, name, type_, full_int64)
        for name, type_ in stream.attributes.items()
    }


def draw_value(dice: Dice, name: str, type_: Type, full_int64: bool = False) -> Value:
    """A value of an attribute: NULL once in eight; a key has few different values."""
    if one_in(dice, 8):
        return None
    is_key = name in KEYS
    match type_:
        case Type.STRING:
            return dice.pick(STRINGS[:4] if is_key else STRINGS)
        case Type.BOOLEAN:
            return dice.pick((False, True))
        case Type.TIMESTAMP:
            return dice.integer(-4, 4) * 250_000
        case Type.BIGINT if is_key:
            return dice.pick(SMALL_INTS[:4])
        case Type.BIGINT:
            pool = (*SMALL_INTS, *LARGE_INTS, *(HUGE_INTS if full_int64 else ()))
            return dice.pick(pool) if one_in(dice, 2) else dice.integer(-1000, 1000)
        case Type.DOUBLE:
            return draw_float(dice)
    raise ValueError(f"no values for {name} {type_}")


def draw_float(dice: Dice) -> float:
    """Mostly tame; now and then a NaN, an infinity, a negative zero, or a number that swallows others in a sum."""
    if one_in(dice, 6):
        return dice.pick(NASTY_FLOATS)
    return dice.pick(SMALL_FLOATS) if one_in(dice, 2) else dice.integer(-1000, 1000) / dice.pick((8, 10))


def draw_window(dice: Dice, stream: Stream, kind: str, group_by: Sequence[str]) -> Window:
    """A window of a kind. Lengths are multiples of the granularity; without one, now and then any length."""
    unit = unit_of(stream)

    def length(high: int) -> int:
        if stream.granularity_us is None and one_in(dice, 6):
            return dice.integer(unit // 2, high * unit)
        return dice.integer(1, high) * unit

    match kind:
        case "range slide":
            return TimeWindow(length(12), slide_us=length(6))
        case "offset" | "own windows":
            slide = length(6)
            return TimeWindow(length(12), slide_us=slide, offset_us=dice.integer(0, (slide - 1) // unit) * unit)
        case "sessions":
            gap = length(4)
            return SessionWindow(gap, gap + dice.integer(0, 12) * unit if stream.granularity_us else gap + length(12))
        case "cumulate":
            slide = length(6)
            offset = dice.integer(0, (slide - 1) // unit) * unit
            return TimeWindow(slide * dice.integer(1, 6), slide_us=slide, offset_us=offset, grows=True)
        case "range":
            return TimeWindow(length(12))
        case "range between":
            right = length(6)
            return TimeWindow(right + length(6), right)
    partition_by = tuple(subset(dice, group_by, 1, 2)) if group_by and one_in(dice, 2) else ()
    match kind:
        case "rows slide":
            return RowWindow(dice.integer(1, 10), slide=dice.integer(1, 6))
        case "substreams slide":
            return RowWindow(dice.integer(1, 6), slide=dice.integer(1, 4), partition_by=partition_by)
        case "rows":
            return RowWindow(dice.integer(1, 10), partition_by=partition_by)
        case "rows between":
            right_rows = dice.integer(1, 5)
            return RowWindow(right_rows + dice.integer(1, 8), right_rows, partition_by=partition_by)
    raise ValueError(
        f"no windows of the kind {kind!r}: choose from {(*EVERY_WINDOW, *FORMS, OF_SUBSTREAMS, *SESSIONS)}"
    )


def draw_query(
    dice: Dice, stream: Stream, name: str, windows: Sequence[str] = EVERY_WINDOW, full_int64: bool = False
) -> Query:
    """A query. The aggregates of its SELECT are all different, so that labels name them."""
    group_by = draw_group_by(dice, stream)
    kind = dice.pick(windows)
    window = draw_window(dice, stream, kind, group_by)
    calls = dict.fromkeys(draw_aggregate(dice, stream) for _ in range(dice.integer(1, 4)))
    answers: dict[Expression, None] = dict.fromkeys(calls)
    if one_in(dice, 3):
        answers[draw_computed(dice, stream, group_by, full_int64)] = None
    items = [SelectItem(one, f"answer_{i}" if one_in(dice, 4) else None) for i, one in enumerate(answers)]
    for attribute in group_by:
        if not one_in(dice, 4):
            items.insert(dice.integer(0, len(items)), SelectItem(Attribute(attribute)))
    where = draw_predicate(dice, stream) if one_in(dice, 2) else None
    having = draw_having(dice, stream, group_by, full_int64) if one_in(dice, 3) else None
    query = Query(name, stream.name, window, tuple(items), where, group_by, having)
    return draw_own_windows(dice, query) if kind == "own windows" else query


def draw_own_windows(dice: Dice, query: Query) -> Query:
    """The query with a window of its own for each aggregate: SUM(x) OVER [RANGE ...]."""
    assert isinstance(query.window, TimeWindow)
    slide = query.window.slide_us or 0
    meant = {call: replace(call, over=TimeWindow(slide * dice.integer(1, 4))) for call in query.aggregates}
    return replace(
        query,
        window=replace(query.window, left_us=max(call.over.left_us for call in meant.values() if call.over)),
        select=tuple(replace(item, expression=with_aggregates(item.expression, meant)) for item in query.select),
        having=None if query.having is None else with_aggregates(query.having, meant),
    )


def draw_group_by(dice: Dice, stream: Stream) -> tuple[str, ...]:
    """Up to two attributes, keys more often than not."""
    keys = [name for name in stream.attributes if name in KEYS]
    every = [name for name in stream.attributes if name != stream.timestamp]
    return tuple(subset(dice, every if one_in(dice, 5) else keys, 0, 2))


def draw_aggregate(dice: Dice, stream: Stream, *, lists: bool = True) -> AggregateCall:
    """Any aggregate, over an attribute or over arithmetic; without `lists` one that may be computed with."""
    any_type = list(stream.attributes)
    numbers = [name for name, type_ in stream.attributes.items() if type_.is_number]
    ordered = [name for name, type_ in stream.attributes.items() if type_.is_number or type_ is Type.TIMESTAMP]

    def over(names: Sequence[str]) -> Expression:
        argument = draw_arithmetic(dice, stream) if one_in(dice, 5) else Attribute(dice.pick(names))
        # FILTER (WHERE ...)
        return Case((draw_predicate(dice, stream, 1),), (argument,)) if one_in(dice, 6) else argument

    function = dice.pick(
        ("COUNT_ALL", "SUM", "COUNT", "MIN", "MAX", "MEDIAN", "MODE", "QUANTILE", "COUNT_DISTINCT", *FLOAT_AGGREGATES,
         "APPROX_QUANTILE", "APPROX_COUNT_DISTINCT", "APPROX_TOP_ITEM", "APPROX_TOP_COUNT", *MOMENTS, *OF_TWO, *PICKED,
         *DECAYED, *OF_CONDITIONS, *(LISTS if lists else ()))
    )  # fmt: skip
    compared = [name for name, type_ in stream.attributes.items() if type_ is not Type.BOOLEAN]
    match function:
        case "COUNT_ALL":
            if one_in(dice, 4):
                return AggregateCall("COUNT", Case((draw_predicate(dice, stream, 1),), (Literal(True, Type.BOOLEAN),)))
            return AggregateCall(function)
        case "COUNT" | "COUNT_DISTINCT" | "APPROX_COUNT_DISTINCT":
            return AggregateCall(function, over(any_type))
        case "QUANTILE":
            return AggregateCall(function, over(ordered), dice.pick(QUANTILES))
        case "APPROX_QUANTILE":
            return AggregateCall(function, over(numbers), dice.pick(QUANTILES))
        case "APPROX_TOP_ITEM":
            return AggregateCall(function, over(ordered), dice.integer(1, 3))
        case "APPROX_TOP_COUNT":
            return AggregateCall(function, over(any_type), dice.integer(1, 3))
        case "MEDIAN":
            return AggregateCall(function, over(ordered))
        case "MIN" | "MAX" | "MODE":
            return AggregateCall(function, over(compared))
        case _ if function in OF_TWO:
            return AggregateCall(function, Pair(over(numbers), over(numbers)))
        case "ARG_MIN" | "ARG_MAX":
            return AggregateCall(function, Pair(over(any_type), over(ordered)))
        case "FIRST" | "LAST":
            return AggregateCall(function, Pair(over(any_type), Attribute(stream.timestamp)))
        case "LAST_K" | "COLLECT":
            most = dice.integer(1, 4)
            return AggregateCall(function, Pair(over(any_type), Attribute(stream.timestamp), most=most), most)
        case _ if function in DECAYED:
            half_life_us = dice.pick((1_000_000, 3_000_000, 3_600_000_000))
            pair = Pair(over(numbers), Attribute(stream.timestamp), float(half_life_us))
            return AggregateCall(function, pair, half_life_us)
        case _ if function in OF_CONDITIONS:
            return AggregateCall(function, draw_predicate(dice, stream, 1))
    return AggregateCall(function, over(numbers))


def draw_computed(dice: Dice, stream: Stream, group_by: Sequence[str], full_int64: bool = False) -> Expression:
    """An expression over aggregates whose values are exact, and over attributes of the group that are numbers."""
    calls: list[Expression] = [AggregateCall("COUNT_ALL")]
    for _ in range(3):
        call = draw_aggregate(dice, stream)
        type_ = None if call.function.startswith("APPROX") else exact_type_of(call, stream, full_int64)
        if type_ is not None and type_.is_number:
            calls.append(call)
    numbers = [Attribute(name) for name in group_by if stream.attributes[name].is_number]
    left, right = dice.pick(calls), dice.pick([*calls, *numbers, draw_literal(dice, Type.DOUBLE)])
    computed: Expression = Arithmetic(dice.pick(("+", "-", "*", "/")), left, right)
    if one_in(dice, 4):
        computed = Negate(computed)
    if one_in(dice, 3):
        condition = draw_having(dice, stream, group_by, full_int64)
        if not any(call.function.startswith("APPROX") for call in aggregates_of(condition)):
            otherwise = None if one_in(dice, 2) else Arithmetic("-", dice.pick(calls), right)
            computed = Case((condition,), (computed,), otherwise)
    return computed


def draw_number(dice: Dice, stream: Stream) -> Expression:
    """A number: an attribute or a literal."""
    numbers = [name for name, type_ in stream.attributes.items() if type_.is_number]
    if one_in(dice, 3):
        return draw_literal(dice, dice.pick((Type.BIGINT, Type.DOUBLE)))
    return Attribute(dice.pick(numbers))


def draw_arithmetic(dice: Dice, stream: Stream) -> Expression:
    """One or two operators on numbers; at least one of the numbers is an attribute."""
    numbers = [name for name, type_ in stream.attributes.items() if type_.is_number]
    attribute = Attribute(dice.pick(numbers))
    if one_in(dice, 5):
        return Negate(attribute)
    right = draw_number(dice, stream)
    if one_in(dice, 4):
        right = Arithmetic(dice.pick(("+", "-", "*", "/")), draw_number(dice, stream), right)
    return Arithmetic(dice.pick(("+", "-", "*", "/")), attribute, right)


def draw_literal(dice: Dice, type_: Type) -> Literal:
    """A literal of a type: finite and, for integers, at most 2**40 in size."""
    pools: dict[Type, Sequence[Value]] = {
        Type.BOOLEAN: (False, True),
        Type.BIGINT: (*SMALL_INTS, *LARGE_INTS),
        Type.DOUBLE: SMALL_FLOATS,
        Type.STRING: STRINGS,
        Type.TIMESTAMP: (0, 250_000, -500_000, 1_000_000, 3_600_000_000),
    }
    return Literal(dice.pick(pools[type_]), type_)


def draw_predicate(dice: Dice, stream: Stream, depth: int = 2) -> Expression:
    """A condition for WHERE."""
    if depth and one_in(dice, 3):
        if one_in(dice, 4):
            return Not(draw_predicate(dice, stream, depth - 1))
        sides = draw_predicate(dice, stream, depth - 1), draw_predicate(dice, stream, depth - 1)
        return Logical(dice.pick(("AND", "OR")), *sides)
    if one_in(dice, 6):
        number = draw_number(dice, stream)
        return Comparison(dice.pick(OPERATORS), draw_arithmetic(dice, stream), number)
    return draw_test(dice, stream, dice.pick(list(stream.attributes)))


def draw_test(dice: Dice, stream: Stream, name: str) -> Expression:
    """A condition on one attribute, of any type."""
    type_, attribute = stream.attributes[name], Attribute(name)
    negated = one_in(dice, 2)
    if one_in(dice, 6):
        return IsNull(attribute, negated)
    if one_in(dice, 20):
        return Comparison(dice.pick(OPERATORS), attribute, Literal(None, None))
    if type_ is Type.BOOLEAN:
        if one_in(dice, 2):
            return attribute
        return Comparison(dice.pick(("=", "<>")), attribute, draw_literal(dice, type_))
    if type_ is Type.STRING and one_in(dice, 3):
        return Like(attribute, dice.pick(PATTERNS), negated)
    if one_in(dice, 4):
        items = tuple(draw_literal(dice, type_) for _ in range(dice.integer(1, 3)))
        return InList(attribute, tuple(dict.fromkeys(items)), negated)
    return Comparison(dice.pick(OPERATORS), attribute, draw_right_side(dice, stream, type_))


def draw_right_side(dice: Dice, stream: Stream, type_: Type) -> Expression:
    """Something to compare with a value of a type: another attribute, or a literal."""
    kin = [name for name, other in stream.attributes.items() if other is type_ or (other.is_number and type_.is_number)]
    if one_in(dice, 4):
        return Attribute(dice.pick(kin))
    return draw_literal(dice, dice.pick((Type.BIGINT, Type.DOUBLE)) if type_.is_number else type_)


def draw_having(
    dice: Dice, stream: Stream, group_by: Sequence[str], full_int64: bool = False, depth: int = 1
) -> Expression:
    """A condition for HAVING, on aggregates and on the attributes of the group.

    Only aggregates whose value is exact are compared: a float sum may be off by the tolerance, and the
    condition would then keep or drop the whole answer. Such aggregates are still tested for NULL.
    """
    if depth and one_in(dice, 4):
        sides = [draw_having(dice, stream, group_by, full_int64, depth - 1) for _ in range(2)]
        return Logical(dice.pick(("AND", "OR")), *sides)
    if group_by and one_in(dice, 4):
        return draw_group_test(dice, stream, dice.pick(group_by))
    if one_in(dice, 3):
        return Comparison(
            dice.pick((">", ">=", "<")), AggregateCall("COUNT_ALL"), Literal(dice.integer(0, 4), Type.BIGINT)
        )
    call = draw_aggregate(dice, stream, lists=False)
    type_ = exact_type_of(call, stream, full_int64)
    if type_ is None or one_in(dice, 4):
        return IsNull(call, one_in(dice, 2))
    comparison = Comparison(dice.pick(OPERATORS), call, draw_literal(dice, type_))
    return Not(comparison) if one_in(dice, 6) else comparison


def draw_group_test(dice: Dice, stream: Stream, name: str) -> Expression:
    """A condition on one attribute of the group, against literals only."""
    type_ = stream.attributes[name]
    if one_in(dice, 3):
        return IsNull(Attribute(name), one_in(dice, 2))
    operator = dice.pick(("=", "<>") if type_ is Type.BOOLEAN else OPERATORS)
    return Comparison(operator, Attribute(name), draw_literal(dice, type_))


def exact_type_of(call: AggregateCall, stream: Stream, full_int64: bool = False) -> Type | None:
    """The type of an aggregate that has one right value; None if rounding may change it.

    An average of integers counts as exact while their sum stays below 2**53, as it does without `full_int64`.
    """
    if call.function in ("COUNT_ALL", "COUNT", "COUNT_DISTINCT", "APPROX_COUNT_DISTINCT"):
        return Type.BIGINT
    if call.function == "APPROX_QUANTILE":
        return Type.DOUBLE
    argument = call.argument.operand if isinstance(call.argument, Pair) else call.argument
    argument = argument.values[0] if isinstance(argument, Case) else argument
    type_ = stream.attributes[argument.name] if isinstance(argument, Attribute) else Type.DOUBLE
    if call.function in ("MIN", "MAX", "MEDIAN", "MODE", "QUANTILE", *PICKED):
        return type_ if type_ is not Type.BOOLEAN else None
    if type_ is Type.BIGINT and call.function == "SUM":
        return Type.BIGINT
    if type_ is Type.BIGINT and call.function == "AVG" and not full_int64:
        return Type.DOUBLE
    return None
