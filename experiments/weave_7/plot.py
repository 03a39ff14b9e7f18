"""The number of trees against the number of queries, one line a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "queries", "trees", "rate")
    label(axes, "queries", "execution trees", legend="events per second", log="xy")
    return drawing
