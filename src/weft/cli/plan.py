"""`weft plan`: how a file of queries would be answered, and at what cost."""

from __future__ import annotations

import json
from pathlib import Path

import weft
from weft.cli.workload import read_workload


def plan_text(file: Path, *, rate_per_s: float | None, as_json: bool) -> str:
    """The plan of a file of queries, for people or as JSON."""
    workload = read_workload(file)
    plan = weft.optimize(workload) if rate_per_s is None else weft.optimize(workload, rate=rate_per_s)
    return json.dumps(plan.to_dict(), indent=2) if as_json else plan.explain()
