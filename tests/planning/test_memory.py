"""A plan's estimate of its memory is close to what an engine then holds, and a limit is kept."""

from __future__ import annotations

import numpy as np
import pytest

import panewise
from panewise.errors import MemoryBudgetError
from panewise.planning.memory import consumers

US = 1_000_000
RATE, GROUPS, SECONDS = 500, 40, 100
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t;\n"
WORKLOADS = {
    "sliding": """
        CREATE QUERY sums AS SELECT k, SUM(x), COUNT(*), MAX(n) FROM s [RANGE 60 SECONDS SLIDE 1 SECOND] GROUP BY k;
        CREATE QUERY values AS SELECT MEDIAN(n), COUNT(DISTINCT k) FROM s [RANGE 30 SECONDS SLIDE 5 SECONDS];
    """,
    "on demand": """
        CREATE QUERY grouped AS SELECT k, SUM(x), AVG(x), MAX(n) FROM s [RANGE 40 SECONDS] GROUP BY k;
        CREATE QUERY again AS SELECT k, AVG(x) FROM s [RANGE 10 SECONDS] GROUP BY k;
        CREATE QUERY whole AS SELECT MIN(x), QUANTILE(n, 0.5) FROM s [RANGE 40 SECONDS] USING recompute;
        CREATE QUERY tree AS SELECT MAX(n) FROM s [RANGE 40 SECONDS] WHERE x > 0 USING base_intervals;
    """,
    "sketches and rows": """
        CREATE QUERY sketched AS SELECT APPROX_QUANTILE(x, 0.9), APPROX_COUNT_DISTINCT(n), APPROX_TOP_K(n, 3)
          FROM s [RANGE 60 SECONDS SLIDE 5 SECONDS];
        CREATE QUERY top AS SELECT TOP_K(n, 5) FROM s [RANGE 30 SECONDS SLIDE 5 SECONDS];
        CREATE QUERY sorted AS SELECT n, x FROM s [RANGE 30 SECONDS SLIDE 5 SECONDS] ORDER BY x LIMIT 10;
    """,
}


def held_bytes(engine: panewise.Engine) -> int:
    """Everything that statistics count."""
    statistics = engine.statistics()
    streams = sum(one["bytes"] for one in statistics["streams"].values())
    structures = sum(column["bytes"] for columns in statistics["structures"].values() for column in columns)
    return streams + structures + sum(one["bytes"] for one in statistics["row_queries"].values())


def full_engine(text: str) -> panewise.Engine:
    engine = panewise.Engine(STREAM + text, rate=RATE, groups={"k": GROUPS})
    random = np.random.default_rng(1)
    for second in range(0, SECONDS, 5):
        count = 5 * RATE
        times = second * US + np.sort(random.integers(0, 5 * US, count))
        keys, numbers = random.integers(0, GROUPS, count), random.integers(0, 5000, count)
        engine.push("s", {"t": times, "k": keys, "n": numbers, "x": random.normal(size=count)})
        engine.advance("s", second * US)
        for name, query in engine.workload.queries.items():
            if not query.window.is_sliding:
                engine.lookup(name)
    return engine


@pytest.mark.parametrize("name", WORKLOADS)
def test_what_is_predicted_is_near_to_what_is_held(name: str) -> None:
    engine = full_engine(WORKLOADS[name])
    predicted = consumers(panewise.optimize(engine.workload, rate=RATE, groups={"k": GROUPS}))
    total, held = sum(consumer.bytes for consumer in predicted), held_bytes(engine)
    assert held / 2 <= total <= 2 * held, (held, predicted, engine.statistics())


def test_every_part_is_a_consumer() -> None:
    workload = panewise.read(STREAM + "".join(WORKLOADS.values()))
    found = {consumer.name: consumer.bytes for consumer in consumers(panewise.optimize(workload, rate=RATE))}
    for name in (
        "moving windows of tree 0 over s",
        "events of s for lookups",
        "base_intervals over s for lookups",
        "rows of top",
        "rows of sorted",
    ):
        assert found[name] > 0
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize(
    ("query", "largest"),
    [
        ("SELECT MAX(n) FROM s [RANGE 1 HOUR] USING base_intervals", "base_intervals over s for lookups"),
        ("SELECT HISTOGRAM(n) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE]", "rows of q"),
        ("SELECT x FROM s WHERE n > 3 INTO [RANGE 1 HOUR]", "rows of q"),
        ("SELECT k, APPROX_TOP_ITEM(n, 1) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k", "tree 0 over s"),
    ],
)
def test_a_limit_counts_every_part(query: str, largest: str) -> None:
    with pytest.raises(MemoryBudgetError, match=rf"may hold 5.0 MB: .*{largest}"):
        panewise.Engine(f"{STREAM} CREATE QUERY q AS {query}", groups={"k": 1000}, memory_limit=5_000_000)
