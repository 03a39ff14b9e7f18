"""Chains by the definition: the oracle answers a query, its answers become events, and the oracle answers the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests import oracle

Events = Mapping[str, Sequence[oracle.Event]]


def closed_answers(
    workload: Any, events: Events, watermark: int | None, previous: int | None = None
) -> list[oracle.Answer]:
    """The answers of all sliding queries, of streams and of answers, that closed as all watermarks moved together."""
    return [
        answer
        for name, stream in workload.streams.items()
        for query in workload.queries.values()
        if query.stream == name and query.window.is_sliding
        for answer in oracle.closed_answers(
            query,
            stream.timestamp,
            events_of(workload, name, events),
            behind(workload, name, watermark),
            behind(workload, name, previous),
        )
    ]


def behind(workload: Any, stream: str, watermark: int | None) -> int | None:
    """The watermark of a stream when that of the declared one below it is given: sessions hold theirs back."""
    held = workload.streams[stream]
    if held.answers_over is None or watermark is None:
        return watermark
    window = workload.queries[stream].window
    late = window.max_us if type(window).__name__ == "SessionWindow" else 0
    below = behind(workload, held.answers_over, watermark)
    assert below is not None
    return below - late


def events_of(workload: Any, stream: str, events: Events) -> list[oracle.Event]:
    """The events of a declared stream, or the answers of a query as events: all there will ever be."""
    below = workload.streams[stream].answers_over
    if below is None:
        return list(events[stream])
    query = workload.queries[stream]
    answers = oracle.closed_answers(query, workload.streams[below].timestamp, events_of(workload, below, events), None)
    return in_order(workload.streams[stream], list(as_events(query, answers)))


def as_events(query: Any, answers: Sequence[oracle.Answer]) -> Any:
    """An event for each window and group. Its time is the last microsecond that belongs to the window."""
    labels = [item.alias or _text(item.expression) for item in query.select]
    shown = {item.expression.name: labels[place] for place, item in enumerate(query.select) if not item.is_answer}
    includes_end = type(query.window).__name__ != "TimeWindow"
    place: Any = None
    event: dict[str, Any] = {}
    for answer in answers:
        here = answer[:4]
        # Two windows over rows of one time may have the same place; their items come one after the other.
        if here != place or labels[answer.item] in event:
            if event:
                yield event
            time = answer.window_end - (0 if includes_end else 1)
            event = {"window_start": answer.window_start, "window_end": answer.window_end, "window_time": time}
            event |= {shown.get(name, name): value for name, value in answer.group}
            place = here
        event[labels[answer.item]] = answer.value
    if event:
        yield event


def _text(expression: Any) -> str:
    from panewise.language.printer import print_expression

    return expression.name if type(expression).__name__ == "Attribute" else print_expression(expression)


def in_order(stream: Any, events: list[dict[str, Any]]) -> list[oracle.Event]:
    """Events of one time in the order of their values, NULL last."""
    names = [stream.timestamp, *(name for name in stream.attributes if name != stream.timestamp)]

    def key(event: dict[str, Any]) -> tuple[Any, ...]:
        values = (event[name] for name in names)
        return tuple((value is None, value.encode() if isinstance(value, str) else value or 0) for value in values)

    return sorted(events, key=key)
