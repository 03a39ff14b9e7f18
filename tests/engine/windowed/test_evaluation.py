"""BASIC WINDOWS and EVALUATE: the same windows, cut finer, and some of them left out where a query allows it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests import windowed_oracle as oracle
from tests.engine.windowed.test_conformance import as_rows, expected

import panewise
from panewise.language.printer import print_row_query
from panewise.language.row_queries import Evaluation

STREAM = "CREATE STREAM a (t TIMESTAMP, k BIGINT, x DOUBLE) TIMESTAMP BY t; "
SELECTS = {
    "histogram": "HISTOGRAM(k) FROM a [RANGE 6 MICROSECONDS SLIDE 2 MICROSECONDS]",
    "top": "TOP_K(k, 2) FROM a [RANGE 5 MICROSECONDS SLIDE 2 MICROSECONDS]",
    "over_rows": "HISTOGRAM(k) FROM a [ROWS 6 SLIDE 2]",
    "head": "k, x FROM a [RANGE 6 MICROSECONDS SLIDE 2 MICROSECONDS] ORDER BY x LIMIT 2",
    "shared": "k FROM a [RANGE 6 MICROSECONDS SLIDE 2 MICROSECONDS] "
    "INTERSECT SELECT k FROM a [RANGE 4 MICROSECONDS SLIDE 2 MICROSECONDS] WHERE x > 0",
}
SLIDE = 2


def number_of(end: int, name: str) -> int:
    """How many slides lie before the end of a window; windows of a range of 5 end in between."""
    return (end - (name == "top")) // SLIDE


def drawn(seed: int) -> tuple[list[list[dict[str, Any]]], list[int]]:
    """Events between watermarks, and these; some advances are long and some short."""
    dice = random.Random(seed)
    pushes, marks, now = [], [], 0
    for _ in range(10):
        length = dice.choice([1, 3, 8, 60])
        times = sorted(now + dice.randrange(length) for _ in range(dice.randrange(12)))
        pushes.append([{"t": t, "k": dice.randrange(3), "x": dice.choice([-1.0, 0.5, 2.0])} for t in times])
        now += length
        marks.append(now)
    return pushes, marks


def run(
    text: str, pushes: list[list[dict[str, Any]]], marks: list[int]
) -> tuple[panewise.Engine, list[dict[str, Any]]]:
    engine, found = panewise.Engine(text), []
    for events, mark in zip(pushes, marks, strict=True):
        if events:
            engine.push("a", {name: [event[name] for event in events] for name in ("t", "k", "x")})
        engine.advance("a", mark)
        found += as_rows(engine.rows("q"))
    return engine, found


def wanted(text: str, pushes: list[list[dict[str, Any]]], mark: int) -> list[dict[str, Any]]:
    """Every window, by the oracle, which knows neither BASIC WINDOWS nor EVALUATE."""
    query = panewise.read(text).row_queries["q"]
    events = [event for some in pushes for event in some]
    return expected(oracle.rows_of(query, oracle.Input({"a": "t"}, {"a": events}, {"a": mark}, {})))


@pytest.mark.parametrize("select", SELECTS.values(), ids=list(SELECTS))
@pytest.mark.parametrize("seed", range(3))
def test_finer_basic_windows_change_no_row(select: str, seed: int) -> None:
    pushes, marks = drawn(seed)
    text = f"{STREAM}CREATE QUERY q AS SELECT {select}"
    least = panewise.Engine(text).statistics()["row_queries"]["q"]
    finer = 5 if "RANGE 5" in select else 6
    engine, found = run(f"{text} BASIC WINDOWS {finer};", pushes, marks)
    assert found == wanted(f"{text};", pushes, marks[-1])
    assert least["evaluations"] == 0
    assert engine.statistics()["row_queries"]["q"]["most_basic_windows_between_evaluations"] >= 2


@pytest.mark.parametrize("name", ["histogram", "top", "head", "shared"])
@pytest.mark.parametrize("seed", range(3))
def test_each_kth_window(name: str, seed: int) -> None:
    pushes, marks = drawn(seed)
    text = f"{STREAM}CREATE QUERY q AS SELECT {SELECTS[name]}"
    engine, found = run(f"{text} EVALUATE EVERY 3;", pushes, marks)
    every = wanted(f"{text};", pushes, marks[-1])
    plain, _ = run(f"{text};", pushes, marks)
    of_plain, of_third = (each.statistics()["row_queries"]["q"]["evaluations"] for each in (plain, engine))
    assert 0 < of_third < of_plain / 2
    assert found == [row for row in every if row["window_end"] // SLIDE % 3 == 0]


@pytest.mark.parametrize("name", ["histogram", "top", "head", "shared"])
@pytest.mark.parametrize("seed", range(4))
def test_evaluation_gets_rarer_and_says_so(name: str, seed: int) -> None:
    pushes, marks = drawn(seed)
    text = f"{STREAM}CREATE QUERY q AS SELECT {SELECTS[name]}"
    engine, found = run(f"{text} EVALUATE EVERY 1 TO 16 PRIORITY 2;", pushes, marks)
    evaluation, pace, left_out = Evaluation(1, 16, 2), {0: 1}, 0
    for place, (before, mark) in enumerate(zip([0, *marks], marks)):
        due = range(number_of(before, name) + 1, number_of(mark, name) + 1)
        every = evaluation.under(len(due)) if place else 1
        pace |= dict.fromkeys(due, every)
        left_out += sum(window % every != 0 for window in due)
    rows = wanted(f"{text};", pushes, marks[-1])
    numbers = {row["window_end"]: number_of(row["window_end"], name) for row in rows}
    kept = [row for row in rows if numbers[row["window_end"]] % pace[numbers[row["window_end"]]] == 0]
    said = [row.pop("evaluated_every") for row in found]
    assert found == kept
    assert said == [pace[numbers[row["window_end"]]] for row in kept]
    assert left_out > 0
    assert engine.statistics()["row_queries"]["q"]["evaluations_left_out"] == left_out


def test_a_greater_priority_is_evaluated_more_often() -> None:
    texts = [f"CREATE QUERY q{p} AS SELECT {SELECTS['histogram']} EVALUATE EVERY 1 TO 64 PRIORITY {p};" for p in (2, 8)]
    engine = panewise.Engine(STREAM + "".join(texts))
    engine.push("a", {"t": list(range(200)), "k": [1] * 200, "x": [1.0] * 200})
    engine.advance("a", 10)
    engine.advance("a", 150)
    low, high = ({row["evaluated_every"] for row in engine.rows(name).to_pylist()} for name in ("q2", "q8"))
    assert low == {1, 35}
    assert high == {1, 9}
    engine.advance("a", panewise.END_OF_STREAM)
    assert set(engine.rows("q2").column("evaluated_every").to_pylist()) == {1}


def test_the_index_is_shared_and_the_text_comes_back() -> None:
    text = STREAM + "".join(
        f"CREATE QUERY q{k} AS SELECT {SELECTS['histogram']} BASIC WINDOWS 6 EVALUATE EVERY {k};" for k in (2, 3)
    )
    workload = panewise.read(text)
    assert "shared with q2" in panewise.optimize(workload).explain()
    assert "6 basic windows of 1 MICROSECOND, evaluated every 4" in panewise.optimize(workload).explain()
    for query in workload.row_queries.values():
        assert panewise.read(STREAM + print_row_query(query)).row_queries[query.name] == query
    adaptive = "CREATE QUERY q AS SELECT DISTINCT k FROM a [ROWS 4 SLIDE 2] EVALUATE EVERY 2 TO 8 PRIORITY 3;"
    assert print_row_query(panewise.read(STREAM + adaptive).row_queries["q"]) == adaptive


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("HISTOGRAM(k) FROM a [RANGE 6 SECONDS SLIDE 4 SECONDS] BASIC WINDOWS 2", "it can be 3, or a multiple"),
        ("HISTOGRAM(k) FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] BASIC WINDOWS 0", "BASIC WINDOWS must be positive"),
        ("k FROM a BASIC WINDOWS 2", "a selection has no window"),
        ("k FROM a EVALUATE EVERY 2", "joins and selections answer at every event"),
        (
            "SUM(k) FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] EVALUATE EVERY 2",
            "EVALUATE is for queries that",
        ),
        ("TOP_K(k, 1) FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] EVALUATE EVERY 4 TO 6", "TO must be a greater multiple"),
        (
            "TOP_K(k, 1) FROM a [RANGE 6 SECONDS SLIDE 2 SECONDS] EVALUATE EVERY 4 PRIORITY 6",
            "PRIORITY is for evaluation that may get rarer",
        ),
    ],
)
def test_what_cannot_be(select: str, message: str) -> None:
    with pytest.raises(panewise.PanewiseError, match=message):
        panewise.read(f"{STREAM}CREATE QUERY q AS SELECT {select};")


def test_the_first_rows_and_the_last_do_not_hurry() -> None:
    two = "k FROM a [ROWS 6 SLIDE 2] INTERSECT SELECT k FROM a [ROWS 4 SLIDE 2]"
    for select in (SELECTS["over_rows"], two):
        engine = panewise.Engine(f"{STREAM} CREATE QUERY q AS SELECT {select} EVALUATE EVERY 1 TO 8 PRIORITY 2;")
        paces = []
        for begin, mark in ((0, 40), (40, 80), (80, panewise.END_OF_STREAM)):
            engine.push("a", {"t": list(range(begin, begin + 40)), "k": [1] * 40, "x": [1.0] * 40})
            engine.advance("a", mark)
            paces.append({row["evaluated_every"] for row in engine.rows("q").to_pylist()})
        assert paces == [{1}, {8}, {1}]
