"""The ratio of the costs of Weave Share and Shared against the rate, one line a number of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel."""
    drawing, (axes,) = sheet(table)
    lines(axes, table.where(method="weave_share"), "rate", "normalized", "queries")
    label(axes, "events per second", "cost of Weave Share / cost of Shared", legend="queries", log="x", zero=True)
    return drawing
