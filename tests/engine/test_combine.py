"""Partials from events and from finer partials give the answers that events give one by one."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest

import panewise
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, r STRING, x DOUBLE, n BIGINT) TIMESTAMP BY t;\n"
SELECTED = "COUNT(*), COUNT(x), SUM(n), AVG(x), MIN(x), MAX(n), STDDEV_POP(x)"
WHERE = {
    "a": ("r <> 'r1' AND n > 3", lambda e: e["r"] not in (None, "r1") and e["n"] > 3),
    "b": ("r = 'r2'", lambda e: e["r"] == "r2"),
    "c": ("r IS NULL OR r LIKE 'r1%'", lambda e: e["r"] is None or e["r"].startswith("r1")),
    "d": ("x > 0.5", lambda e: e["x"] is not None and (math.isnan(e["x"]) or e["x"] > 0.5)),
}
QUERIES = "".join(
    f"CREATE QUERY {name}_{group} AS SELECT {SELECTED} FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] WHERE {where}"
    f"{'' if group == 'all' else f' GROUP BY {group}'};\n"
    for name, (where, _) in WHERE.items()
    for group in ("k", "r", "all")
)


def some_events(count: int, first_key: int) -> list[dict]:
    random = np.random.default_rng(3)
    return [
        {
            "t": place * 30 * US // count,
            "k": first_key + int(random.integers(0, 5)),
            "r": [None, "r1", "r2", "r12"][int(random.integers(0, 4))],
            "x": [None, float(random.normal()), 1e9][int(random.integers(0, 3))],
            "n": int(random.integers(-5, 10)),
        }
        for place in range(count)
    ]


def answer_of(events: list[dict]) -> dict[str, float | None]:
    xs = [event["x"] for event in events if event["x"] is not None]
    return {
        "COUNT(*)": len(events),
        "COUNT(x)": len(xs),
        "SUM(n)": sum(event["n"] for event in events),
        "AVG(x)": math.fsum(xs) / len(xs) if xs else None,
        "MIN(x)": min(xs, default=None),
        "MAX(n)": max(event["n"] for event in events),
        "STDDEV_POP(x)": statistics.pstdev(xs) if xs else None,
    }


@pytest.mark.parametrize("first_key", [-2, 2**62])
@pytest.mark.parametrize("batch", [7, 400])
def test_all_groups_and_predicates(batch: int, first_key: int) -> None:
    """Large batches feed the coarser bases from the finer ones."""
    events = some_events(1200, first_key)
    engine = panewise.Engine(panewise.read(STREAM + QUERIES))
    answers = []
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        engine.push("s", {name: [event[name] for event in part] for name in part[0]})
        answers += engine.advance("s").long().to_pylist()
    answers += engine.advance("s", panewise.END_OF_STREAM).long().to_pylist()
    found = {
        (row["query"], row["window_start"].second, row["k"], row["r"], row["aggregate"]): row["value"]
        for row in answers
    }
    expected = {}
    for name, (_, holds) in WHERE.items():
        for group in ("k", "r", "all"):
            members: dict[tuple, list[dict]] = {}
            for event in filter(holds, events):
                key = event["t"] // US // 10 * 10, *(event[g] if g == group else None for g in ("k", "r"))
                members.setdefault(key, []).append(event)
            for key, several in members.items():
                for aggregate, value in answer_of(several).items():
                    expected[(f"{name}_{group}", *key, aggregate)] = value
    assert found.keys() == expected.keys()
    for place, value in expected.items():
        assert found[place] == (None if value is None else pytest.approx(value, rel=1e-9)), place


def test_a_coarser_base_is_made_from_a_finer_one() -> None:
    """Both ways give the same partials, whichever base was made first."""
    workload = panewise.read(STREAM + QUERIES)
    stream = workload.streams["s"]
    plan = panewise.optimize(workload).streams["s"]
    events = some_events(1200, 0)
    batch = to_batch(stream, {name: [event[name] for event in events] for name in events[0]})
    coarse = next(base for base in plan.bases if not base.group_by)
    slots = np.asarray(batch.column("t")) // coarse.granularity
    alone = Combiner(plan, project(plan, batch)).partials(coarse, slots)
    after = Combiner(plan, project(plan, batch))
    for base in plan.bases:
        if base.group_by:
            after.partials(base, slots)
    derived = after.partials(coarse, slots)
    by = [(name, "ascending") for name in derived.schema.names if name == "slot" or name.startswith("shard")]
    one, other = alone.sort_by(by).to_pydict(), derived.sort_by(by).to_pydict()
    assert one.keys() == other.keys()
    for name, values in one.items():
        if not name.endswith("_low") or not name.startswith(("sum_float", "squares")):
            assert other[name] == pytest.approx(values, rel=1e-15), name
