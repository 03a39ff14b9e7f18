"""Queries by name, where one change costs the same among any number of them.

A dict of 100,000 names takes milliseconds to copy, and each change of a running workload makes a new one. So large ones
share what they began with: each holds only what went and what came since, until that is much.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from itertools import chain, filterfalse
from typing import TypeVar

V = TypeVar("V")

MOST_CHANGES = 1000
"""With more changes than this, a copy begins anew from a dict of its own."""


class SharingNames(MutableMapping[str, V]):
    """A dict whose copies share a large part. A name that is set anew moves to the end.

    Cost: a copy O(MOST_CHANGES), and O(names) once in so many changes; all else as a dict.
    """

    __slots__ = ("_gone", "_new", "_shared")

    def __init__(self, shared: dict[str, V], gone: set[str], new: dict[str, V]) -> None:
        self._shared = shared
        """Nobody changes this dict."""
        self._gone = gone
        self._new = new

    def copy(self) -> SharingNames[V]:
        """The same names; a change of one is not seen in the other."""
        if len(self._gone) + len(self._new) > MOST_CHANGES:
            return SharingNames(dict(self.items()), set(), {})
        return SharingNames(self._shared, self._gone.copy(), self._new.copy())

    def __getitem__(self, name: str) -> V:
        if name in self._new:
            return self._new[name]
        if name in self._gone:
            raise KeyError(name)
        return self._shared[name]

    def __setitem__(self, name: str, value: V) -> None:
        if name in self._shared:
            self._gone.add(name)
        self._new.pop(name, None)
        self._new[name] = value

    def __delitem__(self, name: str) -> None:
        if name in self._new:
            del self._new[name]
        elif name in self._shared and name not in self._gone:
            self._gone.add(name)
        else:
            raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._new or (name in self._shared and name not in self._gone)

    def __iter__(self) -> Iterator[str]:
        return chain(filterfalse(self._gone.__contains__, self._shared), self._new)

    def __len__(self) -> int:
        return len(self._shared) - len(self._gone) + len(self._new)

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def copy_of(names: Mapping[str, V]) -> MutableMapping[str, V]:
    """A copy that may change; large ones share what does not."""
    if isinstance(names, SharingNames):
        return names.copy()
    # After removals, `dict` is ten times slower than `copy`.
    made = names.copy() if isinstance(names, dict) else dict(names)
    return made if len(made) <= MOST_CHANGES else SharingNames(made, set(), {})
