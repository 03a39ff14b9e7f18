"""The oracle: every answer from the raw events, in plain Python, by the definition.

It shares nothing with Panewise: it imports none of it, and knows a node of an expression by its class name. It is
written to be obviously right, not fast. An event is a dict from attribute to Python value: a BIGINT or a
TIMESTAMP (in microseconds) is an int, a DOUBLE is a float and never an int, NULL is None.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

Value = bool | int | float | str | None | list[Any]
Event = Mapping[str, Any]  # of Value, but then every use of a value would need a cast

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NO_START: Any = None  # where a window from the start begins

# An answer may differ from the exact one by TOLERANCE * scale + TINY, and must not differ at all if its scale is 0.
TOLERANCE = 8 * 2.0**-53
TINY = 2.0**-1060
Scale = float | Fraction  # a fraction where it is greater than any float


class Answer(NamedTuple):
    """The value of one select item of one query, for one window and one group.

    `item` is the index in the query's SELECT. `scale` says how far a float may be off: see `TOLERANCE`.
    """

    query: str
    window_start: int
    window_end: int
    group: tuple[tuple[str, Value], ...]
    item: int
    value: Value
    scale: Scale = 0.0


# Windows


def closed_answers(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None = None
) -> list[Answer]:
    """The answers of the windows that closed when the watermark moved from `previous` to `watermark`.

    `previous` None is the beginning of the stream, `watermark` None its end, when everything closes.
    `events` are all that were accepted, in order of arrival.
    """
    _check(query, is_sliding=True)
    if type(query.window).__name__ == "TimeWindow":
        return _closed_time_windows(query, timestamp, events, watermark, previous)
    if type(query.window).__name__ == "SessionWindow":
        return _closed_sessions(query, timestamp, events, watermark, previous)
    if type(query.window).__name__ == "PunctuationWindow":
        return _closed_punctuated(query, timestamp, events, watermark, previous)
    return _closed_row_windows(query, timestamp, events, watermark, previous)


def standing_answers(query: Any, timestamp: str, events: Sequence[Event], at: int) -> list[Answer]:
    """The sessions, or windows from one event to another, that a time lies in, if no event comes after that time."""
    seen = [event for event in events if event[timestamp] <= at]
    return [one for one in closed_answers(query, timestamp, seen, None) if one.window_start <= at < one.window_end]


def _closed_time_windows(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None
) -> list[Answer]:
    """A window closes when the watermark reaches its end."""
    if window_is_unbounded(query.window):
        return _closed_since_the_start(query, timestamp, events, watermark, previous)
    covered: dict[int, list[Event]] = defaultdict(list)
    for event in _by_time(events, timestamp):
        for k in _instances_at(query.window, event[timestamp]):
            covered[k].append(event)
    answers = []
    for k in sorted(covered):
        start, end = _bounds(query.window, k)
        closed = watermark is None or end <= watermark
        closed_before = previous is not None and end <= previous
        if closed and not closed_before:
            within = _Within(query.window, timestamp, k)
            answers += _answers_of_window(query, covered[k], start, end, within=within)
    return answers


def window_is_unbounded(window: Any) -> bool:
    """Whether a window covers everything since the start: its range is longer than all times."""
    return type(window).__name__ == "TimeWindow" and window.left_us == 2**59


def _closed_since_the_start(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None
) -> list[Answer]:
    """At the end of each slide, of the groups that have an event in it: all of their events up to then."""
    slide, offset = query.window.slide_us, query.window.offset_us
    kept = [
        event for event in _by_time(events, timestamp) if query.where is None or evaluate(query.where, event) is True
    ]
    answers = []
    for group in _split(kept, query.group_by):
        for k in sorted({(event[timestamp] - offset) // slide for event in group}):
            end = (k + 1) * slide + offset
            if (watermark is None or end <= watermark) and (previous is None or end > previous):
                answers += _answers_of_window(query, [one for one in group if one[timestamp] < end], NO_START, end)
    return answers


def _closed_sessions(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None
) -> list[Answer]:
    """A session closes when the watermark passes its end; if it is the first of several pieces, when that is known."""
    gap, longest = query.window.gap_us, query.window.max_us
    answers = []
    kept = [
        event for event in _by_time(events, timestamp) if query.where is None or evaluate(query.where, event) is True
    ]
    for group in _split(kept, query.group_by):
        runs: list[list[Event]] = []
        for event in group:
            if not runs or event[timestamp] - runs[-1][-1][timestamp] > gap:
                runs.append([])
            runs[-1].append(event)
        for run in runs:
            first, end = run[0][timestamp], run[-1][timestamp] + gap
            known = end if end - first <= longest else first + longest
            pieces: dict[int, list[Event]] = defaultdict(list)
            for event in run:
                pieces[event[timestamp] // longest if end - first > longest else 0].append(event)
            for cell, piece in pieces.items():
                piece_end = piece[-1][timestamp] + gap
                if end - first > longest:
                    piece_end = min(piece_end, (cell + 1) * longest)
                sure = max(piece_end, known)
                if (watermark is None or sure < watermark) and (previous is None or sure >= previous):
                    answers += _answers_of_window(query, piece, piece[0][timestamp], piece_end)
    return answers


def _closed_punctuated(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None
) -> list[Answer]:
    """An opening event opens a window if none came since a closing one, or in the MAX before it.

    The window ends with the first later closing event, which belongs to it unless it opens the next one, or after MAX.
    """
    longest = query.window.max_us
    answers = []
    kept = [
        event for event in _by_time(events, timestamp) if query.where is None or evaluate(query.where, event) is True
    ]
    for group in _split(kept, query.group_by):
        opening = {one[timestamp] for one in group if evaluate(query.window.opens, one) is True}
        closing = {one[timestamp] for one in group if evaluate(query.window.closes, one) is True}
        for start in sorted(opening):
            since = max((time for time in closing if time <= start), default=None)
            before = [time for time in opening if start - longest < time < start]
            if any(since is None or time >= since for time in before):
                continue
            last = min((time for time in closing if start < time < start + longest), default=None)
            if last is None:
                end = closes = start + longest
            else:
                end, closes = (last if last in opening else last + 1), last + 1
            if (watermark is None or closes <= watermark) and (previous is None or closes > previous):
                members = [one for one in group if start <= one[timestamp] < end]
                answers += _answers_of_window(query, members, start, end)
    return answers


class _Within(NamedTuple):
    """Finds the events of a shorter window that ends with a window."""

    window: Any
    timestamp: str
    k: int

    def __call__(self, events: Sequence[Event], range_us: int) -> list[Event]:
        end = self.k * self.window.slide_us + self.window.offset_us + self.window.left_us
        start = end - range_us
        if self.window.zone is not None:
            start, end = _utc(self.window.zone, start), _utc(self.window.zone, end)
        return [event for event in events if start <= event[self.timestamp] < end]


class _Members(list[Event]):
    """The events of a group in a window, from which those of shorter windows can be picked."""

    within: _Within | None = None


def _instances_at(window: Any, time: int) -> list[int]:
    """The instances that cover a time, looked for a few slides beyond where they can be."""
    until = time + window.left_us if window.grows else time
    nearby = range((time - window.left_us) // window.slide_us - 3, until // window.slide_us + 4)
    return [k for k in nearby if _bounds(window, k)[0] <= time < _bounds(window, k)[1]]


def _bounds(window: Any, k: int) -> tuple[int, int]:
    """Where window k starts and ends: plain, in the local time of a zone, or growing within a period."""
    range_us, slide_us, offset_us = window.left_us, window.slide_us, window.offset_us
    if window.zone is not None:
        return _utc(window.zone, k * slide_us + offset_us), _utc(window.zone, k * slide_us + offset_us + range_us)
    if window.grows:
        return k * slide_us // range_us * range_us + offset_us, (k + 1) * slide_us + offset_us
    return k * slide_us + offset_us, k * slide_us + offset_us + range_us


def newest_end(window: Any, watermark: int) -> int:
    """The end of the newest window that has closed at a watermark."""
    nearby = range((watermark - window.left_us) // window.slide_us - 3, watermark // window.slide_us + 4)
    return max(end for _, end in (_bounds(window, k) for k in nearby) if end <= watermark)


def _utc(zone: str, local_us: int) -> int:
    """The time at which clocks of a zone first show so many microseconds since 1970."""
    local = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(microseconds=local_us)
    return (local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _closed_row_windows(
    query: Any, timestamp: str, events: Sequence[Event], watermark: int | None, previous: int | None
) -> list[Answer]:
    """After m rows, for each m congruent to `left` modulo `slide`; row m counts once its time < watermark."""
    left, slide = query.window.left, query.window.slide
    answers = []
    for rows in _substreams(query, timestamp, events):
        for m in range(1, len(rows) + 1):
            time = rows[m - 1][timestamp]
            reached = watermark is None or time < watermark
            reached_before = previous is not None and time < previous
            if reached and not reached_before and (m - left) % slide == 0:
                covered = _look_back(query.window, rows, m)
                answers += _answers_of_window(query, covered, covered[0][timestamp], covered[-1][timestamp])
    return answers


def lookup(query: Any, timestamp: str, events: Sequence[Event], at: int) -> list[Answer]:
    """The answers of a query without slide, looked up at a time: events with time <= at count."""
    _check(query, is_sliding=False)
    window = query.window
    if type(window).__name__ == "TimeWindow":
        start, end = at - window.left_us, at - window.right_us
        covered = [event for event in _by_time(events, timestamp) if start < event[timestamp] <= end]
        if window_is_unbounded(window):
            start = NO_START
        return _answers_of_window(query, covered, start, end, even_when_empty=True)
    answers = []
    for rows in _substreams(query, timestamp, events):
        m = sum(1 for row in rows if row[timestamp] <= at)
        covered = _look_back(window, rows, m)
        start, end = (covered[0][timestamp], covered[-1][timestamp]) if covered else (at, at)
        answers += _answers_of_window(query, covered, start, end, even_when_empty=True)
    return answers


def _check(query: Any, is_sliding: bool) -> None:
    if query.window.is_sliding != is_sliding:
        kind = "no slide: use lookup" if is_sliding else "a slide: use closed_answers"
        raise ValueError(f"{query.name}: its window has {kind}")
    if not set(getattr(query.window, "partition_by", ())) <= set(query.group_by):
        raise ValueError(f"{query.name}: GROUP BY must name every attribute of PARTITION BY")


def _by_time(events: Iterable[Event], timestamp: str) -> list[Event]:
    """Events in the order of the stream: by time, and ties by arrival (Python's sort is stable)."""
    return sorted(events, key=lambda event: event[timestamp])


def _substreams(query: Any, timestamp: str, events: Iterable[Event]) -> list[list[Event]]:
    """The sequences within which rows are counted: the whole stream, or one for each partition."""
    ordered = _by_time(events, timestamp)
    return _split(ordered, query.window.partition_by) if query.window.partition_by else [ordered]


def _look_back(window: Any, rows: list[Event], m: int) -> list[Event]:
    """The rows at the 1-based positions max(m - left + 1, 1) .. m - right."""
    first, last = max(m - window.left + 1, 1), m - window.right
    return [rows[position - 1] for position in range(first, last + 1)]


# From the events in a window to answers


def _answers_of_window(
    query: Any,
    covered: Sequence[Event],
    start: int,
    end: int,
    even_when_empty: bool = False,
    within: _Within | None = None,
) -> list[Answer]:
    """Apply WHERE, GROUP BY and HAVING, then the aggregates of SELECT for the groups that pass."""
    kept = [event for event in covered if query.where is None or evaluate(query.where, event) is True]
    groups = _split(kept, query.group_by)
    if even_when_empty and not groups and not query.group_by:
        groups = [[]]
    answers = []
    for events in groups:
        members = _Members(events)
        members.within = within
        group = {attribute: _without_sign_of_zero(members[0][attribute]) for attribute in query.group_by}
        if query.having is not None and evaluate(query.having, group, members) is not True:
            continue
        answers += [
            Answer(query.name, start, end, tuple(group.items()), i, *_answer(item.expression, group, members))
            for i, item in enumerate(query.select)
            if type(item.expression).__name__ != "Attribute"
        ]
    return answers


def _answer(expression: Any, group: Event, members: Sequence[Event]) -> tuple[Value, Scale]:
    """An item of SELECT and its scale; what is computed from aggregates must be exact."""
    if type(expression).__name__ == "AggregateCall":
        return aggregate(expression, members)
    return evaluate(expression, group, members), 0.0


def _split(events: Iterable[Event], attributes: Sequence[str]) -> list[list[Event]]:
    """The events of each group, in order of first appearance. No events, no group."""
    groups: dict[tuple[object, ...], list[Event]] = defaultdict(list)
    for event in events:
        groups[tuple(_identity(event[attribute]) for attribute in attributes)].append(event)
    return list(groups.values())


def _identity(value: Value) -> object:
    """A value that is equal for values that count as the same: NULL is NULL, NaN is NaN, and -0.0 is 0.0."""
    return ("NaN",) if _is_nan(value) else _without_sign_of_zero(value)


def _without_sign_of_zero(value: Value) -> Value:
    return 0.0 if isinstance(value, float) and value == 0.0 else value


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


# Expressions


def evaluate(node: Any, event: Event, members: Sequence[Event] = ()) -> Any:
    """The value of an expression for an event, or in HAVING for a group and its members. NULL is None."""

    def value_of(child: Any) -> Any:
        return evaluate(child, event, members)

    match type(node).__name__:
        case "Literal":
            is_double = node.type is not None and node.type.value == "DOUBLE"
            return float(node.value) if is_double and node.value is not None else node.value
        case "Attribute" | "QualifiedAttribute":
            return event[node.name]
        case "AggregateCall":
            return aggregate(node, members)[0]
        case "Pair":
            both = value_of(node.operand), value_of(node.partner)
            return None if None in both else both
        case "Arithmetic":
            return _arithmetic(node.operator, value_of(node.left), value_of(node.right))
        case "Negate":
            operand = value_of(node.operand)
            return None if operand is None else -float(operand)
        case "Case":
            # The values are all of one type.
            for condition, value in zip(node.conditions, node.values, strict=True):
                if value_of(condition) is True:
                    return value_of(value)
            return None if node.otherwise is None else value_of(node.otherwise)
        case "Comparison":
            return _compare(node.operator, value_of(node.left), value_of(node.right))
        case "Logical":
            return _logical(node.operator, value_of(node.left), value_of(node.right))
        case "Not":
            operand = value_of(node.operand)
            return None if operand is None else not operand
        case "IsNull":
            return (value_of(node.operand) is None) != node.negated
        case "InList":
            operand = value_of(node.operand)
            if operand is None:
                return None
            return any(_compare("=", operand, value_of(item)) for item in node.items) != node.negated
        case "Like":
            operand = value_of(node.operand)
            return None if operand is None else _is_like(operand, node.pattern) != node.negated
        case unknown:
            raise TypeError(f"the oracle knows no expression {unknown}")


def _arithmetic(operator: str, left: int | float | None, right: int | float | None) -> float | None:
    """Compute in floats, for operands of any type."""
    if left is None or right is None:
        return None
    x, y = float(left), float(right)
    match operator:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/":
            return None if y == 0.0 else x / y
    raise ValueError(f"the oracle knows no operator {operator}")


def _compare(operator: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    x, y = _sort_key(left), _sort_key(right)
    match operator:
        case "=":
            return x == y
        case "<>":
            return x != y
        case "<":
            return x < y
        case "<=":
            return x <= y
        case ">":
            return x > y
        case ">=":
            return x >= y
    raise ValueError(f"the oracle knows no operator {operator}")


def _sort_key(value: Any) -> tuple[bool, Any]:
    """Orders the values of one type: NaN equals NaN and is above all numbers; strings go by UTF-8 bytes."""
    if isinstance(value, list):
        return (False, [_sort_key(one) for one in value])
    if _is_nan(value):
        return (True, 0.0)
    return (False, value.encode("utf-8") if isinstance(value, str) else value)


def _logical(operator: str, left: bool | None, right: bool | None) -> bool | None:
    """Three-valued logic: FALSE decides AND, TRUE decides OR; without the deciding value, a NULL gives NULL."""
    if operator not in ("AND", "OR"):
        raise ValueError(f"the oracle knows no operator {operator}")
    decisive = operator == "OR"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _is_like(text: str, pattern: str) -> bool:
    """% is any characters, _ is one character, and a backslash takes the character after it as it is."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_is_like(text[i:], pattern[1:]) for i in range(len(text) + 1))
    if pattern[0] == "_":
        return bool(text) and _is_like(text[1:], pattern[1:])
    if pattern[0] == "\\" and len(pattern) > 1:
        pattern = pattern[1:]
    return text[:1] == pattern[0] and _is_like(text[1:], pattern[1:])


# Aggregates

ADDED: dict[str, Callable[[list[Any]], Value]] = {}
"""Aggregates that a test adds, over the values of a group that are not NULL."""


def aggregate(call: Any, members: Sequence[Event]) -> tuple[Value, float]:
    """The value of an aggregate over the members of a group, and its scale.

    Approximate aggregates are answered exactly, as they must be over few values.
    """
    if getattr(call, "over", None) is not None and isinstance(members, _Members) and members.within is not None:
        members = members.within(members, call.over.left_us)
    if call.function == "COUNT_ALL":
        return len(members), 0.0
    arguments = [evaluate(call.argument, event) for event in members]
    values = [value for value in arguments if value is not None]
    if call.function == "COUNT":
        return len(values), 0.0
    if call.function in ("COUNT_DISTINCT", "APPROX_COUNT_DISTINCT"):
        return len({_identity(value) for value in values}), 0.0
    if call.function in ("APPROX_TOP_ITEM", "APPROX_TOP_COUNT"):
        same = Counter(_identity(value) for value in values)
        first = {_identity(value): value for value in values}
        ranked = sorted(first, key=lambda one: (-same[one], _sort_key(first[one])))
        if call.parameter > len(ranked):
            return (0 if call.function == "APPROX_TOP_COUNT" else None), 0.0
        found = ranked[call.parameter - 1]
        return (same[found] if call.function == "APPROX_TOP_COUNT" else first[found]), 0.0
    if not values:
        return None, 0.0
    match call.function:
        case "MIN":
            return min(values, key=_sort_key), 0.0
        case "MAX":
            return max(values, key=_sort_key), 0.0
        case "QUANTILE":
            return _quantile(values, Fraction(repr(call.parameter))), 0.0
        case "APPROX_QUANTILE":
            return _quantile([float(value) for value in values], Fraction(repr(call.parameter))), 0.0
        case "MEDIAN":
            return sorted(values, key=_sort_key)[(len(values) - 1) // 2], 0.0
        case "MODE":
            same = Counter(_identity(value) for value in values)
            return min(values, key=lambda value: (-same[_identity(value)], _sort_key(value))), 0.0
        case "SUM":
            return _sum(values)
        case "AVG":
            return _average(values)
        case "VAR_POP":
            return _variance(values, len(values))
        case "VAR_SAMP":
            return _variance(values, len(values) - 1)
        case "STDDEV_POP":
            return _deviation(values, len(values))
        case "STDDEV_SAMP":
            return _deviation(values, len(values) - 1)
        case "BOOL_AND":
            return all(values), 0.0
        case "BOOL_OR":
            return any(values), 0.0
        case "FIRST" | "ARG_MIN":
            return min(values, key=_pair_key)[0], 0.0
        case "LAST" | "ARG_MAX":
            return max(values, key=_pair_key)[0], 0.0
        case "LAST_K":
            return [value for value, _ in sorted(values, key=_pair_key)[-call.parameter :]], 0.0
        case "COLLECT":
            is_short = len(values) <= call.parameter
            return ([value for value, _ in sorted(values, key=_pair_key)] if is_short else None), 0.0
        case "SKEWNESS" | "KURTOSIS":
            return _shape(call.function, values)
        case "COVAR_POP" | "COVAR_SAMP" | "CORR" | "REGR_SLOPE" | "REGR_INTERCEPT":
            return _of_two(call.function, values)
        case "EWM_SUM" | "EWM_AVG":
            return _decayed(call.function, values, call.parameter)
    return ADDED[call.function](values), 0.0


def _quantile(values: list[Any], phi: Fraction) -> Value:
    """The element at position max(1, floor(phi * n)), where phi is the decimal number that was written."""
    position = max(1, math.floor(phi * len(values)))
    element: Value = sorted(values, key=_sort_key)[position - 1]
    return element


def _sum(values: list[Any]) -> tuple[int | float | None, Scale]:
    if all(isinstance(value, int) for value in values):
        total = sum(values)
        return (total if INT64_MIN <= total <= INT64_MAX else None), 0.0
    special = _sum_with_specials(values)
    if special is not None:
        return special, 0.0
    return _to_float(sum(map(Fraction, values))), _sum_of_magnitudes(values)


def _average(values: list[Any]) -> tuple[float, Scale]:
    special = _sum_with_specials(values)
    if special is not None:
        return special, 0.0
    n = len(values)
    scale = _sum_of_magnitudes(values) / n
    return _to_float(sum(map(Fraction, values)) / n), scale


def _sum_with_specials(values: list[Any]) -> float | None:
    """The sum when NaN or infinities are among the values: NaN, unless all of them are the same infinity."""
    specials = {value for value in values if not math.isfinite(value)}
    if not specials:
        return None
    return specials.pop() if specials in ({math.inf}, {-math.inf}) else math.nan


def _sum_of_magnitudes(values: list[Any]) -> Scale:
    total = sum(abs(Fraction(value)) for value in values)
    return total if math.isinf(_to_float(total)) else float(total)


def _variance(values: list[Any], divisor: int) -> tuple[float | None, float]:
    """The sum of squared distances from the mean over `divisor`, which is n for POP and n - 1 for SAMP."""
    exact = _exact_variance(values, divisor)
    if exact is None or isinstance(exact, float):
        return exact, 0.0
    variance = _to_float(exact)
    return variance, 0.0 if math.isinf(variance) else variance


def _deviation(values: list[Any], divisor: int) -> tuple[float | None, float]:
    """The root of the variance, also where that is no double."""
    exact = _exact_variance(values, divisor)
    if exact is None or isinstance(exact, float):
        return exact, 0.0
    # The root of an integer with so many digits that cutting off the rest does not show.
    places = max(0, 128 - (exact.numerator.bit_length() - exact.denominator.bit_length()) // 2)
    root = Fraction(math.isqrt((exact.numerator << 2 * places) // exact.denominator), 1 << places)
    return _to_float(root), _to_float(root)


def _exact_variance(values: list[Any], divisor: int) -> Fraction | float | None:
    if divisor == 0:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return Fraction(sum((value - mean) ** 2 for value in exact)) / divisor


def _pair_key(pair: Any) -> Any:
    """Orders pairs by the partner, and those with the same partner by the value."""
    return _sort_key(pair[1]), _sort_key(pair[0])


SLACK = 32
"""How many roundings of the sums of powers show in what is made of several of them."""


def _distances(values: Iterable[Any]) -> tuple[Fraction, list[Fraction]]:
    """The mean, and how far each value is from it; aggregates of moments read numbers as doubles."""
    exact = [Fraction(float(value)) for value in values]
    mean = Fraction(sum(exact)) / len(exact)
    return mean, [value - mean for value in exact]


def _shape(function: str, values: list[Any]) -> tuple[float | None, float]:
    if not all(math.isfinite(value) for value in values):
        return math.nan, 0.0
    n, (_, distances) = len(values), _distances(values)
    second = sum(distance**2 for distance in distances)
    if second == 0:
        return None, 0.0
    if function == "KURTOSIS":
        fourth = float(n * sum(distance**4 for distance in distances) / second**2)
        return fourth - 3.0, SLACK * fourth
    third = sum(distance**3 for distance in distances)
    magnitude = sum(abs(distance) ** 3 for distance in distances)
    skewness = math.copysign(math.sqrt(n * third**2 / second**3), third)
    return skewness, SLACK * math.sqrt(n * magnitude**2 / second**3)


def _of_two(function: str, pairs: list[Any]) -> tuple[float | None, float]:
    """COVAR_POP, COVAR_SAMP and CORR of x and y; REGR_SLOPE and REGR_INTERCEPT of y by x, which come as (y, x)."""
    n = len(pairs)
    divisor = n - 1 if function == "COVAR_SAMP" else n
    if divisor == 0 or (n < 2 and function == "CORR"):
        return None, 0.0
    flat = [math.isfinite(side[0]) and len({float(value) for value in side}) == 1 for side in zip(*pairs)]
    if (function == "CORR" and any(flat)) or (function.startswith("REGR") and flat[1]):
        return None, 0.0
    if not all(math.isfinite(value) for pair in pairs for value in pair):
        return math.nan, 0.0
    (mean, ones), (other_mean, others) = (_distances(side) for side in zip(*pairs))
    products = sum(one * other for one, other in zip(ones, others))
    squares, other_squares = (sum(distance**2 for distance in side) for side in (ones, others))
    magnitude = math.sqrt(squares) * math.sqrt(other_squares)
    if function.startswith("COVAR"):
        return float(products / divisor), SLACK * magnitude / divisor
    if function == "CORR":
        return float(products) / magnitude, SLACK
    slope = products / other_squares
    slope_scale = math.sqrt(squares / other_squares)
    if function == "REGR_SLOPE":
        return float(slope), SLACK * slope_scale
    scale = abs(mean) + (abs(slope) + Fraction(slope_scale)) * abs(other_mean)
    return float(mean - slope * other_mean), SLACK * float(scale)


def _decayed(function: str, pairs: list[Any], half_life: float) -> tuple[float, float]:
    """Weights halve with each half life before the newest value."""
    newest = max(time for _, time in pairs)
    weights = [2.0 ** ((time - newest) / half_life) for _, time in pairs]
    terms = [float(value) * weight for (value, _), weight in zip(pairs, weights)]
    divisor = sum(weights) if function == "EWM_AVG" else 1.0
    special = _sum_with_specials(terms)
    if special is not None:
        return special, 0.0
    return math.fsum(terms) / divisor, SLACK * math.fsum(map(abs, terms)) / divisor


def _to_float(number: Any) -> float:
    """The float nearest to a fraction; infinite if the fraction is beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


# Comparing


def differences(actual: Iterable[Answer], expected: Iterable[Answer]) -> list[str]:
    """What is missing, what should not be there, and which values are off; empty if all are the same.

    The order of the answers does not matter. Row windows may share query, start, end and group; the values of
    such answers are paired in ascending order.

    >>> differences([Answer("q", 0, 10, (), 0, 4)], [Answer("q", 0, 10, (), 0, 5)])
    ['q, window 0 to 10, group (), item 0: expected 5, got 4']
    """
    actual_values, expected_values = _by_place(actual), _by_place(expected)
    found = []
    for place in dict.fromkeys([*expected_values, *actual_values]):
        got, wanted = actual_values.get(place, []), expected_values.get(place, [])
        found += [f"{_place(one)}: expected {one.value!r}, got no answer" for one in wanted[len(got) :]]
        found += [f"{_place(one)}: expected no answer, got {one.value!r}" for one in got[len(wanted) :]]
        for one, other in zip(got, wanted):
            if not same_value(one.value, other.value, other.scale):
                allowed = f" (may be off by {float(_allowed(other.scale)):.3g})" if other.scale else ""
                found.append(f"{_place(other)}: expected {other.value!r}, got {one.value!r}{allowed}")
    return found


def assert_same_answers(actual: Iterable[Answer], expected: Iterable[Answer], context: object = "") -> None:
    """Fail with the first differences, if there are any; `context` is printed with them."""
    found = differences(actual, expected)
    if found:
        shown = "\n  ".join(found[:20])
        rest = f"\n  and {len(found) - 20} more" if len(found) > 20 else ""
        raise AssertionError(f"{len(found)} answers differ:\n  {shown}{rest}\n{context}".rstrip())


def _allowed(scale: Scale) -> Fraction:
    return Fraction(TOLERANCE) * Fraction(scale) + Fraction(TINY)


def same_value(actual: Value, expected: Value, scale: Scale = 0.0) -> bool:
    """Equal, or within the tolerance that the scale allows; NaN equals NaN, and NULL equals only NULL."""
    if actual is None or expected is None:
        return actual is None and expected is None
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(same_value, actual, expected))
    if isinstance(actual, str | list) or isinstance(expected, str | list):
        return actual == expected
    if _is_nan(actual) or _is_nan(expected):
        return _is_nan(actual) and _is_nan(expected)
    if actual == expected:
        return True
    if not scale:
        return False
    # What is beyond all floats lies behind the greatest.
    actual, expected = (
        Fraction(math.copysign(1, value)) * 2**1024 if math.isinf(value) else Fraction(value)
        for value in (actual, expected)
    )
    return abs(actual - expected) <= _allowed(scale)


def _by_place(answers: Iterable[Answer]) -> dict[object, list[Answer]]:
    places: dict[object, list[Answer]] = defaultdict(list)
    for answer in answers:
        group = tuple((attribute, _identity(value)) for attribute, value in answer.group)
        places[(answer.query, answer.window_start, answer.window_end, group, answer.item)].append(answer)
    for found in places.values():
        found.sort(key=lambda answer: (answer.value is not None, _sort_key(answer.value)))
    return places


def _place(answer: Answer) -> str:
    group = ", ".join(f"{attribute}={value!r}" for attribute, value in answer.group)
    window = f"window {answer.window_start} to {answer.window_end}"
    return f"{answer.query}, {window}, group ({group}), item {answer.item}"
