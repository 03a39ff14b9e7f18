"""Data sheets: what each structure can do and what it costs, as the planner, the tests and the docs read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from panewise.aggregates.catalogue import CATALOGUE, Making, Reading
from panewise.aggregates.components import Kind
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.cost import Cost as Cost
from panewise.cost import Sheet, log2


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


_NUMBERS = (Type.BIGINT, Type.DOUBLE)
SUBTRACTABLE = frozenset(kind for kind in Kind if kind.is_subtractable)
FIXED_SIZE = frozenset(kind for kind in Kind if kind.words and not kind.is_joined)
SKETCHES = frozenset(kind for kind in Kind if kind.is_sketch and not kind.is_kept)
EVERY_KIND = FIXED_SIZE | {Kind.VALUES}
"""The components that lie in plain arrays."""


@dataclass(frozen=True)
class DataSheet(Sheet):
    """The abilities and costs of a structure."""

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
    makings: frozenset[Making] = frozenset(Making)
    """What it can make of the components."""
    is_rival: bool = False
    """Whether a paper only compares with it: then it serves where it is named, and is never chosen."""
    update_weight: float = 1.0
    """How many combines of a lookup one combine of an update counts as."""
    readings: Mapping[Reading, Cost[Shape]] = field(default_factory=dict)
    """Combines an answer that is read from values, where it is not what `answer_steps` says of any structure."""
    held_twice: frozenset[Kind] = frozenset()
    """The components whose elements lie beside what is made of them."""

    def work_per_s(self, aggregate: str, shape: Shape, updates_per_s: float, answers_per_s: float) -> float:
        """What it costs a second, in combines of two elements, for its updates and the answers of an aggregate."""
        if CATALOGUE[aggregate].only_counts:
            # Counts are differences of positions.
            return 0.0
        updates = updates_per_s * self.update_weight * self.update.of(shape)
        return updates + answers_per_s * self.answer_steps(aggregate, shape)

    def answer_steps(self, aggregate: str, shape: Shape) -> float:
        """Combines an answer. To tell values apart, they are sorted at the lookup."""
        reading = CATALOGUE[aggregate].reading
        if reading is None:
            return self.lookup.of(shape)
        if reading in self.readings:
            return self.readings[reading].of(shape)
        return self.lookup.of(shape) if reading is Reading.RANK else shape.width * log2(shape.width)

    def element_bytes(self, bytes_of: Mapping[Kind, int]) -> int:
        """What it keeps of an element, if its components take so many bytes each."""
        return sum(size * (1 + (kind in self.held_twice)) for kind, size in bytes_of.items())

    def why_not(self, aggregate: str | UserAggregate, type: Type | None = None) -> str | None:
        """Why the structure cannot serve an aggregate of values of a type, or of all types; None when it can."""
        if isinstance(aggregate, UserAggregate):
            if not self.takes_user_aggregates:
                return f"{self.name} takes no user-defined aggregate"
            if self.needs_inverse and aggregate.inverse is None:
                return f"{self.name} subtracts, and {aggregate.name} has no inverse"
            return None
        entry = CATALOGUE[aggregate]
        if entry.making not in self.makings:
            return f"{self.name} folds, and cannot make {aggregate} of what it holds"
        numbers = [one for one in _NUMBERS if one in entry.types]
        for one in numbers if type is None else [type]:
            missing = set(entry.kinds(one)) - self.kinds
            if missing:
                what = ", ".join(sorted(kind.value for kind in missing))
                some = f" of {one}" if any(self.kinds.issuperset(entry.kinds(other)) for other in numbers) else ""
                return f"{self.name} cannot hold the {what} that {aggregate}{some} is made of"
        return None

    def served_types(self, aggregate: str | UserAggregate) -> tuple[Type, ...]:
        """The types of numbers of which it serves an aggregate."""
        types = _NUMBERS if isinstance(aggregate, UserAggregate) else CATALOGUE[aggregate].types
        return tuple(type for type in _NUMBERS if type in types and self.why_not(aggregate, type) is None)


def _served(sheet: DataSheet, aggregate: str) -> str:
    """The name of an aggregate that is served, and of which type where it is not of all."""
    types = sheet.served_types(aggregate)
    if sheet.why_not(aggregate) is None or not types:
        return aggregate if types else ""
    return f"{aggregate} of {types[0]}"


def sheets_table(sheets: Iterable[DataSheet]) -> str:
    """The data sheets as a Markdown table."""
    rows = [
        "| name | algorithm | source | aggregates | user-defined | lookups | update | lookup | space |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for sheet in sheets:
        served = ", ".join(filter(None, (_served(sheet, name) for name in CATALOGUE)))
        users = "with an inverse" if sheet.needs_inverse else "yes"
        rows.append(
            f"| `{sheet.name}` | {sheet.title} | {sheet.source} | {served} | "
            f"{users if sheet.takes_user_aggregates else 'no'} | {sheet.lookups.value} | "
            f"{sheet.update.formula} | {sheet.lookup.formula} | {sheet.space.formula} |"
        )
    return "\n".join(rows)


class Described:
    """What a structure says of itself."""

    sheet: ClassVar[DataSheet]
    _type: Type | None

    @property
    def name(self) -> str:
        """The name under which `build` finds it."""
        return self.sheet.name

    @property
    def type(self) -> Type | None:
        """The type of the values; None until it is given or the first values come."""
        return self._type
