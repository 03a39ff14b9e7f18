"""What the paper claims about Figure 8."""

from __future__ import annotations

from experiments.claims import Claim, least, steps
from experiments.plan_claims import SLACK
from experiments.plan_costs import normalized
from experiments.tables import Table

NEAR = 0.1
"""A printed percentage is met if the ratio is this near to it."""


def _with_rates(table: Table) -> float:
    weave = table.where(method="weave_share")
    rates = weave.distinct("rate")
    by_size = ([normalized(table, queries=size, rate=rate) for rate in rates] for size in weave.distinct("queries"))
    return least([step for costs in by_size for step in steps(costs)])


def _rivals(table: Table) -> float:
    others = table.where(queries=1000, rate=10_000)
    best = least([row["cost"] for row in others.rows if row["method"] != "weave_share"])
    return best / table.mean("cost", method="weave_share", queries=1000, rate=10_000)


def _gain(percent: int, queries: int, rate: int) -> Claim:
    ratio = 1 - percent / 100
    return Claim(
        f"for {queries:,} queries at {rate:,} events/s Weave Share costs {percent} % less than Shared",
        "Weave Share to Shared",
        lambda table: normalized(table, queries=queries, rate=rate),
        at_least=ratio - NEAR,
        at_most=min(ratio + NEAR, 0.99),
    )


CLAIMS = (
    Claim(
        "Weave Share comes nearer to Shared as the rate grows",
        "normalized cost at a rate to that at the rate before, the least",
        _with_rates,
        at_least=1 / SLACK,
    ),
    _gain(80, 250, 50),
    _gain(24, 250, 2000),
    _gain(6, 250, 3000),
    _gain(12, 1000, 10_000),
    _gain(24, 2000, 10_000),
    Claim(
        "at 10,000 events/s Weave Share costs 100 times less than the best of the methods but Shared, 1,000 queries",
        "the best of them to Weave Share",
        _rivals,
        at_least=100,
    ),
)
