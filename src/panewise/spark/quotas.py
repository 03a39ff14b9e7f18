"""Quotas: how much the statements of a control stream may ask of a job.

Whoever may write to the control stream decides what the job computes and holds. Quotas bound that. A statement that
would exceed one is refused like any other that cannot run, with the reason. What a job begins with is not refused, but
counts. Quotas may change at each start.
"""

from __future__ import annotations

from dataclasses import dataclass

from panewise.errors import QuotaError
from panewise.language.literals import print_duration
from panewise.language.model import Query
from panewise.language.workload import Workload
from panewise.windows import RowWindow, is_unbounded


@dataclass(frozen=True)
class Quotas:
    """The most that a job may come to by statements of its control stream; None is without a bound.

    - `queries`: all queries of the job together.
    - `range_us`: how far back a time window may reach.
    - `rows`: how many rows back a window over rows may reach.
    - `slots`: the state. How many slots are held for each key, over all that is pre-aggregated separately.
    """

    queries: int | None = None
    range_us: int | None = None
    rows: int | None = None
    slots: int | None = None

    def check(self, before: Workload, after: Workload) -> None:
        """Raise if queries that a statement adds exceed a quota. A statement that only drops some never does."""
        added = added_queries(before, after)
        for query in added:
            self._check_window(query)
        if added and self.queries is not None and len(after.queries) > self.queries:
            raise QuotaError(
                f"the job would have {len(after.queries):,} queries, and its quota is {self.queries:,}; drop some "
                f"first, or raise the quota and start the job again"
            )

    def check_slots(self, slots: int) -> None:
        """Raise if a job would hold more slots for each key than it may."""
        if self.slots is not None and slots > self.slots:
            raise QuotaError(
                f"the job would hold {slots:,} slots for each key, and its quota is {self.slots:,}; ask for a shorter "
                f"range, or for what other queries hold already, or raise the quota and start the job again"
            )

    def _check_window(self, query: Query) -> None:
        window = query.window
        if not isinstance(window, RowWindow):
            if self.range_us is not None and is_unbounded(window):
                raise QuotaError(
                    f"query {query.name} goes back to the start, and the job's quota is "
                    f"{print_duration(self.range_us)}; ask for a range"
                )
            if self.range_us is not None and window.left_us > self.range_us:
                raise QuotaError(
                    f"query {query.name} reaches {print_duration(window.left_us)} back, and the job's quota is "
                    f"{print_duration(self.range_us)}; ask for a shorter range"
                )
        elif self.rows is not None and window.left > self.rows:
            raise QuotaError(
                f"query {query.name} reaches {window.left:,} rows back, and the job's quota is {self.rows:,}; ask for "
                f"fewer"
            )


def added_queries(before: Workload, after: Workload) -> list[Query]:
    """The queries that are new, or that took the place of others of the same name."""
    return [query for query in after.queries.values() if before.queries.get(query.name) is not query]
