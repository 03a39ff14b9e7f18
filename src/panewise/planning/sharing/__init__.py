"""Which queries should share their fragments: methods that group windows into execution trees at the least cost.

Names are loaded when they are first used: a plan of few windows, and every Spark worker, needs none of the kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panewise.lazy import load
from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights, merge_benefit, tree_cost

if TYPE_CHECKING:
    from panewise.planning.sharing.every_method import EVERY_METHOD, share
    from panewise.planning.sharing.method import Method
    from panewise.planning.sharing.plan import SharingPlan
    from panewise.planning.sharing.queries import Queries
    from panewise.planning.sharing.space import Caps

_HOMES = {
    "EVERY_METHOD": "panewise.planning.sharing.every_method",
    "Caps": "panewise.planning.sharing.space",
    "Method": "panewise.planning.sharing.method",
    "Queries": "panewise.planning.sharing.queries",
    "SharingPlan": "panewise.planning.sharing.plan",
    "share": "panewise.planning.sharing.every_method",
}

__all__ = [
    "EVERY_METHOD",
    "UNIT_WEIGHTS",
    "Caps",
    "Method",
    "Queries",
    "SharingPlan",
    "Weights",
    "merge_benefit",
    "share",
    "tree_cost",
]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOMES, name)
