"""What the report claims about Figure 10."""

from __future__ import annotations

from experiments.claims import Claim, average
from experiments.response_claims import ordered_sharing_against_queries, skewed_to_uniform

CLAIMS = (
    *ordered_sharing_against_queries("gaussian"),
    Claim(
        "OrderedSharing is slightly faster on skewed data than on uniform data",
        "time on skewed data to time on uniform data, the mean of all cases",
        lambda table: average(skewed_to_uniform(table, "ordered_sharing")),
        at_most=1,
    ),
)
