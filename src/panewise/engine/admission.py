"""What an engine checks before it takes a workload: its memory, and the structures that USING names."""

from __future__ import annotations

from collections.abc import Iterable

from panewise.language.model import Query
from panewise.language.workload import Workload
from panewise.planning.cost import Prices
from panewise.planning.memory import check_budget
from panewise.planning.optimize import optimize
from panewise.planning.structure_choice import Rates, choose_structure


def check_memory(workload: Workload, prices: Prices, limit: int | None) -> None:
    """Refuse a workload that would hold more bytes than it may."""
    if limit is not None:
        plan = optimize(workload, rate=prices.rate, groups=prices.groups, in_bulk=prices.in_bulk)
        check_budget(plan, limit)


def check_structures(workload: Workload, fresh: Iterable[Query], prices: Prices) -> None:
    """Refuse an impossible USING of a new query before anything changes."""
    for query in fresh:
        if query.using is not None:
            choose_structure(workload.streams[query.stream], query, Rates.assumed(prices.rate))
