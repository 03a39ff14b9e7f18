"""What the paper claims about Figure 9."""

from __future__ import annotations

from experiments.claims import Claim, least, steps, worst
from experiments.plan_claims import SLACK
from experiments.plan_costs import normalized
from experiments.tables import Table

RATE = 100_000


def _growth(table: Table) -> float:
    overlaps = table.distinct("overlap")
    by_rate = ([normalized(table, overlap=each, rate=rate) for each in overlaps] for rate in table.distinct("rate"))
    return worst([step for costs in by_rate for step in steps(costs)])


def _at(table: Table, overlaps: list[float]) -> list[float]:
    return [normalized(table, overlap=each, rate=RATE) for each in overlaps]


def _trees(table: Table) -> float:
    return worst([table.mean("trees", overlap=each, rate=RATE) for each in table.distinct("overlap") if each < 200])


CLAIMS = (
    Claim(
        "the gain over Shared grows with the greatest overlap at every rate",
        "normalized cost at an overlap to that at the overlap before, the worst",
        _growth,
        at_most=SLACK,
    ),
    Claim(
        "at 100,000 events/s there is a single tree below an overlap of 200",
        "the greatest number of trees to one",
        _trees,
        at_most=1,
    ),
    Claim(
        "at 100,000 events/s and an overlap beyond 200 Weave Share costs at least 19 % less than Shared",
        "Weave Share to Shared, the greatest",
        lambda table: worst(_at(table, [each for each in table.distinct("overlap") if each > 200])),
        at_most=0.81,
    ),
    Claim(
        "at 100,000 events/s and an overlap of 2,000 Weave Share costs 74 % less than Shared",
        "Weave Share to Shared",
        lambda table: least(_at(table, [2000])),
        at_least=0.16,
        at_most=0.36,
    ),
)
