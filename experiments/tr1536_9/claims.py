"""What the report claims about Figure 9."""

from __future__ import annotations

from experiments.response_claims import ordered_sharing_against_queries

CLAIMS = ordered_sharing_against_queries("uniform")
