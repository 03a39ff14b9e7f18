"""What the report claims about Figure 5."""

from __future__ import annotations

from experiments.response_claims import SKEW_DOES_NOT_MATTER, against_ratio

CLAIMS = (*against_ratio("gaussian"), SKEW_DOES_NOT_MATTER)
