"""Which queries should share their fragments: methods that group windows into execution trees at the least cost.

Names are loaded when they are first used: a plan of few windows, and every Spark worker, needs none of the kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from panewise.planning.sharing.cost import UNIT_WEIGHTS, Weights, merge_benefit, tree_cost

if TYPE_CHECKING:
    from panewise.planning.sharing.every_method import EVERY_METHOD, share
    from panewise.planning.sharing.method import Method
    from panewise.planning.sharing.plan import SharingPlan
    from panewise.planning.sharing.queries import Queries
    from panewise.planning.sharing.space import Caps

_HOMES = {
    "EVERY_METHOD": "every_method",
    "Caps": "space",
    "Method": "method",
    "Queries": "queries",
    "SharingPlan": "plan",
    "share": "every_method",
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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
