"""Claims that several figures of the sharing paper share."""

from __future__ import annotations

from functools import partial

from experiments.claims import Claim, least, worst
from experiments.plan_costs import RIVALS
from experiments.tables import Table

SLACK = 1 + 1e-9
"""Equal costs may differ in their last digits."""


def cost(table: Table, method: str, queries: int) -> float:
    """The mean cost of a method's plan."""
    return table.mean("cost", part=None, method=method, queries=queries)


def rivals(table: Table, queries: int) -> dict[str, float]:
    """What the plans of the other methods cost."""
    return {name: cost(table, name, queries) for name in RIVALS if table.has(part=None, method=name, queries=queries)}


def _to_best(table: Table) -> float:
    sizes = table.where(part=None).distinct("queries")
    return worst([cost(table, "weave_share", size) / min(rivals(table, size).values()) for size in sizes])


def _dearest(table: Table) -> float:
    ratios = []
    for size in table.where(part=None).distinct("queries"):
        others = {**rivals(table, size), "weave_share": cost(table, "weave_share", size)}
        two = min(others.pop("no_share"), others.pop("random", float("inf")))
        ratios.append(two / max(others.values()))
    return least(ratios)


def _slower(table: Table) -> float:
    method = "local_search_from_no_share"
    size = table.where(part=None, method=method).distinct("queries")[-1]
    took = [table.mean("seconds", part=None, method=each, queries=size) for each in (method, "weave_share")]
    return took[0] / took[1]


NEVER_WORSE = Claim(
    "Weave Share costs no more than the best other method",
    "Weave Share to the best other, the worst number of queries",
    _to_best,
    at_most=SLACK,
)
DEAREST = Claim(
    "No Share and Random have the most expensive plans",
    "the cheaper of the two to the dearest other, the least",
    _dearest,
    at_least=1,
)
LOCAL_SEARCH_IS_SLOW = Claim(
    "Local Search takes a thousand times as long as Weave Share",
    "seconds of the two, most queries",
    _slower,
    at_least=1000,
)


def _times(table: Table, method: str) -> float:
    return cost(table, method, 1000) / cost(table, "weave_share", 1000)


def orders_of_magnitude(orders: int) -> list[Claim]:
    """By how much Weave Share costs less at 1,000 queries."""
    return [
        Claim(
            f"at 1,000 queries Weave Share costs {orders} orders of magnitude less than {text}",
            f"{text} to Weave Share",
            partial(_times, method=name),
            at_least=10**orders,
        )
        for name, text in (("shared", "Shared"), ("insert_then_weave", "Insert-then-Weave"))
    ]
