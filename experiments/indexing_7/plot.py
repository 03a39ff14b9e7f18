"""Bars for each load: the L-, T- and H-INDEX, and the G-INDEX beside no index at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import bars, label, sheet
from experiments.index_costs import LOADS, TIME, groups
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

COUNTING = {
    f"{index} over {storage}": f"{name} over {storage.upper()}"
    for storage in ("list", "aggr")
    for index, name in (("l_index", "L-INDEX"), ("t_index", "T-INDEX"), ("h_index 100", "H-INDEX, 100 buckets"))
}
GROUPING = {
    "g_index 10 over group": "G-INDEX, 10 groups",
    "g_index 50 over group": "G-INDEX, 50 groups",
    "none over list": "LIST without an index",
    "t_index over list": "T-INDEX over LIST",
}


def plot(table: Table) -> Drawing:
    """Panel (a) and panel (b), uniform data."""
    drawing, panels = sheet(table, 2)
    shown = table.where(distribution="uniform")
    for axes, names, title in zip(panels, (COUNTING, GROUPING), ("(a) L, T and H", "(b) G")):
        bars(axes, shown, groups(shown), "ns_per_tuple", "way", names)
        label(axes, LOADS, TIME, title=f"{title}, uniform data", log="y")
    return drawing
