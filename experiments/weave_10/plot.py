"""The ratio of the costs of Weave Share and Shared against the skew, one line a number of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "skew", "normalized", "queries")
    label(axes, "skew of the slides (Zipf)", "cost of Weave Share / cost of Shared", legend="queries", zero=True)
    return drawing
