"""Bars for each load: what deletion costs each ring, and the window sorted by value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import bars, label, sheet
from experiments.index_costs import LOADS, TIME, groups
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

RINGS = {
    "ring forward": "ring (FW)",
    "ring auxiliary": "AUX",
    "ring backward": "BW",
    "ring dirty_bits": "DB",
    "none over list": "the window sorted each time",
}
TITLES = {"deletion": "(a) deletion", "sorted_scan": "(b) append, attach and the sorted window"}


def plot(table: Table) -> Drawing:
    """Panel (a) and panel (b), uniform data."""
    drawing, panels = sheet(table, 2)
    for axes, (measure, title) in zip(panels, TITLES.items()):
        shown = table.where(distribution="uniform", measure=measure)
        bars(axes, shown, groups(shown), "ns_per_tuple", "way", RINGS)
        label(axes, LOADS, TIME, title=f"{title}, uniform data", log="y")
    return drawing
