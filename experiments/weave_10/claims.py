"""What the paper claims about Figure 10."""

from __future__ import annotations

from experiments.claims import Claim, least, steps, worst
from experiments.plan_costs import normalized
from experiments.tables import Table


def _costs(table: Table, queries: int) -> list[float]:
    return [normalized(table, queries=queries, skew=skew) for skew in table.distinct("skew")]


def _best_to_first(table: Table) -> float:
    every = (_costs(table, size) for size in table.distinct("queries"))
    return worst([min(costs) / costs[0] for costs in every])


def _after_best(table: Table) -> float:
    every = (_costs(table, size) for size in table.distinct("queries"))
    return least([costs[-1] / min(costs) for costs in every])


CLAIMS = (
    Claim(
        "the gain first grows with the skew, for every number of queries",
        "normalized cost at the best skew to that without skew, the worst",
        _best_to_first,
        at_most=0.99,
    ),
    Claim(
        "beyond its maximum the gain diminishes, for every number of queries",
        "normalized cost at the greatest skew to that at the best, the least",
        _after_best,
        at_least=1.01,
    ),
    Claim(
        "at a very high skew Weave Share does as Shared does",
        "Weave Share to Shared at the greatest skew, the least",
        lambda table: least([_costs(table, size)[-1] for size in table.distinct("queries")]),
        at_least=0.95,
    ),
    Claim(
        "the more queries, the larger the greatest gain",
        "least normalized cost for a number of queries to that for the number before, the worst",
        lambda table: worst(steps([min(_costs(table, size)) for size in table.distinct("queries")])),
        at_most=1,
    ),
)
