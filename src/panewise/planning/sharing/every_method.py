"""The list of methods, and the one function that calls any of them by name."""

from __future__ import annotations

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights
from panewise.planning.sharing.exhaustive import Exhaustive
from panewise.planning.sharing.incremental_weave_share import IncrementalMethod
from panewise.planning.sharing.insert_then_weave import InsertThenWeave
from panewise.planning.sharing.local_search import LocalSearch
from panewise.planning.sharing.method import Method
from panewise.planning.sharing.names import check_method
from panewise.planning.sharing.no_share import NoShare
from panewise.planning.sharing.plan import SharingPlan
from panewise.planning.sharing.queries import Queries
from panewise.planning.sharing.random_trees import RandomTrees
from panewise.planning.sharing.shared import Shared
from panewise.planning.sharing.weave_share import WeaveShare

EVERY_METHOD: tuple[Method, ...] = (
    NoShare(),
    Shared(),
    RandomTrees(),
    InsertThenWeave(),
    LocalSearch("no_share"),
    LocalSearch("random"),
    Exhaustive(),
    WeaveShare(),
    IncrementalMethod(),
)
"""A new method is one file and one line here."""


def share(name: str, queries: Queries, rate: float, weights: Weights = UNIT_WEIGHTS) -> SharingPlan:
    """Plan queries by the method with that name.

    >>> share("weave_share", Queries.of([(16, 4), (10, 5), (8, 4)]), 1.2).tree_of.tolist()
    [0, 1, 0]
    """
    check_method(name)
    method = next(method for method in EVERY_METHOD if method.name == name)
    return method.share(queries, rate, weights)
