"""What the report claims about Figure 3."""

from __future__ import annotations

from experiments.response_claims import against_ratio

CLAIMS = against_ratio("uniform")
