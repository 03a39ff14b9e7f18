"""Response time against the update-to-lookup ratio, uniform data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.response_plots import against_ratio
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """A panel for each aggregate."""
    return against_ratio(table, "uniform")
