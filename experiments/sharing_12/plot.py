"""Inputs a second against p, and the rate of asking every substream as a line across."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import COLOURS, label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel; both axes are logarithmic."""
    drawing, (axes,) = sheet(table)
    index = table.where(filter="collective_count")
    lines(axes, index, "levels_per_size", "inputs_per_s", "filter", names={"collective_count": "CI-COUNT with R-INT"})
    scan = max(row["inputs_per_s"] for row in table.where(filter="scan_substreams").rows)
    axes.axhline(scan, color=COLOURS[1], linestyle="--", label="every substream asked (R-INT)")
    label(axes, "p (levels of each size)", "inputs (updates and lookups) per second", log="xy")
    axes.set_xticks(index.distinct("levels_per_size"))
    axes.minorticks_off()
    return drawing
