"""The engine explains the plan that it uses, and counts what its trees do."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.engine.test_moving import NEVER, settings_of

import panewise

TEXT = """
CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t;
CREATE QUERY fine AS SELECT SUM(x) FROM s [RANGE 60 SECONDS SLIDE 10 SECONDS] GROUP BY k;
CREATE QUERY coarse AS SELECT MAX(x) FROM s [RANGE 2 HOURS SLIDE 10 MINUTES] GROUP BY k;
"""
KEYS, SECONDS = 5, 7200


@pytest.fixture
def engine() -> panewise.Engine:
    """An event of each key in every second, closed every ten seconds. No window moves."""
    engine = panewise.Engine(panewise.read(TEXT))
    with settings_of(NEVER):
        for start in range(0, SECONDS, 10):
            times = np.repeat(np.arange(start, start + 10), KEYS) * 1_000_000
            engine.push("s", {"t": times, "k": np.arange(10 * KEYS) % KEYS, "x": times})
            engine.advance("s", (start + 10) * 1_000_000)
    return engine


def numbers(text: str, tree: int, fact: str) -> list[int]:
    section = text.split(f"tree {tree} after")[1]
    (line,) = [line for line in section.splitlines() if line.startswith(f"  {fact}")][:1]
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", line)]


def test_predicted_stands_beside_counted(engine: panewise.Engine) -> None:
    text = engine.explain(analyze=True)
    assert "2 sliding queries in 2 execution trees" in text
    # Slots of ten seconds, each of which has a partial of every key.
    assert numbers(text, 0, "fed") == [SECONDS // 10 * KEYS] * 2
    # Instances close one by one, so each of the six fragments of a minute is combined for each, and gives an answer;
    # instances that begin before the first event have fewer.
    predicted, counted = numbers(text, 0, "folded")
    instances = SECONDS // 10
    assert predicted == pytest.approx(7 * instances * KEYS, rel=1e-3)
    assert counted == (7 * instances - 15) * KEYS
    assert numbers(text, 1, "held")[:2] == [11 * KEYS, KEYS]


@pytest.mark.parametrize(("minutes", "way"), [(2, "is folded anew"), (240, "is carried on")])
@pytest.mark.parametrize("aggregate", ["SUM(x)", "MEDIAN(x)"])
def test_how_a_window_closes_is_told_with_its_reason_and_the_work_is_predicted(
    aggregate: str, minutes: int, way: str
) -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP, k BIGINT, x BIGINT) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT k, {aggregate} FROM s [RANGE {minutes} MINUTES SLIDE 1 MINUTE] GROUP BY k"
    )
    for minute in range(300):
        engine.push("s", {"t": [minute * 60_000_000] * 10, "k": list(range(10)), "x": [minute] * 10})
        engine.advance("s", (minute + 1) * 60_000_000)
    text = engine.explain(analyze=True)
    (line,) = [line for line in text.splitlines() if line.startswith("  closes")]
    carried, folded = (float(cost.replace(",", "")) for cost in re.findall(r"([\d,]+)(?: a closing| to fold)", line))
    assert way in line
    assert (carried < folded) == (way == "is carried on")
    predicted, counted = numbers(text, 0, "folded")
    assert predicted / 2 < counted < 2 * predicted


def test_queries_that_come_later_have_their_own_trees(engine: panewise.Engine) -> None:
    engine.add("CREATE QUERY later AS SELECT MIN(x) FROM s [RANGE 60 SECONDS SLIDE 1 SECOND]")
    engine.add("CREATE QUERY asked AS SELECT MIN(x) FROM s [RANGE 60 SECONDS]")
    engine.remove("coarse")
    text = engine.explain()
    assert "base 1: s by nothing" in text
    assert "asked [RANGE 1 MINUTE]: evaluated by lookups" in text
    assert "coarse" not in text
    assert "after" not in text
    assert panewise.Engine.restore(engine.snapshot()).explain() == text


@pytest.mark.parametrize("in_bulk", [False, True])
@pytest.mark.parametrize(("events_of_push", "pushes_of_advance"), [(100, 1), (100, 50), (5_000, 1), (50_000, 1)])
def test_the_prediction_knows_the_size_of_pushes_and_how_often_windows_closed(
    in_bulk: bool, events_of_push: int, pushes_of_advance: int
) -> None:
    engine = panewise.Engine(panewise.read(TEXT), in_bulk=in_bulk)
    events, keys = 50_000, 40
    drawn = np.random.default_rng(1)
    times = np.sort(drawn.integers(0, 4 * SECONDS * 1_000_000, events))
    for number, start in enumerate(range(0, events, events_of_push), 1):
        some = times[start : start + events_of_push]
        engine.push("s", {"t": some, "k": drawn.integers(0, keys, len(some)), "x": some})
        if number % pushes_of_advance == 0:
            engine.advance("s", int(some[-1]))
    text = engine.explain(analyze=True)
    for tree in range(text.count("partials predicted")):
        for fact in ("fed", "folded"):
            predicted, counted = numbers(text, tree, fact)
            assert predicted / 2 < counted < predicted * 2, (tree, fact, predicted, counted)
