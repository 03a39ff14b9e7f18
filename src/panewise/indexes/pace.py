"""Whether a query keeps up: re-evaluation every k basic windows, and what falling behind looks like (Indexing, 2.3).

A query is behind if it is due and not evaluated before the next basic window is complete. The window goes on sliding,
so only answers are lost; their number and the longest wait are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.errors import IndexingError


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
    """Evaluations that were due but never happened."""
    longest_wait: int = 0
    """The most basic windows between two evaluations."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise IndexingError(f"every must be at least 1 basic window, got {self.every}")

    def attached(self, count: int = 1) -> None:
        """Say that `count` basic windows were attached."""
        self.waiting += count
        self.longest_wait = max(self.longest_wait, self.waiting)

    @property
    def is_due(self) -> bool:
        """Whether it is time to evaluate the query."""
        return self.waiting >= self.every

    @property
    def behind(self) -> int:
        """By how many basic windows the query is late."""
        return max(0, self.waiting - self.every)

    def evaluated(self, count: int = 1) -> None:
        """The query was evaluated; more than once where windows that show the same are answered together."""
        self.missed += max(0, self.waiting // self.every - 1)
        self.evaluations += count
        self.waiting = 0

    def statistics(self) -> dict[str, int]:
        """The numbers to show to a user."""
        return {
            "every": self.every,
            "waiting": self.waiting,
            "behind": self.behind,
            "evaluations": self.evaluations,
            "missed": self.missed,
            "longest_wait": self.longest_wait,
        }
