"""The choice of structures: USING decides first, then the cost if several can serve, and the log if none can."""

from __future__ import annotations

from pathlib import Path

import pytest

import panewise
import panewise.planning
from panewise.errors import StructureChoiceError
from panewise.language.words import STRUCTURES
from panewise.planning.structure_choice import Rates, candidates, choose_structure
from panewise.structures import BY_NAME

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT, x DOUBLE) TIMESTAMP BY t;"


def chosen(select: str, *, updates: float = 1000.0, answers: float = 10.0, groups: int = 1) -> list[str | None]:
    workload = panewise.read(f"{STREAM} CREATE QUERY q AS SELECT {select};")
    query = workload.queries["q"]
    plan = choose_structure(workload.streams["s"], query, Rates(updates, answers, groups))
    assert [choice.call for choice in plan.choices] == list(query.aggregates)
    assert all(choice.reason for choice in plan.choices)
    return [choice.structure for choice in plan.choices]


def test_the_language_and_the_structures_have_the_same_names() -> None:
    assert set(STRUCTURES) == set(BY_NAME)


def test_sums_subtract_and_extremes_do_not() -> None:
    window = "FROM s [RANGE 1 HOUR]"
    assert chosen(f"SUM(n), AVG(x), VARIANCE(n) {window}") == ["running_intervals"] * 3
    assert chosen(f"VARIANCE(x) {window}") == ["base_intervals"]
    assert chosen(f"MAX(x), MIN(n) {window}") == ["base_intervals"] * 2
    assert chosen(f"MEDIAN(x), QUANTILE(n, 0.9) {window}") == ["sorted_base_intervals"] * 2


def test_many_lookups_pay_for_landmarks_and_few_events_need_no_structure() -> None:
    assert chosen("MAX(x) FROM s [ROWS 100000]", answers=100_000.0) == ["landmark_intervals"]
    assert chosen("MAX(x) FROM s [ROWS 100000]") == ["base_intervals"]
    assert chosen("MAX(x) FROM s [ROWS 3]") == ["recompute"]


def test_groups_have_the_same_structures_and_rivals_must_be_named() -> None:
    assert chosen("k, MEDIAN(x) FROM s [RANGE 1 HOUR] GROUP BY k", groups=100) == ["sorted_base_intervals"]
    assert chosen("k, MAX(x) FROM s [ROWS 9] GROUP BY k USING search_tree") == ["search_tree"]
    workload = panewise.read(f"{STREAM} CREATE QUERY q AS SELECT k, MAX(x) FROM s [RANGE 1 HOUR] GROUP BY k;")
    query = workload.queries["q"]
    able = candidates(workload.streams["s"], query, query.aggregates[0])
    assert able == ["base_intervals", "landmark_intervals", "recompute"]


@pytest.mark.parametrize("select", ["COUNT(DISTINCT k)", "SUM(n), MODE(n)"])
def test_what_no_structure_holds_is_read_from_the_log(select: str) -> None:
    assert set(chosen(f"{select} FROM s [RANGE 1 HOUR]")) == {None}


def test_having_is_decided_over_structures() -> None:
    query = "k, SUM(n) FROM s [RANGE 1 DAY] GROUP BY k HAVING COUNT(*) > 9"
    assert chosen(query, updates=1e5) == ["running_intervals", "running_intervals"]


def test_no_name_of_a_structure_stands_in_the_planner() -> None:
    """What the planner knows of structures it reads from data sheets, so that a new one needs no change there."""
    folder = Path(panewise.planning.__file__).parent
    sources = {path.name: path.read_text() for path in folder.rglob("*.py")}
    assert len(sources) > 20
    assert not [(file, name) for name in BY_NAME for file, text in sources.items() if f'"{name}"' in text]


def test_what_within_uses_is_not_held_twice() -> None:
    assert chosen("SUM(x) FROM s [RANGE 1 DAY] WITHIN 5 PERCENT USING timegram") == [None]
    assert chosen("SUM(x) FROM s [RANGE 1 DAY] WITHIN 5 PERCENT") == ["running_intervals"]
    assert chosen("MAX(x), MIN(x), AVG(x) FROM s [RANGE 1 DAY] WITHIN 5 PERCENT") == [None] * 3
    with pytest.raises(
        StructureChoiceError, match="USING timegram cannot answer it: a TimeGram does not answer MEDIAN"
    ):
        chosen("MEDIAN(x) FROM s [RANGE 1 DAY] WITHIN 5 PERCENT USING timegram")
    assert chosen("SUM(x) FROM s [RANGE 1 DAY] WITHIN 5 PERCENT USING base_intervals") == ["base_intervals"]


@pytest.mark.parametrize(
    ("select", "said"),
    [
        (
            "SUM(x), MAX(x) FROM s [RANGE 1 HOUR] USING running_intervals",
            "query q: USING running_intervals cannot answer MAX(x): running_intervals cannot hold the max",
        ),
        ("MAX(x) FROM s [RANGE 1 HOUR] USING running_intervals", "USING base_intervals or landmark_intervals or"),
        ("SUM(x) FROM s [ROWS 9] USING materialize_all", "those of lookups end anywhere"),
        ("MAX(x) FROM s [ROWS 9] USING sorted_base_intervals", "cannot hold the max"),
        ("COUNT(DISTINCT k) FROM s [ROWS 9] USING recompute", "this is STRING; leave out USING"),
    ],
)
def test_using_says_what_is_missing_and_what_could_serve(select: str, said: str) -> None:
    text = f"{STREAM} CREATE QUERY q AS SELECT {select};"
    for plan in (panewise.optimize, panewise.Engine):
        with pytest.raises(StructureChoiceError) as error:
            plan(panewise.read(text))
        assert said in str(error.value)


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("SUM(x) FROM s [ROWS 9] USING base_interval", "did you mean base_intervals?"),
        ("SUM(x) FROM s [ROWS 9 SLIDE 3] USING base_intervals", "USING a structure is for queries without SLIDE"),
        ("HISTOGRAM(x) FROM s [ROWS 9 SLIDE 3] USING base_intervals", "USING needs OVER"),
    ],
)
def test_using_is_checked_as_it_is_read(select: str, said: str) -> None:
    with pytest.raises(panewise.StatementError) as error:
        panewise.read(f"{STREAM} CREATE QUERY q AS SELECT {select};")
    assert said in str(error.value)


def test_the_plan_shows_structures_and_reasons() -> None:
    text = f"{STREAM} CREATE QUERY q AS SELECT SUM(x), MAX(x) FROM s [RANGE 1 HOUR]; " + (
        "CREATE QUERY r AS SELECT MODE(n) FROM s [ROWS 9];"
    )
    plan = panewise.optimize(panewise.read(text))
    shown = plan.explain()
    assert "q [RANGE 1 HOUR]: evaluated by lookups, by structures" in shown
    assert "  MAX(x)      base_intervals (B-INT) takes" in shown
    assert "r [ROWS 9]: evaluated by lookups, from the events that the window covers" in shown
    data = {query["query"]: query["structures"] for query in plan.to_dict()["on_demand"]}
    assert [one["structure"] for one in data["q"]] == ["running_intervals", "base_intervals"]
    assert data["r"][0]["structure"] is None
    assert "read from the event log" in data["r"][0]["reason"]
