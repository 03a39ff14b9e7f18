"""Response time against the number of queries, gaussian data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.response_plots import against_queries
from experiments.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing


def plot(table: Table) -> Drawing:
    """A panel for each way to ask."""
    return against_queries(table, "gaussian")
