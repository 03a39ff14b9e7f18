"""Statements as they were written: names not resolved, types not checked, places kept for messages."""

from __future__ import annotations

from dataclasses import dataclass

from weft.aggregates.types import Type
from weft.language.expressions import Expression, Span
from weft.windows import Window


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
    span: Span


@dataclass(frozen=True)
class CreateQuery:
    """`CREATE QUERY`."""

    name: Name
    stream: Name
    window: WindowClause
    select: tuple[Item, ...]
    where: Expression | None
    group_by: tuple[Name, ...]
    having: Expression | None
    within: float | None
    span: Span


@dataclass(frozen=True)
class DropQuery:
    """`DROP QUERY`."""

    name: Name
    span: Span


Statement = CreateStream | CreateQuery | DropQuery
