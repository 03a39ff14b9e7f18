"""An aggregate of one's own is one entry of the catalogue: everything that answers queries then knows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.engine.test_moving import MOVING, NEVER, settings_of
from tests.spread import spread
from tests.thoroughness import examples

import panewise
from panewise.aggregates.catalogue import CATALOGUE, Aggregate, Making, carrier_of, register, withdraw
from panewise.aggregates.components import Kind
from panewise.aggregates.lowering import lower_count
from panewise.aggregates.types import Type
from panewise.errors import ArgumentError, StatementError
from panewise.language.workload import print_workload
from panewise.structures import EVERY_STRUCTURE, build
from panewise.structures.sheet import Lookups

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t WATERMARK 2 SECONDS;
CREATE QUERY sliding AS SELECT k, SPREAD(x) AS width, SPREAD(y), COUNT(*)
  FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY whole AS SELECT spread(y), MAX(x) FROM s [RANGE 4 SECONDS SLIDE 2 SECONDS] WHERE x > 1;
CREATE QUERY wide AS SELECT k, SPREAD(y) FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING SPREAD(x) >= 2;
CREATE QUERY last AS SELECT k, SPREAD(x), SPREAD(y), SUM(x) FROM s [RANGE 6 SECONDS] GROUP BY k;
CREATE QUERY last_whole AS SELECT SPREAD(x), SPREAD(y) FROM s [RANGE 6 SECONDS];
CREATE QUERY last_wide AS SELECT k, SPREAD(x) FROM s [RANGE 6 SECONDS] GROUP BY k HAVING SPREAD(y) > 1;
CREATE QUERY rows AS SELECT k, SPREAD(x) FROM s [PARTITION BY k ROWS 3] GROUP BY k;
"""
SLIDING = ("sliding", "whole", "wide")
LOOKED_UP = ("last", "last_whole", "last_wide", "rows")


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with spread():
        yield


some_values = st.tuples(
    st.integers(0, 3), st.sampled_from("abc"), st.none() | st.integers(0, 9), st.none() | st.integers(-9, 9).map(float)
)
steps = st.lists(st.lists(some_values, max_size=8), min_size=1, max_size=9)


def check_lookups(engine: panewise.Engine, events: list[dict], at: int) -> None:
    workload = engine.workload
    for name in LOOKED_UP:
        query = workload.queries[name]
        expected = oracle.lookup(query, "t", events, at)
        found = to_answers(engine.lookup(name, at=at), workload, name)
        oracle.assert_same_answers(found, expected, name)
        if not query.group_by:
            continue
        by_key = {answer.group[0][1]: answer.value for answer in expected if answer.item == 1}
        label = "SPREAD(x)"
        many = engine.lookup_many(name, {"k": ["a", "b", "c", "none"]}, at=at)[label]
        assert dict(zip("abc", many.tolist()[:3])) == {key: by_key.get(key) for key in "abc"}
        assert many.tolist()[3] is None
        for key in "abc":
            one = engine.lookup_one(name, {"k": key}, at=at)
            assert (None if one is None else one[label]) == by_key.get(key)


@pytest.mark.parametrize("changed", [MOVING, NEVER], ids=["moving", "folded"])
@settings(max_examples=examples(25), deadline=None)
@given(steps=steps)
def test_sliding_answers_lookups_having_and_snapshots(changed: dict[str, float], steps) -> None:
    with settings_of(changed):
        workload = panewise.read(TEXT)
        engine = panewise.Engine(workload)
        events: list[dict] = []
        found: list[oracle.Answer] = []
        for now, some in enumerate(steps):
            rows = [{"t": (now + d) * US, "k": k, "x": x, "y": y} for d, k, x, y in some]
            engine.push("s", as_table(workload.streams["s"], rows))
            events += rows
            found += to_answers(engine.advance("s", now * US), workload)
            check_lookups(engine, events, (now + 4) * US)
            engine = panewise.Engine.restore(engine.snapshot())
        end = (len(steps) + 12) * US
        found += to_answers(engine.advance("s", end), workload)
        expected = [
            answer for name in SLIDING for answer in oracle.closed_answers(workload.queries[name], "t", events, end)
        ]
        oracle.assert_same_answers(found, expected)


def test_text_and_plan_know_it() -> None:
    workload = panewise.read(TEXT)
    assert panewise.read(print_workload(workload)).queries == workload.queries
    assert "SPREAD(x)" in panewise.optimize(workload).explain()
    assert workload.queries["last"].select[1].expression.function == "SPREAD"


@pytest.mark.parametrize("structure", [each.sheet.name for each in EVERY_STRUCTURE])
def test_a_structure_serves_it_if_it_holds_what_it_is_made_of(structure: str) -> None:
    sheet = next(each.sheet for each in EVERY_STRUCTURE if each.sheet.name == structure)
    if sheet.why_not("SPREAD", Type.BIGINT) is not None:
        assert not ({Kind.MIN, Kind.MAX} <= sheet.kinds and Making.OTHER in sheet.makings)
        return
    built = build(structure, aggregate="spread", windows=[(3, 0), (2, 0)], type=Type.BIGINT)
    built.update([4, 9, -3, 5])
    assert built.lookup([3, 2]).tolist() == [12, 8]
    if sheet.lookups is not Lookups.REGISTERED:
        text = TEXT.split("CREATE QUERY")[0] + "CREATE QUERY q AS SELECT SPREAD(x) FROM s [RANGE 6 SECONDS] "
        engine = panewise.Engine(text + f"USING {structure}")
        engine.push("s", {"t": [0, US, 2 * US], "k": ["a", "a", "b"], "x": [4, 9, -3], "y": [0.0, 0.0, 0.0]})
        assert engine.lookup_one("q", at=3 * US) == {"SPREAD(x)": 12}


def test_an_answer_that_does_not_fit_is_null_and_counted() -> None:
    engine = panewise.Engine(TEXT)
    engine.push("s", {"t": [0, US], "k": ["a", "a"], "x": [2**62, -(2**62) - 1], "y": [0.0, 1.0]})
    assert engine.lookup_one("last", {"k": "a"}, at=US) == {"SPREAD(x)": None, "SPREAD(y)": 1.0, "SUM(x)": -1}
    assert engine.statistics()["streams"]["s"]["overflown_answers"] == {"last": 1}


def test_its_column_is_its_own_and_those_of_others_are_shared() -> None:
    assert carrier_of("SPREAD") == "SPREAD"
    assert carrier_of("AVG") == carrier_of("SUM") == "SUM"
    assert carrier_of("STDDEV_SAMP") == carrier_of("VAR_POP")
    assert carrier_of("COUNT_DISTINCT") == carrier_of("MODE") == carrier_of("QUANTILE")
    assert len({carrier_of(name) for name in ("COUNT", "SUM", "MIN", "MAX", "VAR_POP", "MEDIAN", "SPREAD")}) == 7


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ArgumentError, match="there is an aggregate SPREAD already"):
        register(Aggregate("SPREAD", frozenset(Type), lambda _: (Kind.COUNT,), lower_count, Type.BIGINT))
    with pytest.raises(ArgumentError, match="there is an aggregate MEAN already"):
        register(Aggregate("MEAN", frozenset(Type), lambda _: (Kind.COUNT,), lower_count, Type.BIGINT))
    with pytest.raises(ArgumentError, match="capitals"):
        register(Aggregate("my own", frozenset(Type), lambda _: (Kind.COUNT,), lower_count, Type.BIGINT))
    with pytest.raises(ArgumentError, match="SUM was not registered"):
        withdraw("SUM")
    register(CATALOGUE["SPREAD"])


def test_what_an_entry_says_of_its_making_must_be_possible() -> None:
    spread = CATALOGUE["SPREAD"]
    for making in set(Making) - {Making.OTHER}:
        with pytest.raises(ArgumentError, match="leave out `making`"):
            register(replace(spread, name="OTHER_SPREAD", making=making))
    with pytest.raises(ArgumentError, match="leave out `making`"):
        register(replace(CATALOGUE["SUM"], name="TOTAL", synonyms=(), result=Type.DOUBLE))
    for name, entry in list(CATALOGUE.items()):
        register(replace(entry, name=f"OWN_{name}", synonyms=(), written=None))
        withdraw(f"OWN_{name}")


def test_after_it_is_withdrawn_it_is_unknown() -> None:
    entry = CATALOGUE["SPREAD"]
    withdraw("SPREAD")
    try:
        with pytest.raises(StatementError, match="unknown function 'SPREAD'"):
            panewise.read(TEXT)
    finally:
        register(entry)
