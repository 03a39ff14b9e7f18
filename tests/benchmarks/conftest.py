"""The benchmarks are programs that import the modules beside them; their tests do the same."""

from __future__ import annotations

import sys
from pathlib import Path

BENCHMARKS = str(Path(__file__).resolve().parents[2] / "benchmarks")
if BENCHMARKS not in sys.path:
    # At the end, so that no program of the folder hides a package.
    sys.path.append(BENCHMARKS)
