"""Statements as they were written: names not resolved, types not checked, places kept for messages."""

from __future__ import annotations

from dataclasses import dataclass

from panewise.aggregates.types import Type
from panewise.language.expressions import Expression, Span
from panewise.windows import Window


@dataclass(frozen=True)
class Name:
    """A name as written, without its quotes."""

    text: str
    span: Span


@dataclass(frozen=True)
class Definition:
    """An attribute of a stream and its type."""

    name: Name
    type: Type
    unit: str | None = None
    """Of integers that are times, as in TIMESTAMP(ms)."""


@dataclass(frozen=True)
class Duration:
    """A length of time; `word` says what it is for in messages (RANGE, SLIDE, ...)."""

    us: int
    span: Span
    word: str = ""


@dataclass(frozen=True)
class WindowClause:
    """A window, the durations it was written with, and the attributes it partitions by."""

    window: Window
    durations: tuple[Duration, ...] = ()
    partition_by: tuple[Name, ...] = ()
    is_slide_alone: bool = False
    """Whether only SLIDE was written, so that each aggregate needs a window of its own."""


@dataclass(frozen=True)
class Item:
    """A SELECT item: any expression so far."""

    expression: Expression
    alias: Name | None


@dataclass(frozen=True)
class CreateStream:
    """`CREATE STREAM`."""

    name: Name
    definitions: tuple[Definition, ...]
    timestamp: Name
    watermark_us: int
    granularity_us: int | None
    correct_us: int
    future_bound_us: int | None
    span: Span


@dataclass(frozen=True)
class Source:
    """A stream in FROM or JOIN, with its window and its other name, if it has them."""

    stream: Name
    window: WindowClause | None
    alias: Name | None = None

    @property
    def side(self) -> str:
        """The prefix of its attributes in a join."""
        return (self.alias or self.stream).text


@dataclass(frozen=True)
class Join:
    """`JOIN source ON condition`."""

    source: Source
    on: Expression
    span: Span


@dataclass(frozen=True)
class Intersect:
    """`INTERSECT SELECT ... FROM ...`, or UNION or EXCEPT, with the width of value ranges if one is given."""

    select: tuple[Item, ...]
    source: Source
    where: Expression | None
    width: int | float | None
    width_span: Span
    span: Span
    operation: str = "INTERSECT"


@dataclass(frozen=True)
class Order:
    """`ORDER BY attribute`."""

    by: Name
    descending: bool
    limit: int | None
    span: Span


@dataclass(frozen=True)
class Into:
    """`INTO [window]`."""

    window: WindowClause
    span: Span


@dataclass(frozen=True)
class Counted:
    """A whole number and where it stands."""

    number: int
    span: Span


@dataclass(frozen=True)
class EvaluateClause:
    """`EVALUATE EVERY every TO most PRIORITY priority`."""

    every: Counted
    most: Counted | None
    priority: Counted | None
    span: Span


@dataclass(frozen=True)
class UsingClause:
    """`USING one OVER another`; for queries of aggregates `USING one`, a structure."""

    upper: Name
    lower: Name | None
    span: Span


@dataclass(frozen=True)
class OnOverflow:
    """`ON OVERFLOW NULL` or `ON OVERFLOW ERROR`."""

    is_error: bool
    span: Span


@dataclass(frozen=True)
class CreateQuery:
    """`CREATE QUERY`; the clauses from `join` on make it a row query."""

    name: Name
    source: Source
    select: tuple[Item, ...]
    where: Expression | None
    group_by: tuple[Name, ...]
    having: Expression | None
    within: float | None
    span: Span
    join: Join | None = None
    intersect: Intersect | None = None
    order: Order | None = None
    into: Into | None = None
    using: UsingClause | None = None
    on_overflow: OnOverflow | None = None
    basic_windows: Counted | None = None
    evaluate: EvaluateClause | None = None

    @property
    def stream(self) -> Name:
        """The stream of FROM."""
        return self.source.stream


@dataclass(frozen=True)
class DropQuery:
    """`DROP QUERY`."""

    name: Name
    span: Span


Statement = CreateStream | CreateQuery | DropQuery
