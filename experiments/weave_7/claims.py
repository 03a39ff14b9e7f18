"""What the paper claims about Figure 7."""

from __future__ import annotations

from experiments.claims import Claim, least, steps, worst
from experiments.tables import Table


def _trees(table: Table, queries: int, rate: float) -> float:
    return table.mean("trees", method="weave_share", queries=queries, rate=rate)


def _with_queries(table: Table) -> float:
    sizes = table.distinct("queries")
    by_rate = ([_trees(table, size, rate) for size in sizes] for rate in table.distinct("rate"))
    return least([step for trees in by_rate for step in steps(trees)])


def _with_rates(table: Table) -> float:
    rates = table.distinct("rate")
    by_size = ([_trees(table, size, rate) for rate in rates] for size in table.distinct("queries"))
    return worst([step for trees in by_size for step in steps(trees)])


def _at_high_rate(table: Table) -> float:
    return least([_trees(table, size, 10_000) for size in table.distinct("queries") if size > 100])


CLAIMS = (
    Claim(
        "there are more trees for more queries",
        "trees at a number of queries to those at the number before, the least",
        _with_queries,
        at_least=1,
    ),
    Claim(
        "there are fewer trees at higher rates",
        "trees at a rate to those at the rate before, the greatest",
        _with_rates,
        at_most=1,
    ),
    Claim(
        "at 10,000 events/s there is more than one tree for more than 100 queries",
        "the least number of trees to one",
        _at_high_rate,
        at_least=1.5,
    ),
)
