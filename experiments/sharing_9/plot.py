"""Inputs a second against the share of updates, one line an algorithm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NAMES = {
    "running_intervals": "R-INT",
    "base_intervals": "B-INT",
    "search_tree": "PSoup (search tree)",
    "materialize_all": "materialize all",
    "recompute": "materialize none",
}


def plot(table: Table) -> Drawing:
    """One panel; the rates are logarithmic."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "updates_share", "inputs_per_s", "structure", names=NAMES)
    label(axes, "share of updates among the inputs", "inputs (updates and lookups) per second", log="y")
    return drawing
