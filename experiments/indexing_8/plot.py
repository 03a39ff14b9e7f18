"""Bars for each load: the histogram and the intersection, by an index or without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import bars, label, sheet
from experiments.index_costs import LOADS, TIME, groups
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

HISTOGRAM = {
    "l_index over list": "L-INDEX over LIST",
    "t_index over list": "T-INDEX over LIST",
    "h_index 100 over list": "H-INDEX over LIST, 100 buckets",
    "none over list": "the window sorted each time",
    "none over aggr": "sorted basic windows merged each time",
}
INTERSECTION = {
    "g_index 10 over group": "G-INDEX, 10 groups",
    "g_index 50 over group": "G-INDEX, 50 groups",
    "t_index over list": "T-INDEX over LIST",
    "h_index 100 over list": "H-INDEX over LIST, 100 buckets",
    "none over list": "recomputed each time",
}


def plot(table: Table) -> Drawing:
    """Panel (a) and panel (b), uniform data."""
    drawing, panels = sheet(table, 2)
    for axes, measure, names in zip(panels, ("histogram", "intersection"), (HISTOGRAM, INTERSECTION)):
        shown = table.where(distribution="uniform", measure=measure)
        bars(axes, shown, groups(shown), "ns_per_tuple", "way", names)
        label(axes, LOADS, TIME, title=f"{measure}, uniform data", log="y")
    return drawing
