"""The ratio of the costs of Weave Share and Shared against the greatest overlap, one line a rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel."""
    drawing, (axes,) = sheet(table)
    lines(axes, table, "overlap", "normalized", "rate")
    label(
        axes,
        "greatest overlap (range / slide)",
        "cost of Weave Share / cost of Shared",
        legend="events per second",
        log="x",
        zero=True,
    )
    return drawing
