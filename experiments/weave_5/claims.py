"""What the paper claims about Figure 5."""

from __future__ import annotations

from experiments.claims import Claim, least
from experiments.plan_claims import DEAREST, NEVER_WORSE, SLACK, cost, orders_of_magnitude
from experiments.tables import Table


def _worse_than_shared(table: Table) -> float:
    both = [cost(table, name, 1000) for name in ("local_search_from_no_share", "insert_then_weave")]
    return least(both) / cost(table, "shared", 1000)


CLAIMS = (
    NEVER_WORSE,
    *orders_of_magnitude(4),
    DEAREST,
    Claim(
        "Shared is no worse than Local Search and Insert-then-Weave at 1,000 queries",
        "the cheaper of the two to Shared",
        _worse_than_shared,
        at_least=1 / SLACK,
    ),
)
