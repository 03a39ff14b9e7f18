"""Checks that queries of aggregates and row queries share: the stream, the window's lengths, WHERE, names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from panewise.language.expressions import Expression, aggregates_of
from panewise.language.literals import print_duration
from panewise.language.model import Stream
from panewise.language.source import PlacedError, shortened
from panewise.language.statements import Name, WindowClause
from panewise.language.typecheck import expect_condition


def find_stream(name: Name, streams: Mapping[str, Stream]) -> Stream:
    """The stream with a name. Whoever binds a query has opened all its sources."""
    return streams[name.text]


def check_granularity(clause: WindowClause, stream: Stream) -> None:
    """Refuse lengths of time that are not multiples of the stream's granularity."""
    granularity_us = stream.granularity_us
    if granularity_us is None:
        return
    for duration in clause.durations:
        if duration.us % granularity_us:
            declared = print_duration(granularity_us)
            message = (
                f"{duration.word} {print_duration(duration.us)} is not a multiple of the granularity of "
                f"{shortened(stream.name)}, {declared}"
            )
            raise PlacedError(message, duration.span, f"use a multiple of {declared}, or declare a finer GRANULARITY")


def check_where(where: Expression, stream: Stream, clause: str = "WHERE") -> None:
    """Refuse a WHERE, or another clause like it, that is not a condition on single events."""
    calls = aggregates_of(where)
    if calls:
        hint = f"{clause} sees single events; put conditions on aggregates into HAVING"
        raise PlacedError(f"{clause} cannot use an aggregate", calls[0].span, hint)
    expect_condition(where, stream.attributes, clause)


def refuse_duplicates(names: Sequence[Name], what: str) -> None:
    """Refuse a list that names the same thing twice."""
    seen: set[str] = set()
    for name in names:
        if name.text in seen:
            raise PlacedError(f"the {what} {shortened(name.text)} is named twice", name.span, "remove one of them")
        seen.add(name.text)
