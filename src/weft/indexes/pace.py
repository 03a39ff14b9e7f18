"""Whether a query keeps up: re-evaluation every k basic windows, and what falling behind looks like (Indexing, 2.3).

A query that is due and not evaluated before the next basic window is complete is behind. The window goes on sliding,
so nothing is lost but answers; their number and the longest wait are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.indexes.values import IndexingError


@dataclass
class Pace:
    """How often a query is evaluated, against how often it should be.

    >>> pace = Pace(every=2)
    >>> pace.attached(); pace.is_due, pace.behind
    (False, 0)
    >>> pace.attached(4); pace.is_due, pace.behind
    (True, 3)
    >>> pace.evaluated(); pace.is_due, pace.evaluations, pace.missed, pace.longest_wait
    (False, 1, 1, 5)
    """

    every: int = 1
    """k: basic windows from one evaluation to the next."""
    waiting: int = 0
    """Basic windows attached since the last evaluation."""
    evaluations: int = 0
    missed: int = 0
    """Evaluations that should have been, and were not."""
    longest_wait: int = 0
    """The most basic windows between two evaluations."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise IndexingError(f"a query is evaluated every 1 basic window or more, got {self.every}")

    def attached(self, count: int = 1) -> None:
        """So many basic windows have been attached."""
        self.waiting += count
        self.longest_wait = max(self.longest_wait, self.waiting)

    @property
    def is_due(self) -> bool:
        """Whether it is time to evaluate the query."""
        return self.waiting >= self.every

    @property
    def behind(self) -> int:
        """How many basic windows late the query is."""
        return max(0, self.waiting - self.every)

    def evaluated(self) -> None:
        """The query has been evaluated."""
        self.missed += max(0, self.waiting // self.every - 1)
        self.evaluations += 1
        self.waiting = 0

    def statistics(self) -> dict[str, int]:
        """What to show of it."""
        return {
            "every": self.every,
            "waiting": self.waiting,
            "behind": self.behind,
            "evaluations": self.evaluations,
            "missed": self.missed,
            "longest_wait": self.longest_wait,
        }
