"""Queries made in Python are those that their text gives, and a template is as many as its table has rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import panewise
from panewise.language.making import MadeQuery, build, call, declare, distinct, parameter, query

s = declare(
    "s",
    {"t": "TIMESTAMP", "k": "STRING", "x": "DOUBLE", "n": "BIGINT", "count": "BIGINT"},
    timestamp="t",
    watermark="5 SECONDS",
)
COUNT = call("COUNT")
EVERY = [
    query("sliding").over(s, "1 HOUR", timedelta(minutes=5)).group_by(s.k).select(s.k, COUNT, mean=call("avg", s.x)),
    query("whole")
    .over(s, range=100, slide=10)
    .where((s.x * 2 - 1 > -s.n) | ~s.k.like("a%"))
    .where(s.t >= datetime(2024, 1, 31, tzinfo=UTC))
    .select(share=call("COUNT_IF", s.x > 3) / COUNT, late=call("SUM", s["count"]).filter(s.n.is_in(1, 2))),
    query("found")
    .over(s, "90 SECONDS")
    .group_by(s.k)
    .select(distinct(s.n), call("ARG_MAX", s.x, s.n), call("EWM_AVG", s.x, half_life="10 MINUTES"))
    .having((call("LAST", s.x) != 0.5) & call("MIN", s.n).is_null()),
    query("visits").over(s, session_gap="30 MINUTES", max=timedelta(days=1)).group_by(s.k).select(s.k, COUNT),
    query("runs").over(s, from_when=s.k == "on", until_when=(s.x > 1) | s.n.is_null(), max="1 DAY").select(COUNT),
    query("ever").over(s, unbounded=True).select(COUNT),
    query("ever_by_day").over(s, unbounded=True, slide="1 DAY").group_by(s.k).select(s.k, COUNT),
]


@pytest.mark.parametrize("made", EVERY, ids=lambda made: made.name)
def test_it_is_the_query_of_its_text(made: MadeQuery) -> None:
    built = build(made)
    assert built == panewise.read(f"{s}\n{made}")
    assert panewise.Engine(built).workload == built


def test_a_template_and_a_table() -> None:
    template = (
        query("late_{key}_{least}")
        .over(s, parameter("range"), "1 MINUTE")
        .where(s.k == parameter("key"))
        .select(total=call("SUM", s.x))
        .having(call("MAX", s.x) > parameter("least"))
    )
    with pytest.raises(panewise.ArgumentError, match="no value for the parameter 'key'"):
        str(template)
    rows = [{"key": f"it's {i}", "least": i, "range": f"{1 + i % 7} MINUTES"} for i in range(200)]
    made = template.for_each(pa.Table.from_pylist(rows))
    built = build(*made)
    assert built == panewise.read("\n".join([str(s), *map(str, made)]))
    assert built == build(*template.for_each(rows))
    assert list(built.queries)[3] == "late_it's 3_3"


def test_every_part_of_a_window_can_be_a_parameter() -> None:
    least, length = parameter("least"), parameter("length")
    visits = query("visits_{length}").over(s, session_gap=length, max="1 DAY").select(COUNT)
    runs = query("runs_{least}").over(s, from_when=s.x > least, until_when=s.x <= least, max=length).select(COUNT)
    with pytest.raises(panewise.ArgumentError, match="no value for the parameter 'least'"):
        str(replace(runs, name="runs").filled(length="1 HOUR"))
    with pytest.raises(panewise.ArgumentError, match="its name needs a value for each parameter in braces"):
        runs.filled(length="1 HOUR")
    made = [one.filled(least=4, length="1 HOUR") for one in (visits, runs)]
    assert [str(one).partition(" FROM ")[2] for one in made] == [
        "s [SESSION GAP 1 HOUR MAX 1 DAY];",
        "s [FROM WHEN x > 4 UNTIL WHEN x <= 4 MAX 1 HOUR];",
    ]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({}, "query a has no window; say one of over"),
        ({"range": "1 HOUR", "unbounded": True}, "has range= and unbounded="),
        ({"session_gap": "1 HOUR", "slide": "1 HOUR", "max": "1 DAY"}, "slide= does not belong to session_gap="),
        ({"range": "1 HOUR", "until_when": s.x > 1}, "until_when= does not belong to range="),
        ({"session_gap": "1 HOUR"}, "query a: sessions need a MAX.*SESSION GAP 1 HOUR MAX 1 DAY"),
        ({"session_gap": "2 DAYS", "max": "1 DAY"}, "MAX 1 DAY is shorter than the GAP, 2 DAYS"),
        ({"from_when": s.x > 1, "max": "1 DAY"}, "say what closes it with until_when="),
        ({"from_when": s.x > 1, "until_when": s.x < 1}, "query a: a window from one event to another needs a MAX"),
        ({"range": 10, "slide": "1 HOUR"}, "a window over rows slides by a number of rows, got '1 HOUR'"),
        ({"range": 0}, "query a: ROWS must be positive, got 0"),
        ({"unbounded": True, "slide": "0 HOURS"}, "SLIDE must be positive"),
    ],
)
def test_windows_that_cannot_be(window: dict[str, Any], message: str) -> None:
    with pytest.raises(panewise.ArgumentError, match=message):
        str(query("a").over(s, **window).select(COUNT))


def test_mistakes_have_their_place_in_the_text() -> None:
    with pytest.raises(panewise.StatementError, match=r"SUM needs BIGINT or DOUBLE, k is STRING") as raised:
        build(query("a").over(s, "1 HOUR").select(call("SUM", s.k)))
    assert (raised.value.line, raised.value.column) == (2, 30)
    with pytest.raises(panewise.ArgumentError, match="has no attribute 'y'; it has t, k, x"):
        print(s.y)
    with pytest.raises(panewise.ArgumentError, match="write & for AND"):
        print(s.x > 1 and s.n > 1)
    with pytest.raises(panewise.ArgumentError, match="unknown function 'SUMM'; did you mean SUM"):
        call("SUMM", s.x)
    with pytest.raises(panewise.ArgumentError, match="'FORTNIGHT'"):
        build(query("a").over(s, "1 FORTNIGHT").select(COUNT))
    with pytest.raises(panewise.ArgumentError, match="has no stream"):
        str(query("a").select(COUNT))


def test_a_query_reads_the_answers_of_another() -> None:
    hourly = query("hourly").over(s, "1 HOUR", "1 HOUR").group_by(s.k).select(s.k, total=call("SUM", s.n))
    best = query("best").over(hourly.answers, "1 DAY", "1 DAY").select(most=call("MAX", hourly.answers.total))
    top = query("top").over(best.answers, "1 WEEK").select(call("AVG", best.answers.most))
    assert build(hourly, best, top) == panewise.read(f"{s}\n{hourly}\n{best}\n{top}")
    with pytest.raises(panewise.StatementError, match="unknown stream 'hourly'"):
        build(best)
    with pytest.raises(panewise.ArgumentError, match="'top' has no SLIDE"):
        print(top.answers)
