"""Substream filters in plain Python: keeps every event, folds every key at every lookup. Shares nothing with
Panewise.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from dataclasses import dataclass, field

COMPARE = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
FOLD = {"COUNT": len, "SUM": sum, "MAX": max, "MIN": min}


@dataclass
class Plain:
    aggregate: str
    events: list = field(default_factory=list)

    def update(self, key, value, time):
        self.events.append((key, value, time))

    def aggregates(self, now, range_us):
        """The aggregate of each key with an event in (now - range_us, now]."""
        values = defaultdict(list)
        for key, value, time in self.events:
            if now - range_us < time <= now:
                values[key].append(value)
        return {key: FOLD[self.aggregate](held) for key, held in values.items()}

    def lookup(self, now, range_us, comparison, threshold):
        found = self.aggregates(now, range_us)
        return {key for key, value in found.items() if COMPARE[comparison](value, threshold)}
