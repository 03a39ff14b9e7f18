"""Cost against the number of queries, one line a method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.plan_costs import NAMES
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel; both axes are logarithmic."""
    drawing, (axes,) = sheet(table)
    lines(axes, table.where(part=None), "queries", "cost", "method", names=NAMES)
    label(axes, "queries", "cost of the plan (aggregate operations per second)", legend="method", log="xy")
    return drawing
