"""Data sheets of substream filters: what each can do and what it costs, as the planner and the docs read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class FilterShape:
    """What the costs of a filter depend on."""

    keys: int
    """Keys with an event in the largest window."""
    events: int
    """Events in the largest window."""
    answer: float
    """Keys that a lookup gives, on average."""
    active: float
    """Keys with an event in the window of a lookup, on average."""
    levels_per_size: int = 1
    mean_value: float = 1.0

    @property
    def events_per_key(self) -> float:
        """Events of one key in the largest window, on average; at least one."""
        return max(1.0, self.events / max(1, self.keys))


@dataclass(frozen=True)
class FilterCost:
    """A cost in steps (update, lookup) or in bytes (space), as a formula for people and a function for the planner."""

    formula: str
    of: Callable[[FilterShape], float] = field(compare=False)


@dataclass(frozen=True)
class FilterSheet:
    """The abilities and costs of a substream filter."""

    name: str
    title: str
    source: str
    aggregates: frozenset[str]
    """What it compares with a threshold, in capitals as in the language."""
    takes_doubles: bool
    """Whether values may be doubles; integers always may."""
    takes_any_sign: bool
    """Whether values may be zero or negative."""
    has_error: bool
    """Whether an approximate lookup may give keys that an exact one does not."""
    update: FilterCost
    lookup_up: FilterCost
    """A lookup with > or >=, of MIN with < or <=."""
    lookup_down: FilterCost
    """A lookup with < or <=, of MIN with > or >=."""
    space: FilterCost

    def lookup_cost(self, comparison: str, shape: FilterShape) -> float:
        """What a lookup costs. The least value turns the comparison round: below is where its answers are few."""
        goes_up = comparison.startswith(">") != (self.aggregates == {"MIN"})
        return (self.lookup_up if goes_up else self.lookup_down).of(shape)

    def why_not(self, aggregate: str, *, doubles: bool = False, least: float | None = None) -> str | None:
        """Why the filter cannot serve an aggregate over values of a kind; None when it can.

        `least` is the least value that can occur, None when that is not known.
        """
        if aggregate.upper() not in self.aggregates:
            return f"{self.name} compares {' and '.join(sorted(self.aggregates))}, not {aggregate.upper()}"
        if aggregate.upper() == "COUNT":
            return None
        if doubles and not self.takes_doubles:
            return f"{self.name} takes integers, and the values are doubles"
        if not self.takes_any_sign and (least is None or least <= 0):
            known = "may be zero or negative" if least is None else f"go down to {least:g}"
            return f"{self.name} takes values above zero, and the values {known}"
        return None


def log2(value: float) -> float:
    """The logarithm as costs use it: at least one step."""
    return max(1.0, math.log2(max(1.0, value)))
