"""Plots of TR1536, drawn once for uniform and once for skewed data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import label, lines, sheet
from experiments.response_time import ALL, NAMES, ONE
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

TIME = "response time (microseconds per event, lookups included)"


def against_ratio(table: Table, data: str) -> Drawing:
    """A panel for each aggregate."""
    shown = table.where(data=data)
    aggregates = shown.distinct("aggregate")
    drawing, panels = sheet(table, len(aggregates))
    for axes, aggregate in zip(panels, aggregates):
        lines(axes, shown.where(aggregate=aggregate), "ratio", "us_per_event", "algorithm", names=NAMES)
        label(axes, "updates per lookup", TIME, title=f"{aggregate}, {data} data", log="xy")
    return drawing


def against_queries(table: Table, data: str) -> Drawing:
    """A panel for each way to ask. Other data of the same figure appear faintly, for comparison."""
    drawing, panels = sheet(table, 2)
    for axes, asked in zip(panels, (ONE, ALL)):
        shown = table.where(asked=asked)
        lines(axes, shown.where(data=data), "queries", "us_per_event", "algorithm", names=NAMES)
        for other in shown.distinct("data"):
            if other != data:
                lines(axes, shown.where(data=other), "queries", "us_per_event", "algorithm", names=NAMES, faint=other)
        label(axes, "queries", TIME, title=f"a lookup asks {asked}, {data} data", log="xy")
    return drawing
