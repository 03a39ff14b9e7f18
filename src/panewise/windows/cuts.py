"""Cuts: where the fragments of an execution tree begin, given the edges of its windows.

An edge repeats: it is a residue modulo a period. A slot belongs to the fragment that begins at the last edge at or
before it. That edge is the latest of one candidate per (period, residue), so nothing is written out up to the least
common multiple of the periods, which may be very long. Everything is counted in slots.

A fragment is named by the slot at which it begins. A window opens and closes at edges of its tree, so it covers a
fragment exactly when it covers the fragment's first slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from panewise.arrays import Ints
from panewise.windows.periodic import PeriodicSet, exact_union_rate, union_bounds, without_covered

DENSE = 4
"""If the slots from the first to the last are at most this many times the requested ones, all are looked at."""


@dataclass(frozen=True)
class Cuts:
    """The edges of a tree as pairs of period and residue, none of which is implied by another."""

    edges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, windows: Iterable[Sequence[int]]) -> Cuts:
        """The edges of windows given by range, slide and offset, which may be left out.

        Cost: different slides squared, in one array operation each.

        >>> Cuts.of([(12, 9), (10, 6), (6, 3)])
        Cuts(edges=((3, 0), (6, 4)))
        """
        table: dict[int, set[int]] = defaultdict(set)
        for window in windows:
            for period, residue in _edges(window):
                table[period].add(residue)
        kept = without_covered(table)
        return cls(tuple((period, residue) for period in sorted(kept) for residue in sorted(kept[period])))

    @property
    def is_every_slot(self) -> bool:
        """Whether each slot is a fragment of its own."""
        return self.edges == ((1, 0),)

    @cached_property
    def rate(self) -> float:
        """Fragments per slot, exact if the edges can be counted, otherwise the middle of two bounds.

        >>> round(Cuts.of([(12, 9), (10, 6)]).rate, 2)
        0.44
        """
        sets = [PeriodicSet(period, (residue,)) for period, residue in self.edges]
        exact = exact_union_rate(sets)
        if exact is not None:
            return float(exact)
        bounds = union_bounds(sets)
        return float(bounds.lower + bounds.upper) / 2

    def starts(self, slots: Ints) -> Ints:
        """The first slot of the fragment of each slot. Cost: O(slots from the first to the last x edges), or a sort.

        >>> Cuts.of([(12, 9), (10, 6)]).starts(np.arange(13)).tolist()
        [0, 0, 0, 3, 4, 4, 6, 6, 6, 9, 10, 10, 12]
        """
        if self.is_every_slot or not len(slots):
            return slots
        lowest, highest = int(slots.min()), int(slots.max())
        if highest - lowest <= DENSE * len(slots):
            different, places = np.arange(lowest, highest + 1), slots - lowest
        else:
            different, places = np.unique(slots, return_inverse=True)
        starts = np.full(len(different), np.iinfo(np.int64).min)
        for period, residue in self.edges:
            np.maximum(starts, different - (different - residue) % period, out=starts)
        return starts[places]

    def holds(self, windows: Iterable[Sequence[int]]) -> bool:
        """Whether every edge of some windows is known to be an edge here."""
        wanted = {edge for window in windows for edge in _edges(window)}
        return all(any(_implies(finer, edge) for finer in self.edges) for edge in wanted)


EVERY_SLOT = Cuts(((1, 0),))
"""Each slot is a fragment."""


def _edges(window: Sequence[int]) -> set[tuple[int, int]]:
    """The edges of a window, given by range, slide and maybe offset, as pairs of period and residue."""
    length, slide, offset = (*window, 0)[:3]
    return {(slide, offset % slide), (slide, (offset + length) % slide)}


def _implies(finer: tuple[int, int], edge: tuple[int, int]) -> bool:
    """Whether one edge includes all instants of another."""
    return edge[0] % finer[0] == 0 and (edge[1] - finer[1]) % finer[0] == 0
