"""Aggregates with windows of their own: reported changes and corrections add up to the answers of all events."""

from __future__ import annotations

import random

import pytest
from tests.engine.test_moving import MOVING, settings_of

import panewise

TEXT = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t {};
    CREATE QUERY q AS SELECT k, SUM(x) OVER [RANGE 2 SECONDS] AS a, COUNT(*) OVER [RANGE 6 SECONDS] AS b,
      MAX(x) OVER [RANGE 4 SECONDS] AS c FROM s SLIDE 1 SECOND GROUP BY k HAVING b > 1 OR a > 2;
    CREATE QUERY plain AS SELECT k, COUNT(*) FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] GROUP BY k;
    CREATE QUERY quiet AS SELECT k, SUM(x) FROM s [RANGE 6 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SUM(x) > 1000;
"""


def columns(events: list[dict]) -> dict[str, list]:
    return {name: [event[name] for event in events] for name in ("t", "k", "x")}


def take(state: dict, answers: panewise.Answers) -> None:
    """Follow what is reported; None for a group that ended."""
    for row in answers.tables["q"].to_pylist():
        values = None if row.get("ended") else (row["a"], row["b"], row["c"])
        state[row["window_end"], row["k"]] = values


@pytest.mark.parametrize("changed_only", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_corrections_and_changes_add_up(seed: int, changed_only: bool) -> None:
    dice = random.Random(seed)
    events = [{"t": dice.randint(0, 15_000_000), "k": dice.choice("ab"), "x": dice.randint(-3, 3)} for _ in range(25)]
    late = [event for event in events if event["t"] < 8_000_000 and dice.random() < 0.3]
    engine = panewise.Engine(TEXT.format("ON LATE CORRECT 20 SECONDS"))
    engine.push("s", columns([event for event in events if event not in late]))
    state: dict = {}
    for watermark in (5_000_000, 9_000_000):
        take(state, engine.advance("s", watermark, changed_only=changed_only))
    engine.push("s", columns(late))
    for watermark in (11_500_000, panewise.END_OF_STREAM):
        take(state, engine.advance("s", watermark, changed_only=changed_only))
    whole = panewise.Engine(TEXT.format(""))
    whole.push("s", columns(events))
    expected: dict = {}
    take(expected, whole.advance("s", panewise.END_OF_STREAM))
    for group in "ab":
        seen = None
        for end in sorted({end for end, _ in [*expected, *state]}):
            if not changed_only or (end, group) in state:
                seen = state.get((end, group))
            assert seen == expected.get((end, group)), (end, group)


def test_a_short_window_without_events_beside_a_long_one_that_moves_on() -> None:
    """Two ends at once: what the long window has was read before it moved on, and that is not all that is asked."""
    engine = panewise.Engine(
        """CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
        CREATE QUERY q AS SELECT k, SUM(x) OVER [RANGE 2 SECONDS] AS total, LAST_K(k, 1) OVER [RANGE 2 SECONDS] AS keys,
          COUNT(x) OVER [RANGE 2 SECONDS] AS n, MAX(x) OVER [RANGE 8 SECONDS] AS most FROM s SLIDE 2 SECONDS GROUP BY k;
        """
    )
    with settings_of(MOVING):
        engine.push("s", {"t": [0, 2_000_000, 3_000_000], "k": ["a"] * 3, "x": [2, 5, 3]})
        (first, _) = engine.advance("s", 4_000_000).tables["q"].to_pylist()
        after = engine.advance("s", 8_000_000).tables["q"].select(["total", "keys", "n", "most"]).to_pylist()
    assert (first["total"], first["keys"], first["n"], first["most"]) == (2, ["a"], 1, 2)
    assert after == [{"total": None, "keys": None, "n": 0, "most": 5}] * 2


def test_windows_of_one_query_share_a_tree_with_all_others() -> None:
    plan = panewise.optimize(panewise.read(TEXT.format("")))
    assert len(plan.trees) == 1
    assert [window.left_us // 1_000_000 for window in plan.trees[0].windows] == [2, 6, 4]
