"""Data sheets of substream filters: what each can do and what it costs, as the planner and the docs read it."""

from __future__ import annotations

from dataclasses import dataclass

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.cost import Cost as Cost
from panewise.cost import Sheet
from panewise.cost import log2 as log2


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
class FilterSheet(Sheet):
    """The abilities and costs of a substream filter."""

    kinds: frozenset[Kind]
    """The components that it compares with a threshold."""
    takes_doubles: bool
    """Whether values may be doubles; integers always may."""
    takes_any_sign: bool
    """Whether values may be zero or negative."""
    has_error: bool
    """Whether an approximate lookup may give keys that an exact one does not."""
    update: Cost[FilterShape]
    """Steps an event."""
    lookup_up: Cost[FilterShape]
    """Steps of a lookup with > or >=, of MIN with < or <=."""
    lookup_down: Cost[FilterShape]
    """Steps of a lookup with < or <=, of MIN with > or >=."""
    space: Cost[FilterShape]
    """Bytes held."""

    @property
    def aggregates(self) -> frozenset[str]:
        """The aggregates whose answers are such a component."""
        entries = CATALOGUE.values()
        return frozenset(entry.name for entry in entries if entry.takes_argument and entry.fold() in self.kinds)

    def follows(self, aggregate: str) -> bool:
        """Whether the answers of an aggregate are a component that it compares."""
        return aggregate in CATALOGUE and CATALOGUE[aggregate].fold() in self.kinds

    def goes_up(self, comparison: str) -> bool:
        """Whether few keys are expected to pass: those above a threshold, for MIN those below it."""
        return comparison.startswith(">") != (self.kinds == {Kind.MIN})

    def lookup_cost(self, comparison: str, shape: FilterShape) -> float:
        """What a lookup costs."""
        return (self.lookup_up if self.goes_up(comparison) else self.lookup_down).of(shape)

    def why_not(self, aggregate: str, *, doubles: bool = False, least: float | None = None) -> str | None:
        """Why the filter cannot serve an aggregate over values of a kind; None when it can.

        `least` is the least value that can occur, None when that is not known.
        """
        name = aggregate.upper()
        if not self.follows(name):
            return f"{self.name} compares {' and '.join(sorted(self.aggregates))}, not {name}"
        if CATALOGUE[name].only_counts:
            return None
        if doubles and not self.takes_doubles:
            return f"{self.name} takes integers, and the values are doubles"
        if not self.takes_any_sign and (least is None or least <= 0):
            known = "may be zero or negative" if least is None else f"go down to {least:g}"
            return f"{self.name} takes values above zero, and the values {known}"
        return None
