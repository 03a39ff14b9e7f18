"""Lookups of sessions and of windows from one event to another, beside the oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests import oracle
from tests.answers import to_answers

import panewise

FROM_EVENT_TO_EVENT = """
    CREATE QUERY runs AS SELECT k, COUNT(*), SUM(x), LAST(e) FROM s
      [FROM WHEN e = 'on' UNTIL WHEN e = 'off' MAX 60 MICROSECONDS] GROUP BY k;
    CREATE QUERY short AS SELECT k, COUNT(*), MEDIAN(x) FROM s
      [FROM WHEN e = 'on' UNTIL WHEN e = 'off' MAX 7 MICROSECONDS] GROUP BY k HAVING COUNT(*) > 1;
    CREATE QUERY large AS SELECT COUNT(*), MAX(x) - MIN(x) AS span FROM s
      [FROM WHEN x > 3 UNTIL WHEN x > 3 MAX 50 MICROSECONDS] WHERE e <> 'off';
"""
"""Over a stream `s` with a STRING e and a BIGINT x."""


def check_lookups(
    engine: panewise.Engine, accepted: list[dict[str, Any]], mark: int | None, seen_whole: Callable[[Any], bool]
) -> None:
    """Lookups see the windows that now, and a later time, lie in; a query that came later only those it saw whole."""
    known = [row["t"] for row in accepted] + ([] if mark is None else [mark])
    for name, query in engine.workload.queries.items():
        if name == "fixed":
            continue
        for later in (0, 25) if known else (0,):
            at = max(known, default=0) + later
            found = to_answers(engine.lookup(name, at if later else None), engine.workload, name)
            expected = oracle.standing_answers(query, "t", accepted, at)
            sure = [one for one in expected if name != "later" or seen_whole(one)]
            oracle.assert_same_answers([one for one in found if name != "later" or one in sure], sure)
            assert [one for one in found if one not in expected and name == "later"] == []
