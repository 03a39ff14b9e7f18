"""Windows of basic windows in plain Python: keeps every tuple, answers from them. Shares nothing with Panewise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction


def sort_key(value):
    """NaN after every number; strings by their UTF-8 bytes."""
    if isinstance(value, str):
        return value.encode()
    return (1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def plain(value):
    """One form for equal values: NaN is NaN, and -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


class PlainWindow:
    def __init__(self, basic_windows):
        self.basic_windows = basic_windows
        self.attached = []
        self.filling = []
        self.rows = 0

    def append(self, values):
        for value in values:
            self.filling.append((value, self.rows))
            self.rows += 1

    def attach(self, count=1):
        for _ in range(count):
            self.attached = [*self.attached, self.filling][-self.basic_windows :]
            self.filling = []

    def tuples(self):
        return [pair for basic_window in self.attached for pair in basic_window]

    def values(self):
        return [value for value, _ in self.tuples()]

    def histogram(self):
        """Pairs of a value and its count, by value."""
        counts = Counter(plain(value) for value in self.values())
        shown = {plain(value): value for value in self.values()}
        return [(value, counts[value]) for value in sorted(counts, key=lambda value: sort_key(shown[value]))]

    def at(self, position):
        ordered = sorted(self.values(), key=sort_key)
        return plain(ordered[position - 1]) if ordered else None

    def quantile(self, phi):
        return self.at(max(1, math.floor(Fraction(str(phi)) * len(self.values()))))

    def median(self):
        return self.at(math.ceil(len(self.values()) / 2))

    def top(self):
        """Pairs of a value and its count, the most frequent first, ties by value."""
        return sorted(self.histogram(), key=lambda pair: -pair[1])

    def sorted_rows(self, descending=False):
        ordered = sorted(self.tuples(), key=lambda pair: sort_key(pair[0]), reverse=descending)
        return [row for _, row in ordered]

    def probe(self, keys, including_filling=False):
        held = self.tuples() + (self.filling if including_filling else [])
        return [(i, row) for i, key in enumerate(keys) for value, row in held if plain(value) == plain(key)]
