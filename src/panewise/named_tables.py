"""Tables by names that are known before the tables are made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from panewise.errors import UnknownNameError
from panewise.notebook import names

T = TypeVar("T")


class NamedTables(Mapping[str, T]):
    """What answers have by name; `kind` says what the names are of."""

    def __init__(self, kind: str, known: Collection[str]) -> None:
        self._kind, self._known = kind, known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __repr__(self) -> str:
        return f"Tables({names(self._known)})"

    def _check(self, name: str) -> None:
        if name not in self._known:
            raise UnknownNameError(f"no {self._kind} named {name!r} is here; there are: {names(self._known) or 'none'}")
