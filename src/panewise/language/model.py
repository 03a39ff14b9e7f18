"""A bound workload: streams and queries, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Attribute, Expression, aggregates_of
from panewise.windows import TimeWindow, Window

UNBOUNDED_US = 2**63 - 1
"""The bound of a stream with FUTURE BOUND NONE: no time is further ahead."""


@dataclass(frozen=True)
class Stream:
    """A declared stream. `attributes` keeps the order of the declaration, `timestamp` names one of them."""

    name: str
    attributes: Mapping[str, Type]
    timestamp: str
    watermark_us: int = 0
    granularity_us: int | None = None
    correct_us: int = 0
    """How far behind the watermark an event may be and still correct reported answers."""
    future_bound_us: int | None = None
    """How far ahead of the clock an event may be before it is set aside; None if nothing is declared."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The units in which integers of TIMESTAMP attributes come (`s`, `ms`, `us` or `ns`), where they are declared."""
    answers_over: str | None = None
    """For a stream of answers: the stream that the query of its name reads, whose answers are its events."""

    @property
    def is_of_answers(self) -> bool:
        """Whether nobody declared it: its events are the answers of the query of its name."""
        return self.answers_over is not None

    def __hash__(self) -> int:
        # Attributes have no hash, and the columns of queries are kept by stream.
        return hash(self.name)


@dataclass(frozen=True)
class SelectItem:
    """One column of a SELECT: a grouped attribute or an expression with aggregates, and its name, if given."""

    expression: Expression
    alias: str | None = None

    @property
    def is_answer(self) -> bool:
        """Whether it is computed from events, and not the name of a group."""
        return not isinstance(self.expression, Attribute)


@dataclass(frozen=True)
class Query:
    """A bound query: every name in it exists and every type fits."""

    name: str
    stream: str
    window: Window
    select: tuple[SelectItem, ...]
    where: Expression | None = None
    group_by: tuple[str, ...] = ()
    having: Expression | None = None
    within: float | None = None
    using: str | None = None
    """The structure that must answer it, if one is named."""
    overflow_is_error: bool = False
    """Whether an answer that does not fit in 64 bits is an error; otherwise it is NULL."""

    def __hash__(self) -> int:
        # What is kept by query is looked up at each closing, and a hash of all of its expressions is slow.
        return hash(self.name)

    @cached_property
    def aggregates(self) -> tuple[AggregateCall, ...]:
        """Every aggregate that must be computed, those of SELECT first, then those only in HAVING."""
        selected = [call for item in self.select for call in aggregates_of(item.expression)]
        return tuple(dict.fromkeys([*selected, *aggregates_of(self.having)]))

    def window_of(self, call: AggregateCall) -> Window:
        """The window of an aggregate: its own, which ends with that of the query, or that of the query."""
        if call.over is None:
            return self.window
        assert isinstance(self.window, TimeWindow)
        return replace(self.window, left_us=call.over.left_us)

    @cached_property
    def has_own_windows(self) -> bool:
        """Whether its aggregates have windows of their own. The window of the query is then the longest of them."""
        return any(call.over is not None for call in self.aggregates)

    @cached_property
    def answers(self) -> tuple[SelectItem, ...]:
        """The items of SELECT that are computed from events."""
        return tuple(item for item in self.select if item.is_answer)

    @cached_property
    def computed(self) -> tuple[Expression, ...]:
        """The items of SELECT that are made of aggregates, each once."""
        shown = (item.expression for item in self.select)
        return tuple(dict.fromkeys(one for one in shown if not isinstance(one, Attribute | AggregateCall)))
