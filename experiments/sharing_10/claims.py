"""What the paper claims about Figure 10."""

from __future__ import annotations

from experiments.claims import Claim, least, worst
from experiments.structure_rates import NAMES
from experiments.tables import Table

MILLION = 1e6


def _least_rate(table: Table, structure: str) -> float:
    return least([row["updates_per_s"] for row in table.where(structure=structure).rows])


def _order(table: Table, fast: str, slow: str) -> float:
    sizes = table.distinct("largest")
    rates = [[table.mean("updates_per_s", structure=name, largest=size) for size in sizes] for name in (fast, slow)]
    return least([one / other for one, other in zip(*rates)])


def _spread(table: Table) -> float:
    rates = [row["updates_per_s"] for row in table.rows]
    return worst(rates) / least(rates)


def _millions(structure: str) -> Claim:
    return Claim(
        f"{NAMES[structure]} takes a million updates a second and more, whatever the largest window",
        "its least rate to a million a second",
        lambda table: _least_rate(table, structure) / MILLION,
        at_least=1,
    )


def _flat(structure: str) -> Claim:
    return Claim(
        f"section 3: the update rate of {NAMES[structure]} hardly depends on the largest window",
        "its greatest rate to its least",
        lambda table: _spread(table.where(structure=structure)),
        at_most=10,
    )


CLAIMS = (
    _millions("running_intervals"),
    _millions("base_intervals"),
    _flat("running_intervals"),
    _flat("base_intervals"),
    Claim(
        "B-INT-QNT has the lowest update rate of the three",
        "rate of B-INT to rate of B-INT-QNT, the least",
        lambda table: _order(table, "base_intervals", "sorted_base_intervals"),
        at_least=1,
    ),
)
