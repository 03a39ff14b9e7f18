"""The work as bars, logarithmic: one more bar for each further optimization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.drawing import bars, label, sheet
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

NAMES = {0: "none", 1: "table of costs", 2: "and bitmap of edges", 3: "and probing with fewer"}


def plot(table: Table) -> Drawing:
    """A panel of counted work and one of seconds."""
    drawing, (work, seconds) = sheet(table, 2)
    groups = [(f"{size:,} queries", {"queries": size}) for size in table.distinct("queries")]
    for axes, column, unit in ((work, "operations", "edges checked"), (seconds, "seconds", "seconds of planning")):
        bars(axes, table, groups, column, "optimizations", NAMES)
        label(axes, "", unit, legend="optimizations", log="y")
    return drawing
