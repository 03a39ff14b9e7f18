"""Partitions of windows by width, for landmark intervals: which landmarks there are, and how far back.

Windows from 2**level to less than twice as wide share landmarks at the multiples of 2**level. A level without windows
has no partition. Source: Arasu and Widom, VLDB 2004, section 3.1.2.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """Windows from 2**level to less than twice as wide, which begin up to `left` and end up to `right` back."""

    level: int
    left: int
    right: int

    @property
    def suffixes(self) -> int:
        """How many suffixes it holds: whole blocks, from the first position of any window."""
        return -(-self.left >> self.level) << self.level

    @property
    def prefixes(self) -> int:
        """How many prefixes it holds: from the end of any window, and a block more."""
        return (-(-(self.right + 1) >> self.level) + 1) << self.level


def partitions_of(windows: list[tuple[int, int]]) -> list[Partition]:
    """The partitions of some windows, the narrowest first.

    >>> partitions_of([(2000, 0), (1500, 500), (90, 0)])
    [Partition(level=6, left=90, right=0), Partition(level=9, left=1500, right=500), \
Partition(level=10, left=2000, right=0)]
    """
    partitions: dict[int, Partition] = {}
    for left, right in windows:
        level = (left - right).bit_length() - 1
        known = partitions.get(level, Partition(level, 0, 0))
        partitions[level] = Partition(level, max(known.left, left), max(known.right, right))
    return [partitions[level] for level in sorted(partitions)]


def every_width(elements: int) -> list[tuple[int, int]]:
    """Windows whose partitions serve every width up to this many elements."""
    if elements <= 1:
        return []
    return [(elements, elements - (1 << bit)) for bit in range(elements.bit_length())]
