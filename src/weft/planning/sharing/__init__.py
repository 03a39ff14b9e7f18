"""Which queries should share their fragments: methods that group windows into execution trees at the least cost."""

from weft.planning.sharing.cost import UNIT_WEIGHTS, Weights, merge_benefit, tree_cost
from weft.planning.sharing.every_method import EVERY_METHOD, share
from weft.planning.sharing.method import Method
from weft.planning.sharing.plan import SharingPlan
from weft.planning.sharing.queries import Queries
from weft.planning.sharing.space import Caps

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
