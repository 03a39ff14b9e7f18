"""The oracle of row queries: every row from the raw events, in plain Python, by the definition.

Like `tests.oracle`, it imports nothing of Panewise, knows a query by its class name, and is written to be obviously
right, not fast. `events` has for each stream all accepted events, in order of arrival; `watermarks` has for each stream
its watermark: None before the first one, `END` at the end. A row is a dict; times are microseconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key, partial
from typing import Any, NamedTuple

from tests.oracle import evaluate

END = 2**63 - 1
Event = Mapping[str, Any]
Row = dict[str, Any]


class Input(NamedTuple):
    """The streams of a query: the timestamp attribute, the accepted events and the watermark of each."""

    timestamps: Mapping[str, str]
    events: Mapping[str, Sequence[Event]]
    watermarks: Mapping[str, int | None]
    before_end: Mapping[str, int]
    """The last watermark of each stream that was not its end."""


def rows_of(query: Any, given: Input) -> list[Row]:
    """Every row that the query has given so far, in order."""
    match type(query).__name__:
        case "HistogramQuery":
            return _per_window(query, given, lambda covered: _by_group(query, covered, partial(_histogram, query)))
        case "TopKQuery":
            return _per_window(query, given, lambda covered: _by_group(query, covered, partial(_top_k, query)))
        case "DistinctQuery":
            return _per_window(query, given, lambda covered: _by_group(query, covered, partial(_distinct, query)))
        case "SortedQuery":
            in_order = partial(_sorted, query)
            return _per_window(query, given, lambda covered: _by_group(query, covered, in_order, shows=False))
        case "IntersectionQuery":
            return _intersections(query, given)
        case "JoinQuery":
            return _join(query, given)
        case "SelectionQuery":
            return _selection(query, given)
    raise ValueError(f"the oracle knows no {type(query).__name__}")


def newest(query: Any, given: Input) -> list[Row]:
    """The rows of the newest complete basic windows, as a lookup of a sliding row query gives them."""
    match type(query).__name__:
        case "HistogramQuery":
            evaluate_window = lambda covered: _by_group(query, covered, partial(_histogram, query))  # noqa: E731
        case "TopKQuery":
            evaluate_window = lambda covered: _by_group(query, covered, partial(_top_k, query))  # noqa: E731
        case "DistinctQuery":
            evaluate_window = lambda covered: _by_group(query, covered, partial(_distinct, query))  # noqa: E731
        case "SortedQuery":
            in_order = partial(_sorted, query)
            evaluate_window = lambda covered: _by_group(query, covered, in_order, shows=False)  # noqa: E731
        case "IntersectionQuery":
            return _newest_intersection(query, given)
        case other:
            raise ValueError(f"{other} has no newest window")
    rows, unit, length, _ = _shape(query.window)
    complete = _complete(query.stream, given, rows)
    if complete is None:
        return []
    end = complete // unit * unit
    covered = _covered(query.stream, given, rows, end - length, end)
    return _framed(covered, given.timestamps[query.stream], rows, end - length, end, query.where, evaluate_window)


def held(query: Any, given: Input) -> list[Row]:
    """The rows in the window of INTO, in order of their times."""
    rows = rows_of(query, given)
    time = "time" if rows and "time" in rows[0] else "window_end"
    rows = sorted(rows, key=lambda row: row[time])
    if type(query.into).__name__ == "RowWindow":
        return rows[-query.into.left :]
    now = _now(query, given)
    return [] if now is None else [row for row in rows if now - query.into.left_us < row[time] <= now]


def _now(query: Any, given: Input) -> int | None:
    """How far the output is complete: to the least watermark; for a selection to the newest event, if it is later."""
    streams = {query.stream} if hasattr(query, "stream") else {query.left.stream, query.right.stream}
    newest_us = [max((e[given.timestamps[name]] for e in given.events[name]), default=None) for name in streams]
    known = [time for time in newest_us if time is not None]
    marks = [given.watermarks[name] for name in streams]
    passed = [given.before_end[name] for name in streams if name in given.before_end]
    if type(query).__name__ == "SelectionQuery":
        return max([*known, *passed], default=None)
    if None in marks:
        return None
    ends = [mark for mark in marks if mark != END]
    return min(ends) if ends else max([*known, *passed], default=None)


# Windows


def _shape(window: Any) -> tuple[bool, int, int, int]:
    """Whether rows are counted, the length of a basic window, of the window, and of its slide."""
    rows = type(window).__name__ == "RowWindow"
    length, slide = (window.left, window.slide) if rows else (window.left_us, window.slide_us)
    return rows, math.gcd(length, slide), length, slide


def _final(stream: str, given: Input) -> list[Event]:
    """The events behind the watermark, in order: by time, ties by arrival."""
    watermark, timestamp = given.watermarks[stream], given.timestamps[stream]
    if watermark is None:
        return []
    ordered = sorted(given.events[stream], key=lambda event: event[timestamp])
    return [event for event in ordered if watermark == END or event[timestamp] < watermark]


def _complete(stream: str, given: Input, rows: bool) -> int | None:
    """How far a stream is complete: its watermark, or the number of its final rows."""
    if rows:
        return len(_final(stream, given))
    watermark = given.watermarks[stream]
    if watermark != END:
        return watermark
    times = [event[given.timestamps[stream]] for event in given.events[stream]]
    return None if not times else END


def _covered(stream: str, given: Input, rows: bool, start: int, end: int) -> list[Event]:
    """The final events at positions or times start .. end - 1."""
    final = _final(stream, given)
    if rows:
        return final[max(start, 0) : max(end, 0)]
    return [event for event in final if start <= event[given.timestamps[stream]] < end]


def _framed(
    covered: list[Event], timestamp: str, rows: bool, start: int, end: int, where: Any, evaluate_window: Any
) -> list[Row]:
    """The rows of one window, with its bounds in front: its own, or the times of its first and last event."""
    if rows and covered:
        start, end = covered[0][timestamp], covered[-1][timestamp]
    return [{"window_start": start, "window_end": end, **row} for row in evaluate_window(_passing(where, covered))]


def _passing(where: Any, events: Iterable[Event]) -> list[Event]:
    return [event for event in events if where is None or evaluate(where, event) is True]


def _ends(length: int, slide: int, first: int, last: int) -> list[int]:
    """The ends first <= k * slide + length <= last."""
    start = -((length - first) // slide)
    return [k * slide + length for k in range(start, (last - length) // slide + 1)]


def _per_window(query: Any, given: Input, evaluate_window: Any) -> list[Row]:
    rows, _, length, slide = _shape(query.window)
    timestamp = given.timestamps[query.stream]
    final = _final(query.stream, given)
    if not final:
        return []
    places = range(len(final)) if rows else [event[timestamp] for event in final]
    complete = _complete(query.stream, given, rows)
    assert complete is not None
    last = min(complete, places[-1] + length)
    found = []
    for end in _ends(length, slide, places[0] + 1, last):
        covered = _covered(query.stream, given, rows, end - length, end)
        found += _framed(covered, timestamp, rows, end - length, end, query.where, evaluate_window)
    return found


# Operators over one window


def _key(value: Any) -> tuple[bool, Any]:
    """Orders values of one type: NaN is one value above all, strings go by their UTF-8 bytes, -0.0 is 0.0."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value + 0.0)
    return (False, value.encode() if isinstance(value, str) else value)


def _counts(argument: Any, events: Iterable[Event]) -> list[tuple[Any, int]]:
    """The values that are not NULL and how often each occurs, in order."""
    counts: dict[Any, list[Any]] = {}
    for event in events:
        value = evaluate(argument, event)
        if value is not None:
            counts.setdefault(_key(value), []).append(value)
    return [(counts[key][0], len(counts[key])) for key in sorted(counts)]


def _range(value: Any, width: Any) -> tuple[Any, Any]:
    """The range of a value: for integers both ends belong to it, for doubles only the low one."""
    if isinstance(width, tuple):
        return _between(value, width)
    if isinstance(value, int):
        low = value // width * width
        return max(low, -(2**63)), min(low + width - 1, 2**63 - 1)
    if math.isnan(value):
        return math.nan, math.nan
    assert math.isfinite(value), "ranges of infinities are tested by hand"
    low = math.floor(value / width)
    return low * width, (low + 1) * width


def _between(value: Any, bounds: tuple[Any, ...]) -> tuple[Any, Any]:
    """The range of a value between bounds."""
    if isinstance(value, float) and math.isnan(value):
        return math.nan, math.nan
    below, above = [b for b in bounds if b <= value], [b for b in bounds if b > value]
    if isinstance(value, int):
        return max(below, default=-(2**63)), min(above, default=2**63) - 1
    return max(below, default=-math.inf), min(above, default=math.inf)


def _ranges(argument: Any, width: Any, events: Iterable[Event]) -> list[tuple[Any, int]]:
    found: dict[Any, list[Any]] = {}
    for value, count in _counts(argument, events):
        bounds = _range(value, width)
        entry = found.setdefault((_key(bounds[0]), _key(bounds[1])), [bounds, 0])
        entry[1] += count
    return [(bounds, count) for bounds, count in found.values()]


def _by_group(query: Any, events: list[Event], rows_of_group: Any, *, shows: bool = True) -> list[Row]:
    """The rows of each group; NULL is the last group, and NaN the one before it."""
    groups: dict[Any, list[Event]] = {}
    for event in events:
        key = tuple((1, ()) if event[name] is None else (0, _key(event[name])) for name in query.group_by)
        groups.setdefault(key, []).append(event)
    found = []
    for key in sorted(groups):
        shown = {name: groups[key][0][name] for name in query.group_by if shows}
        found += [{**shown, **row} for row in rows_of_group(groups[key])]
    return found


def _histogram(query: Any, events: list[Event]) -> list[Row]:
    if query.width is not None:
        ranges = _ranges(query.argument, query.width, events)
        return [{"low": low, "high": high, "count": count} for (low, high), count in ranges]
    return [{"value": value, "count": count} for value, count in _counts(query.argument, events)]


def _top_k(query: Any, events: list[Event]) -> list[Row]:
    counts = sorted(_counts(query.argument, events), key=lambda pair: -pair[1])[: query.k]
    return [{"rank": place + 1, "value": value, "count": count} for place, (value, count) in enumerate(counts)]


def _distinct(query: Any, events: list[Event]) -> list[Row]:
    return [{"value": value} for value, _ in _counts(query.argument, events)]


def _sorted(query: Any, events: list[Event]) -> list[Row]:
    def compare(left: Event, right: Event) -> int:
        """NULL below everything, so first when ascending and last when descending."""
        a, b = left[query.by], right[query.by]
        order = (b is None) - (a is None)
        if a is not None and b is not None:
            order = (_key(a) > _key(b)) - (_key(a) < _key(b))
        return -order if query.descending else order

    ordered = sorted(events, key=cmp_to_key(compare))[: query.limit]
    return [{"position": place + 1, **_selected(query, event)} for place, event in enumerate(ordered)]


def _selected(query: Any, event: Event) -> Row:
    return {_label(column): evaluate(column.expression, event) for column in query.columns}


def _label(column: Any) -> str:
    """The name of a column; tests name the expressions that are not plain attributes."""
    if column.alias is not None:
        return str(column.alias)
    return str(getattr(column.expression, "attribute", column.expression.name))


def _selection(query: Any, given: Input) -> list[Row]:
    timestamp = given.timestamps[query.stream]
    passing = _passing(query.where, given.events[query.stream])
    return [{"time": event[timestamp], **_selected(query, event)} for event in passing]


# Two windows


def _intersections(query: Any, given: Input) -> list[Row]:
    rows, _, left_length, slide = _shape(query.left.window)
    right_length = _shape(query.right.window)[2]
    final = [_final(side.stream, given) for side in (query.left, query.right)]
    if not any(final):
        return []
    found = []
    if rows:
        # A side without a watermark has no final rows yet, and windows that begin before its first need none.
        last = min((len(final[0]) - left_length) // slide, (len(final[1]) - right_length) // slide)
        first = -(max(left_length, right_length) // slide) - 1
        for k in range(first, last + 1):
            found += _intersection(query, given, k * slide + left_length, k * slide + right_length)
        return found
    if None in [given.watermarks[side.stream] for side in (query.left, query.right)]:
        return []
    complete = min(given.watermarks[side.stream] for side in (query.left, query.right))
    stamps = [given.timestamps[side.stream] for side in (query.left, query.right)]
    first = min(events[0][stamp] for events, stamp in zip(final, stamps) if events)
    last = max(events[-1][stamp] for events, stamp in zip(final, stamps) if events)
    last += max(left_length, right_length)
    for end in _ends(left_length, slide, first + 1, min(complete, last)):
        found += _intersection(query, given, end, end)
    return found


def _newest_intersection(query: Any, given: Input) -> list[Row]:
    rows, unit, left_length, _ = _shape(query.left.window)
    right_length = _shape(query.right.window)[2]
    ends = [_complete(side.stream, given, rows) for side in (query.left, query.right)]
    if None in ends:
        return []
    if rows:
        unit = math.gcd(unit, right_length)
        step = min(ends[0] - left_length, ends[1] - right_length) // unit * unit
        return _intersection(query, given, step + left_length, step + right_length)
    end = min(ends) // unit * unit
    return _intersection(query, given, end, end)


def _intersection(query: Any, given: Input, left_end: int, right_end: int) -> list[Row]:
    starts, ends, counts = [], [], []
    for side, end in ((query.left, left_end), (query.right, right_end)):
        rows, _, length, _ = _shape(side.window)
        covered = _covered(side.stream, given, rows, end - length, end)
        timestamp = given.timestamps[side.stream]
        if rows and covered:
            starts.append(covered[0][timestamp])
            ends.append(covered[-1][timestamp])
        elif not rows:
            starts.append(end - length)
            ends.append(end)
        passing = _passing(side.where, covered)
        if query.width is None:
            counts.append([((value, _key(value)), count) for value, count in _counts(side.argument, passing)])
        else:
            ranges = _ranges(side.argument, query.width, passing)
            counts.append([((bounds, tuple(map(_key, bounds))), count) for bounds, count in ranges])
    left, right = ({key: count for (_, key), count in one} for one in counts)
    values = {key: value for (value, key), _ in [*counts[1], *counts[0]]}
    found = []
    for key in sorted(values):
        is_shown = {
            "INTERSECT": key in left and key in right,
            "UNION": True,
            "EXCEPT": key in left and key not in right,
        }[query.operation]
        if is_shown:
            value = values[key]
            named = {"value": value} if query.width is None else {"low": value[0], "high": value[1]}
            frame = {"window_start": min(starts), "window_end": max(ends)}
            found.append({**frame, **named, "left_count": left.get(key, 0), "right_count": right.get(key, 0)})
    return found


def _join(query: Any, given: Input) -> list[Row]:
    """Events of both sides in one order: by time, the left side first, ties by arrival. Each looks back from itself."""
    marks = [given.watermarks[side.stream] for side in (query.left, query.right)]
    if None in marks:
        return []
    limit = min(marks)
    arrivals = []
    for place, side in enumerate((query.left, query.right)):
        timestamp = given.timestamps[side.stream]
        final = [event for event in given.events[side.stream] if limit == END or event[timestamp] < limit]
        arrivals += [(event[timestamp], place, event) for event in final]
    arrivals.sort(key=lambda arrival: arrival[:2])
    sides = (query.left, query.right)
    past: tuple[list[Any], list[Any]] = ([], [])
    found = []
    for time, place, event in arrivals:
        other = 1 - place
        window = sides[other].window
        if type(window).__name__ == "RowWindow":
            reach = past[other][-window.left :]
        else:
            reach = [(t, e) for t, e in past[other] if time - window.left_us < t <= time]
        for _, partner in reach:
            pair = (event, partner) if place == 0 else (partner, event)
            joined = {
                f"{_dotless(side.name)}.{_dotless(name)}": value
                for side, one in zip(sides, pair)
                for name, value in one.items()
            }
            keys = [(joined[one.name], joined[other.name]) for one, other in zip(query.left_keys, query.right_keys)]
            if not all(None not in pair and _equal(*pair) for pair in keys):
                continue
            if query.where is None or evaluate(query.where, joined) is True:
                found.append({"time": time, **_selected(query, joined)})
        past[place].append((time, event))
    return found


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
    return _key(left) == _key(right)


def _dotless(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name
