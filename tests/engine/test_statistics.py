"""Statistics tell what is held, and a budget refuses what would not fit."""

from __future__ import annotations

import numpy as np
import pytest

import panewise
from panewise.errors import MemoryBudgetError
from panewise.planning.memory import consumers

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT, y DOUBLE) TIMESTAMP BY t;\n"
TEXT = (
    STREAM
    + """
CREATE QUERY five AS SELECT SUM(x), COUNT(x), MIN(x), MAX(x), VAR_POP(x) FROM s [RANGE 60 SECONDS SLIDE 1 SECOND]
  GROUP BY k;
CREATE QUERY asked AS SELECT SUM(y) FROM s [RANGE 100 SECONDS];
"""
)
KEYS, SECONDS = 50, 200


def full_engine() -> panewise.Engine:
    engine = panewise.Engine(panewise.read(TEXT), rate=KEYS, groups={"k": KEYS})
    times = np.repeat(np.arange(SECONDS), KEYS) * US
    numbers = np.arange(len(times))
    engine.push("s", {"t": times, "k": numbers % KEYS, "x": numbers, "y": numbers / 3})
    engine.push("s", {"t": [5 * US], "k": [1], "x": [1], "y": [1.0]})
    engine.advance("s", 190 * US)
    engine.push("s", {"t": [5 * US], "k": [1], "x": [1], "y": [1.0]})
    return engine


def test_statistics_of_a_stream() -> None:
    statistics = full_engine().statistics()["streams"]["s"]
    assert statistics["events"] == KEYS * SECONDS + 1
    assert statistics["late_events"] == 1
    assert statistics["rate_per_s"] == pytest.approx(KEYS, rel=0.02)
    (tree,) = statistics["trees"]
    # The minute that open windows cover, and ten seconds that no window covers whole yet.
    assert tree["fragments"] == KEYS * (59 + 10)
    assert tree["groups"] == KEYS
    assert statistics["log"]["events"] >= 100 * KEYS
    assert statistics["bytes"] == tree["bytes"] + statistics["log"]["bytes"]


# Exact variances of doubles take a second pair, what the rounding of squares left.
@pytest.mark.parametrize(("column", "most_bytes"), [("x", 64), ("y", 64 + 16)])
def test_a_row_of_five_partials_is_small(column: str, most_bytes: int) -> None:
    engine = panewise.Engine(panewise.read(TEXT.replace("(x)", f"({column})")), rate=KEYS, groups={"k": KEYS})
    random = np.random.default_rng(1)
    times = np.repeat(np.arange(SECONDS), 3 * KEYS) * US
    keys = random.permutation(len(times)) % KEYS + 10**12
    engine.push(
        "s", {"t": times, "k": keys, "x": random.integers(-(10**9), 10**9, len(times)), "y": random.random(len(times))}
    )
    engine.advance("s", 190 * US)
    (tree,) = engine.statistics()["streams"]["s"]["trees"]
    assert tree["bytes"] / tree["fragments"] <= most_bytes


def test_the_estimate_is_above_what_is_held_and_not_far() -> None:
    engine = full_engine()
    estimated = {
        consumer.name: consumer.bytes
        for consumer in consumers(panewise.optimize(engine.workload, rate=KEYS, groups={"k": KEYS}))
    }
    held = engine.statistics()["streams"]["s"]
    # Columns are packed, so rows take less than the widest columns would.
    assert held["trees"][0]["bytes"] <= estimated["tree 0 over s"] <= 4 * held["trees"][0]["bytes"]
    assert estimated["events of s for lookups"] == pytest.approx(held["log"]["bytes"], rel=1.0)


def test_a_workload_that_would_not_fit_is_refused_and_nothing_changes() -> None:
    with pytest.raises(MemoryBudgetError, match=r"may hold 1.0 MB: .*tree 0 over s: .* Shorten"):
        panewise.Engine(panewise.read(TEXT), groups={"k": 100_000}, memory_limit=1_000_000)
    engine = panewise.Engine(panewise.read(STREAM), groups={"k": 10}, memory_limit=1_000_000)
    engine.add("CREATE QUERY small AS SELECT SUM(x) FROM s [RANGE 60 SECONDS SLIDE 1 SECOND] GROUP BY k")
    with pytest.raises(MemoryBudgetError, match="events of s for lookups"):
        engine.add("CREATE QUERY large AS SELECT SUM(x) FROM s [RANGE 60 DAYS]")
    assert list(engine.workload.queries) == ["small"]
