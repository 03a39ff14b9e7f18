"""Data sheets: what each structure can do and what it costs, as the planner, the tests and the docs read it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.components import Kind
from weft.aggregates.types import Type
from weft.aggregates.user import UserAggregate
from weft.cost import Cost as Cost


class Lookups(Enum):
    """Which windows a structure answers."""

    ANY = "any window within the largest"
    WIDTHS = "widths close to those of its windows"
    REGISTERED = "its own windows"


@dataclass(frozen=True)
class Shape:
    """What a cost depends on: the largest window, the width looked up, the number of windows."""

    largest: int
    width: int
    windows: int = 1


SUMS = frozenset({Kind.ROWS, Kind.COUNT, Kind.SUM_INT, Kind.SUM_FLOAT, Kind.SQUARES})
FIXED_SIZE = SUMS | {Kind.MIN, Kind.MAX}
SKETCHES = frozenset(kind for kind in Kind if kind.is_sketch)
EVERY_KIND = FIXED_SIZE | {Kind.VALUES}
"""All that lies in plain arrays."""


@dataclass(frozen=True)
class DataSheet:
    """The abilities and costs of a structure."""

    name: str
    title: str
    source: str
    kinds: frozenset[Kind]
    """The components that it folds."""
    needs_inverse: bool
    """Whether a user-defined aggregate must have an inverse."""
    lookups: Lookups
    update: Cost[Shape]
    """Combines an element."""
    lookup: Cost[Shape]
    """Combines an answer."""
    space: Cost[Shape]
    """Elements held."""
    takes_user_aggregates: bool = True
    is_exact: bool = True

    def why_not(self, aggregate: str | UserAggregate) -> str | None:
        """Why the structure cannot serve an aggregate; None when it can."""
        if isinstance(aggregate, UserAggregate):
            if not self.takes_user_aggregates:
                return f"{self.name} takes no user-defined aggregate"
            if self.needs_inverse and aggregate.inverse is None:
                return f"{self.name} subtracts, and {aggregate.name} has no inverse"
            return None
        entry = CATALOGUE[aggregate]
        kinds = set(entry.kinds(Type.DOUBLE if Type.DOUBLE in entry.types else Type.BIGINT))
        missing = kinds - self.kinds
        if not missing:
            return None
        what = ", ".join(sorted(kind.value for kind in missing))
        return f"{self.name} cannot hold the {what} that {aggregate} is made of"


def sheets_table(sheets: Iterable[DataSheet]) -> str:
    """The data sheets as a Markdown table."""
    rows = [
        "| name | algorithm | source | aggregates | user-defined | lookups | update | lookup | space |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for sheet in sheets:
        served = ", ".join(name for name in CATALOGUE if sheet.why_not(name) is None)
        users = "with an inverse" if sheet.needs_inverse else "yes"
        rows.append(
            f"| `{sheet.name}` | {sheet.title} | {sheet.source} | {served} | "
            f"{users if sheet.takes_user_aggregates else 'no'} | {sheet.lookups.value} | "
            f"{sheet.update.formula} | {sheet.lookup.formula} | {sheet.space.formula} |"
        )
    return "\n".join(rows)
