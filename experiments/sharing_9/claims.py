"""What the paper claims about Figure 9."""

from __future__ import annotations

from experiments.claims import Claim, least, worst
from experiments.tables import Table

STABLE = ("running_intervals", "base_intervals", "search_tree")
ONE_ORDER = 10.0


def _rate(table: Table, structure: str, share: float) -> float:
    return table.mean("inputs_per_s", structure=structure, updates_share=share)


def _end_to_end(table: Table, structure: str) -> float:
    """The ratio of the rate with updates only to the rate with lookups only."""
    return _rate(table, structure, 1.0) / _rate(table, structure, 0.0)


def _spread(table: Table) -> float:
    shares = table.distinct("updates_share")
    rates = [[_rate(table, name, share) for share in shares] for name in STABLE]
    return worst([max(each) / min(each) for each in rates])


def _best(table: Table) -> float:
    shares = table.distinct("updates_share")
    return least(
        [
            _rate(table, "running_intervals", share) / _rate(table, name, share)
            for share in shares
            for name in STABLE[1:]
        ]
    )


CLAIMS = (
    Claim(
        "materialize all is good when updates are rare and deteriorates",
        "its rate without updates to its rate with nothing else",
        lambda table: 1 / _end_to_end(table, "materialize_all"),
        at_least=ONE_ORDER,
    ),
    Claim(
        "materialize none is good when lookups are rare and deteriorates",
        "its rate without lookups to its rate with nothing else",
        lambda table: _end_to_end(table, "recompute"),
        at_least=ONE_ORDER,
    ),
    Claim(
        "R-INT, B-INT and PSoup stay about stable for all mixtures: within an order of magnitude",
        "greatest rate to least, the worst of the three",
        _spread,
        at_most=ONE_ORDER,
    ),
    Claim(
        "R-INT is the best of the three at every mixture",
        "its rate to that of the others, the least",
        _best,
        at_least=1,
    ),
    Claim(
        "B-INT and PSoup are similar without updates",
        "rate of B-INT to rate of PSoup",
        lambda table: _rate(table, "base_intervals", 0.0) / _rate(table, "search_tree", 0.0),
        at_least=0.5,
        at_most=2,
    ),
    Claim(
        "B-INT improves with the share of updates",
        "its rate with updates only to that with lookups only",
        lambda table: _end_to_end(table, "base_intervals"),
        at_least=1,
    ),
    Claim(
        "PSoup falls with the share of updates",
        "its rate with updates only to that with lookups only",
        lambda table: _end_to_end(table, "search_tree"),
        at_most=1,
    ),
)
