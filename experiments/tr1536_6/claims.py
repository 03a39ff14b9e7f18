"""What the report claims about Figure 6."""

from __future__ import annotations

from experiments.response_claims import SKEW_DOES_NOT_MATTER, timegram_against_queries

CLAIMS = (*timegram_against_queries("gaussian"), SKEW_DOES_NOT_MATTER)
