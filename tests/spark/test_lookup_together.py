"""One group of many queries, looked up together, has the answers that each query has by itself."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.spark.log_writing import LogWriter

import panewise

START_US = 1_767_614_400_000_000
SECOND_US = 1_000_000

STATEMENTS = """
CREATE STREAM s (t TIMESTAMP, k BIGINT, c STRING, x DOUBLE, n BIGINT)
  TIMESTAMP BY t WATERMARK 5 SECONDS GRANULARITY 1 SECOND;
CREATE QUERY a AS SELECT k, COUNT(*) AS rows, COUNT(x) AS xs, SUM(x) AS total, AVG(x) FROM s
  [RANGE 20 SECONDS SLIDE 5 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT MIN(x), MAX(x), MIN(n) AS least, SUM(n) AS total FROM s [RANGE 7 SECONDS SLIDE 3 SECONDS]
  GROUP BY k;
CREATE QUERY c AS SELECT k AS key, AVG(n), STDDEV_SAMP(x), VAR_POP(n) FROM s [RANGE 30 SECONDS] GROUP BY k;
CREATE QUERY d AS SELECT k, COUNT(*) FROM s [RANGE 30 SECONDS] WHERE x > 0 GROUP BY k;
CREATE QUERY e AS SELECT k, SUM(x) FROM s [RANGE 9 SECONDS] WHERE x > 0 GROUP BY k;
CREATE QUERY f AS SELECT c, k, MEDIAN(x), COUNT(DISTINCT n) AS different FROM s [RANGE 12 SECONDS] GROUP BY c, k;
CREATE QUERY g AS SELECT c, COUNT(*) FROM s [RANGE BETWEEN 20 SECONDS PRECEDING AND 10 SECONDS PRECEDING] GROUP BY c;
CREATE QUERY h AS SELECT k, COUNT(*) FROM s [RANGE 30 SECONDS] GROUP BY k HAVING COUNT(*) > 3;
CREATE QUERY i AS SELECT k, MAX(t) FROM s [RANGE 30 SECONDS] GROUP BY k;
CREATE QUERY j AS SELECT COUNT(*) FROM s [RANGE 30 SECONDS];
"""
SHARED = list("abcdefg")


def events(chance: random.Random, second: int, count: int) -> list[dict[str, Any]]:
    numbers = [None, 0.5, -1.25, 3e300, float("nan"), float("inf"), 0.1]
    return [
        {
            "t": START_US + second * SECOND_US + chance.randrange(-4_000_000, 4_000_000),
            "k": chance.choice([None, 1, 2, 3, 4]),
            "c": chance.choice(["u", "v", None]),
            "x": chance.choice(numbers) if chance.random() < 0.3 else chance.random() - 0.5,
            "n": chance.choice([None, 1, -7, 10**17, chance.randrange(50)]),
        }
        for _ in range(count)
    ]


@pytest.fixture
def job(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "lookups", panewise.read(STATEMENTS))


@pytest.mark.parametrize("seed", range(4))
def test_together_is_as_each_alone(job: LogWriter, seed: int) -> None:
    chance = random.Random(seed)
    client = panewise.LookupClient(job.folder, refresh_every_s=None)
    answered = 0
    for batch in range(12):
        job.run(events(chance, 4 * batch, chance.randrange(60)))
        client.refresh()
        for at in (None, START_US + (4 * batch - 3) * SECOND_US):
            for k in (None, 1, 4, 99):
                key = {"k": k, "c": chance.choice(["u", None, "z"])}
                found = client.lookup_rows(SHARED, key, at)
                for query, row in zip(SHARED, found):
                    group_by = job.workload.queries[query].group_by
                    alone = client.lookup(query, {name: [key[name]] for name in group_by}, at)
                    assert repr(row) == repr(expected(alone.to_pylist())), (
                        batch,
                        at,
                        key,
                        query,
                        row,
                        alone.to_pylist(),
                    )
                    answered += row is not None
    assert answered > 200
    client.check_invariants()


def expected(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    if not rows:
        return None
    (row,) = rows
    for name in ("window_start", "window_end"):
        row[name] = round(row[name].timestamp() * 1e6)
    return row


def test_which_queries_can(job: LogWriter) -> None:
    job.run([])
    client = panewise.LookupClient(job.folder)
    assert [query for query in job.workload.queries if client.can_share(query)] == SHARED
    with pytest.raises(panewise.QueryKindError, match="use lookup"):
        client.lookup_rows(["a", "h"], {"k": 1})
    with pytest.raises(panewise.UnknownNameError, match="nobody"):
        client.lookup_rows(["nobody"], {"k": 1})


def test_sums_that_do_not_fit_are_null_and_counted(tmp_path: Path) -> None:
    job = LogWriter(
        tmp_path / "lookups",
        panewise.read("""
            CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;
            CREATE QUERY total AS SELECT k, SUM(n) AS total FROM s [RANGE 10 SECONDS] GROUP BY k;
            CREATE QUERY newest AS SELECT k, SUM(n) AS total FROM s [RANGE 1 SECOND] GROUP BY k;
        """),
    )
    job.run([{"t": START_US + second * SECOND_US, "k": 1, "n": 2**62} for second in range(3)])
    client = panewise.LookupClient(job.folder)
    total, newest = client.lookup_rows(["total", "newest"], {"k": 1})
    assert total is not None
    assert newest is not None
    assert (total["total"], newest["total"]) == (None, 2**62)
    assert client.statistics()["overflown_answers"] == {"total": 1}
