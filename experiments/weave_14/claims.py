"""What the paper claims about Figure 14."""

from __future__ import annotations

from math import sqrt

from experiments.claims import Claim
from experiments.tables import Table

ABOUT_TEN = 10 / sqrt(10), 10 * sqrt(10)
"""Between half an order of magnitude and one and a half."""


def _saving(table: Table, before: int, after: int) -> float:
    size = table.distinct("queries")[0]
    return table.mean("operations", optimizations=before, queries=size) / table.mean(
        "operations", optimizations=after, queries=size
    )


def _about_ten(text: str, count: int) -> Claim:
    low, high = ABOUT_TEN
    of = "work before to work after"
    return Claim(text, of, lambda table: _saving(table, count - 1, count), at_least=low, at_most=high)


CLAIMS = (
    _about_ten("the table of costs saves about an order of magnitude", 1),
    _about_ten("the bitmap of edges saves about another", 2),
    _about_ten("probing with the tree that has fewer edges saves about another", 3),
    Claim(
        "all three save three orders of magnitude",
        "work of none to work of all",
        lambda table: _saving(table, 0, 3),
        at_least=1000,
    ),
)
