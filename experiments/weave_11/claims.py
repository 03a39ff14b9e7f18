"""What the paper claims about Figure 11."""

from __future__ import annotations

from math import inf

from experiments.claims import Claim, steps, worst
from experiments.tables import Table


def _overheads(table: Table) -> list[float]:
    return [table.mean("comparisons", tolerance=each) for each in table.distinct("tolerance")]


def _error(table: Table, tolerance: float) -> float:
    return table.mean("mean_error", tolerance=tolerance)


def _to_tolerance(table: Table) -> float:
    finite = [each for each in table.distinct("tolerance") if 0 < each < inf]
    return worst([_error(table, each) / each for each in finite])


CLAIMS = (
    Claim(
        "the overhead falls as the tolerance grows",
        "comparisons at a tolerance to those at the one before, the worst",
        lambda table: worst(steps(_overheads(table))),
        at_most=1,
    ),
    Claim(
        "the error grows with the tolerance: without reconstruction it is greater than at the least tolerance",
        "1 + mean error without reconstruction to 1 + mean error at the least tolerance",
        lambda table: (1 + _error(table, inf)) / (1 + _error(table, table.distinct("tolerance")[0])),
        at_least=1.0001,
    ),
    Claim(
        "the mean error never exceeds the tolerance",
        "mean error to tolerance, the worst",
        _to_tolerance,
        at_most=1,
    ),
    Claim(
        "a tolerance of 20 % saves nearly all of the overhead of reconstructing at every addition",
        "comparisons at 20 % to those at 0 %",
        lambda table: table.mean("comparisons", tolerance=0.2) / table.mean("comparisons", tolerance=0.0),
        at_most=0.25,
    ),
)
