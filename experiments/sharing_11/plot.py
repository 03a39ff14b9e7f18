"""Lookups a second against the size of the window, one line a structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.structure_rates import NAMES
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel; both axes are logarithmic."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "width", "lookups_per_s", "structure", names=NAMES)
    label(axes, "size of the window, W (elements)", "lookups per second", log="xy")
    return drawing
