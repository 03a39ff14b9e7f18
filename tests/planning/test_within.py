"""Which queries with WITHIN are answered as intervals, and what the plan says of it."""

from __future__ import annotations

import pytest

import panewise
from panewise.planning.within import MOST_BUCKETS, buckets_from_values, plan_within

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT, x DOUBLE) TIMESTAMP BY t;"


def workload_of(query: str) -> panewise.Workload:
    return panewise.read(f"{STREAM} CREATE QUERY q AS SELECT {query};")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("MAX(x) FROM s [RANGE 1 HOUR SLIDE 1 HOUR] WITHIN 0.1", "exact: windows that slide"),
        ("COUNT(*) FROM s [ROWS 100000 SLIDE 1000] WITHIN 0.1", "exact: windows that slide"),
        ("k, MAX(x) FROM s [RANGE 1 HOUR] GROUP BY k WITHIN 0.1", "exact: a TimeGram follows the whole stream"),
        ("MAX(x) FROM s [RANGE 1 HOUR] HAVING COUNT(*) > 1 WITHIN 0.1", "exact: HAVING compares exact answers"),
        ("MAX(x), MEDIAN(x) FROM s [RANGE 1 HOUR] WITHIN 0.1", "exact: a TimeGram does not answer MEDIAN(x)"),
        ("COUNT(DISTINCT x) FROM s [RANGE 1 HOUR] WITHIN 0.1", "does not answer COUNT(DISTINCT x)"),
        ("STDDEV(x) FROM s [RANGE 1 HOUR] WITHIN 0.1", "exact: a TimeGram does not answer STDDEV"),
        ("MAX(t) FROM s [RANGE 1 HOUR] WITHIN 0.1", "exact: MAX(t) is not a number"),
        ("MAX(x) FROM s [ROWS 200] WITHIN 0.1", "exact: a TimeGram would take 225 steps a lookup, and reading"),
        ("MAX(x) FROM s [RANGE 200 MILLISECONDS] WITHIN 0.1", "and reading the window's events takes 200"),
        ("SUM(x) FROM s [RANGE 1 HOUR] WITHIN 0.1", "and structures that answer exactly take 201"),
        ("COUNT(*) FROM s [RANGE 1 HOUR] WITHIN 0.1", "and structures that answer exactly take 100"),
        ("MAX(x) FROM s [RANGE 1 HOUR] WITHIN 0.1 USING base_intervals", "exact: USING names base_intervals"),
        ("MAX(x) FROM s [RANGE 1 HOUR] WITHIN 0.0001", "exact: WITHIN 0.0001 needs about 25,000 buckets"),
        ("MAX(x) FROM s [RANGE 1 HOUR] WITHIN 0.000001", "exact: 1e-06 needs 2.5e+06 buckets"),
    ],
)
def test_what_is_answered_exactly_and_why(query: str, reason: str) -> None:
    plan = panewise.optimize(workload_of(query))
    assert plan.within["q"].buckets is None
    assert reason in plan.within["q"].reason
    assert reason in plan.explain()
    assert reason in plan.to_dict()["within"]["q"]


@pytest.mark.parametrize(
    ("query", "buckets", "reason"),
    [
        ("MAX(x) FROM s [ROWS 300] WITHIN 0.1", 25, "a TimeGram of about 25 buckets answers with an interval in 225"),
        ("AVG(n), SUM(n) FROM s [RANGE 1 HOUR] WHERE k = 'a' WITHIN 5 PERCENT USING timegram", 50, "in 250 steps a"),
        ("AVG(n), MAX(x), MIN(x) FROM s [RANGE 1 HOUR] WITHIN 5 PERCENT", 50, "in 450 steps a lookup; reading"),
        ("MAX(x) FROM s [RANGE BETWEEN 2 HOURS PRECEDING AND 1 HOUR PRECEDING] WITHIN 0.1", 25, "takes 3,600,000"),
        ("MAX(x) FROM s [ROWS BETWEEN 900 PRECEDING AND 200 PRECEDING] WITHIN 0.1", 25, "events takes 700"),
        ("COUNT(*), COUNT(k) FROM s [RANGE 1 HOUR] WITHIN 0.1 USING timegram", 0, "counted by position in 300 steps"),
    ],
)  # fmt: skip
def test_what_a_timegram_answers(query: str, buckets: int, reason: str) -> None:
    plan = panewise.optimize(workload_of(query))
    assert plan.within["q"].buckets == buckets
    assert reason in plan.within["q"].reason
    assert reason in plan.explain()
    assert reason in plan.to_dict()["on_demand"][0]["within"]
    assert plan.within["q"].most_buckets <= MOST_BUCKETS


def test_the_rate_decides() -> None:
    workload = workload_of("MAX(x) FROM s [RANGE 1 MINUTE] WITHIN 0.1")
    (stream,), (query,) = workload.streams.values(), workload.queries.values()
    slow, fast = (plan_within(stream, query, rate) for rate in (3.0, 4.0))
    assert slow is not None
    assert slow.buckets is None
    assert fast is not None
    assert fast.buckets == 25
    assert fast.most_buckets == 40


def test_a_query_without_it_has_no_plan_of_it() -> None:
    plan = panewise.optimize(workload_of("MAX(x) FROM s [RANGE 1 HOUR]"))
    assert not plan.within
    assert plan.to_dict()["on_demand"][0]["within"] is None
    assert "within" not in plan.explain()


def test_buckets_follow_the_values() -> None:
    (query,) = workload_of("MAX(x) FROM s [RANGE 1 HOUR] WITHIN 0.1").queries.values()
    assert buckets_from_values(query, {"MAX"}, 90.0, 100.0) == 2
    assert buckets_from_values(query, {"MAX"}, 0.0, 100.0) == 13
    assert buckets_from_values(query, {"MAX", "AVG"}, 0.0, 100.0) == 25
    assert buckets_from_values(query, {"MIN"}, 0.0, 100.0) == 0
    assert buckets_from_values(query, {"MIN", "MAX"}, 0.0, 100.0) == 13
