"""Updates a second against the largest window, one line a structure."""

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
    lines(axes, table, "largest", "updates_per_s", "structure", names=NAMES)
    label(axes, "left end of the largest window, Nmax (elements)", "updates per second", log="xy")
    return drawing
