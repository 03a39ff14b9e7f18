"""What the paper claims about Figure 11."""

from __future__ import annotations

from experiments.claims import Claim, least
from experiments.tables import Table


def _rates(table: Table, structure: str) -> list[float]:
    widths = table.distinct("width")
    return [table.mean("lookups_per_s", structure=structure, width=width) for width in widths]


def _order(table: Table, fast: str, slow: str) -> float:
    return least([one / other for one, other in zip(_rates(table, fast), _rates(table, slow))])


CLAIMS = (
    Claim(
        "R-INT answers 10 million lookups a second",
        "its least rate to 10 million a second",
        lambda table: least(_rates(table, "running_intervals")) / 1e7,
        at_least=1,
    ),
    Claim(
        "the lookup rate of R-INT does not depend on the window (within a factor of 3)",
        "its greatest rate to its least",
        lambda table: max(_rates(table, "running_intervals")) / least(_rates(table, "running_intervals")),
        at_most=3,
    ),
    Claim(
        "B-INT-QNT answers 22,000 lookups a second at the largest window",
        "its rate to 22,000 a second",
        lambda table: _rates(table, "sorted_base_intervals")[-1] / 22_000,
        at_least=1,
    ),
    Claim(
        "R-INT answers faster than B-INT at every window",
        "rate of R-INT to rate of B-INT, the least",
        lambda table: _order(table, "running_intervals", "base_intervals"),
        at_least=1,
    ),
    Claim(
        "B-INT answers faster than B-INT-QNT at every window",
        "rate of B-INT to rate of B-INT-QNT, the least",
        lambda table: _order(table, "base_intervals", "sorted_base_intervals"),
        at_least=1,
    ),
)
