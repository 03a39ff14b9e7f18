"""What the paper claims about Figure 7."""

from __future__ import annotations

from experiments.claims import Claim, average, least
from experiments.index_costs import slower
from experiments.tables import Table

STORAGES = ("list", "aggr", "hash")


def _over(table: Table, slow: str, fast: str) -> list[float]:
    """Load by load and storage by storage."""
    pairs = [(f"{slow} over {each}", f"{fast} over {each}") for each in STORAGES]
    return [ratio for pair in pairs for ratio in slower(table, "maintenance", *pair)]


def _beats_l(index: str, name: str) -> Claim:
    return Claim(
        f"the {name} is cheaper than the L-INDEX over any storage",
        f"L-INDEX to {name}, the least",
        lambda table: least(_over(table, "l_index", index)),
        at_least=1,
    )


def _groups(groups: int, values: int, rival: str, name: str) -> Claim:
    return Claim(
        f"the G-INDEX with {groups} groups is cheaper than {name} at {values:,} values",
        f"{name} to the G-INDEX, the least",
        lambda table: least(
            slower(table, "maintenance", rival, f"g_index {groups} over group", values=values, distribution="uniform")
        ),
        at_least=1,
    )


def _similar(table: Table) -> float:
    return average(slower(table, "maintenance", "t_index over list", "h_index 100 over list", distribution="uniform"))


CLAIMS = (
    _beats_l("t_index", "T-INDEX"),
    _beats_l("h_index 100", "H-INDEX"),
    Claim(
        "T-INDEX and H-INDEX perform similarly",
        "T-INDEX to H-INDEX over LIST, the mean",
        _similar,
        at_least=0.5,
        at_most=2,
    ),
    _groups(10, 1_000, "none over list", "a LIST without an index"),
    _groups(10, 1_000, "t_index over list", "the T-INDEX over LIST"),
    _groups(50, 10_000, "none over list", "a LIST without an index"),
    _groups(50, 10_000, "t_index over list", "the T-INDEX over LIST"),
)
