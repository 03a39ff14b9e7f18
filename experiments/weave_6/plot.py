"""The ratio of the costs of Weave Share and Shared against the number of queries, one line a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "queries", "normalized", "rate")
    label(axes, "queries", "cost of Weave Share / cost of Shared", legend="events per second", log="x", zero=True)
    return drawing
