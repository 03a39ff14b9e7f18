"""Sums, means and variances of awkward numbers are right whichever road an answer takes, with groups and without."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.numbers import CASES, FUNCTIONS, LITERAL, doubles, integers
from tests.thoroughness import examples

import panewise
from panewise.language.workload import Workload

SECOND = 1_000_000
ALL, SOME, BACK = "[RANGE 1000 SECONDS SLIDE 1000 SECONDS]", "[RANGE 5 SECONDS SLIDE 2 SECONDS]", "[RANGE 1000 SECONDS]"
INTEGERS = {name: values for name, values in CASES.items() if isinstance(values[0], int)}
DOUBLES = {name: values for name, values in CASES.items() if isinstance(values[0], float)}


def workload_of(groups: dict[str, list], window: str, functions: list[str], using: str = "") -> Workload:
    """A query of one window over `x`; by `k` where there are several groups."""
    kind = "BIGINT" if isinstance(next(iter(groups.values()))[0], int) else "DOUBLE"
    items = ", ".join(f"{function}(x)" for function in functions)
    select, by = ("k, ", " GROUP BY k") if len(groups) > 1 else ("", "")
    return panewise.read(
        f"CREATE STREAM s (t TIMESTAMP, k STRING, x {kind}) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT {select}{items} FROM s {window}{by}{using};"
    )


def events_of(groups: dict[str, list]) -> list[dict]:
    """The values of each group, one a second."""
    rows = [{"t": place * SECOND, "k": k, "x": x} for k, values in groups.items() for place, x in enumerate(values)]
    return sorted(rows, key=lambda row: row["t"])


def functions_of(groups: dict[str, list]) -> list[str]:
    """Those that have an answer whatever the values: a sum of integers may not fit."""
    return FUNCTIONS[1:] if isinstance(next(iter(groups.values()))[0], int) else FUNCTIONS


def as_table(rows: list[dict]) -> pa.Table:
    kind = pa.int64() if isinstance(rows[0]["x"], int) else pa.float64()
    schema = pa.schema([("t", pa.timestamp("us", "UTC")), ("k", pa.string()), ("x", kind)])
    return pa.Table.from_pylist(rows, schema)


def closed(workload: Workload, rows: list[dict]) -> list[oracle.Answer]:
    engine = panewise.Engine(workload)
    size = len(rows) // 5 + 1
    for begin in range(0, len(rows), size):
        engine.push("s", as_table(rows[begin : begin + size]))
    return to_answers(engine.advance("s", panewise.END_OF_STREAM), workload)


def check_sliding(groups: dict[str, list], window: str) -> None:
    workload, rows = workload_of(groups, window, functions_of(groups)), events_of(groups)
    expected = oracle.closed_answers(workload.queries["q"], "t", rows, None)
    oracle.assert_same_answers(closed(workload, rows), expected)


def check_on_demand(groups: dict[str, list], functions: list[str], using: str = "") -> None:
    """Lookups while all is pending, while some is, and when all is final; as a table and of one group."""
    workload, rows = workload_of(groups, BACK, functions, using), events_of(groups)
    engine = panewise.Engine(workload)
    engine.push("s", as_table(rows))
    at = rows[-1]["t"]
    expected = oracle.lookup(workload.queries["q"], "t", rows, at)
    for watermark in (0, at // 2 + 1, at + 2 * SECOND):
        engine.advance("s", watermark)
        then = max(at, watermark)
        found = to_answers(engine.lookup("q", at=then), workload, "q")
        oracle.assert_same_answers(found, expected_at(expected, then))
        for answer in expected:
            one = engine.lookup_one("q", *(value for _, value in answer.group), at=then)
            label = f"{functions[answer.item - len(answer.group)]}(x)"
            assert oracle.same_value(one[label], answer.value, answer.scale), (answer, one)


def expected_at(answers: list[oracle.Answer], at: int) -> list[oracle.Answer]:
    """The same answers, as the window is far longer than the stream, at a later time."""
    shift = at - answers[0].window_end
    return [one._replace(window_start=one.window_start + shift, window_end=one.window_end + shift) for one in answers]


@pytest.mark.parametrize("name", CASES)
def test_sliding(name: str) -> None:
    check_sliding({name: CASES[name]}, ALL)


@pytest.mark.parametrize("window", [ALL, SOME])
@pytest.mark.parametrize("groups", [INTEGERS, DOUBLES], ids=["integers", "doubles"])
def test_sliding_by_key(groups: dict[str, list], window: str) -> None:
    check_sliding({name: values[:60] for name, values in groups.items()} if window is SOME else groups, window)


@pytest.mark.parametrize("name", CASES)
def test_on_demand(name: str) -> None:
    check_on_demand({name: CASES[name]}, functions_of({name: CASES[name]}))


@pytest.mark.parametrize("using", ["", " USING base_intervals", " USING landmark_intervals", " USING recompute"])
@pytest.mark.parametrize("groups", [INTEGERS, DOUBLES], ids=["integers", "doubles"])
def test_on_demand_by_key(groups: dict[str, list], using: str) -> None:
    check_on_demand(groups, functions_of(groups), using)


@pytest.mark.parametrize("groups", [INTEGERS, DOUBLES], ids=["integers", "doubles"])
def test_running_intervals(groups: dict[str, list]) -> None:
    """Sums of all, and variances of integers: those of doubles are no differences."""
    functions = functions_of(groups) if groups is INTEGERS else ["SUM", "AVG"]
    check_on_demand(groups, functions, " USING running_intervals")
    for name, values in groups.items():
        check_on_demand({name: values}, functions, " USING running_intervals")


def test_running_intervals_refuse_variances_of_doubles() -> None:
    workload = workload_of({"a": [1.0]}, BACK, ["VAR_POP"], " USING running_intervals")
    with pytest.raises(panewise.PanewiseError, match="cannot hold the squares that VAR_POP of DOUBLE is made of"):
        panewise.Engine(workload)


@pytest.mark.parametrize(("name", "function"), LITERAL)
def test_answers_written_out(name: str, function: str) -> None:
    groups = {name: CASES[name]}
    (answer,) = closed(workload_of(groups, ALL, [function]), events_of(groups))
    assert math.isclose(answer.value, LITERAL[name, function], rel_tol=1e-15)


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(doubles(), min_size=1, max_size=3) | st.lists(integers(), min_size=1, max_size=3))
def test_any_numbers(lists: list[list]) -> None:
    groups = {f"group {place}": values for place, values in enumerate(lists)}
    check_sliding(groups, SOME)
    check_on_demand(groups, functions_of(groups))


@settings(max_examples=examples(15), deadline=None)
@given(doubles(), st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=2), st.randoms())
def test_not_a_number_stays_in_its_windows(values: list[float], odd: list[float], random) -> None:
    every = values + odd
    random.shuffle(every)
    check_sliding({"a": every}, SOME)
    check_on_demand({"a": every, "b": values}, FUNCTIONS)


def test_a_sum_of_integers_that_does_not_fit_is_null() -> None:
    groups = {"a": [2**62, 2**62], "b": [2**62, -(2**62), 1]}
    check_sliding(groups, ALL)
    check_on_demand(groups, ["SUM"])
