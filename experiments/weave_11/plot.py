"""Overhead against error, a point for each tolerance."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from experiments.drawing import COLOURS, label, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """One panel; the points are labelled with their tolerances."""
    drawing, (axes,) = sheet(table)
    errors = [100 * row["mean_error"] for row in table.rows]
    comparisons = [row["comparisons"] for row in table.rows]
    axes.plot(errors, comparisons, color=COLOURS[0], marker="o", linewidth=1)
    for row, error, count in zip(table.rows, errors, comparisons):
        name = "no reconstruction" if row["tolerance"] == inf else f"{row['tolerance']:.0%}"
        axes.annotate(name, (error, count), xytext=(6, 4), textcoords="offset points", fontsize=8)
    axes.margins(x=0.15)
    label(axes, "mean error to a plan made from scratch (%)", "comparisons of two trees", log="y")
    return drawing
