"""Programs with a snapshot in the middle."""

from __future__ import annotations

import random
from typing import Any

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, n BIGINT, x DOUBLE, b BOOLEAN) TIMESTAMP BY t;\n"

Step = tuple[Any, ...]


def some_events(count: int, first_s: int, last_s: int, seed: int) -> list[dict[str, Any]]:
    """Events out of order, with NULLs."""
    dice = random.Random(seed)
    return [
        {
            "t": dice.randint(first_s * US, last_s * US),
            "k": dice.choice(["a", "b", "ä", "", None]),
            "g": dice.choice([0, 1, None]),
            "n": dice.choice([dice.randint(-9, 9), 2**40, None]),
            "x": dice.choice([dice.randint(-40, 40) / 8, float("nan"), None, 1e16]),
            "b": dice.choice([True, False]),
        }
        for _ in range(count)
    ]


def columns(events: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Events as columns."""
    return {name: [event[name] for event in events] for name in events[0]}


FIRST = [("push", some_events(60, 0, 20, 1)), ("advance", 11 * US), ("push", some_events(40, 9, 30, 2))]
"""How every program begins: windows have closed, events are pending, some were late."""
LAST = [("advance", 24 * US), ("push", some_events(60, 22, 50, 3)), ("advance", 47 * US)]
"""How every program goes on after its snapshot."""

PROGRAMS: dict[str, tuple[str, list[Step]]] = {
    "sliding": (
        """
        CREATE QUERY plain AS SELECT COUNT(*), SUM(n), AVG(x) FROM s [RANGE 12 SECONDS SLIDE 4 SECONDS];
        CREATE QUERY some AS SELECT k, MAX(x), MIN(n) FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] WHERE n > 0 GROUP BY k;
        CREATE QUERY other AS SELECT k, SUM(n) FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS] WHERE b GROUP BY k;
        CREATE QUERY both AS SELECT g, k, VAR_SAMP(x), COUNT(x) FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS] GROUP BY g, k
          HAVING COUNT(*) > 1;
        """,
        FIRST,
    ),
    "come_and_go": (
        """
        CREATE QUERY kept AS SELECT k, SUM(n), COUNT(*) FROM s [RANGE 12 SECONDS SLIDE 4 SECONDS] GROUP BY k;
        CREATE QUERY gone AS SELECT k, COUNT(*) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
        """,
        [
            *FIRST,
            ("remove", "gone"),
            # Joins the tree with a window of its own, under a name that the tree knew.
            ("add", "CREATE QUERY gone AS SELECT k, SUM(n) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k"),
            ("add", "CREATE QUERY fresh AS SELECT MAX(x) FROM s [RANGE 3 SECONDS SLIDE 1 SECONDS] WHERE n < 5"),
            ("advance", 13 * US),
        ],
    ),
    "rows": (
        """
        CREATE QUERY sliding_rows AS SELECT SUM(n), COUNT(x) FROM s [ROWS 10 SLIDE 4];
        CREATE QUERY by_key AS SELECT k, MAX(n) FROM s [ROWS 7 SLIDE 3] WHERE b GROUP BY k;
        CREATE QUERY beside AS SELECT COUNT(*) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS];
        """,
        FIRST,
    ),
    "on_demand": (
        """
        CREATE QUERY last_8 AS SELECT SUM(n), MAX(x), COUNT(*) FROM s [RANGE 8 SECONDS];
        CREATE QUERY before AS SELECT g, AVG(n) FROM s [RANGE BETWEEN 9 SECONDS PRECEDING AND 2 SECONDS PRECEDING]
          GROUP BY g;
        CREATE QUERY rows_each AS SELECT k, COUNT(n) FROM s [PARTITION BY k ROWS 3] GROUP BY k;
        CREATE QUERY many AS SELECT k, COUNT(*) FROM s [RANGE 10 SECONDS] GROUP BY k HAVING COUNT(*) > 3;
        CREATE QUERY slides AS SELECT COUNT(*) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS];
        """,
        FIRST,
    ),
    "values": (
        """
        CREATE QUERY quantiles AS SELECT k, QUANTILE(n, 0.9), MEDIAN(x), COUNT(DISTINCT b)
          FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY k;
        CREATE QUERY strings AS SELECT COUNT(DISTINCT k), QUANTILE(t, 0.5) FROM s [RANGE 8 SECONDS SLIDE 4 SECONDS]
          WHERE k <> 'b';
        """,
        FIRST,
    ),
    "late": (
        """
        CREATE QUERY corrected AS SELECT k, SUM(n) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] WHERE b GROUP BY k;
        CREATE QUERY sketched AS SELECT g, APPROX_QUANTILE(x, 0.5), APPROX_COUNT_DISTINCT(k)
          FROM s [RANGE 9 SECONDS SLIDE 3 SECONDS] GROUP BY g;
        CREATE QUERY forced AS SELECT k, MAX(n), MIN(n) FROM s [RANGE 7 SECONDS] GROUP BY k USING base_intervals;
        CREATE QUERY top AS SELECT TOP_K(k, 2) FROM s [RANGE 6 SECONDS SLIDE 3 SECONDS];
        """,
        FIRST,
    ),
}
CORRECTING = {"late"}
"""Programs whose stream has ON LATE CORRECT."""


def start_of(name: str) -> str:
    """The statements that a program begins with."""
    stream = STREAM.replace(";", " ON LATE CORRECT 3 SECONDS;") if name in CORRECTING else STREAM
    return stream + PROGRAMS[name][0]


def run(engine: Any, steps: list[Step]) -> list[Any]:
    """Run steps; the tables that advances gave."""
    tables = []
    for kind, given in steps:
        if kind == "push":
            engine.push("s", columns(given))
        elif kind == "advance":
            tables.append(engine.advance("s", given).long())
        else:
            getattr(engine, kind)(given)
    return tables
