"""What the paper claims about Figure 6."""

from __future__ import annotations

from experiments.claims import Claim, steps, worst
from experiments.plan_claims import SLACK
from experiments.plan_costs import normalized
from experiments.tables import Table


def _growth(table: Table) -> float:
    sizes = table.distinct("queries")
    by_rate = ([normalized(table, queries=size, rate=rate) for size in sizes] for rate in table.distinct("rate"))
    return worst([step for costs in by_rate for step in steps(costs)])


CLAIMS = (
    Claim(
        "the gain over Shared grows with the number of queries at every rate",
        "normalized cost at a number of queries to that at the number before, the worst",
        _growth,
        at_most=SLACK,
    ),
    Claim(
        "at 10,000 events/s and few queries Weave Share does as Shared does",
        "Weave Share to Shared at the least number of queries",
        lambda table: normalized(table, queries=table.distinct("queries")[0], rate=10_000),
        at_least=1 / SLACK,
        at_most=SLACK,
    ),
    Claim(
        "at 10,000 events/s and 1,000 queries Weave Share costs 62 % less than Shared",
        "Weave Share to Shared",
        lambda table: normalized(table, queries=1000, rate=10_000),
        at_least=0.28,
        at_most=0.48,
    ),
    Claim(
        "even at 10,000 events/s and 1,000 queries Weave Share is better than Shared",
        "Weave Share to Shared",
        lambda table: normalized(table, queries=1000, rate=10_000),
        at_most=0.99,
    ),
)
