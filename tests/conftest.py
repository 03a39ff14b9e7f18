"""Hypothesis: no deadlines, as the machine may be busy; the same examples in every run of CI."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("weft", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("weft")
