"""What the paper claims about Figure 8."""

from __future__ import annotations

from functools import partial

from experiments.claims import Claim, least
from experiments.index_costs import slower
from experiments.tables import Table


def _beats(measure: str, slow: str, fast: str, text: str, at_least: float = 1.0) -> Claim:
    return Claim(
        f"{measure}: {text}",
        "the slower to the faster, the least",
        lambda table: least(slower(table, measure, slow, fast)),
        at_least=at_least,
    )


def _over(table: Table, fast: str) -> float:
    rivals = ("t_index over list", "h_index 100 over list")
    return least([ratio for slow in rivals for ratio in slower(table, "intersection", slow, fast)])


CLAIMS = (
    _beats(
        "histogram",
        "none over list",
        "t_index over list",
        "sorting the window is orders of magnitude worse than the T-INDEX",
        100,
    ),
    _beats("histogram", "none over list", "t_index over list", "the T-INDEX beats sorting the window"),
    _beats("histogram", "none over list", "h_index 100 over list", "the H-INDEX beats sorting the window"),
    _beats("histogram", "none over list", "l_index over list", "the L-INDEX beats sorting the window"),
    _beats("histogram", "none over aggr", "t_index over aggr", "the T-INDEX over AGGR beats merging basic windows"),
    _beats("histogram", "l_index over list", "t_index over list", "the T-INDEX beats the L-INDEX"),
    _beats("histogram", "h_index 100 over list", "t_index over list", "the T-INDEX wins over the H-INDEX"),
    *(
        Claim(
            f"intersection: the G-INDEX with {groups} groups is the cheapest",
            "T- or H-INDEX to G-INDEX, the least",
            partial(_over, fast=f"g_index {groups} over group"),
            at_least=1,
        )
        for groups in (10, 50)
    ),
    _beats("intersection", "none over list", "t_index over list", "the T-INDEX beats recomputing it"),
    _beats("intersection", "none over list", "h_index 100 over list", "the H-INDEX beats recomputing it"),
)
