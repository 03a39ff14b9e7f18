"""What the report claims about Figure 4."""

from __future__ import annotations

from experiments.response_claims import timegram_against_queries

CLAIMS = timegram_against_queries("uniform")
