"""What the paper claims about Figure 12."""

from __future__ import annotations

from experiments.claims import Claim, worst
from experiments.tables import Table


def _index(table: Table) -> dict[int, float]:
    rows = table.where(filter="collective_count").rows
    return {row["levels_per_size"]: row["inputs_per_s"] for row in rows}


def _scan(table: Table) -> float:
    """The faster of the two runs of the scan."""
    return worst([row["inputs_per_s"] for row in table.where(filter="scan_substreams").rows])


def _best(table: Table) -> float:
    return worst(list(_index(table).values()))


CLAIMS = (
    Claim(
        "with a well chosen p CI-COUNT processes 25 times as many inputs as asking every substream",
        "its rate with the best p to that of the scan",
        lambda table: _best(table) / _scan(table),
        at_least=25,
    ),
    Claim(
        "CI-COUNT processes 25,000 inputs a second",
        "its rate with the best p to 25,000",
        lambda table: _best(table) / 25_000,
        at_least=1,
    ),
    Claim(
        "p is to be chosen: p = 1 is not the best",
        "rate with the best p to that with p = 1",
        lambda table: _best(table) / table.mean("inputs_per_s", filter="collective_count", levels_per_size=1),
        at_least=1.05,
    ),
    Claim(
        "p is to be chosen: the greatest p is not the best",
        "rate with the best p to that with the greatest",
        lambda table: _best(table) / _index(table)[max(_index(table))],
        at_least=1.05,
    ),
)
